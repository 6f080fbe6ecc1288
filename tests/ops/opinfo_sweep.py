"""Runs PyTorch's OpInfo database on a device in child processes, so that a crash or a hang of one op
fails that op alone.

  python opinfo_sweep.py forward|backward|variants|native|reference [--device ral:0] [--jobs 2] [--ops NAME...] [--json FILE]

The children are opinfo_worker.py; each gets the next op when it has answered.
"""

from __future__ import annotations

import argparse
import json
import os
import queue
import subprocess
import sys
import threading
import time
from collections import Counter, deque
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
OP_LIMIT_S = 60.0
START_LIMIT_S = 180.0
ONE_TIER = ("native", "reference")  # modes in which that tier alone may run
MODES = ("forward", "backward", "variants", *ONE_TIER)


class ChildGone(Exception):
    """The child ended or hung; the text says which."""


class Child:
    """One worker process."""

    def __init__(self, mode: str, device: str) -> None:
        env = dict(os.environ, OMP_NUM_THREADS="1", PYTHONFAULTHANDLER="1")
        if mode in ONE_TIER:
            env["RAL_FALLBACK"] = mode
        self._process = subprocess.Popen(
            [sys.executable, str(HERE / "opinfo_worker.py"), mode, device],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=env,
        )
        self._lines: queue.Queue[str | None] = queue.Queue()
        self._errors: deque[str] = deque(maxlen=40)
        threading.Thread(target=self._read_answers, daemon=True).start()
        threading.Thread(target=self._read_errors, daemon=True).start()
        self.ops: list[str] = self._answer(START_LIMIT_S)["ready"]

    def _read_answers(self) -> None:
        for line in self._process.stdout:
            self._lines.put(line)
        self._lines.put(None)

    def _read_errors(self) -> None:
        for line in self._process.stderr:
            self._errors.append(line.rstrip())

    def _answer(self, limit_s: float) -> dict[str, Any]:
        try:
            line = self._lines.get(timeout=limit_s)
        except queue.Empty:
            self._process.kill()
            self._process.wait()
            time.sleep(0.1)
            raise ChildGone(
                f"hung over {limit_s:.0f} s: {' | '.join(list(self._errors)[-25:])[-900:]}"
            ) from None
        if line is None:
            status = self._process.wait()
            time.sleep(0.1)  # the reader of standard error finishes its last lines
            raise ChildGone(
                f"the process ended with status {status}: {' | '.join(list(self._errors)[-25:])[-900:]}"
            )
        return json.loads(line)

    def run(self, op: str) -> dict[str, Any]:
        """The answer for one op; ChildGone when the child did not survive it."""
        try:
            self._process.stdin.write(op + "\n")
            self._process.stdin.flush()
        except BrokenPipeError:
            pass  # the end of its output tells why
        return self._answer(OP_LIMIT_S)

    def close(self) -> None:
        """Let the child end."""
        self._process.stdin.close()
        try:
            self._process.wait(10)
        except subprocess.TimeoutExpired:
            self._process.kill()


@dataclass
class Report:
    """Answers of one sweep by op name."""

    mode: str
    answers: dict[str, dict[str, Any]] = field(default_factory=dict)
    seconds: float = 0.0

    @property
    def passed(self) -> list[str]:
        """Ops of which every sample passed."""
        return sorted(op for op, a in self.answers.items() if a["status"] == "pass")

    @property
    def failed(self) -> dict[str, str]:
        """Op to its first failure."""
        return {op: a["error"] for op, a in sorted(self.answers.items()) if a["status"] == "fail"}

    def right_on(self, tier: str) -> list[str]:
        """Ops that passed with a kernel of that tier and with no other computing tier."""
        return [op for op in self.passed if set(self.answers[op]["tiers"]) - {"view"} == {tier}]

    def kernels_of(self, tier: str) -> list[str]:
        """ATen operators whose kernels of that tier those ops ran."""
        names = {name for op in self.right_on(tier) for name in self.answers[op]["tiers"][tier]}
        return sorted({name.rstrip("_") for name in names})

    def by_tier(self) -> dict[str, int]:
        """Number of passing ops for each set of tiers that ran."""
        found = Counter("+".join(sorted(self.answers[op]["tiers"])) or "none" for op in self.passed)
        return dict(found.most_common())

    def text(self) -> str:
        """A summary for people."""
        tested = len(self.passed) + len(self.failed)
        samples = sum(a["samples"] for a in self.answers.values())
        lines = [
            f"{self.mode}: {len(self.passed)} of {tested} ops passed ({samples} samples, {self.seconds:.0f} s)",
            f"  passes by tier: {self.by_tier()}",
        ]
        if self.mode in ONE_TIER:
            kernels = self.kernels_of(self.mode)
            lines.append(f"  right on {self.mode} alone: {len(self.right_on(self.mode))} ops")
            lines.append(f"  with {len(kernels)} kernels: {' '.join(kernels)}")
        lines += [f"  FAIL {op}: {error}" for op, error in self.failed.items()]
        return "\n".join(lines)


def sweep(mode: str, device: str, jobs: int = 2, ops: list[str] | None = None) -> Report:
    """Run the ops (all of them by default) and collect the answers."""
    report = Report(mode)
    begin = time.monotonic()
    todo: queue.Queue[str] = queue.Queue()
    first = Child(mode, device)
    for op in ops or first.ops:
        todo.put(op)
    lock = threading.Lock()
    faults: list[BaseException] = []

    def serve(child: Child | None) -> None:
        try:
            while True:
                child = child or Child(mode, device)
                try:
                    op = todo.get_nowait()
                except queue.Empty:
                    child.close()
                    return
                try:
                    answer = child.run(op)
                except ChildGone as gone:
                    child = None
                    answer = {"op": op, "status": "fail", "error": str(gone), "samples": 0, "passed_on": 0}
                    answer |= {"copies": 0, "views": 0, "tiers": {}, "seconds": 0.0}
                with lock:
                    report.answers[op] = answer
        except BaseException as error:  # raised again below, in the caller's thread
            faults.append(error)

    threads = [threading.Thread(target=serve, args=(first if n == 0 else None,)) for n in range(jobs)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if faults:
        raise faults[0]
    report.seconds = time.monotonic() - begin
    return report


def main() -> int:
    """Command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("mode", choices=MODES)
    parser.add_argument("--device", default="ral:0")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--ops", nargs="+")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    report = sweep(options.mode, options.device, options.jobs, options.ops)
    print(report.text())
    slowest = sorted(report.answers.values(), key=lambda a: -a["seconds"])[:10]
    print("  slowest:", ", ".join(f"{a['op']} {a['seconds']:.1f} s" for a in slowest))
    if options.json:
        options.json.write_text(json.dumps(report.answers, indent=1))
    return 1 if report.failed else 0


if __name__ == "__main__":
    sys.exit(main())
