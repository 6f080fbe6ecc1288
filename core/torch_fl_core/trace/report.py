"""A plain HTML page of one or several traces: facts, a strip of lanes, tables. No script, one file.

Everything is taken from Chrome trace events, so that a page can be made from a file as well.
"""

from __future__ import annotations

import json
import os
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from html import escape
from pathlib import Path
from typing import Any

from torch_fl_core.trace.chrome import chrome_parts
from torch_fl_core.trace.model import Trace

TIERS = ("native", "jit", "reference", "cpu")
_WIDTH = 1000  # pixel columns of the strip
_ROWS = 200  # rows of a table; a line says how many more there are


@dataclass
class Table:
    """Rows of texts and counts. Columns of counts, times, sizes and shares are drawn flush right."""

    title: str
    columns: list[str]
    rows: list[list[Any]]
    empty: str = "None."
    more: int = 0

    def without_empty_columns(self) -> Table:
        """The same without columns in which no row says anything."""
        keep = [i for i in range(len(self.columns)) if any(row[i] != "" for row in self.rows)]
        rows = [[row[i] for i in keep] for row in self.rows]
        return Table(self.title, [self.columns[i] for i in keep], rows, self.empty, self.more)


@dataclass
class Report:
    """What a page shows."""

    facts: list[tuple[str, str]]
    lanes: list[tuple[str, list[tuple[float, float, str, str]]]]  # name, (begin, dur, tier, title)
    span_us: tuple[float, float]
    tables: list[Table] = field(default_factory=list)


def report_of(traces: Sequence[Trace]) -> Report:
    """The report of traces in memory."""
    return report_from_chrome(json.loads("".join(chrome_parts(traces, flows=False))))


def report_from_chrome(document: dict[str, Any]) -> Report:
    """The report of a Chrome trace: {"traceEvents": [...], "otherData": {...}}."""
    events = document["traceEvents"]
    slices = [e for e in events if e.get("ph") == "X" and not _arg(e, "user_range")]
    kernels = [e for e in slices if e.get("cat") == "kernel"]
    begin = min((e["ts"] for e in slices), default=0.0)
    end = max((e["ts"] + e["dur"] for e in slices), default=0.0)
    memory = _buffers(events)
    report = Report([], _lanes(events, slices), (begin, end))
    report.facts = _facts(document.get("otherData", {}), slices, kernels, memory, end - begin)
    report.tables = [
        _devices(document.get("otherData", {}), slices, end - begin),
        _hotspots(kernels),
        _fallback(kernels),
        _lines(kernels),
        _memory_table(memory),
        _waits(slices),
        _compiles(slices),
    ]
    return report


def _arg(event: dict[str, Any], name: str, default: Any = None) -> Any:
    return event.get("args", {}).get(name, default)


