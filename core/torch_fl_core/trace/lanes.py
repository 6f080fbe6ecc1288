"""Puts slices on lanes so that on one lane any two either nest or do not touch.

Perfetto drops a slice that overlaps another on its lane, and rounds times to whole nanoseconds by way
of doubles; so slices that would end at the same moment as their parent, or where the next one begins,
end a few nanoseconds earlier here.
"""

from __future__ import annotations

import numpy as np

GAP_NS = 2


class _Lane:
    """Open slices of one lane, outermost first: [index, real end]."""

    def __init__(self) -> None:
        self.open: list[tuple[int, int]] = []


def place(begin: np.ndarray, end: np.ndarray, rank: np.ndarray, nest: bool) -> tuple[np.ndarray, np.ndarray]:
    """Lane of each slice (0, 1, ...) and the end to write, in nanoseconds.

    `rank` orders slices of equal times, outer ones first. With `nest` a slice may lie inside another
    of its lane; without, slices of a lane follow one another. Lower lanes are filled first.
    """
    order = np.lexsort((rank, -end, begin))
    lane_of = np.zeros(len(begin), dtype=np.int64)
    written = end.astype(np.int64).tolist()
    begins, ends = begin.tolist(), end.tolist()
    lanes = [_Lane()]
    for i in order.tolist():
        number = 0
        while not _put(lanes[number], i, begins, ends, written, nest):
            number += 1
            if number == len(lanes):
                lanes.append(_Lane())
        lane_of[i] = number
    return lane_of, np.array(written, dtype=np.int64)


def _put(lane: _Lane, i: int, begins: list[int], ends: list[int], written: list[int], nest: bool) -> bool:
    """Opens slice i on the lane if it fits there."""
    at, until = begins[i], ends[i]
    stack = lane.open
    keep = len(stack)
    while keep and stack[keep - 1][1] <= at:
        keep -= 1
    if keep and (not nest or until > stack[keep - 1][1]):
        return False
    if keep < len(stack):
        limit = at - GAP_NS
        for j, _ in stack[keep:]:
            written[j] = max(begins[j], min(written[j], limit))
            limit = written[j] - GAP_NS
        del stack[keep:]
    if keep:
        written[i] = max(at, min(until, written[stack[-1][0]] - GAP_NS))
    stack.append((i, until))
    return True
