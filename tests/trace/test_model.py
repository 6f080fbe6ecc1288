"""The frames of a Trace, and its file."""

from __future__ import annotations

import math
import zipfile
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from fake_ring import FakeRing
from trace_sample import HASH, T0, sample_trace, us

from torch_fl_core.trace import RING_DTYPE, Trace
from torch_fl_core.trace.model import buffer_label, parse_reason, split_location
from torch_fl_core.trace.ring import Ring


@pytest.fixture(scope="module")
def trace(tmp_path_factory: pytest.TempPathFactory) -> Trace:
    return sample_trace(tmp_path_factory.mktemp("sample"))


def test_ops(trace: Trace) -> None:
    ops = trace.ops
    assert trace.epoch_ns == T0
    assert ops["op"].tolist() == [
        "convolution", "view", "max_pool2d_with_indices", "max_pool2d_with_indices",
        "convolution_backward",
    ]  # fmt: skip
    first = ops.iloc[0]
    assert (first.begin_us, first.dur_us, first.line, first.source) == (0.0, 20.0, 3, HASH)
    assert (first.sequence_number, first.shapes, first.thread) == (
        7, "[2, 2] float32", "100 MainThread",
    )  # fmt: skip
    assert ops["backward"].tolist() == [False] * 4 + [True]
    assert ops["forward_line"].isna().tolist() == [True] * 4 + [False]
    assert ops.iloc[4].forward_line == 3 and ops.iloc[2].inner == "ffffffffffff:9"
    assert not ops["user_range"].any()


def test_kernels_include_those_that_ran_on_the_host(trace: Trace) -> None:
    kernels = trace.kernels
    assert kernels["tier"].tolist() == ["native", "cpu", "cpu", "native"]
    assert kernels["host"].tolist() == [False, True, True, False]
    assert kernels["device"].tolist() == ["ral:0"] * 4
    assert kernels["dur_us"].tolist() == [30.0, 70.0, 70.0, 40.0]
    assert kernels["copied_bytes"].tolist() == [0, 100, 100, 0]
    assert kernels.iloc[0].queued_us == 5.0 and math.isnan(kernels.iloc[1].queued_us)
    assert kernels.iloc[0].kernel == "conv_f32" and kernels.iloc[0].bytes == 8192
    assert kernels.iloc[0].correlation == 1 and kernels.iloc[0].buffer == 10
    assert kernels["line"].tolist() == [3, 5, 5, 8]


def test_decisions_are_grouped_with_a_column_per_tier(trace: Trace) -> None:
    frame = trace.decisions
    assert list(frame.columns) == [
        "op", "device", "tier", "kernel", "native", "jit", "reference", "cpu", "ran", "count",
        "dur_us", "copied_bytes",
    ]  # fmt: skip
    top = frame.iloc[0]
    assert (top.op, top.tier, top.kernel) == ("max_pool2d_with_indices", "cpu", "at::cpu")
    assert (top["count"], top.dur_us, top.copied_bytes) == (2, 140.0, 200)
    assert (top.native, top.jit) == ("no manifest entry", "switched off by RAL_JIT=off")
    assert (top.reference, top.cpu, top.ran) == ("", "", "last")
    planned = frame[frame.op == "fft"].iloc[0]
    assert (planned.device, planned["count"], planned.dur_us) == ("ral:1", 0, 0.0)
    assert frame["count"].sum() == len(trace.kernels)


def test_memory_has_lives_labels_and_parents(trace: Trace) -> None:
    memory = trace.memory.set_index("id")
    assert memory["label"].to_dict() == {
        10: "convolution.0 line 3",
        11: "convolution.1 line 3",
        12: "view.0 line 4",
        20: "max_pool2d.0 line 5",
        21: "max_pool2d.1 line 5",
        22: "max_pool2d.0 line 5",
        23: "max_pool2d.1 line 5",
    }
    assert memory.loc[11, "begin_us"] == 1.0 and memory.loc[11, "end_us"] == 41.0
    assert math.isnan(memory.loc[10, "end_us"])
    assert memory.loc[12, "parent"] == 10 and memory.loc[12, "view"]
    assert pd.isna(memory.loc[10, "parent"]) and not memory.loc[10, "view"]
    assert memory["bytes"].to_dict()[10] == 4096 and set(memory["device"]) == {"ral:0"}


def test_memory_of_before_the_recording_and_of_lost_births(tmp_path: Path) -> None:
    fake = FakeRing(folder=tmp_path)
    ring = Ring(fake.path)
    reader = ring.reader()
    for _ in range(2):  # two recordings began: two snapshots of one buffer
        fake.emit("ALLOC", "empty", begin_ns=us(-500), buffer=1, bytes=8, device=0, flags=0x8)
    fake.emit("OP", "add", begin_ns=us(0), dur_ns=10)
    fake.emit("FREE", begin_ns=us(3), buffer=1, bytes=8, device=0)
    fake.emit("FREE", begin_ns=us(4), buffer=2, bytes=16, device=0)
    trace = Trace.from_records(reader.read(), ring.strings, {})
    assert trace.epoch_ns == T0  # a snapshot does not move the beginning
    known, lost = trace.memory.itertuples(index=False)
    assert (known.id, known.begin_us, known.end_us, known.snapshot) == (1, -500.0, 3.0, True)
    assert lost.id == 2 and math.isnan(lost.begin_us) and lost.end_us == 4.0
    assert lost.label == "buffer.0"


