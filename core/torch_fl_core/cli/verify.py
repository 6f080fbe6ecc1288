"""`ralctl verify`: the conformance suite ral-verify on a plugin folder, and what it found."""

from __future__ import annotations

import argparse
import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
from collections import deque
from pathlib import Path
from typing import Any, NamedTuple

from .output import Failed, add_json, show, table_text
from .places import package_folder

_AT = "ral-verify: at "
_USAGE = 2


class Verify:
    """judge a plugin: its kernels by the reference tier, its memory, streams and speed"""

    name = "verify"
    examples = (
        "ralctl verify ./mychip",
        "ralctl verify ./mychip --ops add,mul,sum --dtypes float32,int64",
        "ralctl verify ./mychip --timeout 7200 --json > report.json",
    )
    _columns = ("KERNEL", "SYMBOL", "RESULT", "PASSED", "FAILED", "DECLINED", "US")

    @staticmethod
    def add_options(parser: argparse.ArgumentParser) -> None:
        parser.add_argument(
            "path",
            metavar="PATH",
            type=Path,
            help="folder with lib<vendor>_plugin.so and kernel_manifest.json",
        )
        parser.add_argument("--ops", metavar="NAMES", help="only these operators: add,mul.Tensor,aten::sum")
        parser.add_argument("--dtypes", metavar="NAMES", help="only these data types: float32,int64")
        parser.add_argument("--no-speed", action="store_true", help="measure no times and no bandwidth")
        parser.add_argument(
            "--timeout",
            type=_seconds,
            default=3600.0,
            metavar="S",
            help="seconds after which the plugin is taken to hang (default: %(default)g)",
        )
        add_json(parser)

    @classmethod
    def run(cls, args: argparse.Namespace) -> int:
        ended = run_suite(_command(args), args.timeout)
        if ended.status == _USAGE:
            print(f"ralctl verify: {_last_words(ended)}", file=sys.stderr)
            return _USAGE
        if ended.report is None:
            broken = {
                "plugin": args.path.resolve().name,
                "path": str(args.path),
                **_broken(ended, args.timeout),
            }
            show(args.json, broken, f"{args.path}: {broken['error']}")
            return 1
        show(args.json, ended.report, cls._text(ended.report))
        return 1 if ended.status else 0

    @classmethod
    def _text(cls, report: dict[str, Any]) -> str:
        lines = [f"Plugin {report['plugin']} {report['version']} in {report['path']}"]
        for device in report["devices"]:
            lines += ["", f"{device['id']}: {device['name']}"]
            if device["kernels"]:
                lines += [table_text(cls._columns, [_row(kernel) for kernel in device["kernels"]])]
            lines += [_checks_line(part, device[part]) for part in ("memory", "streams")]
        lines += ["", *(f"FAILED {text}" for text in _failures(report)), _totals_line(report["totals"])]
        return "\n".join(lines)


def _seconds(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = 0.0
    if not 0 < value < float("inf"):
        raise argparse.ArgumentTypeError(f"{text!r} is no number of seconds above 0")
    return value


def _command(args: argparse.Namespace) -> list[str]:
    suite = package_folder() / "ral-verify"
    if not os.access(suite, os.X_OK):
        raise Failed(f"{suite} is not there; install torch_fl_core again")
    command = [str(suite)]
    for option, value in (("--ops", args.ops), ("--dtypes", args.dtypes)):
        command += [option, value] if value is not None else []
    command += ["--no-speed"] if args.no_speed else []
    path = str(args.path)
    return [*command, f"./{path}" if path.startswith("-") else path]


class Ended(NamedTuple):
    """How ral-verify ended: what it was doing last, its last other lines of stderr, and its report where there is one.
    `status` is None where the time limit passed, and negative for a signal."""

    status: int | None
    at: str
    said: list[str]
    report: dict[str, Any] | None


def run_suite(command: list[str], timeout: float) -> Ended:
    """Runs ral-verify, for `timeout` seconds at most. Progress goes on to stderr where that is a terminal."""
    with tempfile.TemporaryDirectory(prefix="ral-verify-") as scratch:  # a crash cleans up nothing
        return _follow(command, timeout, {**os.environ, "TMPDIR": scratch})


def _follow(command: list[str], timeout: float, env: dict[str, str]) -> Ended:
    at = ""
    said: deque[str] = deque(maxlen=20)
    out: list[str] = []
    process = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, errors="replace", env=env
    )
    assert process.stdout
    assert process.stderr

    def follow() -> None:
        nonlocal at
        for line in process.stderr:  # type: ignore[union-attr]
            if line.startswith(_AT):
                at = line.removeprefix(_AT).strip()
                if sys.stderr.isatty():
                    print(f"\r\033[K{at[:100]}", end="", file=sys.stderr, flush=True)
            else:
                said.append(line.rstrip())

    threads = [
        threading.Thread(target=follow, daemon=True),
        threading.Thread(target=lambda: out.extend(process.stdout), daemon=True),  # type: ignore[arg-type]
    ]
    for thread in threads:
        thread.start()
    status: int | None
    try:
        status = process.wait(timeout)
    except subprocess.TimeoutExpired:
        status = None
    finally:
        process.kill()
        process.wait()
        for thread in threads:  # a driver's own child may hold the pipes open
            thread.join(timeout=5)
        if sys.stderr.isatty():
            print("\r\033[K", end="", file=sys.stderr, flush=True)
    return Ended(status, at, list(said), _report(out) if status in (0, 1) else None)


