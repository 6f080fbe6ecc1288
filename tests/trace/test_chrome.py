"""Chrome JSON: strict, nested lanes, flows, lifetimes, odd names; checked as notebook cases do."""

from __future__ import annotations

import random
from pathlib import Path

import numpy as np
import pytest
from chrome_check import check, load
from fake_ring import FakeRing
from trace_sample import T0, sample_trace, us

from torch_fl_core.trace import Trace
from torch_fl_core.trace.chrome import read_chrome, safe_text, write_chrome
from torch_fl_core.trace.lanes import place
from torch_fl_core.trace.ring import Ring


@pytest.fixture
def trace(tmp_path: Path) -> Trace:
    return sample_trace(tmp_path / "rings")


@pytest.fixture
def written(trace: Trace, tmp_path: Path) -> Path:
    trace.to_chrome(tmp_path / "trace.json")
    return tmp_path / "trace.json"


def test_kernels_bear_the_ops_names(written: Path) -> None:
    assert check(written) == {
        "convolution": 1, "max_pool2d_with_indices": 2, "convolution_backward": 1,
    }  # fmt: skip


def test_lanes_are_named_and_work_lies_where_it_ran(written: Path) -> None:
    events = load(written)
    name_of = {(e["pid"], e["tid"]): e["args"]["name"] for e in events if e.get("name") == "thread_name"}
    process = {e["pid"]: e["args"]["name"] for e in events if e.get("name") == "process_name"}
    where = {
        (e["name"], e["cat"]): (process[e["pid"]], name_of[e["pid"], e["tid"]])
        for e in events
        if e["ph"] == "X"
    }
    assert where["convolution", "op"] == ("python", "MainThread")
    assert where["convolution", "kernel"] == ("ral:0 PoCL <b>", "stream 0")
    assert where["max_pool2d_with_indices", "kernel"] == ("python", "MainThread")
    assert where["convolution_backward", "op"] == ("python", "autograd")
    assert where["device_to_host", "copy"] == ("ral:0 PoCL <b>", "copies")
    assert where["gelu_f32", "compile"] == ("python", "compiles")
    assert {e["tid"] for e in events if e.get("cat") == "op"} == {100, 101}
    assert sum(e["ph"] == "X" and e["name"] == "gelu_f32" for e in events) == 1


def test_args_say_tier_reason_line_and_bytes(written: Path) -> None:
    (first, _) = (e for e in load(written) if e.get("cat") == "kernel" and e["name"].startswith("max_pool"))
    assert first["args"] == {
        "device": "ral:0", "tier": "cpu", "kernel": "at::cpu", "line": 5, "inner": "ffffffffffff:9",
        "reason": {"native": "no manifest entry", "jit": "switched off by RAL_JIT=off",
                   "ran": "last"},
        "copied_bytes": 100, "host": True,
    }  # fmt: skip
    assert (first["ts"], first["dur"]) == (61.0, 70.0)


def test_flows_lead_from_the_op_to_its_kernel(written: Path) -> None:
    events = load(written)
    starts = {e["id"]: e for e in events if e["ph"] == "s"}
    ends = {e["id"]: e for e in events if e["ph"] == "f"}
    assert len(starts) == 2 and starts.keys() == ends.keys()
    slices = [e for e in events if e["ph"] == "X"]
    for number, start in starts.items():
        end = ends[number]
        assert (start["cat"], start["name"]) == (end["cat"], end["name"]) and end["bp"] == "e"
        assert start["ts"] <= end["ts"]
        (op,) = (
            e for e in slices
            if (e["pid"], e["tid"]) == (start["pid"], start["tid"])
            and e["ts"] <= start["ts"] < e["ts"] + e["dur"]
        )  # fmt: skip
        (kernel,) = (e for e in slices if e["tid"] == end["tid"] and e["ts"] == end["ts"])
        assert op["cat"] == "op" and kernel["cat"] == "kernel" and op["name"] == kernel["name"]
        assert kernel["ts"] >= op["ts"]


