"""Faults that users of comparable devices reported (device_cases.py), one test a case.

The cases live outside this repository: TORCH_FL_CASES names the file; without it the folder beside the
clone (../shared/cases) is looked at. All run once, through the file's own runner, in child processes.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tomllib
from functools import cache
from pathlib import Path

import pytest

HERE = Path(__file__).resolve().parent
DEVICE = os.environ.get("TORCH_FL_TEST_DEVICE", "ral:0")
CASES = Path(os.environ.get("TORCH_FL_CASES", HERE.parents[2] / "shared" / "cases" / "device_cases.py"))
KNOWN = tomllib.loads((HERE / "known_failures.toml").read_text())["cases"]
REQUIRED = 33

if CASES.is_file():
    NAMES = re.findall(r"^def (case_\w+)", CASES.read_text(), re.MULTILINE)
else:
    NAMES = []
    pytestmark = pytest.mark.skip(reason=f"{CASES} is not there; TORCH_FL_CASES names another file")


@cache
def results() -> dict[str, str]:
    """Case to "" where it passed, else to the error."""
    done = subprocess.run(
        [sys.executable, str(CASES), DEVICE], capture_output=True, text=True, timeout=900, check=False
    )
    found = {}
    for line in done.stdout.splitlines():
        if match := re.match(r"(PASS|FAIL) (case_\w+) ?(.*)", line):
            found[match[2]] = "" if match[1] == "PASS" else match[3]
    assert set(found) == set(NAMES), f"the runner ended early: {done.stdout[-2000:]}\n{done.stderr[-2000:]}"
    return found


@pytest.mark.parametrize("name", NAMES)
def test_case(name: str) -> None:
    error = results()[name]
    if name in KNOWN:
        assert error, f"{name} passes: take it out of known_failures.toml"
        pytest.xfail(KNOWN[name])
    assert not error, error


def test_enough_cases_pass() -> None:
    passed = [name for name, error in results().items() if not error]
    assert len(passed) >= REQUIRED, f"{len(passed)} of {len(NAMES)} passed, {REQUIRED} must"


def test_known_failures_name_cases_and_reasons() -> None:
    assert set(KNOWN) <= set(NAMES)
    assert all(len(reason) >= 10 for reason in KNOWN.values())
