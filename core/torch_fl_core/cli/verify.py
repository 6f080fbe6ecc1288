"""`ralctl verify`: the conformance suite ral-verify on a plugin folder, and what it found."""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path

from .output import Failed, add_json, show
from .places import package_folder
from .verify_report import report_text
from .verify_run import Unusable, run_suite


class Verify:
    """judge a plugin: its kernels by the reference tier, its memory, streams and speed"""

    name = "verify"
    examples = (
        "ralctl verify ./mychip",
        "ralctl verify ./mychip --ops add,mul,sum --dtypes float32,int64",
        "ralctl verify ./mychip --timeout 7200 --kernel-timeout 60 --json > report.json",
    )

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
            help="seconds for the whole plugin; what was judged by then is shown (default: %(default)g)",
        )
        parser.add_argument(
            "--kernel-timeout",
            type=_seconds,
            default=600.0,
            metavar="S",
            help="seconds after which a kernel is taken to hang; the others still run (default: %(default)g)",
        )
        add_json(parser)

    @staticmethod
    def run(args: argparse.Namespace) -> int:
        try:
            report = run_suite(_command(args), args.timeout, args.kernel_timeout)
        except Unusable as error:
            print(f"ralctl verify: {error}", file=sys.stderr)
            return 2
        if not report["plugin"]:  # it did not get through loading
            report |= {"plugin": args.path.resolve().name, "path": str(args.path)}
        show(args.json, report, report_text(report))
        return 1 if report["totals"]["failures"] else 0


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
