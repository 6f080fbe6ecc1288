"""`ralctl`: which devices and plugins there are, what keeps them from working, and plugins made, put in place and removed.

Exit status: 0 done, 1 the thing failed, 2 wrong usage.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from .doctor import Doctor
from .install import Install, Uninstall
from .listing import ListDevices, PluginStatus
from .new_plugin import NewPlugin
from .output import Failed
from .verify import Verify

_COMMANDS = (ListDevices, PluginStatus, Doctor, NewPlugin, Verify, Install, Uninstall)


def _examples(lines: Sequence[str]) -> str:
    return "examples:\n" + "\n".join(f"  {line}" for line in lines)


def parser() -> argparse.ArgumentParser:
    """The options of ralctl."""
    shape = argparse.RawDescriptionHelpFormatter
    p = argparse.ArgumentParser(
        prog="ralctl",
        description="Devices and plugins of torch_fl. `ralctl COMMAND --help` explains a command.",
        epilog=_examples([command.examples[0] for command in _COMMANDS]),
        formatter_class=shape,
    )
    commands = p.add_subparsers(dest="command", required=True, metavar="COMMAND")
    for command in _COMMANDS:
        text = command.__doc__ or ""
        sub = commands.add_parser(
            command.name,
            help=text,
            description=text[:1].upper() + text[1:] + ".",
            epilog=_examples(command.examples),
            formatter_class=shape,
        )
        command.add_options(sub)
        sub.set_defaults(run=command.run)
    return p


def main(argv: Sequence[str] | None = None) -> int:
    """Runs ralctl; returns its exit status."""
    try:
        args = parser().parse_args(argv)
    except SystemExit as leave:
        return int(leave.code or 0)
    try:
        return args.run(args)
    except (Failed, ImportError, OSError, RuntimeError) as error:
        print(f"ralctl: {error}", file=sys.stderr)
        return 1


if __name__ == "__main__":
    sys.exit(main())
