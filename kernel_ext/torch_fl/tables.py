"""Exact sums over all records of a profile: the summary and the tables of docs/profile-format.md.

Records are summed as they are drained, grouped by everything that the tables ask for ("sites": op,
kernel, reason, tier, device, line...). There are few distinct sites, so tables are cheap to make.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from torch_fl import words
from torch_fl.buffers import Buffers, buffer_rows, label
from torch_fl_core.trace.layout import TIER_NAMES, Flag, Kind, Tier

RECORD_COST_NS = 60.0  # writing one record
OP_COST_NS = 300.0  # one of an operator: PyTorch's RecordFunction callbacks included
_SITE_FIELDS = ("name", "kernel", "reason", "location", "inner_location", "forward_location")
_MIX = [np.uint64(odd) for odd in (0x9E3779B97F4A7C15, 0xC2B2AE3D27D4EB4F, 0x165667B19E3779F9)]
_NOT_ALLOWED = ("switched off", "after ")  # reasons of tiers that the policy leaves out or puts later
_RECENT_NS = 100_000_000


def _kinds(*kinds: Kind) -> np.ndarray:
    """A table that tells by a record's kind whether it is one of those."""
    table = np.zeros(256, bool)
    table[list(kinds)] = True
    return table


_IS_SUMMED = _kinds(Kind.KERNEL, Kind.COPY, Kind.ALLOC, Kind.SYNC)
_IS_WORK = _kinds(Kind.KERNEL, Kind.COPY)
_IS_MEMORY = _kinds(Kind.ALLOC, Kind.VIEW, Kind.FREE)


class Site(NamedTuple):
    """What records are grouped by. String ids as in the trace."""

    name: int
    kernel: int
    reason: int
    location: int
    inner: int
    forward: int
    kind: int
    tier: int
    device: int
    backward: bool


class _Sums:
    """Count, time (µs), bytes and copied bytes of one site."""

    __slots__ = ("bytes", "copied", "count", "time")

    def __init__(self) -> None:
        self.count, self.time, self.bytes, self.copied = 0, 0.0, 0.0, 0.0