def _report(lines: list[str]) -> dict[str, Any] | None:
    """The last line that is a report; drivers may print around it."""
    for line in reversed(lines):
        try:
            value = json.loads(line)
        except ValueError:
            continue
        if isinstance(value, dict) and "totals" in value:
            return value
    return None


def _last_words(ended: Ended) -> str:
    """The suite's own sentence, without its usage."""
    own = [line.removeprefix("ral-verify: ") for line in ended.said if line.startswith("ral-verify: ")]
    return own[-1] if own else "ral-verify said nothing"


def _broken(ended: Ended, timeout: float) -> dict[str, Any]:
    """Why there is no report, and the case at hand."""
    if ended.status is None:
        error = (
            f"not done after {timeout:g} s, while at: {ended.at}; raise --timeout, or see whether this hangs"
        )
    elif ended.status < 0:
        try:
            name = signal.Signals(-ended.status).name
        except ValueError:
            name = f"signal {-ended.status}"
        error = f"the plugin crashed ({name}) while at: {ended.at}"
    else:
        error = f"the plugin ended the process with status {ended.status} while at: {ended.at}"
    return {"error": error, "at": ended.at, "signal": -ended.status if (ended.status or 0) < 0 else None,
            "stderr": ended.said}  # fmt: skip


def _result(kernel: dict[str, Any]) -> str:
    if kernel["failed"]:
        return "FAILED"
    if kernel["passed"]:
        return "passed"
    return f"not judged: {kernel['not_judged_reason']}" if kernel["not_judged_reason"] else "declined"


def _row(kernel: dict[str, Any]) -> list[str]:
    us = "" if kernel["ns"] is None else f"{kernel['ns'] / 1000:.1f}"
    counts = [str(kernel[name]) for name in ("passed", "failed", "declined")]
    return [kernel["op"], kernel["symbol"], _result(kernel), *counts, us]


def _checks_line(part: str, checks: dict[str, Any]) -> str:
    speeds = [
        f"{name.removesuffix('_gb_s').replace('_', ' ')} {value:.2f} GB/s"
        for name, value in checks.items()
        if name.endswith("_gb_s")
    ]
    return ", ".join([f"{part}: {checks['passed']} passed, {checks['failed']} failed", *speeds])


def _failures(report: dict[str, Any]) -> list[str]:
    lines = [f"manifest: {problem}" for problem in report["problems"]]
    for device in report["devices"]:
        parts = [(kernel["op"], kernel) for kernel in device["kernels"]]
        parts += [(part, device[part]) for part in ("memory", "streams")]
        for name, part in parts:
            found = part["failures"]
            lines += [f"{device['id']} {name} {each['case']}: {each['message']}" for each in found]
            if part["failed"] > len(found):
                lines.append(f"{device['id']} {name}: {part['failed'] - len(found)} more cases")
    return lines


def _totals_line(totals: dict[str, int]) -> str:
    return (
        f"{totals['kernels']} kernels: {totals['passed']} passed, {totals['failed']} failed, {totals['declined']} "
        f"declined, {totals['not_judged']} not judged; {totals['cases_passed']} cases passed, "
        f"{totals['cases_failed']} failed, {totals['cases_declined']} declined, "
        f"{totals['cases_without_reference']} without a reference. US: one call on about a million float32 elements."
    )
