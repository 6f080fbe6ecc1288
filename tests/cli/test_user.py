"""ralctl as a user who is not root: every command works in a home of his own, with --json where it has that.

Needs to begin as root, which lends the user's id to the commands.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

USER = 54321  # of no account, so that nothing but the id counts

pytestmark = [
    pytest.mark.skipif(os.geteuid() != 0, reason="needs root, to run commands as another user"),
    pytest.mark.skipif(not shutil.which("setpriv"), reason="needs setpriv"),
]
Run = Callable[..., subprocess.CompletedProcess[str]]


def interpreters() -> list[str]:
    """This Python, and the system's where it is of the same version: root's own may lie where no other user gets to."""
    version = f"python{sys.version_info.major}.{sys.version_info.minor}"
    return [sys.executable, *(str(p) for p in [Path("/usr/bin") / version] if p.exists())]


@pytest.fixture
def home() -> Iterator[Path]:
    """The user's home; pytest's own temporary folders are closed to other users."""
    folder = Path(tempfile.mkdtemp(prefix="ral-user-"))
    os.chown(folder, USER, USER)
    yield folder
    shutil.rmtree(folder)


@pytest.fixture
def command(home: Path) -> Run:
    """Runs a command in the user's home and with little else in its environment."""
    packages = [entry for entry in sys.path if Path(entry).name == "site-packages"]
    env = {"HOME": str(home), "PATH": "/usr/bin:/bin", "LANG": "C.UTF-8", "PYTHONPATH": ":".join(packages)}

    def run(*words: str, **variables: str) -> subprocess.CompletedProcess[str]:
        # Root's rights end with the next program: by way of env, `words` has none of them.
        return subprocess.run(
            ["setpriv", f"--reuid={USER}", f"--regid={USER}", "--clear-groups", "env", *words],
            env={**env, **variables},
            cwd=home,
            capture_output=True,
            text=True,
            timeout=600,
        )

    return run


@pytest.fixture
def ralctl(command: Run) -> Run:
    """Runs ralctl as the user."""
    for python in interpreters():
        if command(python, "-c", "import torch, torch_fl_core.cli.ralctl").returncode == 0:
            return lambda *words, **env: command(
                python, "-P", "-m", "torch_fl_core.cli.ralctl", *words, **env
            )
    pytest.skip(
        f"user {USER} can use none of {', '.join(interpreters())} with the packages of this environment"
    )


def answer(done: subprocess.CompletedProcess[str]) -> Any:
    """The JSON that a command printed, as its only output."""
    assert done.returncode == 0, done.stdout + done.stderr
    (line,) = done.stdout.splitlines()
    return json.loads(line)


def test_devices_plugins_and_doctor(ralctl: Run) -> None:
    devices = answer(ralctl("list-devices", "--json"))
    assert [d["status"] for d in devices] and {d["plugin"] for d in devices} == {"opencl"}
    (plugin,) = answer(ralctl("plugin-status", "--json"))
    assert (plugin["name"], plugin["status"], plugin["device_count"]) == ("opencl", "READY", len(devices))
    findings = ralctl("doctor", "--json")
    levels = {f["level"] for f in json.loads(findings.stdout)}
    # A device file of this machine may be closed to the user.
    assert findings.returncode == int("problem" in levels)
    assert "opencl 0." in ralctl("doctor").stdout
    assert "ral:0" in ralctl("list-devices").stdout
    assert "READY" in ralctl("plugin-status").stdout


@pytest.mark.skipif(not (shutil.which("cc") and shutil.which("make")), reason="needs cc and make")
def test_a_plugin_from_new_plugin_to_uninstall(ralctl: Run, command: Run, home: Path) -> None:
    made = ralctl("new-plugin", "mychip")
    assert made.returncode == 0, made.stderr
    assert command("make", "-C", "mychip").returncode == 0
    installed = answer(ralctl("install", "./mychip", "--json"))
    target = home / ".local/share/ral/plugins/mychip"
    assert (installed["status"], installed["installed"]) == ("READY", str(target))
    assert {p.stat().st_uid for p in [target, *target.rglob("*")]} == {USER}
    assert "mychip" in {d["plugin"] for d in answer(ralctl("list-devices", "--json"))}
    totals = answer(ralctl("verify", "mychip", "--json"))["totals"]
    assert (totals["kernels"], totals["failed"], totals["failures"]) == (1, 0, 0)
    gone = ralctl("uninstall", "mychip")
    assert (gone.returncode, gone.stdout, gone.stderr) == (0, f"Removed {target}.\n", "")
    assert not target.exists()


def test_a_home_that_is_not_his_is_named(ralctl: Run) -> None:
    """Only commands that write need a home; they say which folder it is and what to set."""
    refused = ralctl("install", "/usr/lib", HOME="/nonexistent")
    assert refused.returncode == 1
    assert refused.stderr.splitlines() == [
        "ralctl: the folder /nonexistent/.local/share/ral/plugins for your plugins cannot be made: "
        "Permission denied: /nonexistent; set HOME to a folder that you may write to"
    ]
    assert ralctl("plugin-status", HOME="/nonexistent").returncode == 0
