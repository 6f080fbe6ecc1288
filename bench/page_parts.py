"""What each part of the live view costs: `python bench/page_parts.py` (needs chromium; four minutes).

One long cell under %%ral_profile in a real JupyterLab trains the MLP and switches parts of the magic on and off every
second or so, in an order drawn anew each round, so that a machine that drifts drifts under all of them alike. Printed: each
part's mean step against the same round's bare one, with the standard error of that mean. Never part of a test.
"""

from __future__ import annotations

import json
import os
import pathlib
import statistics
import sys
import tempfile

import page

PARTS = {
    "bare": "recording off",
    "collected": "records are copied aside",
    "summed": "and summed and encoded, but nothing is sent",
    "server": "and sent, with the browser stopped (SIGSTOP)",
    "all": "everything: the browser draws",
}
ROUNDS = 40
SLOT_S = 0.8
SETTLE_S = 0.4  # what one part left behind must not count for the next
CELL = """%%ral_profile
import os, random, signal, subprocess
from torch_fl import live, recorder
from torch_fl._core import core
part = "all"
send, drain, forward = live.Channel.send, recorder.Recording.drain, live.Sender.send

def part_drain(recording):
    if part in ("bare", "collected"):
        if part == "collected":
            recording.collect()
        return None
    return drain(recording)

def part_forward(sender, batch):
    if batch is not None:
        forward(sender, batch)

def part_send(channel, content, buffers=None):
    if part != "summed":
        send(channel, content, buffers)

def signal_browser(number):
    listing = subprocess.run(["ps", "-eo", "pid=,ppid=,comm="], capture_output=True, text=True).stdout
    rows = [line.split(None, 2) for line in listing.splitlines()]
    ours = {{str({starter})}}
    while more := {{pid for pid, parent, _ in rows if parent in ours}} - ours:
        ours |= more
    for pid in (pid for pid, _, name in rows if pid in ours and "chrom" in name):
        os.kill(int(pid), number)

def train(seconds):
    begin, steps = time.perf_counter(), 0
    while time.perf_counter() - begin < seconds:
        step()
        steps += 1
    torch.ral.synchronize()
    return (time.perf_counter() - begin) * 1e3 / steps

live.Channel.send, recorder.Recording.drain, live.Sender.send = part_send, part_drain, part_forward
times = {{name: [] for name in {names!r}}}
order = random.Random(1)
try:
    for _ in range({rounds}):
        for part in order.sample(list(times), len(times)):
            if part == "bare":
                core().trace_release()
            if part == "server":
                signal_browser(signal.SIGSTOP)
            train({settle})
            times[part].append(train({slot}))
            if part == "server":
                signal_browser(signal.SIGCONT)
            if part == "bare":
                core().trace_acquire()
finally:
    signal_browser(signal.SIGCONT)
    live.Channel.send, recorder.Recording.drain, live.Sender.send = send, drain, forward"""


def notebook(path: pathlib.Path, answer: pathlib.Path) -> int:
    """Writes the notebook, for a browser that this process starts. Returns its number of cells."""
    cell = CELL.format(starter=os.getpid(), names=list(PARTS), rounds=ROUNDS, settle=SETTLE_S, slot=SLOT_S)
    # Five batches a second, as a cell as dense as this one settles on; slots without a drain would let it send ten.
    steady = "\nfrom torch_fl import live\nlive.PERIOD_S = 0.19"
    sources = [page.SETUP + steady, cell, f"json.dump(times, open({str(answer)!r}, 'w'))"]
    return page.write(sources, path)


def main() -> int:
    """Runs it once; exit status 1 where no browser is installed."""
    lab = page.jlab
    executable = lab.chromium()
    if executable is None:
        print("no chromium on this machine (Debian, Ubuntu: apt install chromium)", file=sys.stderr)
        return 1
    limit_s = 60 + ROUNDS * len(PARTS) * (SLOT_S + SETTLE_S) * 2
    with tempfile.TemporaryDirectory() as folder:
        work = pathlib.Path(folder)
        (work / "state").mkdir()
        (work / "books").mkdir()
        count = notebook(work / "books/parts.ipynb", work / "times.json")
        with lab.browser_page(executable) as tab, lab.serve(work / "books", work / "state") as server:
            lab.open_notebook(tab, server, "parts.ipynb")
            for index in range(count):
                lab.run_cell(tab, index)
                lab.wait_until_run(tab, index, index + 1, limit_s)
        times = json.loads((work / "times.json").read_text())
    print(
        f"mlp_step, {ROUNDS} rounds of {SLOT_S} s for each part; bare {statistics.mean(times['bare']):.2f} ms"
    )
    for name, what in PARTS.items():
        ratios = [a / b for a, b in zip(times[name], times["bare"], strict=True)]
        error = statistics.stdev(ratios) / len(ratios) ** 0.5
        print(f"{name:10} {statistics.mean(ratios):.3f} ± {error:.3f}  {what}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
