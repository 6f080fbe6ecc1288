"""Asks for the plugins' statuses in a process of its own: loading a driver may end the process that does it."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Mapping
from typing import Any

_TIMEOUT_S = 180


class ProbeError(Exception):
    """No statuses could be had. `crashed`: a driver ended or stalled the process; else PyTorch or the adapter is at fault."""

    def __init__(self, text: str, crashed: bool) -> None:
        super().__init__(text)
        self.crashed = crashed


def plugin_statuses(environ: Mapping[str, str] | None = None, **variables: str) -> list[dict[str, Any]]:
    """What `ralctl plugin-status --json` prints in a new process, with `variables` added to the environment.

    Raises ProbeError where it prints nothing usable.
    """
    command = [sys.executable, "-P", "-m", "torch_fl_core.cli.ralctl", "plugin-status", "--json"]
    env = {**(os.environ if environ is None else environ), **variables}
    try:
        done = subprocess.run(
            command, env=env, capture_output=True, text=True, timeout=_TIMEOUT_S, check=False
        )
    except subprocess.TimeoutExpired:
        raise ProbeError(f"loading the plugins did not end within {_TIMEOUT_S} s", crashed=True) from None
    said = done.stderr.strip().splitlines()
    last = said[-1].removeprefix("ralctl: ") if said else "it said nothing"
    if done.returncode < 0:
        name = signal.Signals(-done.returncode).name
        raise ProbeError(f"loading the plugins ended the process ({name}): {last}", crashed=True)
    if done.returncode:
        raise ProbeError(last, crashed=False)
    try:
        return json.loads(done.stdout.strip().splitlines()[-1])  # drivers may print before it
    except (IndexError, ValueError):
        raise ProbeError(f"loading the plugins printed no statuses: {last}", crashed=True) from None