class Tables:
    """The running sums of one profile.

    Args:
        begin_ns: CLOCK_MONOTONIC moment that times count from.
        source: the cell's text; `cell_hash`: its hash in location strings.
        strings: texts of the trace by id.
    """

    def __init__(self, begin_ns: int, source: str, cell_hash: str, strings: Mapping[int, str]) -> None:
        self.begin_ns = begin_ns
        self.strings = strings
        self.events = 0
        self._ops = 0  # records of operators among them
        self.buffers = Buffers(begin_ns)
        self._source = source.splitlines()
        self._hash = cell_hash
        self._sites: dict[Site, _Sums] = defaultdict(_Sums)
        self._lines: dict[int, int | None] = {}
        self._reasons: dict[int, dict[str, str]] = {}
        self._busy: dict[int, list[float]] = {}  # device: [µs busy, end of the last interval in ns]
        self._compiling: dict[int, int] = {}
        self._line: int | None = None
        self._recent: list[np.ndarray] = []

    # Taking records in.

    def add(self, records: np.ndarray) -> None:
        """Sums records (RING_DTYPE, ordered by begin) in."""
        self.events += len(records)
        if not len(records):
            return
        self.note_state(records)
        # Operators on the host are most records and part of no sum.
        everything = len(records)
        records = records.take(np.flatnonzero(records["kind"] != Kind.OP))
        self._ops += everything - len(records)
        kind = np.ascontiguousarray(records["kind"])
        self._add_sites(records.take(np.flatnonzero(_IS_SUMMED[kind])))
        self._add_busy(records.take(np.flatnonzero(_IS_WORK[kind])))
        self._add_recent(records.take(np.flatnonzero(kind == Kind.KERNEL)))
        self.buffers.add(records.take(np.flatnonzero(_IS_MEMORY[kind])))

    def note_state(self, records: np.ndarray) -> None:
        """Takes in only what is shown as the state of the moment: Python's line and what is being compiled.

        Cheap, and may be called for records before `add()` is.
        """
        for record in records.take(np.flatnonzero(records["kind"] == Kind.COMPILE)):
            if record["end_ns"]:
                self._compiling.pop(int(record["name"]), None)
            else:
                self._compiling[int(record["name"])] = int(record["begin_ns"])
        records = records[-64:]
        located = np.flatnonzero((records["location"] != 0) & (records["kind"] != Kind.FREE))
        if len(located):
            last = records[located[-1]]
            self._line = self.line_of(int(last["location"]), int(last["inner_location"]))

    def _add_sites(self, records: np.ndarray) -> None:
        if not len(records):
            return
        snapshot = records["flags"] & int(Flag.SNAPSHOT) != 0
        if snapshot.any():
            records = records[~snapshot]
        backward = records["flags"].astype(np.uint64) & np.uint64(Flag.BACKWARD)
        small = records["kind"].astype(np.uint64) << np.uint64(24)
        small |= records["tier"].astype(np.uint64) << np.uint64(32)
        small |= (records["device"].astype(np.int64) & 0xFFFF).astype(np.uint64)
        small |= backward << np.uint64(40)
        columns = [records[field].astype(np.uint64) for field in _SITE_FIELDS]
        mixed = small * _MIX[0]
        for i, column in enumerate(columns):
            mixed ^= mixed >> np.uint64(29)
            mixed = mixed * _MIX[i % 3] + column * _MIX[(i + 1) % 3]
        codes, groups = pd.factorize(mixed)
        first = np.zeros(len(groups), np.int64)
        first[codes[::-1]] = np.arange(len(codes))[::-1]
        for column in (small, *columns):
            if not np.array_equal(column, column[first[codes]]):  # two sites with one hash
                half = len(records) // 2
                self._add_sites(records[:half])
                self._add_sites(records[half:])
                return
        ended = records["end_ns"] > records["begin_ns"]
        time = np.where(ended, records["end_ns"] - records["begin_ns"], 0) / 1e3
        count = np.bincount(codes, minlength=len(groups))
        sums = [np.bincount(codes, w, len(groups)) for w in (time, records["bytes"], records["copied"])]
        for i, row in enumerate(records[first]):
            site = self._sites[_site(row)]
            site.count += int(count[i])
            site.time += float(sums[0][i])
            site.bytes += float(sums[1][i])
            site.copied += float(sums[2][i])

    def _add_busy(self, records: np.ndarray) -> None:
        """The union of the times in which each device's own queues ran something."""
        own = (records["device"] >= 0) & (records["flags"] & int(Flag.HOST) == 0)
        own &= (records["end_ns"] > records["begin_ns"]) & (records["tier"] != Tier.VIEW)
        records = records.take(np.flatnonzero(own))
        for device in np.unique(records["device"]).tolist():
            part = records[records["device"] == device]
            busy = self._busy.setdefault(device, [0.0, float("-inf")])
            begin, end = part["begin_ns"].astype(float), part["end_ns"].astype(float)
            covered = np.maximum.accumulate(np.concatenate([[busy[1]], end[:-1]]))
            busy[0] += float(np.maximum(end - np.maximum(begin, covered), 0).sum()) / 1e3
            busy[1] = max(busy[1], float(end.max()))

    def _add_recent(self, kernels: np.ndarray) -> None:
        if not len(kernels):
            return
        recent = np.empty(len(kernels), [("at", "i8"), ("fell", "?")])
        recent["at"] = kernels["begin_ns"]
        fell = {i: self._fell_back(i, t) for i, t in _pairs(kernels["reason"], kernels["tier"])}
        passed = np.array([i for i, yes in fell.items() if yes], np.uint32)
        recent["fell"] = np.isin(kernels["reason"], passed) & (kernels["tier"] > Tier.NATIVE)
        newest = int(recent["at"].max())
        self._recent = [r for r in self._recent if r["at"][-1] > newest - 10 * _RECENT_NS]
        self._recent.append(recent[-20_000:])

    # Reading a site.

    def line_of(self, location: int, inner: int = 0) -> int | None:
        """Line of this cell that a location names; else the innermost line where it is in this cell."""
        for number in (location, inner):
            if number not in self._lines:
                cell, _, line = self.strings.get(number, "").rpartition(":")
                own = cell == self._hash and line.isdigit() and int(line) > 0
                self._lines[number] = int(line) if own else None
            if self._lines[number] is not None:
                return self._lines[number]
        return None

    def reason(self, number: int) -> dict[str, str]:
        """The chain of one decision: {tier: why it was passed over, "ran": why it ran}."""
        if number not in self._reasons:
            text = self.strings.get(number, "")
            try:
                parsed = json.loads(text) if text else {}
            except ValueError:
                parsed = {"ran": text}
            chain = parsed if isinstance(parsed, dict) else {"ran": str(parsed)}
            self._reasons[number] = {str(k): str(v) for k, v in chain.items()}
        return self._reasons[number]

    def _fell_back(self, reason: int, tier: int) -> bool:
        """Did the op run on a tier after the first allowed one?"""
        if tier not in (Tier.JIT, Tier.REFERENCE, Tier.CPU):
            return False
        chain = self.reason(reason)
        earlier = [chain.get(name) for name in TIER_NAMES[1:tier]]
        if not any(earlier):
            return not chain
        return any(why and not why.startswith(_NOT_ALLOWED) for why in earlier)

    def _kernels(self) -> Iterator[tuple[Site, _Sums]]:
        for site, sums in list(self._sites.items()):
            if site.kind == Kind.KERNEL and site.tier in (1, 2, 3, 4):
                yield site, sums

    @property
    def compiling(self) -> str | None:
        """The kernel that is being built, the oldest first; None where none is."""
        oldest = min(self._compiling, key=self._compiling.__getitem__, default=None)
        return None if oldest is None else words.op(self.strings.get(oldest, ""))

    def device(self, index: int) -> str:
        """A device's name, `ral:0`; the host's is `cpu`."""
        return f"ral:{index}" if index >= 0 else "cpu"

    # Making summary and tables.

    def summary(self, now_ns: int, dropped: int, drain_cpu_s: float, state: str) -> dict[str, Any]:
        """The summary at `now_ns`; a finished profile passes its end."""
        wall = max((now_ns - self.begin_ns) / 1e3, 1e-3)
        tiers = [TIER_NAMES[i] for i in (1, 2, 3, 4)]
        time, number = dict.fromkeys(tiers, 0.0), dict.fromkeys((*tiers, "view"), 0)
        copy_us = copy_bytes = wait_us = 0.0
        for site, sums in list(self._sites.items()):
            if site.kind == Kind.KERNEL and site.tier:
                name = TIER_NAMES[site.tier]
                number[name] += sums.count
                if name in time:
                    time[name] += sums.time
            elif site.kind == Kind.COPY:
                copy_us, copy_bytes = copy_us + sums.time, copy_bytes + sums.bytes
            elif site.kind == Kind.SYNC:
                wait_us += sums.time
        if not number["view"]:
            number["view"] = self.buffers.views
        busy = {d: min(1.0, used[0] / wall) for d, used in self._busy.items()}
        curves = self.buffers.curves
        writing = self._ops * OP_COST_NS + (self.events - self._ops) * RECORD_COST_NS
        overhead = (writing + drain_cpu_s * 1e9) / (wall * 1e3)
        fell, of, rate = self._rates(now_ns)
        return {
            "state": state,
            "failed_line": None,
            "error": None,
            "wall_us": round(wall, 1),
            "busy": {self.device(d): round(share, 4) for d, share in sorted(busy.items())},
            "peak_bytes": {self.device(d): int(c.peak) for d, c in sorted(curves.items())},
            "memory_bytes": {self.device(d): int(c.level) for d, c in sorted(curves.items())},
            "op_time_us": {name: round(us, 1) for name, us in time.items()},
            "op_count": number,
            "copy_us": round(copy_us, 1),
            "copy_bytes": int(copy_bytes),
            "wait_us": round(wait_us, 1),
            "events": self.events,
            "dropped": dropped,
            "overhead": round(min(1.0, overhead), 4),
            "line": self._line,
            "compiling": self.compiling,
            "ops_per_second": rate,
            "fell_back_100ms": [fell, of],
        }

    def _rates(self, now_ns: int) -> tuple[int, int, float]:
        """Ops that fell back and ops of the last 100 ms; ops a second over the last second."""
        fell = of = second = 0
        for recent in self._recent:
            age = now_ns - recent["at"]
            newest = age < _RECENT_NS
            fell += int(np.count_nonzero(newest & recent["fell"]))
            of += int(np.count_nonzero(newest))
            second += int(np.count_nonzero(age < 10 * _RECENT_NS))
        span = min(1.0, max(1e-3, (now_ns - self.begin_ns) / 1e9))
        return fell, of, round(second / span, 1)

    def tables(self, now_ns: int) -> dict[str, Any]:
        """All tables of the profile format; `leaks` is filled at the end (torch_fl.leaks)."""
        now_us = (now_ns - self.begin_ns) / 1e3
        rows = self.buffers.table()
        curves = sorted(self.buffers.curves.items())
        return {
            "lines": self._lines_table(forward=False),
            "forward_lines": self._lines_table(forward=True),
            "fallback": self.fallback(),
            "buffers": buffer_rows(rows, self.strings, self.line_of, self.device),
            "buffers_total": {
                "blocks": self.buffers.blocks,
                "views": self.buffers.views,
                "shown": len(rows),
            },
            "memory_curve": {self.device(d): curve.points(now_us) for d, curve in curves},
            "peak": self._peak(),
            "leaks": [],
        }

    def _peak(self) -> list[dict[str, Any]]:
        rows = self.buffers.peak
        rows = rows[np.argsort(-rows["bytes"], kind="stable")]
        return [
            {
                "label": label(r, self.strings, self.line_of(int(r["location"]), int(r["inner"]))),
                "bytes": int(r["bytes"]),
                "device": self.device(int(r["device"])),
            }
            for r in rows[:20]
        ]

    def _lines_table(self, *, forward: bool) -> list[dict[str, Any]]:
        """Sums by line of the cell, by op time; line 0 holds what no line of the cell called."""
        rows: dict[int, dict[str, Any]] = {}
        for site, sums in list(self._sites.items()):
            line = self.line_of(site.location, site.inner)
            if forward and site.backward:
                line = self.line_of(site.forward) or line
            row = rows.get(line or 0)
            if row is None:
                row = rows[line or 0] = self._empty_line(line or 0)
            if site.kind == Kind.KERNEL and site.tier in (1, 2, 3, 4):
                row[TIER_NAMES[site.tier] + "_us"] += sums.time
                row["time_us"] += sums.time
                row["count"] += sums.count
                row["bytes"] += sums.bytes
                row["backward_us"] += sums.time if site.backward else 0
            elif site.kind == Kind.COPY:
                row["copy_us"] += sums.time
            elif site.kind == Kind.SYNC:
                row["wait_us"] += sums.time
            elif site.kind == Kind.ALLOC:
                row["alloc_bytes"] += sums.bytes
        for row in rows.values():
            for name, value in row.items():
                if name.endswith("_us"):
                    row[name] = round(value, 1)
                elif name.endswith("bytes"):
                    row[name] = int(value)
        return sorted(rows.values(), key=lambda row: (-row["time_us"], row["line"]))

    def _empty_line(self, line: int) -> dict[str, Any]:
        text = self._source[line - 1].strip() if 0 < line <= len(self._source) else ""
        zero = ("native_us", "jit_us", "reference_us", "cpu_us", "time_us", "count", "backward_us")
        sums = dict.fromkeys((*zero, "copy_us", "wait_us", "bytes", "alloc_bytes"), 0)
        return {"line": line, "source": text, **sums}

    def fallback(self) -> list[dict[str, Any]]:
        """Ops that ran on a tier after the first allowed one, by time.

        Chains of one op that ended on the same tier are one row, with the reason and kernel of those
        that took most time.
        """
        rows: dict[tuple[int, ...], dict[str, Any]] = {}
        chains: dict[tuple[int, ...], dict[tuple[int, int], float]] = {}
        for site, sums in self._kernels():
            if not self._fell_back(site.reason, site.tier):
                continue
            key = (site.name, site.tier, site.device)
            row = rows.setdefault(key, {"count": 0, "time_us": 0.0, "copied_bytes": 0, "lines": set()})
            row["count"] += sums.count
            row["time_us"] += sums.time
            row["copied_bytes"] += int(sums.copied)
            line = self.line_of(site.location, site.inner)
            if line:
                row["lines"].add(line)
            times = chains.setdefault(key, defaultdict(float))
            times[site.kernel, site.reason] += sums.time
        out = []
        for (name, tier, device), row in rows.items():
            times = chains[name, tier, device]
            kernel, reason = max(times, key=lambda chain: (times[chain], chain))
            out.append(
                {
                    "op": words.op(self.strings.get(name, "")),
                    "tier": TIER_NAMES[tier],
                    "kernel": self.strings.get(kernel, ""),
                    "reason": self.reason(reason),
                    "device": self.device(device),
                    **row,
                    "time_us": round(row["time_us"], 1),
                    "lines": sorted(row["lines"]),
                }
            )
        return sorted(out, key=lambda row: (-row["time_us"], row["op"]))


def _site(row: np.void) -> Site:
    return Site(
        *(int(row[field]) for field in _SITE_FIELDS),
        int(row["kind"]),
        int(row["tier"]),
        int(row["device"]),
        bool(row["flags"] & int(Flag.BACKWARD)),
    )


def _pairs(first: np.ndarray, second: np.ndarray) -> list[tuple[int, int]]:
    """The distinct pairs of two columns."""
    packed = np.unique(first.astype(np.uint64) << np.uint64(8) | second.astype(np.uint64))
    return [(int(p >> np.uint64(8)), int(p & np.uint64(0xFF))) for p in packed]
