"""Sums over records: exact under any cut into drains, memory over time, the bundle's size."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pytest

from torch_fl import bundle as bundles
from torch_fl import recorder
from torch_fl.buffers import CURVE_POINTS, SHOWN, Buffers, Curve
from torch_fl.tables import Tables
from torch_fl_core.trace.layout import RING_DTYPE, Flag, Kind, Tier

BEGIN = 10**12
REASON = {
    20: '{"ran": "manifest entry"}',
    21: '{"native": "no manifest entry", "ran": "C++"}',
    23: '{"native": "slower", "ran": "measured"}',
    22: '{"native": "switched off by RAL_FALLBACK", "ran": "PyTorch"}',
}
STRINGS: Mapping[int, str] = {
    1: "aten::add", 2: "mm", 3: "host_to_device", 5: "k1", 6: "k2", 9: "77 main",
    10: "abc:2", 11: "abc:3", 12: "other:9", **REASON,
}  # fmt: skip
SOURCE = "%%ral_profile\n  x = a + b\ny = x @ x\n"


def record(kind: Kind, begin_us: float, dur_us: float = 0, **fields: Any) -> np.ndarray:
    out = np.zeros(1, RING_DTYPE)
    out["kind"], out["device"], out["thread"] = kind, 0, 9
    out["begin_ns"] = BEGIN + round(begin_us * 1e3)
    out["end_ns"] = out["begin_ns"] + round(dur_us * 1e3)
    for name, value in fields.items():
        out[name] = value
    return out


def kernel(begin: float, dur: float, tier: Tier = Tier.NATIVE, **fields: Any) -> np.ndarray:
    fields.setdefault("reason", 20 if tier == Tier.NATIVE else 21)
    flags = int(Flag.HOST) if tier in (Tier.REFERENCE, Tier.CPU) else 0
    fields["flags"] = flags | fields.get("flags", 0)
    return record(Kind.KERNEL, begin, dur, tier=tier, **{"name": 1, "kernel": 5, "location": 10, **fields})


def tables(*drains: np.ndarray) -> Tables:
    out = Tables(BEGIN, SOURCE, "abc", STRINGS)
    for records in drains:
        out.add(records)
    return out


def summary(of: Tables, wall_us: float = 1000) -> dict[str, Any]:
    return of.summary(BEGIN + round(wall_us * 1e3), 0, 0.0, "done")


def test_sums_by_tier_line_and_copy() -> None:
    records = np.concatenate(
        [
            kernel(0, 100, bytes=8),
            kernel(
                100,
                50,
                Tier.REFERENCE,
                name=2,
                kernel=6,
                location=11,
                flags=int(Flag.BACKWARD),
                forward_location=10,
            ),
            kernel(150, 25, Tier.CPU, name=2, kernel=6, location=11, copied=64),
            kernel(175, 5, Tier.CPU, reason=22, location=12, inner_location=11),
            record(Kind.COPY, 200, 30, name=3, bytes=4096, location=10),
            record(Kind.SYNC, 230, 7, location=11),
            record(Kind.ALLOC, 240, bytes=512, buffer=1, location=10),
            record(Kind.VIEW, 241, bytes=512, buffer=2, aux64=1, location=10),
        ]
    )
    got = tables(records)
    s = summary(got)
    assert s["op_time_us"] == {"native": 100, "jit": 0, "reference": 50, "cpu": 30}
    assert s["op_count"] == {"native": 1, "jit": 0, "reference": 1, "cpu": 2, "view": 1}
    assert (s["copy_us"], s["copy_bytes"], s["wait_us"], s["events"]) == (30, 4096, 7, 8)
    assert s["busy"] == {"ral:0": 0.13}  # the native kernel and the copy; host-run tiers never
    assert s["peak_bytes"] == {"ral:0": 512}
    t = got.tables(BEGIN + 10**6)
    lines = {row["line"]: row for row in t["lines"]}
    assert list(lines) == [2, 3]
    assert lines[2]["source"] == "x = a + b" and lines[2]["time_us"] == 100
    assert (lines[2]["copy_us"], lines[2]["bytes"], lines[2]["alloc_bytes"]) == (30, 8, 512)
    # line 3 has the call from another cell whose innermost line it is
    assert (lines[3]["time_us"], lines[3]["count"], lines[3]["backward_us"]) == (80, 3, 50)
    assert lines[3]["wait_us"] == 7
    forward = {row["line"]: row for row in t["forward_lines"]}
    assert (forward[2]["time_us"], forward[3]["time_us"]) == (150, 30)
    fallback = t["fallback"]
    assert [(r["tier"], r["count"], r["copied_bytes"], r["lines"]) for r in fallback] == [
        ("reference", 1, 0, [3]),
        ("cpu", 1, 64, [3]),
    ]  # the one whose first tier was switched off did not fall back
    assert fallback[0]["reason"]["native"] == "no manifest entry" and fallback[0]["op"] == "mm"


def test_chains_of_one_op_and_outcome_are_one_row() -> None:
    of = tables(
        kernel(0, 10, Tier.CPU), kernel(10, 30, Tier.CPU, reason=23, kernel=6), kernel(50, 5, Tier.REFERENCE)
    )
    rows = of.fallback()
    assert [(r["tier"], r["count"], r["time_us"], r["kernel"]) for r in rows] == [
        ("cpu", 2, 40, "k2"),
        ("reference", 1, 5, "k1"),
    ]
    assert rows[0]["reason"]["native"] == "slower"


def random_records(count: int) -> np.ndarray:
    rng = np.random.default_rng(3)
    out = np.zeros(count, RING_DTYPE)
    out["kind"] = rng.choice([Kind.KERNEL, Kind.COPY, Kind.OP, Kind.SYNC], count)
    out["tier"] = np.where(out["kind"] == Kind.KERNEL, rng.integers(1, 5, count), 0)
    out["flags"] = np.where(out["tier"] > 2, int(Flag.HOST), 0)
    out["begin_ns"] = BEGIN + np.arange(count) * 1000
    out["end_ns"] = out["begin_ns"] + rng.integers(1, 3000, count)
    out["device"] = rng.integers(-1, 2, count)
    out["name"], out["kernel"] = rng.integers(1, 3, count), rng.integers(5, 7, count)
    out["location"], out["reason"] = rng.integers(10, 13, count), rng.integers(20, 22, count)
    out["bytes"], out["thread"] = rng.integers(0, 100, count), 9
    return out


def test_any_cut_into_drains_gives_the_same_sums() -> None:
    records = random_records(5000)
    whole = tables(records)
    cut = tables(*np.array_split(records, 37))
    assert summary(cut, 6000) == summary(whole, 6000)
    assert cut.tables(BEGIN + 6 * 10**6) == whole.tables(BEGIN + 6 * 10**6)
    op_time = sum(summary(whole)["op_time_us"].values())
    used = (records["kind"] == Kind.KERNEL) & (records["tier"] > 0)
    exact = (records["end_ns"] - records["begin_ns"])[used].sum() / 1e3
    assert op_time == pytest.approx(exact, abs=1)
    assert sum(row["time_us"] for row in whole.tables(BEGIN)["lines"]) == pytest.approx(exact, abs=2)


def test_busy_is_the_union_of_overlapping_work() -> None:
    records = np.concatenate([kernel(0, 100), kernel(20, 30), kernel(50, 100, stream=1), kernel(500, 10)])
    assert summary(tables(records))["busy"] == {"ral:0": 0.16}
    assert summary(tables(*np.split(records, 4)))["busy"] == {"ral:0": 0.16}


def test_a_million_records_stay_cheap() -> None:
    records = random_records(1_000_000)
    of = Tables(BEGIN, SOURCE, "abc", STRINGS)
    begin = time.process_time()
    for part in np.array_split(records, 20):
        of.add(part)
    took = time.process_time() - begin
    assert of.events == 1_000_000
    assert took < 3, f"{took:.2f} s CPU"


def test_compiles_are_told_while_they_run() -> None:
    of = tables(record(Kind.COMPILE, 5, name=2, end_ns=0))
    assert of.compiling == "mm"
    of.add(record(Kind.COMPILE, 5, 900, name=2))
    assert of.compiling is None


def test_rates_and_line_of_the_last_tenth_second() -> None:
    of = tables(kernel(900_000, 1), kernel(950_000, 1, Tier.CPU), kernel(990_000, 1, location=11))
    s = summary(of, 1_000_000)
    assert s["fell_back_100ms"] == [1, 2] and s["ops_per_second"] == 3 and s["line"] == 3


# Memory.


def alloc(at: float, buffer: int, size: int, **fields: Any) -> np.ndarray:
    return record(Kind.ALLOC, at, buffer=buffer, bytes=size, **{"name": 2, "location": 10, **fields})


def free(at: float, buffer: int, size: int) -> np.ndarray:
    return record(Kind.FREE, at, buffer=buffer, bytes=size)


def test_memory_follows_blocks_not_views() -> None:
    first = np.concatenate(
        [
            alloc(0, 1, 100, flags=int(Flag.SNAPSHOT)),
            alloc(10, 2, 200, correlation=7),
            alloc(11, 3, 50, correlation=7),
            record(Kind.VIEW, 12, buffer=4, aux64=2, bytes=200, location=10),
        ]
    )
    second = np.concatenate([free(100, 2, 200), free(101, 4, 200), alloc(150, 5, 20)])
    of = tables(first, second)
    s = summary(of, 200)
    assert s["peak_bytes"] == {"ral:0": 350} and s["memory_bytes"] == {"ral:0": 170}
    t = of.tables(BEGIN + 200_000)
    assert t["buffers_total"] == {"blocks": 3, "views": 1, "shown": 5}
    rows = {row["id"]: row for row in t["buffers"]}
    assert rows[2]["label"] == "mm.0 line 2" and rows[3]["label"] == "mm.1 line 2"
    assert (rows[2]["begin_us"], rows[2]["end_us"], rows[3]["end_us"]) == (10, 100, None)
    assert rows[4]["view"] and rows[4]["parent"] == 2
    assert [row["bytes"] for row in t["peak"]] == [200, 100, 50]
    assert t["memory_curve"]["ral:0"][-1] == [200.0, 170]
    assert max(size for _, size in t["memory_curve"]["ral:0"]) == 350


def test_a_death_that_is_seen_first_waits_for_its_birth() -> None:
    of = tables(free(20, 9, 64), alloc(10, 9, 64))
    assert summary(of)["memory_bytes"] == {"ral:0": 0}
    assert len(of.buffers.live) == 0


def test_curves_keep_every_maximum_and_stay_short() -> None:
    curve = Curve()
    rng = np.random.default_rng(1)
    times = np.sort(rng.uniform(0, 3e7, 40_000))
    deltas = np.where(np.arange(40_000) % 2 == 0, 100.0, -100.0)
    deltas[20_000], deltas[20_001] = 5000, -5000
    for part in np.array_split(np.arange(40_000), 50):
        curve.add(times[part], deltas[part])
    points = curve.points(3e7)
    assert len(points) <= CURVE_POINTS and curve.peak == 5000
    spike = [us for us, size in points if size == 5000]
    assert len(spike) == 1 and abs(spike[0] - times[20_000]) < 3e7 / CURVE_POINTS * 2
    assert points[-1][1] == 0


def test_a_quiet_level_is_held_between_changes() -> None:
    curve = Curve()
    curve.add(np.array([10.0, 60_000.0]), np.array([700.0, -200.0]))
    assert curve.points(90_000) == [[0.0, 700], [60_050.0, 500], [90_000, 500]]


def test_the_largest_buffers_are_shown() -> None:
    of = Buffers(BEGIN)
    born = np.concatenate([alloc(i, i + 1, 10 + i % 7) for i in range(3000)] + [alloc(9999, 5000, 10**9)])
    of.add(born)
    of.add(np.concatenate([free(20_000 + i, i + 1, 10) for i in range(3000)]))
    shown = of.table()
    assert len(shown) == SHOWN * 3 // 4 and 10**9 in shown["bytes"]
    assert of.blocks == 3001


# The bundle.


def test_a_bundle_fits_its_limit(core: Any) -> None:
    recording = recorder.Recording(core, SOURCE)
    recording.start()
    for number in range(30):
        records = random_records(4000)
        for field in ("location", "name", "kernel", "reason"):
            texts = [core.trace_intern(f'{field} {i} "quoted"') for i in range(40)]
            records[field] = np.array(texts)[records[field] % 40]
        records["begin_ns"] += time.monotonic_ns() - BEGIN + number
        records["end_ns"] += time.monotonic_ns() - BEGIN + number
        core.ring.emit_array(records)
        recording.end_ns = time.monotonic_ns() + 10**9
        recording.drain()
    bundle = recording.bundle()
    size = len(json.dumps(bundle))
    assert size <= bundles.BUNDLE_BYTES and size > bundles.BUNDLE_BYTES // 4
    assert bundle["thinned"] and bundle["summary"]["events"] > 100_000
    small = recording.bundle(bundles.RUNNING_BUNDLE_BYTES)
    assert len(json.dumps(small)) <= bundles.RUNNING_BUNDLE_BYTES
    recording.stop()


def test_collected_records_give_the_same_sums_as_drained_ones(core: Any) -> None:
    parts = [random_records(3000) for _ in range(4)]

    def taken(take: Callable[[recorder.Recording], object]) -> dict[str, Any]:
        recording = recorder.Recording(core, SOURCE)
        recording.start()
        recording.end_ns = recording.begin_ns + 10**12
        for number, part in enumerate(parts):
            records = part.copy()
            records["begin_ns"] += recording.begin_ns - BEGIN + number * 3_000_000
            records["end_ns"] += recording.begin_ns - BEGIN + number * 3_000_000
            core.ring.emit_array(records)
            take(recording)
        recording.stop()
        bundle = recording.bundle()
        assert recording.dropped == 0 and sum(map(len, recording.kept)) == recording.events
        return {"summary": bundle["summary"], "tables": bundle["tables"]}

    drained, collected = taken(recorder.Recording.drain), taken(recorder.Recording.collect)
    assert sum(drained["summary"]["op_count"].values()) > 1000
    assert collected == drained


def test_dropped_records_are_counted_and_said(core: Any) -> None:
    from torch_fl import static

    recording = recorder.Recording(core, SOURCE)
    recording.start()
    records = random_records(1 << 16)
    records["begin_ns"] += time.monotonic_ns() - BEGIN
    records["end_ns"] += time.monotonic_ns() - BEGIN
    recording.end_ns = time.monotonic_ns() + 10**9
    core.ring.emit_array(records, segment="a")
    core.ring.emit_array(records[:100], segment="a")
    recording.drain()
    recording.stop()
    assert recording.dropped == 100
    bundle = recording.bundle()
    assert bundle["summary"]["dropped"] == 100
    assert "at least" in static.text(bundle) and "RAL_TRACE_RECORDS" in static.text(bundle)
