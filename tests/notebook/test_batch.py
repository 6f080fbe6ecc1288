"""Batches: the golden file's bytes, thinning that keeps lanes, counts and bytes."""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from torch_fl import batch as batches
from torch_fl_core.trace.layout import RING_DTYPE, Flag, Kind

GOLDEN = Path(__file__).resolve().parents[1] / "golden" / "profile_v1.json"
BEGIN_NS = 5_000_000_000_000
RENAMED = {"inner": "inner_location", "forward": "forward_location", "parent": "aux64"}


def ring_records(rows: list[dict[str, Any]]) -> np.ndarray:
    """The trace's records from which the golden file's rows come."""
    out = np.zeros(len(rows), RING_DTYPE)
    for record, row in zip(out, rows, strict=True):
        record["begin_ns"] = BEGIN_NS + round(row["begin"] * 1e3)
        unfinished = row["kind"] == Kind.COMPILE and not row["duration"]
        record["end_ns"] = 0 if unfinished else record["begin_ns"] + round(row["duration"] * 1e3)
        for name, value in row.items():
            if name not in ("begin", "duration", "count"):
                record[RENAMED.get(name, name)] = value
    return out


def test_encoding_gives_the_golden_bytes() -> None:
    golden = json.loads(GOLDEN.read_text(encoding="utf-8"))
    pairs = list(zip(golden["bundle"]["batches"], golden["expected"]["batches"], strict=True))
    assert pairs
    for text, expected in pairs:
        batch = batches.from_records(ring_records(expected["records"]), BEGIN_NS)
        batch["count"] = [row["count"] for row in expected["records"]]
        head = expected["header"]
        data = batches.encode(batch, head["number"], head["now"], head["dropped"], head["events"])
        assert data == base64.b64decode(text)


def test_decoding_the_golden_file_gives_its_values() -> None:
    golden = json.loads(GOLDEN.read_text(encoding="utf-8"))
    for text, expected in zip(golden["bundle"]["batches"], golden["expected"]["batches"], strict=True):
        head, batch = batches.decode(base64.b64decode(text))
        assert head == {k: v for k, v in expected["header"].items() if k != "records"}
        rows = [{name: row[name].item() for name in batch.dtype.names} for row in batch]
        assert rows == expected["records"]


def test_damaged_batches_are_refused() -> None:
    with pytest.raises(ValueError, match="header of 64 bytes"):
        batches.decode(b"short")
    with pytest.raises(ValueError, match="no batch of version 1"):
        batches.decode(bytes(64))


def many(count: int) -> np.ndarray:
    rng = np.random.default_rng(0)
    batch = np.zeros(count, batches.BATCH_DTYPE)
    batch["begin"] = np.sort(rng.uniform(0, 1e6, count))
    batch["duration"] = rng.uniform(0.1, 3, count)
    batch["kind"] = rng.choice([Kind.KERNEL, Kind.OP, Kind.COPY], count)
    batch["tier"] = np.where(batch["kind"] == Kind.KERNEL, rng.integers(1, 5, count), 0)
    batch["device"] = rng.integers(0, 2, count)
    batch["name"] = rng.integers(1, 9, count)
    batch["thread"], batch["bytes"], batch["count"] = 3, 10, 1
    return batch


def test_thinning_keeps_counts_bytes_and_long_records() -> None:
    batch = many(50_000)
    batch[777]["duration"], batch[777]["name"] = 90_000, 99
    out = batches.thin(batch, 4000, 20)
    assert len(out) <= 4000
    assert out["count"].sum() == 50_000 and out["bytes"].sum() == 500_000
    assert 99 in out["name"]
    for field in ("kind", "tier", "device"):
        assert set(np.unique(out[field])) == set(np.unique(batch[field]))
    assert np.all(np.diff(out["begin"]) >= 0)
    end = (batch["begin"] + batch["duration"]).max()
    assert (out["begin"] + out["duration"]).max() == pytest.approx(end)


def test_thinning_never_joins_lanes_kinds_or_user_ranges() -> None:
    batch = many(6000)
    batch["kind"], batch["tier"] = Kind.OP, 0
    batch["flags"][::2] = int(Flag.USER_RANGE)
    out = batches.thin(batch, 10, 1e9)
    user = out["flags"] & int(Flag.USER_RANGE) != 0
    assert out["count"][user].sum() == 3000 and out["count"][~user].sum() == 3000


def test_few_records_stay_as_they_are() -> None:
    batch = many(100)
    assert batches.thin(batch, 100, 1.0) is batch


def test_thinning_is_cheap() -> None:
    import time

    batch = many(100_000)
    begin = time.process_time()
    batches.thin(batch, 4000, 112)
    assert time.process_time() - begin < 1.0
