"""Running ral-verify: its events put together to a report, through crashes and kernels that hang."""

from __future__ import annotations

import json
import os
import queue
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections import deque
from typing import Any

from .verify_report import Report

_USAGE = 2


class Unusable(Exception):
    """ral-verify was called wrongly, or the plugin does not load: the suite's own sentence."""


def run_suite(command: list[str], limit: float, kernel_limit: float) -> dict[str, Any]:
    """The report. `limit`: seconds for all of it, `kernel_limit`: for one kernel. Where the plugin crashes or hangs
    in a kernel, the suite goes on with the next one in a new process."""
    report = Report()
    end = time.monotonic() + limit
    begun = 0
    with tempfile.TemporaryDirectory(prefix="ral-verify-") as scratch:  # a crash cleans up nothing
        env = {**os.environ, "TMPDIR": scratch}
        while not report.done:
            run = _Run([*command, "--from", str(begun)], env, report, end, kernel_limit)
            how = run.follow()
            if how and time.monotonic() >= end:
                report.error = f"not done after {limit:g} s, while at: {report.at}; raise --timeout, or see whether this hangs"
            elif how and (report.done or report.number < begun):
                report.error = f"{how} while at: {'the end' if report.done else report.at}"
            elif how:
                report.fail(how)
                begun = report.number + 1
            if how:
                report.said += run.said
            if report.error:
                break
    return report.document()


class _Run:
    """One process of the suite."""

    def __init__(
        self, command: list[str], env: dict[str, str], report: Report, end: float, kernel_limit: float
    ) -> None:
        self._report, self._end, self._kernel_limit = report, end, kernel_limit
        self.said: deque[str] = deque(maxlen=20)
        self._lines: queue.SimpleQueue[str | None] = queue.SimpleQueue()
        self._process = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, errors="replace", env=env
        )
        self._threads = [
            threading.Thread(target=self._read_events, daemon=True),
            threading.Thread(target=self._read_words, daemon=True),
        ]

    def follow(self) -> str:
        """What went wrong; "" where it ended as it should."""
        for thread in self._threads:
            thread.start()
        try:
            if not self._take_events():
                return f"the plugin hangs: no end after {self._kernel_limit:g} s"
            self._process.wait(timeout=self._kernel_limit)
        except subprocess.TimeoutExpired:
            return f"the process does not end: it was there {self._kernel_limit:g} s after its last word"
        finally:
            self._clear_line()
            self._process.kill()
            self._process.wait()
            for thread in self._threads:  # a driver's own child may hold the pipes open
                thread.join(timeout=5)
        return self._how_it_ended()

    def _take_events(self) -> bool:
        """False where a time limit passed before the last one."""
        part_end = time.monotonic() + self._kernel_limit
        while True:
            try:
                line = self._lines.get(
                    timeout=min(1.0, max(0.0, min(part_end, self._end) - time.monotonic()))
                )
            except queue.Empty:
                if self._process.poll() is not None:  # a driver's own child holds the pipe open
                    return True
                if time.monotonic() >= min(part_end, self._end):
                    return False
                continue
            if line is None:
                return True
            event = json.loads(line)
            self._report.take(event)
            if "part" in event:
                part_end = time.monotonic() + self._kernel_limit
            if "case" in event:
                self._show_line(self._report.at)

    @staticmethod
    def _show_line(text: str) -> None:
        if sys.stderr.isatty():
            print(f"\r\033[K{text[:100]}", end="", file=sys.stderr, flush=True)

    @classmethod
    def _clear_line(cls) -> None:
        cls._show_line("")

    def _how_it_ended(self) -> str:
        status = self._process.returncode
        if status == _USAGE and not self._report.plugin:
            own = [line.removeprefix("ral-verify: ") for line in self.said if line.startswith("ral-verify: ")]
            raise Unusable(own[-1] if own else "ral-verify said nothing")
        if status == 0 and self._report.done:
            return ""
        if status >= 0:
            return f"the plugin ended the process with status {status}"
        try:
            name = signal.Signals(-status).name
        except ValueError:
            name = f"signal {-status}"
        return f"the plugin crashed ({name})"

    def _read_events(self) -> None:
        assert self._process.stdout
        for line in self._process.stdout:
            if line.endswith("}\n"):  # else a crash cut it off
                self._lines.put(line)
        self._lines.put(None)

    def _read_words(self) -> None:
        assert self._process.stderr
        self.said.extend(line.rstrip() for line in self._process.stderr)
