"""Reads Chrome trace files strictly, and looks for the faults that the notebook cases name."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any


def load(path: Path) -> list[dict[str, Any]]:
    """The events; refuses what strict JSON does not have."""

    def refuse(text: str) -> None:
        raise AssertionError(f"not strict JSON: {text}")

    document = json.loads(path.read_text(encoding="utf-8"), parse_constant=refuse)
    return document["traceEvents"]


def check(path: Path) -> dict[str, int]:
    """Faults every trace must be free of, as the notebook cases state them; counts kernel names."""
    lanes: dict[tuple[int, int], list[dict[str, Any]]] = {}
    count: dict[str, int] = {}
    for e in load(path):
        if e.get("ph") != "X":
            continue
        assert math.isfinite(e["ts"]) and e["ts"] > 0, ("zero or odd start", e)
        assert math.isfinite(e["dur"]) and e["dur"] >= 0, ("negative time", e)
        lanes.setdefault((e["pid"], e["tid"]), []).append(e)
        if e.get("cat") == "kernel":
            count[e["name"]] = count.get(e["name"], 0) + 1
    for lane, events in lanes.items():
        events.sort(key=lambda e: (e["ts"], -e["dur"]))
        open_: list[dict[str, Any]] = []
        for e in events:
            while open_ and e["ts"] >= open_[-1]["ts"] + open_[-1]["dur"] - 1e-9:
                open_.pop()
            if open_:
                last = open_[-1]["ts"] + open_[-1]["dur"]
                assert e["ts"] + e["dur"] <= last + 1e-3, ("overlap", lane, open_[-1], e)
            open_.append(e)
    return count
