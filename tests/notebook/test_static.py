"""The view without script: what it says, that everything is escaped, that cleaners leave it whole."""

from __future__ import annotations

import base64
import re
from html.parser import HTMLParser
from typing import Any

import pytest

from torch_fl import static, strip, words

NASTY = "</script><b>x & \"quotes\" 'here'"


def bundle(**changes: Any) -> dict[str, Any]:
    summary = {
        "state": "done", "failed_line": None, "error": None, "wall_us": 1_390_000.0,
        "busy": {"ral:0": 0.027, "ral:1": 0.69}, "peak_bytes": {"ral:1": 21_915_238},
        "memory_bytes": {"ral:1": 0},
        "op_time_us": {"native": 800_000.0, "jit": 144_000.0, "reference": 315_000.0, "cpu": 39_000.0},
        "op_count": {"native": 900, "jit": 47, "reference": 51, "cpu": 51, "view": 200},
        "copy_us": 10.0, "copy_bytes": 5, "wait_us": 1.0, "events": 1641, "dropped": 0, "overhead": 0.013,
    }  # fmt: skip
    tables = {
        "lines": [
            {"line": 12, "source": NASTY, "time_us": 761_000.0, "copy_us": 0, "count": 5},
            {"line": 10, "source": "y = net(x)", "time_us": 477_000.0, "copy_us": 0, "count": 9},
        ],
        "fallback": [
            {
                "op": NASTY, "tier": "reference", "kernel": "k", "device": "ral:1", "count": 24,
                "reason": {"native": f"dtype {NASTY}", "ran": "C++"}, "time_us": 169_000.0, "lines": [12],
            }
        ],
        "buffers": [], "memory_curve": {"ral:1": [[0, 100], [500_000.0, 21_915_238], [900_000.0, 0]]},
        "peak": [], "leaks": [],
    }  # fmt: skip
    made = {"label": None, "summary": summary, "tables": tables, "strings": {}, "batches": []}
    summary.update(changes.pop("summary", {}))
    tables.update(changes.pop("tables", {}))
    return made | changes


class Tags(HTMLParser):
    """Collects tags, attributes and text."""

    def __init__(self) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.open: list[str] = []
        self.words: list[str] = []

    def handle_starttag(self, tag: str, attrs: Any) -> None:
        self.tags.append((tag, dict(attrs)))
        if tag not in ("img", "br"):
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.words.append(data)


def parsed(html: str) -> Tags:
    tags = Tags()
    tags.feed(html)
    assert not tags.open
    return tags


def test_the_header_says_what_the_mockup_says() -> None:
    head = dict(static.header(bundle()))
    assert head[""] == "Done" and head["wall"] == "1.39 s"
    assert head["busy"] == "69 % ral:1  2.7 % ral:0"
    assert head["peak memory"] == "20.9 MiB"
    assert head["op time"] == "N 62 %  J 11 %  R 24 %  C 3.0 %"
    assert head["events"] == f"1{words.THIN}641, 0 dropped" and head["overhead"] == "about 1.3 %, est."


def test_html_uses_only_what_jupyterlab_keeps() -> None:
    tags = parsed(static.html(bundle()))
    allowed = {"div", "table", "thead", "tbody", "tr", "th", "td", "img", "span", "b", "code", "p", "small"}
    assert {tag for tag, _ in tags.tags} <= allowed
    for _, attributes in tags.tags:
        assert set(attributes) <= {"class", "style", "alt", "src"}
        style = attributes.get("style") or ""
        assert "var(" not in style and "url(" not in style and "color-mix" not in style
    sources = [a["src"] for tag, a in tags.tags if tag == "img"]
    assert [s[:26] for s in sources] == ["data:image/svg+xml;base64,"]


def test_every_text_of_the_users_is_text() -> None:
    html = static.html(bundle(label=NASTY, summary={"error": f"ValueError: {NASTY}"}))
    assert "<b>x" not in html and "</script" not in html
    text = "".join(parsed(html).words)
    assert text.count(NASTY) == 5


def test_rows_follow_limit_and_order() -> None:
    text = static.text(bundle(), sort="line")
    assert text.index("y = net(x)") < text.index("</script>")
    assert "y = net(x)" not in static.text(bundle(), limit=1)
    assert "  12  " in text and "761 ms" in text and "61 %" in text


@pytest.mark.parametrize(
    ("changes", "words_"),
    [
        ({"summary": {"op_count": {"native": 0, "view": 3}, "copy_bytes": 0}}, "No device work in this cell"),
        ({"tables": {"fallback": []}}, f"All 1{words.THIN}049 ops ran native."),
        ({"summary": {"state": "failed", "failed_line": 12}}, "Failed at line 12"),
        ({"summary": {"state": "cut"}}, "Cut off"),
        ({"summary": {"dropped": 7}}, "at least"),
        (
            {
                "tables": {
                    "leaks": [
                        {"line": 3, "count": 4, "bytes": 4096, "label": "mm.0 line 3", "kept_by": "hist"}
                    ]
                }
            },
            "Line 3: 4 allocations alive at the end, 4.00 KiB (mm.0 line 3; kept by hist).",
        ),
    ],
)
def test_states_are_said_in_words(changes: dict[str, Any], words_: str) -> None:
    assert words_ in static.text(bundle(**changes))
    assert words_.split(" (")[0] in "".join(parsed(static.html(bundle(**changes))).words)


def test_the_strip_is_svg_and_png() -> None:
    made = strip.of_bundle(bundle())
    svg = strip.svg(made)
    import xml.etree.ElementTree as ET

    assert ET.fromstring(svg).attrib["viewBox"] == "0 0 1172 128"
    assert "memory, ral:1, peak 20.9 MiB" in svg and "prefers-color-scheme:dark" in svg
    data = base64.b64decode(strip.png(made, "Done"))
    assert data[:8] == b"\x89PNG\r\n\x1a\n" and len(data) < 100_000


@pytest.mark.parametrize(
    ("us", "text"),
    [(0, "none"), (0.4, "0.400 µs"), (600, "600 µs"), (999.7, "1.00 ms"), (67_400, "67.4 ms"),
     (999_600, "1.00 s"), (1_440_000, "1.44 s"), (123_000_000, "123 s")],
)  # fmt: skip
def test_times(us: float, text: str) -> None:
    assert words.time(us) == text


@pytest.mark.parametrize(
    ("size", "text"),
    [(0, "none"), (512, "512 B"), (1536, "1.50 KiB"), (21_915_238, "20.9 MiB"), (5 << 30, "5.00 GiB")],
)
def test_sizes(size: int, text: str) -> None:
    assert words.size(size) == text


def test_shares() -> None:
    got = [words.share(x) for x in (0, 0.0004, 0.013, 0.0996, 0.553)]
    assert got == ["0 %", "< 0.1 %", "1.3 %", "10 %", "55 %"]


def test_no_machine_paths_or_network(core: Any) -> None:
    assert not re.search(r"https?://(?!www\.w3\.org)", static.html(bundle()))
