"""`ralctl`: which devices and plugins there are.

Exit status: 0 done, 1 the thing failed, 2 wrong usage.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Sequence
from types import ModuleType
from typing import Any


def _ral() -> ModuleType:
    """torch.ral, after claiming the device."""
    import torch_fl_core

    torch_fl_core.load()
    import torch

    return torch.ral


def _device_row(device: dict[str, Any]) -> list[str]:
    fields = ("id", "kind", "name", "vendor", "status")
    return [str(device.get(f) or "") for f in fields]


def _plugin_row(plugin: dict[str, Any]) -> list[str]:
    missing = ", ".join(map(str, plugin.get("missing") or []))
    needs = missing or str(plugin.get("reason") or "")
    return [str(plugin.get(f) or "") for f in ("name", "version", "status")] + [needs]


_TABLES: dict[str, tuple[list[str], Callable[[ModuleType], Any], Callable[[Any], list[str]]]] = {
    "list-devices": (
        ["ID", "TYPE", "NAME", "VENDOR", "STATUS"],
        lambda ral: ral.devices(),
        _device_row,
    ),
    "plugin-status": (
        ["NAME", "VERSION", "STATUS", "DEPENDENCIES"],
        lambda ral: ral.plugins(),
        _plugin_row,
    ),
}


def table_text(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Columns padded to their widest cell, two blanks apart."""
    widths = [max(len(str(cell)) for cell in column) for column in zip(columns, *rows, strict=True)]
    lines = [
        "  ".join(str(cell).ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in [columns, *rows]
    ]
    return "\n".join(lines)


def parser() -> argparse.ArgumentParser:
    """The options of ralctl."""
    p = argparse.ArgumentParser(prog="ralctl", description="Shows devices and plugins.")
    commands = p.add_subparsers(dest="command", required=True, metavar="COMMAND")
    for name, text in (
        ("list-devices", "the devices of all plugins"),
        ("plugin-status", "every plugin found, its state and what it lacks"),
    ):
        command = commands.add_parser(name, help=text, description=f"Lists {text}.")
        command.add_argument("--json", action="store_true", help="print JSON instead of a table")
    return p


def main(argv: Sequence[str] | None = None) -> int:
    """Runs ralctl; returns its exit status."""
    try:
        args = parser().parse_args(argv)
    except SystemExit as leave:
        return int(leave.code or 0)
    columns, ask, row = _TABLES[args.command]
    try:
        found = ask(_ral())
    except (ImportError, OSError, RuntimeError) as error:
        print(f"ralctl: {error}", file=sys.stderr)
        return 1
    if args.json:
        print(json.dumps(found))
    elif found:
        print(table_text(columns, [row(each) for each in found]))
    else:
        print("No devices." if args.command == "list-devices" else "No plugins.")
    return 0


if __name__ == "__main__":
    sys.exit(main())
