"""What the commands of `ralctl` share: how they print, and how they fail."""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from typing import Any


class Failed(Exception):
    """The command could not do its work: one line for the user, exit status 1."""


def table_text(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Columns padded to their widest cell, two blanks apart."""
    widths = [max(len(str(cell)) for cell in column) for column in zip(columns, *rows, strict=True)]
    lines = [
        "  ".join(str(cell).ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in [columns, *rows]
    ]
    return "\n".join(lines)


def show(as_json: bool, value: Any, text: str) -> None:
    """Prints `value` as JSON, or `text`."""
    print(json.dumps(value) if as_json else text)


def add_json(parser: argparse.ArgumentParser) -> None:
    """The option that all commands have."""
    parser.add_argument("--json", action="store_true", help="print JSON instead of text")
