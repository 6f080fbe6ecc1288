"""Binary batches of records for the page, as docs/profile-format.md lays them out, and their thinning."""

from __future__ import annotations

import struct

import numpy as np
import pandas as pd

from torch_fl_core.trace.layout import Flag, Kind

MAGIC = 0x424C4152
VERSION = 1
_HEADER = struct.Struct("<IHHIIddd24x")

BATCH_DTYPE = np.dtype(
    [
        ("begin", "<f8"),
        ("duration", "<f8"),
        ("bytes", "<f8"),
        ("copied", "<f8"),
        ("name", "<u4"),
        ("kernel", "<u4"),
        ("reason", "<u4"),
        ("location", "<u4"),
        ("inner", "<u4"),
        ("forward", "<u4"),
        ("shapes", "<u4"),
        ("buffer", "<u4"),
        ("parent", "<u4"),
        ("correlation", "<u4"),
        ("thread", "<u4"),
        ("device", "<i2"),
        ("stream", "<u2"),
        ("kind", "u1"),
        ("tier", "u1"),
        ("flags", "<u2"),
        ("count", "<u4"),
    ]
)
STRING_FIELDS = ("name", "kernel", "reason", "location", "inner", "forward", "shapes", "thread")
_SAME = ("name", "kernel", "reason", "location", "shapes", "thread", "stream", "kind", "tier")
_LOW = np.uint64(0xFFFFFFFF)


def from_records(records: np.ndarray, begin_ns: int) -> np.ndarray:
    """Records of the trace (RING_DTYPE) as batch records; times in µs since `begin_ns`."""
    out = np.zeros(len(records), BATCH_DTYPE)
    out["begin"] = (records["begin_ns"] - begin_ns) / 1e3
    # A compile in progress has no end yet.
    ended = records["end_ns"] > records["begin_ns"]
    out["duration"] = np.where(ended, records["end_ns"] - records["begin_ns"], 0) / 1e3
    for name in ("bytes", "copied", *_SAME):
        out[name] = records[name]
    out["inner"], out["forward"] = records["inner_location"], records["forward_location"]
    for name, source in (("buffer", "buffer"), ("parent", "aux64"), ("correlation", "correlation")):
        out[name] = records[source] & _LOW
    out["device"], out["flags"], out["count"] = records["device"], records["flags"], 1
    return out


def encode(batch: np.ndarray, number: int, now_us: float, dropped: int, events: int) -> bytes:
    """One batch with its header; `events` and `dropped` count from the beginning of the cell."""
    size = BATCH_DTYPE.itemsize
    head = _HEADER.pack(MAGIC, VERSION, size, len(batch), number, now_us, dropped, events)
    return head + batch.tobytes()


def decode(data: bytes) -> tuple[dict[str, float], np.ndarray]:
    """Header fields and records of an encoded batch. Raises ValueError where it is none."""
    if len(data) < _HEADER.size:
        raise ValueError(f"a batch has a header of {_HEADER.size} bytes, not {len(data)}")
    magic, version, size, count, number, now, dropped, events = _HEADER.unpack_from(data)
    if magic != MAGIC or version != VERSION or size != BATCH_DTYPE.itemsize:
        raise ValueError(f"no batch of version {VERSION} (magic {magic:#x}, version {version})")
    head = {"number": number, "now": now, "dropped": dropped, "events": events}
    return head, np.frombuffer(data, BATCH_DTYPE, count, _HEADER.size)


def thin(batch: np.ndarray, limit: int, gap_us: float) -> np.ndarray:
    """At most `limit` records: neighbours on a lane become one where they are at most a gap apart.

    The gap is `gap_us`, or the smallest above it that leaves `limit` records. Records longer than four gaps stay as
    they are. What still is too much loses its shortest.
    """
    if len(batch) <= limit:
        return batch
    if np.any(batch["begin"][1:] < batch["begin"][:-1]):
        batch = batch.take(np.argsort(batch["begin"], kind="stable"))
    batch = _merge(batch, limit, gap_us)
    if len(batch) <= limit:
        return batch
    longest = np.argpartition(-batch["duration"], limit)[:limit]
    return batch.take(np.sort(longest))


def _lanes(batch: np.ndarray) -> np.ndarray:
    """A number for each lane, kind and tier; records with the same one may be merged."""
    on_device = (batch["device"] >= 0) & (batch["flags"] & int(Flag.HOST) == 0)
    on_device &= batch["kind"] != Kind.OP
    device = (batch["device"].astype(np.int64) + 1) << 16 | batch["stream"]
    lane = np.where(on_device, device, batch["thread"].astype(np.int64) | 1 << 40)
    user = (batch["flags"] & int(Flag.USER_RANGE) != 0).astype(np.int64)
    what = batch["kind"].astype(np.int64) << 4 | batch["tier"] << 1 | user
    return lane << 12 | what


def _merge(batch: np.ndarray, limit: int, least_gap: float) -> np.ndarray:
    """Joins neighbours of one lane until `limit` records are left. `batch` is ordered by begin."""
    codes = pd.factorize(_lanes(batch))[0]
    order = np.argsort(codes.astype(np.uint16), kind="stable")  # a radix sort; keeps the order by begin
    lanes = codes[order]
    begin, duration = batch["begin"][order], batch["duration"][order]
    end = begin + duration
    # The gap from which on each record is joined to the one before it.
    needed = np.full(len(batch), np.inf)
    needed[1:] = np.maximum(begin[1:] - end[:-1], np.maximum(duration[1:], duration[:-1]) / 4)
    needed[1:][lanes[1:] != lanes[:-1]] = np.inf
    joins = len(batch) - limit
    gap = float(np.partition(needed, joins - 1)[joins - 1])
    gap = max(least_gap, gap if np.isfinite(gap) else float(needed[np.isfinite(needed)].max(initial=0)))
    start = np.flatnonzero(needed > gap)
    sizes = np.diff(np.append(start, len(batch)))
    merged = sizes > 1
    # The longest of each group gives its name.
    longest = np.flatnonzero(duration == np.repeat(np.maximum.reduceat(duration, start), sizes))
    group = np.repeat(np.arange(len(start)), sizes)[longest]
    out = batch.take(order[longest[np.append(True, group[1:] != group[:-1])]])
    out["begin"] = begin[start]
    out["duration"] = np.maximum.reduceat(end, start) - begin[start]
    for field in ("bytes", "copied", "count"):
        out[field] = np.add.reduceat(batch[field][order], start)
    out["flags"] = np.bitwise_or.reduceat(batch["flags"][order], start)
    for field in ("buffer", "parent", "correlation"):
        out[field][merged] = 0
    return out.take(np.argsort(out["begin"], kind="stable"))


def string_ids(batch: np.ndarray) -> set[int]:
    """The string ids that a batch refers to, without 0."""
    ids: set[int] = set()
    for field in STRING_FIELDS:
        ids.update(np.unique(batch[field]).tolist())
    ids.discard(0)
    return ids