def _buffers(events: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Begin events of buffers and views with `end` added."""
    ends = {
        (e.get("pid"), e.get("id")): e["ts"]
        for e in events
        if e.get("ph") == "e" and e.get("cat") == "memory"
    }
    return [
        {**e, "end": ends.get((e.get("pid"), e.get("id")), e["ts"])}
        for e in events
        if e.get("ph") == "b" and e.get("cat") == "memory"
    ]


# Facts and tables -----------------------------------------------------------------------------


def _facts(
    about: dict[str, Any],
    slices: list[dict[str, Any]],
    kernels: list[dict[str, Any]],
    memory: list[dict[str, Any]],
    span_us: float,
) -> list[tuple[str, str]]:
    by_tier: dict[str, float] = defaultdict(float)
    for e in kernels:
        by_tier[_arg(e, "tier", "")] += e["dur"]
    copies = [e for e in slices if e.get("cat") == "copy"]
    waits = sum(e["dur"] for e in slices if e.get("cat") == "sync")
    copied = sum(_arg(e, "bytes", 0) for e in copies)
    dropped = int(about.get("dropped", 0))
    views = sum(1 for e in memory if _arg(e, "view"))
    return [
        ("Span", time_text(span_us)),
        *((f"Op time, {t}", time_text(by_tier[t])) for t in TIERS if t in by_tier),
        ("Kernels", count_text(len(kernels))),
        ("Copies", f"{count_text(len(copies))}, {bytes_text(copied)}" if copies else "none"),
        ("Waits", time_text(waits) if waits else "none"),
        ("Buffers", f"{count_text(len(memory) - views)} and {count_text(views)} views"),
        ("Dropped", f"{count_text(dropped)} records; sums are at least" if dropped else "none"),
    ]


def _devices(about: dict[str, Any], slices: list[dict[str, Any]], span_us: float) -> Table:
    known = [d for p in about.get("processes", []) for d in p.get("devices", [])]
    spans: dict[str, list[tuple[float, float]]] = defaultdict(list)
    for e in slices:
        if e.get("cat") in ("kernel", "copy") and _arg(e, "device") and not _arg(e, "host"):
            spans[_arg(e, "device")].append((e["ts"], e["ts"] + e["dur"]))
    rows = []
    for name in sorted({str(d.get("id", "")) for d in known} | set(spans)):
        about_it = next((d for d in known if d.get("id") == name), {})
        busy = _union(spans.get(name, []))
        plugin = f"{about_it.get('plugin', '')} {about_it.get('plugin_version', '')}".strip()
        rows.append(
            [
                name,
                str(about_it.get("name", "")),
                str(about_it.get("driver", "")),
                plugin,
                time_text(busy),
                share_text(busy, span_us),
            ]
        )
    return Table("Devices", ["device", "name", "driver", "plugin", "busy", "share"], rows)


def _union(spans: list[tuple[float, float]]) -> float:
    """Length of the union of spans."""
    total, until = 0.0, float("-inf")
    for begin, end in sorted(spans):
        total += max(0.0, end - max(begin, until))
        until = max(until, end)
    return total


def _hotspots(kernels: list[dict[str, Any]]) -> Table:
    groups: dict[tuple[str, str, str], list[float]] = defaultdict(list)
    for e in kernels:
        groups[(e["name"], _arg(e, "device", ""), _arg(e, "tier", ""))].append(e["dur"])
    total = sum(e["dur"] for e in kernels)
    rows = []
    for (op, device, tier), durs in sorted(groups.items(), key=lambda g: -sum(g[1])):
        mean = sum(durs) / len(durs)
        times = [time_text(sum(durs)), share_text(sum(durs), total), time_text(mean)]
        rows.append([op, device, tier, len(durs), *times, time_text(max(durs))])
    columns = ["op", "device", "tier", "calls", "time", "share", "mean", "longest"]
    return _cut("Hotspots, by op time", columns, rows, "No device work.")


def _fallback(kernels: list[dict[str, Any]]) -> Table:
    groups: dict[tuple[str, ...], list[float]] = defaultdict(lambda: [0, 0.0, 0])
    for e in kernels:
        reason = _arg(e, "reason", {})
        passed = tuple(str(reason.get(t, "")) for t in TIERS)
        if not any(passed):
            continue
        key = (e["name"], _arg(e, "device", ""), _arg(e, "tier", ""), _arg(e, "kernel", ""))
        group = groups[(*key, *passed, str(reason.get("ran", "")))]
        group[0] += 1
        group[1] += e["dur"]
        group[2] += _arg(e, "copied_bytes", 0)
    rows = [
        [*key, int(n), time_text(dur), bytes_text(copied)]
        for key, (n, dur, copied) in sorted(groups.items(), key=lambda g: -g[1][1])
    ]
    columns = ["op", "device", "ran on", "kernel", *(f"{t} passed over" for t in TIERS), "why it ran"]
    title = "Fallback decisions"
    empty = "Nothing fell back." if kernels else "No device work."
    return _cut(title, [*columns, "calls", "time", "copied"], rows, empty).without_empty_columns()


def _lines(kernels: list[dict[str, Any]]) -> Table:
    groups: dict[int, list[float]] = defaultdict(lambda: [0, 0.0, 0.0])
    for e in kernels:
        line = _arg(e, "line")
        if line is not None:
            groups[line][0] += 1
            groups[line][1] += e["dur"]
            groups[line][2] += e["dur"] if _arg(e, "backward") else 0.0
    rows = [
        [line, int(n), time_text(dur), time_text(backward)]
        for line, (n, dur, backward) in sorted(groups.items(), key=lambda g: -g[1][1])
    ]
    empty = "No lines were recorded."
    return _cut("Lines, by op time", ["line", "calls", "time", "of it backward"], rows, empty)


def _memory_table(memory: list[dict[str, Any]]) -> Table:
    rows = []
    labels = {(e.get("pid"), _arg(e, "buffer")): e["name"] for e in memory}
    for e in sorted(memory, key=lambda e: (-_arg(e, "bytes", 0), e["ts"])):
        alive = _arg(e, "alive_at_end")
        parent = labels.get((e.get("pid"), _arg(e, "parent")), "an earlier buffer")
        kind = f"view of {parent}" if _arg(e, "view") else "buffer"
        lived = "alive at the end" if alive else time_text(e["end"] - e["ts"])
        size = bytes_text(_arg(e, "bytes", 0))
        rows.append([e["name"], kind, _arg(e, "device", ""), size, time_text(e["ts"] - 1), lived])
    columns = ["buffer", "kind", "device", "size", "born at", "lived"]
    return _cut("Memory, largest first", columns, rows, "No buffer was made.")


def _waits(slices: list[dict[str, Any]]) -> Table:
    return _by_name("Waits of the host", "why", [e for e in slices if e.get("cat") == "sync"])


def _compiles(slices: list[dict[str, Any]]) -> Table:
    return _by_name("Kernel builds", "kernel", [e for e in slices if e.get("cat") == "compile"])


def _by_name(title: str, column: str, events: list[dict[str, Any]]) -> Table:
    groups: dict[str, list[float]] = defaultdict(list)
    for e in events:
        groups[e["name"]].append(e["dur"])
    rows = [
        [name, len(durs), time_text(sum(durs)), time_text(max(durs))]
        for name, durs in sorted(groups.items(), key=lambda g: -sum(g[1]))
    ]
    return _cut(title, [column, "count", "time", "longest"], rows)


def _cut(title: str, columns: list[str], rows: list[list[Any]], empty: str = "None.") -> Table:
    return Table(title, columns, rows[:_ROWS], empty, max(0, len(rows) - _ROWS))


# Lanes ----------------------------------------------------------------------------------------


def _lanes(
    events: list[dict[str, Any]], slices: list[dict[str, Any]]
) -> list[tuple[str, list[tuple[float, float, str, str]]]]:
    names = {
        (e["pid"], e["tid"]): str(_arg(e, "name", ""))
        for e in events
        if e.get("ph") == "M" and e.get("name") == "thread_name"
    }
    owners = {
        e["pid"]: str(_arg(e, "name", ""))
        for e in events
        if e.get("ph") == "M" and e.get("name") == "process_name"
    }
    found: dict[tuple[int, int], list[tuple[float, float, str, str]]] = defaultdict(list)
    for e in slices:
        if e.get("cat") in ("kernel", "copy", "sync", "compile"):
            tier = {"kernel": _arg(e, "tier", "")}.get(e["cat"], e["cat"])
            title = f"{e['name']}, {tier}, {time_text(e['dur'])}"
            found[(e["pid"], e["tid"])].append((e["ts"], e["dur"], tier, title))
    order = sorted(found, key=lambda lane: (lane[0], lane[1]))
    return [(f"{owners.get(k[0], k[0])} · {names.get(k, k[1])}", found[k]) for k in order]


def _bars(
    bars: list[tuple[float, float, str, str]], begin: float, span: float
) -> list[tuple[float, float, str, str]]:
    """Bars in pixels; those under a pixel merge into their column, which takes the busiest tier."""
    wide, columns = [], defaultdict(lambda: defaultdict(float))
    for ts, dur, tier, title in bars:
        x, width = (ts - begin) / span * _WIDTH, dur / span * _WIDTH
        if width >= 1:
            wide.append((x, width, tier, title))
        else:
            columns[min(_WIDTH - 1, int(x))][tier] += dur
    for x, tiers in columns.items():
        tier = max(tiers, key=lambda t: tiers[t])
        wide.append((float(x), 1.0, tier, f"several, mostly {tier}, {time_text(sum(tiers.values()))}"))
    return sorted(wide)


def _svg(report: Report) -> str:
    begin, end = report.span_us
    span = max(end - begin, 1e-3)
    row, text = 26, 220
    height = row * len(report.lanes) + 24
    parts = [
        f'<svg viewBox="0 0 {_WIDTH + text} {height}" role="img" '
        f'aria-label="Strip of {len(report.lanes)} lanes over {escape(time_text(span))}">'
    ]
    for number, (name, bars) in enumerate(report.lanes):
        y = number * row
        shown = name if len(name) <= 36 else f"{name[:35]}…"
        parts.append(f'<text x="0" y="{y + 16}">{escape(shown)}<title>{escape(name)}</title></text>')
        parts.append(f'<line x1="{text}" x2="{_WIDTH + text}" y1="{y + 24}" y2="{y + 24}"/>')
        for x, width, tier, title in _bars(bars, begin, span):
            known = tier if tier in _LETTERS else "other"
            parts.append(
                f'<rect class="{known}" x="{text + x:.2f}" y="{y + 3}" width="{width:.2f}" '
                f'height="19"><title>{escape(title)}</title></rect>'
            )
            if width >= 10 and tier in TIERS:
                at = text + x + width / 2
                parts.append(f'<text class="on-{tier}" x="{at:.2f}" y="{y + 16}">{_LETTERS[tier]}</text>')
    for step in range(6):
        x, label = text + step * _WIDTH / 5, time_text(span * step / 5) if step else "0"
        anchor = "start" if step == 0 else "end" if step == 5 else "middle"
        parts.append(f'<text x="{x:.0f}" y="{height - 4}" text-anchor="{anchor}">{escape(label)}</text>')
    return "".join([*parts, "</svg>"])


_LETTERS = {"native": "N", "jit": "J", "reference": "R", "cpu": "C", "copy": "", "sync": "", "compile": ""}


# Texts ----------------------------------------------------------------------------------------


def time_text(us: float) -> str:
    """Microseconds in words: "600 µs", "67.4 ms", "1.44 s"; "none" for zero."""
    if us <= 0:
        return "none" if us == 0 else f"−{time_text(-us)}"
    if us < 1:
        return f"{us * 1000:.0f} ns"
    for unit, size in (("µs", 1.0), ("ms", 1e3), ("s", 1e6)):
        value = us / size
        if value < 999.5 or unit == "s":
            digits = 2 if value < 9.995 else 1 if value < 99.95 else 0
            return f"{value:.{digits}f} {unit}"
    raise AssertionError("unreachable")


def bytes_text(count: float) -> str:
    """Bytes in words, powers of 1024: "640 B", "1.25 MiB"; "none" for zero."""
    if count == 0:
        return "none"
    if count < 1024:
        return f"{count:.0f} B"
    for unit in ("KiB", "MiB", "GiB", "TiB"):
        count /= 1024
        if count < 1024 or unit == "TiB":
            return f"{count:.{2 if count < 10 else 1}f} {unit}"
    raise AssertionError("unreachable")


def count_text(count: int) -> str:
    """A count with thin spaces between thousands."""
    return f"{count:,}".replace(",", "\u2009")


def share_text(part: float, whole: float) -> str:
    """A share in per cent: "55 %", "3.2 %", "< 0.1 %"."""
    share = 100 * part / whole if whole > 0 else 0.0
    if 0 < share < 0.1:
        return "< 0.1 %"
    return f"{share:.1f} %" if share < 10 else f"{share:.0f} %"


# Page -----------------------------------------------------------------------------------------

_STYLE = """
:root{--bg:#fff;--fg:#1a1a1a;--dim:#595959;--rule:#d5d8dc;--n:#1d4e94;--j:#0e7f73;--r:#bf8300;
--c:#c03a1b;--cp:#6c7684;--on:#fff}
@media (prefers-color-scheme:dark){:root{--bg:#212121;--fg:#eee;--dim:#b4b4b4;--rule:#444;
--n:#5c93ea;--j:#5ad8c0;--r:#f2b632;--c:#ff7d5c;--cp:#97a1af;--on:#111}}
body{background:var(--bg);color:var(--fg);font:12px/1.45 system-ui,sans-serif;max-width:1240px;
margin:16px auto;padding:0 16px;font-variant-numeric:tabular-nums}
h1{font-size:20px;font-weight:600}h2{font-size:13px;font-weight:600;margin:24px 0 4px}
dl{display:flex;flex-wrap:wrap;gap:4px 24px;margin:0 0 16px}dt{color:var(--dim);font-size:11px}
dd{margin:0;font-size:13px;font-weight:600}.wide{overflow-x:auto}svg{min-width:700px;width:100%}
svg text{fill:var(--fg);font-size:10.5px}svg line{stroke:var(--rule)}
.native{fill:var(--n)}.jit{fill:var(--j)}.reference{fill:var(--r)}.cpu{fill:var(--c)}
.copy,.other{fill:var(--cp)}.sync{fill:none;stroke:var(--cp);stroke-dasharray:3 2}
.compile{fill:var(--j);fill-opacity:.16;stroke:var(--j)}
svg text.on-native,svg text.on-jit,svg text.on-cpu{fill:var(--on);text-anchor:middle;font-weight:700}
svg text.on-reference{fill:#1a1a1a;text-anchor:middle;font-weight:700}
table{border-collapse:collapse;min-width:50%}th,td{text-align:left;padding:5px 8px;vertical-align:top;
border-bottom:1px solid var(--rule);overflow-wrap:anywhere}th{color:var(--dim);font-size:11px;
font-weight:600}th.num,td.num{text-align:right;white-space:nowrap}p{color:var(--dim)}
"""


# Columns drawn flush right.
_RIGHT = {"calls", "count", "time", "share", "mean", "longest", "copied", "line", "of it backward"}
_RIGHT |= {"size", "born at", "lived", "busy"}


def _table_html(table: Table) -> str:
    title = f"<h2>{escape(table.title)}</h2>"
    if not table.rows:
        return f"{title}<p>{escape(table.empty)}</p>"
    kinds = [' class="num"' if column in _RIGHT else "" for column in table.columns]
    names = zip(kinds, table.columns, strict=True)
    head = "".join(f'<th scope="col"{kind}>{escape(name)}</th>' for kind, name in names)
    rows = "".join(
        "<tr>" + "".join(f"<td{k}>{_cell(v)}</td>" for k, v in zip(kinds, row, strict=True)) + "</tr>"
        for row in table.rows
    )
    more = f"<p>{count_text(table.more)} more rows are left out.</p>" if table.more else ""
    body = f'<div class="wide"><table><thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table></div>'
    return f"{title}{body}{more}"


def _cell(value: Any) -> str:
    return count_text(value) if isinstance(value, int) else escape(str(value))


def html_text(report: Report, title: str = "torch_fl trace") -> str:
    """The whole page. Every text is escaped; nothing is fetched; no script."""
    facts = "".join(f"<div><dt>{escape(k)}</dt><dd>{escape(v)}</dd></div>" for k, v in report.facts)
    strip = (
        f'<div class="wide">{_svg(report)}</div>'
        "<p>N native, J jit, R reference, C cpu (the last two ran on the host); grey: copies; "
        "dashed: the host waited; outlined: a kernel was built.</p>"
        if report.lanes
        else "<p>No device work. Every tensor was on cpu.</p>"
    )
    tables = "".join(_table_html(t) for t in report.tables)
    return (
        '<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{escape(title)}</title><style>{_STYLE}</style></head><body>"
        f"<h1>{escape(title)}</h1><dl>{facts}</dl>{strip}{tables}</body></html>\n"
    )


def write_html(path: str | os.PathLike[str], report: Report, title: str = "torch_fl trace") -> None:
    """Writes the page."""
    Path(path).write_text(html_text(report, title), encoding="utf-8", errors="replace")