def test_lifetimes_are_pairs_of_async_events(written: Path) -> None:
    events = load(written)
    begins = {e["id"]: e for e in events if e["ph"] == "b"}
    ends = {e["id"]: e for e in events if e["ph"] == "e"}
    assert len(begins) == 7 and begins.keys() == ends.keys()
    workspace = begins["0xb"]
    assert workspace["name"] == "convolution.1 line 3"
    assert ends["0xb"]["ts"] - workspace["ts"] == 40.0
    assert workspace["args"]["bytes"] == 512 and workspace["args"]["alive_at_end"] is False
    assert begins["0xc"]["args"]["parent"] == 10 and begins["0xc"]["args"]["view"] is True
    assert begins["0xa"]["args"]["alive_at_end"] is True
    memory = [e["args"]["bytes"] for e in events if e["ph"] == "C"]
    assert memory[:3] == [4096, 4608, 4096] and memory[-1] == 4096 + 4 * 64


def test_the_files_head_says_what_was_lost(trace: Trace, tmp_path: Path) -> None:
    trace.dropped = 17
    trace.to_chrome(tmp_path / "t.json")
    document = read_chrome(tmp_path / "t.json")
    assert document["otherData"]["dropped"] == 17
    assert document["otherData"]["processes"][0]["pid"] == 4242
    labels = [e["args"]["labels"] for e in document["traceEvents"] if e["name"] == "process_labels"]
    assert labels == ["17 records dropped"]


ODD = ['quote " here', "back\\slash C:\\new\\tab", "новый 日本 ✓ 🚀", "ctrl \x01 \n end",
       "</script><b>x", "", "n" * 5000, '{"device": "ral"}', "single ' quote",
       "lone \ud800 half", "nul \x00"]  # fmt: skip


def test_odd_names_keep_the_file_readable(tmp_path: Path) -> None:
    fake = FakeRing(folder=tmp_path)
    ring = Ring(fake.path)
    reader = ring.reader()
    for i, name in enumerate(ODD):
        fake.emit("OP", name, begin_ns=us(i * 10), dur_ns=9000, flags=0x4, thread="7 вид \ud83d")
        fake.emit("KERNEL", "add", device=0, begin_ns=us(i * 10 + 1), dur_ns=10, kernel=name)
        fake.emit("ALLOC", name, device=0, begin_ns=us(i * 10 + 1), buffer=i + 1, bytes=8)
    trace = Trace.from_records(reader.read(), ring.strings, {"devices": [{"name": "\ud800"}]})
    path = tmp_path / "odd.json"
    trace.to_chrome(path)
    names = check(path)
    for part in ('quote " here', "C:\\new\\tab", "новый 日本 ✓ 🚀", "</script><b>x", "n" * 5000):
        assert any(part in n for n in names), part
    assert names["add"] == len(ODD) and names["(no name)"] == 1
    assert path.read_text(encoding="ascii").encode("utf-16")  # no lone surrogate, even escaped
    assert "\\ud800" not in path.read_text(encoding="ascii")
    html = tmp_path / "odd.html"
    trace.to_html(html)
    page = html.read_text(encoding="utf-8")
    assert "</script><b>x" not in page and "&lt;/script&gt;&lt;b&gt;x" in page
    assert "<script" not in page


def test_lone_surrogates_become_replacement_characters() -> None:
    assert safe_text("a\ud800b") == "a\ufffdb" and safe_text("🚀") == "🚀"
    assert safe_text("\ud83d\ude80") == "🚀"  # a pair written as two halves


def test_overlapping_kernels_and_interleaved_tasks_get_lanes_of_their_own(tmp_path: Path) -> None:
    rng = random.Random(3)
    fake = FakeRing(folder=tmp_path, records=8192)
    ring = Ring(fake.path)
    reader = ring.reader()
    for _ in range(2000):  # as dense and improper as can be, on a coarse clock
        begin = T0 + rng.randrange(3000) * 10
        end = begin + rng.choice([0, 1, 10, 10, 50, 500])
        fake.emit(rng.choice(["OP", "SYNC"]), "x", begin_ns=begin, end_ns=end, thread="7 main")
        fake.emit("KERNEL", "k", device=0, stream=rng.randrange(2), begin_ns=begin, end_ns=end)
    # an hour later: doubles have fewer digits left
    fake.emit("KERNEL", "k", device=0, begin_ns=us(3.6e9), dur_ns=1000)
    fake.emit("KERNEL", "k", device=0, begin_ns=us(3.6e9 + 1), dur_ns=1000)
    trace = Trace.from_records(reader.read(), ring.strings, {})
    trace.to_chrome(tmp_path / "t.json")
    assert check(tmp_path / "t.json") == {"k": 2002}
    lanes = [e["args"]["name"] for e in load(tmp_path / "t.json") if e["name"] == "thread_name"]
    assert {"main", "main (2)", "stream 0", "stream 0 (2)", "stream 1"} <= set(lanes)


