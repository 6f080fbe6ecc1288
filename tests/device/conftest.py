"""The device under test and fresh Python processes for what can be tried only once in a process.

TORCH_FL_TEST_DEVICE names another device than ral:0; on "cpu" what only ral devices have is skipped.
"""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from collections.abc import Callable
from typing import Any

import pytest
import torch

DEVICE = os.environ.get("TORCH_FL_TEST_DEVICE", "ral:0")


@pytest.fixture
def device() -> str:
    """Name of the device under test."""
    return DEVICE


@pytest.fixture
def ral() -> Any:
    """The module torch.ral."""
    if not DEVICE.startswith("ral"):
        pytest.skip("only ral devices have this")
    return torch.ral


@pytest.fixture
def other_device(ral: Any) -> str:
    """A second device, or another index of the first where there is only one."""
    return "ral:1" if ral.device_count() > 1 else "ral:0"


@pytest.fixture
def python() -> Callable[..., subprocess.CompletedProcess[str]]:
    """Runs code in a fresh interpreter; keyword arguments are environment variables (None: unset)."""

    def run(code: str, timeout: float = 120, **variables: str | None) -> subprocess.CompletedProcess[str]:
        env = dict(os.environ)
        for name, value in variables.items():
            env.pop(name, None) if value is None else env.update({name: str(value)})
        return subprocess.run(
            [sys.executable, "-c", textwrap.dedent(code)],
            env=env,
            capture_output=True,
            text=True,
            timeout=timeout,
            check=False,
        )

    return run


@pytest.fixture
def must_pass(python: Any) -> Callable[..., str]:
    """Like `python`, but the code has to succeed; gives its output."""

    def run(code: str, **variables: str | None) -> str:
        done = python(code, **variables)
        assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-4000:]
        return done.stdout

    return run
