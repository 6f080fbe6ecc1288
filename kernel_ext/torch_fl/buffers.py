"""Lifetimes of blocks and views, memory in use over time and what was alive at the peak.

Built from ALLOC, VIEW and FREE records as they come. Everything that lives is kept; of what has died,
only the largest and the longest-lived.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from torch_fl import words
from torch_fl_core.trace.layout import Flag, Kind

SHOWN = 400
CURVE_POINTS = 2000
_KEPT = 4 * SHOWN
_WAIT_US = 2e6  # a death seen before its birth waits this long for it

_DTYPE = np.dtype(
    [
        ("id", "u8"),
        ("parent", "u8"),
        ("bytes", "f8"),
        ("begin", "f8"),
        ("end", "f8"),
        ("name", "u4"),
        ("location", "u4"),
        ("inner", "u4"),
        ("output", "u4"),
        ("device", "i2"),
        ("view", "?"),
        ("snapshot", "?"),
    ]
)


class Curve:
    """Bytes in use on one device: the maximum of each of at most CURVE_POINTS equal spans."""

    def __init__(self) -> None:
        self.level = 0.0
        self.peak = 0.0
        self.peak_at = 0.0
        self._span = 50.0  # µs
        self._max = np.zeros(0)

    def add(self, times: np.ndarray, deltas: np.ndarray) -> bool:
        """Takes changes ordered by time in; True where they hold a new peak."""
        if not len(times):
            return False
        levels = self.level + np.cumsum(deltas)
        before, self.level = self.level, max(0.0, float(levels[-1]))
        highest = int(np.argmax(levels))
        higher = levels[highest] > self.peak
        if higher:
            self.peak, self.peak_at = float(levels[highest]), float(times[highest])
        while times[-1] >= CURVE_POINTS * self._span:
            self._halve()
        at = np.maximum(times // self._span, 0).astype(int)
        spans = np.arange(at[0], at[-1] + 1)
        earlier = np.searchsorted(at, spans)  # changes before each span
        own = np.where(earlier == 0, before, levels[np.maximum(earlier, 1) - 1])
        np.maximum.at(own, at - at[0], levels)
        known = len(self._max)
        if known <= at[-1]:
            self._max = np.concatenate([self._max, np.full(at[-1] + 1 - known, before)])
        inside = self._max[at[0] : at[-1] + 1]
        fresh = spans >= known
        inside[fresh] = own[fresh]
        inside[~fresh] = np.maximum(inside[~fresh], own[~fresh])
        return bool(higher)

    def _halve(self) -> None:
        values = self._max
        if len(values) % 2:
            values = np.append(values, values[-1])
        self._max = values.reshape(-1, 2).max(axis=1)
        self._span *= 2

    def points(self, now_us: float) -> list[list[float]]:
        """[[µs, bytes], ...] up to `now_us`, runs of equal values given by their first point."""
        values = self._max
        keep = np.ones(len(values), bool)
        keep[1:] = values[1:] != values[:-1]
        at = np.flatnonzero(keep)
        points = [[round(i * self._span, 1), int(values[i])] for i in at.tolist()]
        after = len(values) * self._span
        if after < now_us and len(values) and values[-1] != self.level:
            points.append([round(after, 1), int(self.level)])
        if not points or points[-1][0] < now_us:
            points.append([round(now_us, 1), int(self.level)])
        return points[-CURVE_POINTS:]


class Buffers:
    """The buffers of one profile. Times are µs since the cell began."""

    def __init__(self, begin_ns: int) -> None:
        self._begin_ns = begin_ns
        self.live = np.empty(0, _DTYPE)
        self._dead = np.empty(0, _DTYPE)
        self._frees = np.empty(0, [("id", "u8"), ("at", "f8")])
        self.blocks = 0
        self.views = 0
        self.curves: dict[int, Curve] = {}
        self.peak: np.ndarray = np.empty(0, _DTYPE)

    def add(self, records: np.ndarray) -> None:
        """Takes ALLOC, VIEW and FREE records in, ordered by time; others are passed over."""
        kind = records["kind"]
        born = self._born(records.take(np.flatnonzero((kind == Kind.ALLOC) | (kind == Kind.VIEW))))
        died = records.take(np.flatnonzero(kind == Kind.FREE))
        if not len(born) and not len(died) and not len(self._frees):
            return
        frees = np.empty(len(died), self._frees.dtype)
        frees["id"], frees["at"] = died["buffer"], self._time(died["begin_ns"])
        frees = np.concatenate([self._frees, frees])
        frees = frees.take(np.argsort(frees["id"], kind="stable"))
        live = np.concatenate([self.live, born])
        ended = np.zeros(len(live), bool)
        if len(frees):
            at = np.minimum(np.searchsorted(frees["id"], live["id"]), len(frees) - 1)
            ended = frees["id"][at] == live["id"]
            live["end"][ended] = frees["at"][at[ended]]
            waiting = np.ones(len(frees), bool)
            waiting[at[ended]] = False
            newest = frees["at"].max()
            self._frees = frees.take(np.flatnonzero(waiting & (frees["at"] > newest - _WAIT_US)))
        dead, self.live = live.take(np.flatnonzero(ended)), live.take(np.flatnonzero(~ended))
        self._curve(born, dead)
        self._dead = _notable(np.concatenate([self._dead, dead]), _KEPT)

    def _time(self, ns: np.ndarray) -> np.ndarray:
        return np.maximum((ns - self._begin_ns) / 1e3, 0)

    def _born(self, records: np.ndarray) -> np.ndarray:
        out = np.zeros(len(records), _DTYPE)
        out["id"], out["parent"], out["bytes"] = records["buffer"], records["aux64"], records["bytes"]
        out["begin"], out["end"] = self._time(records["begin_ns"]), math.nan
        out["name"], out["location"] = records["name"], records["location"]
        out["inner"], out["device"] = records["inner_location"], records["device"]
        out["view"] = records["kind"] == Kind.VIEW
        out["parent"][~out["view"]] = 0
        out["snapshot"] = records["flags"] & int(Flag.SNAPSHOT) != 0
        out["begin"][out["snapshot"]] = 0
        if len(out):
            out["output"] = _outputs(records)
            known = np.isin(out["id"], self.live["id"]) if out["snapshot"].any() else None
            first = np.unique(out["id"], return_index=True)[1]
            keep = np.zeros(len(out), bool)
            keep[first] = True
            if known is not None:
                keep &= ~known
            out = out.take(np.flatnonzero(keep))
        fresh = ~out["snapshot"]
        self.blocks += int(np.count_nonzero(fresh & ~out["view"]))
        self.views += int(np.count_nonzero(fresh & out["view"]))
        return out

    def _curve(self, born: np.ndarray, dead: np.ndarray) -> None:
        born = born.take(np.flatnonzero(~born["view"]))
        dead = dead.take(np.flatnonzero(~dead["view"]))
        higher = []
        for device in np.unique(np.concatenate([born["device"], dead["device"]])).tolist():
            new, gone = born[born["device"] == device], dead[dead["device"] == device]
            times = np.concatenate([new["begin"], gone["end"]])
            deltas = np.concatenate([new["bytes"], -gone["bytes"]])
            order = np.argsort(times, kind="stable")
            curve = self.curves.setdefault(device, Curve())
            if curve.add(times[order], deltas[order]):
                higher.append((device, curve.peak_at))
        for device, at in higher:
            both = np.concatenate([self.live, dead])
            alive = both[(both["device"] == device) & ~both["view"] & (both["begin"] <= at)]
            alive = alive[~(alive["end"] <= at)]
            others = self.peak[self.peak["device"] != device]
            largest = np.argsort(-alive["bytes"], kind="stable")[:20]
            self.peak = np.concatenate([others, alive[largest]])

    def table(self) -> np.ndarray:
        """The buffers to show, at most SHOWN, by begin: three of four blocks, the rest their views."""
        every = np.concatenate([self.live, self._dead])
        blocks = _notable(every[~every["view"]], SHOWN * 3 // 4)
        views = every[every["view"]]
        inside = np.isin(views["parent"], blocks["id"])
        views = _notable(views[inside], SHOWN - len(blocks))
        shown = np.concatenate([blocks, views])
        return shown[np.argsort(shown["begin"], kind="stable")]


def _outputs(records: np.ndarray) -> np.ndarray:
    """Which output of its op each record is: counts records of one correlation, from 0."""
    order = np.lexsort((records["buffer"], records["correlation"]))
    cause = records["correlation"][order]
    new = np.ones(len(cause), bool)
    new[1:] = (cause[1:] != cause[:-1]) | (cause[1:] == 0)
    start = np.flatnonzero(new)
    number = np.arange(len(cause)) - start[np.cumsum(new) - 1]
    out = np.zeros(len(cause), np.uint32)
    out[order] = number
    return out


def _notable(rows: np.ndarray, limit: int) -> np.ndarray:
    """At most `limit` rows: half the largest, then the longest-lived."""
    if len(rows) <= limit:
        return rows
    if limit <= 0:
        return rows[:0]
    age = np.where(np.isnan(rows["end"]), math.inf, rows["end"] - rows["begin"])
    kept = _largest(rows["bytes"], limit // 2)
    rest = np.flatnonzero(~kept)
    kept[rest[_largest(age[rest], limit - limit // 2)]] = True
    return rows.take(np.flatnonzero(kept))


def _largest(values: np.ndarray, count: int) -> np.ndarray:
    """A mask of the `count` largest values, of equal ones the first."""
    if count <= 0:
        return np.zeros(len(values), bool)
    least = np.partition(values, len(values) - count)[len(values) - count]
    kept = values > least
    equal = np.flatnonzero(values == least)
    kept[equal[: count - int(np.count_nonzero(kept))]] = True
    return kept


def label(row: np.void, strings: Mapping[int, str], line: int | None) -> str:
    """A buffer's name in the views: op, output and cell line, such as `convolution.0 line 10`."""
    op = words.op(strings.get(int(row["name"]), "")).removesuffix("_with_indices") or "buffer"
    name = op if row["view"] else f"{op}.{int(row['output'])}"
    return f"{name} line {line}" if line else name


def buffer_rows(
    rows: np.ndarray,
    strings: Mapping[int, str],
    line_of: Callable[[int, int], int | None],
    device: Callable[[int], str],
) -> list[dict[str, Any]]:
    """Rows of the `buffers` table of the profile format."""
    out = []
    for row in rows:
        line = line_of(int(row["location"]), int(row["inner"]))
        end = float(row["end"])
        out.append(
            {
                "id": int(row["id"]),
                "label": label(row, strings, line),
                "device": device(int(row["device"])),
                "bytes": int(row["bytes"]),
                "begin_us": round(float(row["begin"]), 1),
                "end_us": None if math.isnan(end) else round(end, 1),
                "parent": int(row["parent"]) or None,
                "view": bool(row["view"]),
                "line": line,
                "op": words.op(strings.get(int(row["name"]), "")),
            }
        )
    return out
