"""The view for whoever has no JupyterLab extension: plain HTML without script, a PNG and text.

JupyterLab cleans HTML of an untrusted notebook, so there are only tables, spans and one `<img>`, with
literal styles. Every text of the user's is escaped.
"""

from __future__ import annotations

from html import escape
from typing import Any

from torch_fl import strip as strips
from torch_fl import words

ROWS = 7
_MONO = "font-family:monospace;text-align:left"
_NUM = "text-align:right;white-space:nowrap"
_TEXT = "text-align:left"
_STATES = {"running": "Running", "done": "Done", "failed": "Failed", "cut": "Cut off"}
SORT_KEYS = {
    "time": "time_us",
    "count": "count",
    "bytes": "bytes",
    "alloc": "alloc_bytes",
    "copy": "copy_us",
    "wait": "wait_us",
    "line": "line",
}


def state_words(summary: dict[str, Any]) -> str:
    """`Done`, `Failed at line 12`, `Running`, `Cut off`."""
    if summary["state"] == "failed" and summary.get("failed_line"):
        return f"Failed at line {summary['failed_line']}"
    return _STATES.get(summary["state"], summary["state"])


def op_shares(summary: dict[str, Any]) -> str:
    """Op time by tier: `N 61 J 11 R 24 C 3 %`; tiers without time are left out."""
    times = summary["op_time_us"]
    total = sum(times.values())
    if not total:
        return "none"
    shares = [f"{words.LETTERS[t]} {words.share(times[t] / total)}" for t in words.TIERS if times.get(t)]
    return "  ".join(shares)


def _busy(summary: dict[str, Any]) -> str:
    busy = sorted(summary["busy"].items(), key=lambda item: -item[1])
    return "  ".join(f"{words.share(part)} {name}" for name, part in busy) or "none"


def _peak(summary: dict[str, Any]) -> str:
    peaks = summary["peak_bytes"]
    if not peaks:
        return "none"
    if len(peaks) == 1:
        return words.size(next(iter(peaks.values())))
    return "  ".join(f"{words.size(size)} {name}" for name, size in peaks.items())


def header(bundle: dict[str, Any]) -> list[tuple[str, str]]:
    """The header's parts as (label, value)."""
    summary = bundle["summary"]
    dropped = summary["dropped"]
    at_least = "at least " if dropped else ""
    overhead = words.share(summary["overhead"])
    parts = [
        ("", state_words(summary)),
        ("wall", words.time(summary["wall_us"])),
        ("busy", _busy(summary)),
        ("peak memory", _peak(summary)),
        ("op time", at_least + op_shares(summary)),
        ("events", f"{words.count(summary['events'])}, {words.count(dropped)} dropped"),
        ("overhead", f"{'about ' if overhead[0].isdigit() else ''}{overhead}, est."),
    ]
    if bundle.get("label"):
        parts.insert(1, ("label", str(bundle["label"])))
    return parts


def _lines(bundle: dict[str, Any], sort: str, limit: int) -> list[list[str]]:
    rows = [r for r in bundle["tables"]["lines"] if r["line"] and r["time_us"]]
    total = sum(r["time_us"] for r in bundle["tables"]["lines"]) or 1
    key = SORT_KEYS[sort]
    rows = sorted(rows, key=lambda row: row[key] if sort == "line" else -row[key])
    return [
        [str(r["line"]), r["source"], words.time(r["time_us"]), words.share(r["time_us"] / total)]
        for r in rows[:limit]
    ]


def why(row: dict[str, Any]) -> str:
    """The reason of a fallback in one clause: what kept the tier before the one that ran."""
    chain = row["reason"]
    tiers = words.TIERS[: words.TIERS.index(row["tier"])] if row["tier"] in words.TIERS else ()
    passed = [chain[t] for t in tiers if chain.get(t)]
    return passed[0] if passed else chain.get("ran", "")


def _fallback(bundle: dict[str, Any], limit: int) -> list[list[str]]:
    return [
        [r["op"], r["tier"], why(r), words.count(r["count"]), words.time(r["time_us"])]
        for r in bundle["tables"]["fallback"][:limit]
    ]


def _notes(bundle: dict[str, Any]) -> list[str]:
    """Sentences below the tables: an empty profile, nothing fell back, what was dropped, leaks."""
    summary, tables = bundle["summary"], bundle["tables"]
    notes = []
    ops = sum(n for tier, n in summary["op_count"].items() if tier != "view")
    if summary["state"] != "running" and not ops and not summary["copy_bytes"]:
        notes.append("No device work in this cell. Every tensor was on cpu.")
    elif ops and not tables["fallback"] and summary["state"] != "running":
        notes.append(f"All {words.count(ops)} ops ran native." if ops > 1 else "The op ran native.")
    if summary["dropped"]:
        notes.append(
            f"{words.count(summary['dropped'])} events were overwritten before they were read, so "
            "sums are at least what is shown. A larger ring keeps them: set RAL_TRACE_RECORDS "
            "before the kernel starts."
        )
    for leak in tables["leaks"][:3]:
        holder = f"kept by {leak['kept_by']}" if leak["kept_by"] else "kept, holder unknown"
        notes.append(
            f"Line {leak['line']}: {leak['count']} allocations alive at the end, "
            f"{words.size(leak['bytes'])} ({leak['label']}; {holder})."
        )
    if summary.get("error"):
        notes.append(f"The cell raised {summary['error'].splitlines()[0][:200]}")
    return notes


