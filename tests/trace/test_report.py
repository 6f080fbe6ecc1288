"""The HTML page: numbers as words, tables that add up, merged bars, escaped texts."""

from __future__ import annotations

from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pytest
from fake_ring import FakeRing
from trace_sample import sample_trace, us

from torch_fl_core.trace import RING_DTYPE, Trace
from torch_fl_core.trace.report import (
    Report,
    Table,
    bytes_text,
    count_text,
    html_text,
    report_of,
    share_text,
    time_text,
    write_html,
)
from torch_fl_core.trace.ring import Ring


@pytest.fixture
def report(tmp_path: Path) -> Report:
    return report_of([sample_trace(tmp_path / "rings")])


def table(report: Report, title: str) -> Table:
    return next(t for t in report.tables if t.title.startswith(title))


def test_facts(report: Report) -> None:
    facts = dict(report.facts)
    assert facts["Op time, native"] == "70.0 µs" and facts["Op time, cpu"] == "140 µs"
    assert "Op time, jit" not in facts
    assert (facts["Kernels"], facts["Copies"], facts["Waits"]) == ("4", "1, 16 B", "10.0 µs")
    assert facts["Buffers"] == "6 and 1 views" and facts["Dropped"] == "none"
    assert facts["Span"] == "305 µs"


def test_tables_add_up(report: Report) -> None:
    assert table(report, "Hotspots").rows[0] == [
        "max_pool2d_with_indices", "ral:0", "cpu", 2, "140 µs", "67 %", "70.0 µs", "70.0 µs",
    ]  # fmt: skip
    fallback = table(report, "Fallback")
    assert fallback.columns == [
        "op", "device", "ran on", "kernel", "native passed over", "jit passed over", "why it ran",
        "calls", "time", "copied",
    ]  # fmt: skip
    assert fallback.rows == [
        ["max_pool2d_with_indices", "ral:0", "cpu", "at::cpu", "no manifest entry",
         "switched off by RAL_JIT=off", "last", 2, "140 µs", "200 B"],
    ]  # fmt: skip
    assert table(report, "Lines").rows == [
        [5, 2, "140 µs", "none"], [8, 1, "40.0 µs", "40.0 µs"], [3, 1, "30.0 µs", "none"],
    ]  # fmt: skip
    memory = table(report, "Memory")
    assert memory.rows[0] == [
        "convolution.0 line 3", "buffer", "ral:0", "4.00 KiB", "1.00 µs", "alive at the end",
    ]  # fmt: skip
    assert memory.rows[1][1] == "view of convolution.0 line 3"
    assert memory.rows[2][5] == "40.0 µs"
    # busy counts what the device's own queue ran: not the two that ran on the host
    assert table(report, "Devices").rows[0][4:] == ["74.0 µs", "24 %"]
    assert table(report, "Waits").rows == [["host op", 2, "10.0 µs", "5.00 µs"]]
    assert [r[0] for r in table(report, "Kernel builds").rows] == ["gelu_f32", "tanh_f32"]


def test_busy_counts_overlapping_work_once(tmp_path: Path) -> None:
    fake = FakeRing(folder=tmp_path)
    ring = Ring(fake.path)
    reader = ring.reader()
    for begin, end in ((0, 10), (5, 15), (20, 30), (100, 100)):
        fake.emit("KERNEL", "k", device=0, begin_ns=us(begin), end_ns=us(end))
    report = report_of([Trace.from_records(reader.read(), ring.strings, {})])
    assert table(report, "Devices").rows == [["ral:0", "", "", "", "25.0 µs", "25 %"]]


class Page(HTMLParser):
    """Counts tags and checks that every one is closed."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.count: dict[str, int] = {}
        self.feed(text)
        assert not self.open, self.open

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.count[tag] = self.count.get(tag, 0) + 1
        assert not any(name.startswith("on") or name in ("src", "href") for name, _ in attrs)
        if tag not in ("meta", "line"):
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.count[tag] = self.count.get(tag, 0) + 1

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


def test_the_page_is_well_formed_and_fetches_nothing(report: Report, tmp_path: Path) -> None:
    write_html(tmp_path / "r.html", report, 'a "title" <x>')
    text = (tmp_path / "r.html").read_text(encoding="utf-8")
    page = Page(text)
    assert page.count["table"] == 7 and page.count["svg"] == 1 and "script" not in page.count
    assert page.count["rect"] == 9  # 4 kernels, 1 copy, 2 waits, 2 builds
    assert "<title>a &quot;title&quot; &lt;x&gt;</title>" in text and "url(" not in text


def test_a_hundred_thousand_slices_make_a_small_page(tmp_path: Path) -> None:
    records = np.zeros(100_000, RING_DTYPE)
    records["kind"], records["tier"], records["name"] = 2, 1, 1
    records["begin_ns"] = np.arange(100_000) * 1000 + 5
    records["end_ns"] = records["begin_ns"] + 900
    report = report_of([Trace.from_records(records, {1: "add"}, {})])
    text = html_text(report)
    assert len(text) < 400_000 and Page(text).count["rect"] <= 1000
    assert table(report, "Hotspots").rows[0][3] == 100_000
    assert "several, mostly native" in text


def test_long_tables_say_what_they_leave_out(tmp_path: Path) -> None:
    fake = FakeRing(folder=tmp_path, records=4096)
    ring = Ring(fake.path)
    reader = ring.reader()
    for i in range(450):
        fake.emit("ALLOC", "empty", buffer=i + 1, bytes=i, device=0)
    report = report_of([Trace.from_records(reader.read(), ring.strings, {})])
    memory = table(report, "Memory")
    assert len(memory.rows) == 200 and memory.more == 250
    assert "250 more rows are left out." in html_text(report)


@pytest.mark.parametrize(
    ("us_", "text"),
    [(0, "none"), (0.25, "250 ns"), (1, "1.00 µs"), (600, "600 µs"), (999.7, "1.00 ms"),
     (67_432, "67.4 ms"), (1_440_000, "1.44 s"), (-5, "−5.00 µs"), (123e6, "123 s")],
)  # fmt: skip
def test_times(us_: float, text: str) -> None:
    assert time_text(us_) == text


@pytest.mark.parametrize(
    ("count", "text"),
    [(0, "none"), (640, "640 B"), (1310720, "1.25 MiB"), (22 * 1024**3, "22.0 GiB")],
)
def test_sizes(count: int, text: str) -> None:
    assert bytes_text(count) == text


def test_counts_and_shares() -> None:
    assert count_text(1234567) == "1\u2009234\u2009567"
    assert [share_text(p, 1000) for p in (550, 32, 0.5, 0)] == ["55 %", "3.2 %", "< 0.1 %", "0.0 %"]
    assert share_text(1, 0) == "0.0 %"
