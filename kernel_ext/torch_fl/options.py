"""The option table of the magics, and the kinds of values that they take."""

from __future__ import annotations

import argparse
import re
from typing import Any

from IPython.core.magic_arguments import argument, magic_arguments

from torch_fl.static import ROWS, SORT_KEYS

_TIME = {"us": 1.0, "µs": 1.0, "ms": 1e3, "s": 1e6, "min": 60e6}
_SIZE = {"B": 1, "KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30, "kB": 10**3, "MB": 10**6, "GB": 10**9}
_AMOUNT = re.compile(r"(\d+(?:\.\d+)?)\s*([A-Za-zµ]*)")


def text(value: str) -> str:
    """A value without the quotes that IPython leaves around it."""
    if len(value) > 1 and value[0] == value[-1] and value[0] in "\"'":
        return value[1:-1]
    return value


def name(value: str) -> str:
    """A name for a variable."""
    if not value.isidentifier():
        raise argparse.ArgumentTypeError(f"{value!r} is no name for a variable")
    return value


def positive(value: str) -> int:
    """A whole number above zero."""
    if not value.isdigit() or int(value) < 1:
        raise argparse.ArgumentTypeError(f"{value!r} is no whole number above 0")
    return int(value)


def duration(value: str) -> float:
    """A time such as `250ms` or `2s`, in µs."""
    return _amount(text(value), _TIME, "a time such as 250ms or 2s")


def size(value: str) -> float:
    """A size such as `64MiB`, in bytes."""
    return _amount(text(value), _SIZE, "a size such as 64MiB")


def _amount(value: str, units: dict[str, Any], what: str) -> float:
    match = _AMOUNT.fullmatch(value)
    if match is None or match[2] not in units:
        raise argparse.ArgumentTypeError(f"{value!r} is not {what} (units: {', '.join(units)})")
    return float(match[1]) * units[match[2]]


OUTPUT = (("-o", "--output"), {"metavar": "NAME", "type": name})
JSON = (("--json",), {"action": "store_true", "help": "Print JSON instead of a table."})
HELP = (("-h", "--help"), {"action": "store_true", "help": "Print this help and run nothing."})

PROFILE: list[tuple[tuple[str, ...], dict[str, Any]]] = [
    (
        ("switch",),
        {
            "nargs": "?",
            "choices": ("on", "off"),
            "help": "As a line magic: `on` profiles every following cell, `off` ends that.",
        },
    ),
    (
        ("-d", "--device"),
        {
            "action": "append",
            "metavar": "DEV",
            "type": text,
            "help": "Record this device only (repeatable); it never moves work.",
        },
    ),
    (OUTPUT[0], {**OUTPUT[1], "help": "Keep the result under this name."}),
    (("-q", "--quiet"), {"action": "store_true", "help": "Show nothing."}),
    (
        ("-l", "--limit"),
        {"type": positive, "default": ROWS, "help": "Rows of each table of the plain view."},
    ),
    (
        ("-s", "--sort"),
        {"choices": sorted(SORT_KEYS), "default": "time", "help": "Order of the table of lines."},
    ),
    (("-D", "--trace"), {"metavar": "FILE", "type": text, "help": "Write Chrome JSON there."}),
    (("-T", "--report"), {"metavar": "FILE", "type": text, "help": "Write an HTML page there."}),
    (
        ("--stacks",),
        {
            "choices": ("none", "python"),
            "default": "none",
            "help": "`python` also samples the main thread's stack, into `result.stacks`.",
        },
    ),
    (
        ("--live",),
        {"dest": "live", "action": "store_true", "default": True, "help": "Move while it runs."},
    ),
    (("--no-live",), {"dest": "live", "action": "store_false", "help": "Show the end only."}),
    (("--label",), {"metavar": "TEXT", "type": text, "help": "A name for this profile."}),
    HELP,
]

COMPARE: list[tuple[tuple[str, ...], dict[str, Any]]] = [
    (
        ("-d", "--device"),
        {
            "action": "append",
            "metavar": "DEV",
            "type": text,
            "help": "A device to run on (at least two); values are compared with the last one's.",
        },
    ),
    (("-n",), {"type": positive, "default": 1, "help": "Times that a run executes the cell."}),
    (("-r",), {"type": positive, "default": 5, "help": "Timed runs on each device."}),
    (("--rtol",), {"type": float, "default": 1e-4, "help": "Relative tolerance of `close`."}),
    (("--atol",), {"type": float, "default": 1e-5, "help": "Absolute tolerance of `close`."}),
    (OUTPUT[0], {**OUTPUT[1], "help": "Keep the result under this name."}),
    HELP,
]

DEVICES = [(OUTPUT[0], {**OUTPUT[1], "help": "Keep the table (a DataFrame) under this name."}), JSON, HELP]
FALLBACK: list[tuple[tuple[str, ...], dict[str, Any]]] = [
    (("--why",), {"metavar": "OP", "type": text, "help": "Tell the whole chain of one op."}),
    JSON,
    HELP,
]
MEMORY = [JSON, HELP]
HISTORY = [JSON, HELP]
BUDGET: list[tuple[tuple[str, ...], dict[str, Any]]] = [
    (("--wall",), {"type": duration, "metavar": "TIME", "help": "Most wall time, such as 2s."}),
    (("--peak",), {"type": size, "metavar": "SIZE", "help": "Most peak memory, such as 64MiB."}),
    HELP,
]

TABLES = {
    "ral_profile": PROFILE,
    "ral_compare": COMPARE,
    "ral_devices": DEVICES,
    "ral_fallback": FALLBACK,
    "ral_memory": MEMORY,
    "ral_history": HISTORY,
    "ral_budget": BUDGET,
}


def arguments(table: list[tuple[tuple[str, ...], dict[str, Any]]]) -> Any:
    """Decorator that gives a magic the arguments of a table and its help the text of them."""

    def decorate(method: Any) -> Any:
        for flags, settings in reversed(table):
            method = argument(*flags, **settings)(method)
        return magic_arguments()(method)

    return decorate


def flags(magic: str) -> list[str]:
    """All flags of a magic, for completion."""
    return [flag for names, _ in TABLES[magic] for flag in names if flag.startswith("-")]