def text(bundle: dict[str, Any], sort: str = "time", limit: int = ROWS) -> str:
    """The profile as plain text: the header, the lines and the fallbacks."""
    out = [" | ".join(f"{label} {value}".strip() for label, value in header(bundle))]
    lines, fallback = _lines(bundle, sort, limit), _fallback(bundle, limit)
    if lines:
        out += ["", *_columns(["Line", "Source", "Op time", "Share"], lines, "rlrr")]
    if fallback:
        heads = ["Op that left native", "Ran on", "Reason", "Calls", "Time"]
        out += ["", *_columns(heads, fallback, "lllrr")]
    notes = _notes(bundle)
    return "\n".join(out + ([""] if notes else []) + notes)


def _columns(heads: list[str], rows: list[list[str]], align: str) -> list[str]:
    table = [heads] + [[" ".join(cell.split())[:60] for cell in row] for row in rows]
    wide = [max(len(row[i]) for row in table) for i in range(len(heads))]
    cells = [
        [c.rjust(w) if a == "r" else c.ljust(w) for c, w, a in zip(row, wide, align, strict=True)]
        for row in table
    ]
    return ["  ".join(row).rstrip() for row in cells]


def _tier_mark(tier: str) -> str:
    ink = "#1a1a1a" if tier == "reference" else "#ffffff"
    style = (
        f"display:inline-block;width:15px;text-align:center;font-weight:700;font-size:10px;"
        f"border-radius:2px;color:{ink};background-color:{strips.COLOURS.get(tier, '#6c7684')}"
    )
    return f'<span style="{style}">{words.LETTERS.get(tier, "?")}</span> {escape(tier)}'


def _op_bar(summary: dict[str, Any]) -> str:
    times = summary["op_time_us"]
    total = sum(times.values())
    parts = [
        f'<span style="display:inline-block;height:12px;width:{max(1, round(96 * times[t] / total))}px;'
        f'background-color:{strips.COLOURS[t]}"></span>'
        for t in words.TIERS
        if total and times.get(t)
    ]
    return "".join(parts) + ("&ensp;" if parts else "")


def _table(heads: list[tuple[str, str]], rows: list[list[str]]) -> str:
    """A table of cells that are HTML already; `heads` are (text, style of the column)."""
    head = "".join(f'<th style="{style}">{escape(name)}</th>' for name, style in heads)
    body = "".join(
        "<tr>"
        + "".join(f'<td style="{h[1]}">{cell}</td>' for h, cell in zip(heads, row, strict=True))
        + "</tr>"
        for row in rows
    )
    return (
        '<table style="display:inline-table;vertical-align:top;margin:4px 16px 4px 0px">'
        f"<thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"
    )


def html(
    bundle: dict[str, Any],
    sort: str = "time",
    limit: int = ROWS,
    strip: strips.Strip | None = None,
) -> str:
    """The saved view: header, one strip, two tables, no script."""
    summary = bundle["summary"]
    strip = strip or strips.of_bundle(bundle)
    cells = []
    for name, value in header(bundle):
        bar = _op_bar(summary) if name == "op time" else ""
        cells.append(
            f'<td style="text-align:left;white-space:nowrap"><small>{escape(name)}</small> {bar}'
            f"<b>{escape(value)}</b></td>"
        )
    lines = [
        [escape(n), f"<code>{escape(source)}</code>", f"<b>{time}</b>", share]
        for n, source, time, share in _lines(bundle, sort, limit)
    ]
    fallback = [
        [f"<code>{escape(op)}</code>", _tier_mark(tier), escape(reason), calls, f"<b>{time}</b>"]
        for op, tier, reason, calls, time in _fallback(bundle, limit)
    ]
    out = [
        '<div class="torch-fl-static"><table style="margin:0px"><tbody><tr>',
        *cells,
        "</tr></tbody></table>",
        f'<img alt="{escape(strip.alt, quote=True)}" style="display:block;width:100%" '
        f'src="{strips.data_uri(strip)}">',
    ]
    if lines:
        heads = [("Line", _NUM), ("Source", _MONO), ("Op time", _NUM), ("Share", _NUM)]
        out.append(_table(heads, lines))
    if fallback:
        heads = [("Op that left native", _MONO), ("Ran on", _TEXT), ("Reason", _TEXT)]
        out.append(_table([*heads, ("Calls", _NUM), ("Time", _NUM)], fallback))
    more = len(bundle["tables"]["fallback"]) - len(fallback)
    notes = _notes(bundle) + ([f"{more} more rows of fallbacks in the interactive view."] if more > 0 else [])
    out += [f"<p>{escape(note)}</p>" for note in notes]
    out.append(
        "<p><b>Saved view.</b> Plain HTML, no script. In JupyterLab with the torch_fl extension "
        "this output opens as the interactive view.</p></div>"
    )
    return "".join(out)


def mimebundle(bundle: dict[str, Any], mime: str, sort: str = "time", limit: int = ROWS) -> dict[str, Any]:
    """All forms of one profile, by MIME type."""
    strip = strips.of_bundle(bundle)
    plain = text(bundle, sort, limit)
    title = plain.split("\n", 1)[0].replace(words.THIN, " ")
    return {
        mime: bundle,
        "text/html": html(bundle, sort, limit, strip),
        "image/png": strips.png(strip, title),
        "text/plain": plain,
    }