def test_place_keeps_nested_and_adjacent_slices_on_one_lane() -> None:
    begin = np.array([0, 0, 50, 100, 100])
    end = np.array([100, 50, 100, 200, 100])
    lane, written = place(begin, end, np.zeros(5), nest=True)
    assert lane.tolist() == [0, 0, 0, 0, 0]
    assert written[0] < 100 and written[1] < 50 and written[2] < written[0]
    assert written.tolist()[3] == 200
    lane, _ = place(begin, end, np.zeros(5), nest=False)
    assert lane.tolist() == [0, 1, 1, 0, 1]


def test_equal_times_keep_the_kernel_inside_its_op(tmp_path: Path) -> None:
    fake = FakeRing(folder=tmp_path)
    ring = Ring(fake.path)
    reader = ring.reader()
    fake.emit("KERNEL", "add", begin_ns=us(0), dur_ns=100, flags=2, device=0, thread="7 m")
    fake.emit("OP", "add", begin_ns=us(0), dur_ns=100, thread="7 m")
    trace = Trace.from_records(reader.read(), ring.strings, {})
    trace.to_chrome(tmp_path / "t.json")
    op, kernel = (e for e in load(tmp_path / "t.json") if e["ph"] == "X")
    assert (op["cat"], kernel["cat"]) == ("op", "kernel")
    assert op["tid"] == kernel["tid"] == 7
    assert op["ts"] + op["dur"] > kernel["ts"] + kernel["dur"]


def test_reused_thread_numbers_stay_apart(tmp_path: Path) -> None:
    fake = FakeRing(folder=tmp_path)
    ring = Ring(fake.path)
    reader = ring.reader()
    for i in range(3):
        for k in range(10):
            fake.emit("KERNEL", "mul", begin_ns=us(k), dur_ns=700, flags=2, thread=f"77 nb13-{i}")
    trace = Trace.from_records(reader.read(), ring.strings, {})
    trace.to_chrome(tmp_path / "t.json")
    events = load(tmp_path / "t.json")
    assert check(tmp_path / "t.json") == {"mul": 30}
    names = {e["args"]["name"] for e in events if e["name"] == "thread_name"}
    assert names == {"nb13-0", "nb13-1", "nb13-2"}
    assert len({(e["pid"], e["tid"]) for e in events if e["ph"] == "X"}) == 3


def test_several_processes_share_one_file(trace: Trace, tmp_path: Path) -> None:
    other = sample_trace(tmp_path / "other")
    other.meta["pid"] = 4243
    write_chrome(tmp_path / "t.json", [trace, other])
    assert check(tmp_path / "t.json")["max_pool2d_with_indices"] == 4
    events = load(tmp_path / "t.json")
    assert len({e["id"] for e in events if e["ph"] == "b"}) == 14
    assert len({e["id"] for e in events if e["ph"] == "s"}) == 4
    assert len({e["pid"] for e in events if e["ph"] == "X"}) == 4


def test_an_empty_trace_is_a_valid_file(tmp_path: Path) -> None:
    Trace().to_chrome(tmp_path / "t.json")
    assert check(tmp_path / "t.json") == {}
    Trace().to_html(tmp_path / "t.html")
    assert "Every tensor was on cpu." in (tmp_path / "t.html").read_text(encoding="utf-8")


def test_other_files_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "x.json"
    for text in ("{", "3", '{"a": 1}', "[1]", '{"traceEvents": 5}'):
        path.write_text(text)
        with pytest.raises(ValueError, match="not a Chrome trace"):
            read_chrome(path)
    path.write_text('[{"ph": "M"}]')
    assert read_chrome(path)["traceEvents"] == [{"ph": "M"}]
