"""How fast a trace file is read, and found among others: `python bench/trace.py` (seconds, no torch). Never part of a test."""

from __future__ import annotations

import pathlib
import sys
import tempfile
import time
from statistics import median

import numpy as np

ROOT = pathlib.Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tests/trace"))
from fake_ring import FakeRing  # noqa: E402

from torch_fl.server import rings  # noqa: E402
from torch_fl_core.trace import layout, ring  # noqa: E402

READ_BAR = 1e6  # records a second of CPU time
FIND_BAR_MS = 100
SEGMENT = 1 << 18


def read_rate(folder: pathlib.Path) -> float:
    """Records a second of CPU time, of two full segments read at once."""
    fake = FakeRing(folder=folder, records=SEGMENT)
    reader = ring.Ring(fake.path).reader()
    block = np.zeros(SEGMENT, layout.RING_DTYPE)
    rates = []
    for _ in range(5):
        for segment in range(2):
            block["begin_ns"] = np.arange(len(block)) * 2 + segment
            fake.emit_array(block, segment)
        start = time.process_time()
        records = reader.read()
        rates.append(len(records) / (time.process_time() - start))
    return median(rates)


def find_ms() -> float:
    """Milliseconds to describe one kernel's ring among 31 in the user's folder."""
    times = []
    for _ in range(9):
        start = time.perf_counter()
        rings.describe("mine", None)
        times.append((time.perf_counter() - start) * 1e3)
    return median(times)


def main() -> int:
    """Prints both."""
    with tempfile.TemporaryDirectory() as temporary:
        root = pathlib.Path(temporary)
        print(f"records read a second: {read_rate(root / 'read'):.3g} (bar {READ_BAR:.0e})")
        folder = root / "find"
        ring.trace_folders = lambda: [folder]
        for number in range(30):
            FakeRing(folder=folder, start=number + 1)
        FakeRing(folder=folder, kernel_id="mine").status({"devices": [], "plugins": []})
        print(f"one ring described among 31: {find_ms():.1f} ms (bar {FIND_BAR_MS})")
    return 0


if __name__ == "__main__":
    sys.exit(main())
