"""What libral and the router cost by themselves: `python bench/libral.py` (half a minute). Never part of a test.

- libral alone: loading libral.so in a fresh process without PyTorch, in milliseconds (wanted: under 20); the median of
  9 processes.
- A plan: what one call takes to find how it runs, its operands looked at, in nanoseconds (wanted: at most 150); the
  median of 11 rounds.
- A live view: growth of the process by a million views of one tensor while recording, less the same while not
  recording, which is PyTorch's own part (wanted: at most 200 bytes a view).
The pool's and the trace's hot paths are in core/tests/bench_pool.cpp.
"""

from __future__ import annotations

import importlib.util
import os
import pathlib
import subprocess
import sys
from statistics import median

PROCESSES = 9
VIEWS = 1_000_000
LOAD_BAR_MS, PLAN_BAR_NS, VIEW_BAR_BYTES = 20.0, 150.0, 200.0

LOAD = """import ctypes, time
begin = time.perf_counter()
ctypes.CDLL({path!r})
print((time.perf_counter() - begin) * 1e3)"""

PLAN = """import statistics, torch
from torch_fl._core import core
x = torch.ones(64, 8, device="ral:0")
x + x
print(statistics.median(core().time_plan_lookup(x, 100_000) for _ in range(11)))"""

GROWTH = """import gc, torch
from torch_fl_core import trace
def resident():
    with open("/proc/self/statm") as f:
        return int(f.read().split()[1]) * 4096
x = torch.zeros(16, device="ral:0")
kept = [None] * {views}
def fill():
    for i in range({views}):
        kept[i] = x[1:9]
x[1:9]
if {recording}:
    from torch_fl._core import core
    core().trace_acquire()
    for _ in range(300_000):  # touches the ring's own pages
        x[1:9]
gc.collect()
before = resident()
fill()
print((resident() - before) / {views})"""


def fresh(code: str) -> float:
    """What a fresh process prints."""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return float(done.stdout.split()[-1])


def main() -> int:
    """Prints all of it."""
    spec = importlib.util.find_spec("torch_fl_core")
    if spec is None or spec.origin is None:
        print("torch_fl_core is not installed: run `make build`", file=sys.stderr)
        return 1
    path = os.fspath(pathlib.Path(spec.origin).parent / "libral.so")
    load = median(fresh(LOAD.format(path=path)) for _ in range(PROCESSES))
    print(f"libral alone loads in {load:.1f} ms (bar {LOAD_BAR_MS:.0f})")
    print(f"a plan is found in {fresh(PLAN):.0f} ns (bar {PLAN_BAR_NS:.0f})")
    with_record, without = (fresh(GROWTH.format(views=VIEWS, recording=on)) for on in (True, False))
    view = with_record - without
    print(f"a live view: {view:.0f} bytes (bar {VIEW_BAR_BYTES:.0f}), {without:.0f} more of PyTorch's own")
    return 0


if __name__ == "__main__":
    sys.exit(main())