def test_copies_syncs_compiles_marks(trace: Trace) -> None:
    assert trace.copies[["op", "bytes", "dur_us"]].values.tolist() == [["device_to_host", 16, 4.0]]
    assert trace.syncs[["why", "dur_us"]].values.tolist() == [["host op", 5.0], ["host op", 5.0]]
    compiles = trace.compiles
    assert compiles["kernel"].tolist() == ["gelu_f32", "tanh_f32"]
    assert compiles["dur_us"].iloc[0] == 200.0 and math.isnan(compiles["dur_us"].iloc[1])
    assert trace.marks["text"].tolist() == [f"cell begin {HASH}"]


def test_device_work_never_begins_before_its_enqueue(tmp_path: Path) -> None:
    fake = FakeRing(folder=tmp_path)
    ring = Ring(fake.path)
    reader = ring.reader()
    # The device's clock is uncertain: mapped to 1 us before the enqueue; its end before that, too.
    fake.emit("KERNEL", "a", device=0, queued_ns=us(5), begin_ns=us(4), end_ns=us(9))
    fake.emit("KERNEL", "b", device=0, queued_ns=us(20), begin_ns=us(18), end_ns=us(19))
    trace = Trace.from_records(reader.read(), ring.strings, {}, epoch_ns=T0)
    assert trace.kernels["begin_us"].tolist() == [5.0, 20.0]
    assert trace.kernels["dur_us"].tolist() == [4.0, 0.0]


def test_an_empty_trace_has_all_columns(trace: Trace) -> None:
    empty = Trace()
    for name in ("ops", "kernels", "copies", "memory", "decisions", "syncs", "compiles", "marks"):
        frame = getattr(empty, name)
        assert len(frame) == 0 and list(frame.columns) == list(getattr(trace, name).columns)
    assert repr(empty) == "<Trace: 0 ops, 0 kernels, 0 copies, 0 buffers and views, 0 dropped>"


def test_saved_and_loaded_is_the_same(trace: Trace, tmp_path: Path) -> None:
    path = tmp_path / "kept.ral"
    trace.save(path)
    again = Trace.load(path)
    for name in ("ops", "kernels", "copies", "memory", "decisions", "syncs", "compiles", "marks"):
        pd.testing.assert_frame_equal(getattr(again, name), getattr(trace, name))
    assert (again.dropped, again.meta, again.status) == (0, trace.meta, trace.status)
    assert list(tmp_path.iterdir()) == [path]


def test_other_files_are_refused_with_a_sentence(trace: Trace, tmp_path: Path) -> None:
    path = tmp_path / "x"
    path.write_text("no zip")
    with pytest.raises(ValueError, match="not a saved trace"):
        Trace.load(path)
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("trace.json", '{"version": 1}')
    with pytest.raises(ValueError, match=r"not a saved trace .*records\.npy"):
        Trace.load(path)
    trace.save(path)
    with zipfile.ZipFile(path) as archive:
        kept = {n: archive.read(n) for n in archive.namelist()}
    kept["trace.json"] = kept["trace.json"].replace(b'"version": 1', b'"version": 2', 1)
    with zipfile.ZipFile(path, "w") as archive:
        for name, data in kept.items():
            archive.writestr(name, data)
    with pytest.raises(ValueError, match="newer torch-fl-core"):
        Trace.load(path)
    with pytest.raises(FileNotFoundError):
        Trace.load(tmp_path / "absent")


@pytest.mark.parametrize(
    ("text", "parts"),
    [("0123:12", ("0123", 12)), ("", ("", None)), ("a:b:7", ("a:b", 7)), ("a:x", ("", None))],
)
def test_locations(text: str, parts: tuple[str, int | None]) -> None:
    assert split_location(text) == parts


def test_reasons_and_labels() -> None:
    assert parse_reason('{"native": "x", "ran": "y"}') == {"native": "x", "ran": "y"}
    assert parse_reason("plain words") == {"ran": "plain words"} and parse_reason("") == {}
    assert parse_reason("[1]") == {"ran": "[1]"}
    assert buffer_label("aten::add", 1, None) == "add.1"


def test_a_million_records_become_frames_in_seconds() -> None:
    records = np.zeros(1_000_000, RING_DTYPE)
    records["kind"] = np.tile([1, 2], 500_000)
    records["begin_ns"] = np.arange(1_000_000)
    records["end_ns"] = records["begin_ns"] + 5
    records["name"] = np.arange(1_000_000) % 50 + 1
    trace = Trace.from_records(records, {i: f"op{i}" for i in range(1, 51)}, {})
    assert len(trace.kernels) == 500_000 and trace.kernels["op"].nunique() == 25
    assert trace.decisions["count"].sum() == 500_000
