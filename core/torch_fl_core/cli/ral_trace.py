"""`ral-trace`: records the ral work of running processes, and makes a page of a recording.

Exit status: 0 done, 1 the thing failed, 2 wrong usage.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

_UNITS = {"ms": 1e-3, "s": 1.0, "m": 60.0, "h": 3600.0, "": 1.0}
_LEASE_SECONDS = 2.0
_LOOK_SECONDS = 0.25


def duration(text: str) -> float:
    """Seconds of "10s", "500ms", "2m", "1h" or a bare number of seconds."""
    match = re.fullmatch(r"(\d+(?:\.\d+)?)(ms|s|m|h|)", text.strip())
    if not match or float(match[1]) == 0:
        raise argparse.ArgumentTypeError(f"{text!r} is no duration such as 10s, 500ms or 2m")
    return float(match[1]) * _UNITS[match[2]]


def parser() -> argparse.ArgumentParser:
    """The options of ral-trace."""
    p = argparse.ArgumentParser(
        prog="ral-trace",
        description="Records all ral work of running processes, or makes a page of a recording.",
    )
    p.add_argument("--duration", type=duration, metavar="TIME", help="how long, such as 10s")
    p.add_argument("--output", type=Path, metavar="FILE", help="the recording (Chrome trace JSON)")
    p.add_argument("--pid", type=int, action="append", default=[], help="only this process; may be repeated")
    p.add_argument("--report", type=Path, metavar="FILE", help="a recording to make a page of")
    p.add_argument("--html", type=Path, metavar="FILE", help="the page")
    p.add_argument("--json", action="store_true", help="print the result as JSON")
    return p


def main(argv: Sequence[str] | None = None) -> int:
    """Runs ral-trace; returns its exit status."""
    options = parser()
    try:
        args = options.parse_args(argv)
        if bool(args.report) == bool(args.output):
            options.error("give either --duration and --output, or --report and --html")
        if args.output and args.duration is None:
            options.error("--output needs --duration, such as --duration 10s")
        if args.report and args.html is None:
            options.error("--report needs --html, the page to write")
    except SystemExit as leave:
        return int(leave.code or 0)
    try:
        result = _report(args) if args.report else _record(args)
    except (OSError, ValueError) as error:
        print(f"ral-trace: {error}", file=sys.stderr)
        return 1
    print(json.dumps(result) if args.json else _in_words(result))
    return 0


def _in_words(result: dict[str, Any]) -> str:
    if "html" in result:
        return f"{result['html']}: page of {result['events']} events"
    lines = [f"{result['output']}: {result['seconds']:.1f} s"]
    for p in result["processes"]:
        lost = f", {p['dropped']} dropped" if p["dropped"] else ""
        lines.append(f"  process {p['pid']}: {p['records']} records{lost}")
    return "\n".join(lines)


def _report(args: argparse.Namespace) -> dict[str, Any]:
    from torch_fl_core.trace.chrome import read_chrome
    from torch_fl_core.trace.report import report_from_chrome, write_html

    document = read_chrome(args.report)
    write_html(args.html, report_from_chrome(document), f"torch_fl trace, {args.report.name}")
    return {"html": str(args.html), "events": len(document["traceEvents"])}


class _Recorder:
    """Records several processes at once; takes in those that appear later."""

    def __init__(self, pids: Sequence[int]) -> None:
        from torch_fl_core.trace.recording import Drain, meta_of
        from torch_fl_core.trace.ring import Ring, RingError, find_rings, remove_stale

        self._pids, self._drain, self._meta, self._ring = set(pids), Drain, meta_of, Ring
        self._error, self._find, self._remove_stale = RingError, find_rings, remove_stale
        self.open: dict[Path, tuple[Any, Any]] = {}

    def look(self) -> None:
        """Begins with every process that is there and not yet recorded."""
        for info in self._find():
            wanted = info.pid in self._pids if self._pids else True
            if not wanted or not info.alive or info.path in self.open:
                continue
            ring = self._ring(info.path)
            try:
                self.open[info.path] = ring, self._drain(ring, lease_seconds=_LEASE_SECONDS)
            except BaseException:
                ring.close()
                raise

    def check(self) -> None:
        """Raises ValueError where a process asked for, or any at all, is missing."""
        self._remove_stale()
        self.look()
        missing = self._pids - {ring.pid for ring, _ in self.open.values()}
        if missing:
            names = ", ".join(map(str, sorted(missing)))
            raise ValueError(f"no running process {names} of yours has used torch_fl")
        if not self.open:
            raise ValueError("no running process of yours has used torch_fl; start one first")

    def wait_enabled(self, seconds: float) -> None:
        """Waits until the processes have begun to record (they look every 100 ms)."""
        until = time.monotonic() + seconds
        while not all(ring.recording for ring, _ in self.open.values()):
            if time.monotonic() > until:
                return
            time.sleep(0.01)

    def finish(self) -> list[Any]:
        """Ends all; returns their traces."""
        from torch_fl_core.trace.model import Trace

        traces = []
        for ring, drain in self.open.values():
            records, dropped = drain.finish()
            meta = self._meta(ring)
            meta["name"] = _command(ring.pid)
            traces.append(Trace.from_records(records, ring.strings, ring.status(), None, dropped, meta))
            ring.close()
        self.open = {}
        return traces


def _command(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/comm").read_text(errors="replace").strip()
    except (FileNotFoundError, ProcessLookupError):  # it has ended meanwhile
        return "ended process"


def _record(args: argparse.Namespace) -> dict[str, Any]:
    from torch_fl_core.trace.chrome import write_chrome

    if not args.output.parent.is_dir():
        raise ValueError(f"{args.output.parent}: no such folder")
    recorder = _Recorder(args.pid)
    began = time.monotonic()
    try:
        recorder.check()
        recorder.wait_enabled(1.0)
        began = time.monotonic()
        while (left := began + args.duration - time.monotonic()) > 0:
            time.sleep(min(_LOOK_SECONDS, left))
            recorder.look()
    except KeyboardInterrupt:
        print("ral-trace: interrupted; writing what is there", file=sys.stderr)
    finally:
        traces = recorder.finish()
    write_chrome(args.output, traces)
    processes = [{"pid": t.meta["pid"], "records": len(t.records), "dropped": t.dropped} for t in traces]
    seconds = time.monotonic() - began
    return {"output": str(args.output), "seconds": round(seconds, 3), "processes": processes}


if __name__ == "__main__":
    sys.exit(main())
