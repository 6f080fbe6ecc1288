"""PyTorch's OpInfo database on the device: forward, backward, in-place and out= forms, and one tier alone.

Each mode runs once, in child processes (opinfo_sweep.py), before its tests. TORCH_FL_TEST_DEVICE names another
device than ral:0.
"""

from __future__ import annotations

import os
import tomllib
from functools import cache
from pathlib import Path

import opinfo_sweep as sweeper
import pytest

DEVICE = os.environ.get("TORCH_FL_TEST_DEVICE", "ral:0")
KNOWN = tomllib.loads((Path(__file__).parent / "known_failures.toml").read_text())
MODES = sweeper.MODES
# Share of the tested ops that must pass.
REQUIRED = {"forward": 0.99, "backward": 0.985}
REQUIRED_RIGHT = {"native": 60, "reference": 250}
ALLOCATE_ONLY = {"broadcast_shapes", "empty", "empty_like", "empty_permuted", "empty_strided", "new_empty"}
ALLOCATE_ONLY |= {"new_empty_strided"}

on_ral = pytest.mark.skipif(not DEVICE.startswith("ral"), reason="counts what the RAL's tiers ran")


@cache
def report(mode: str) -> sweeper.Report:
    """The sweep of one mode; its summary is printed."""
    found = sweeper.sweep(mode, DEVICE, jobs=2)
    print("\n" + found.text())
    return found


@pytest.mark.parametrize("mode", MODES)
def test_every_failure_is_listed(mode: str) -> None:
    unlisted = {op: why for op, why in report(mode).failed.items() if op not in KNOWN[mode]}
    assert not unlisted, f"{len(unlisted)} ops fail:\n" + "\n".join(
        f"{op}: {why}" for op, why in unlisted.items()
    )


@on_ral
@pytest.mark.parametrize("mode", MODES)
def test_no_listed_failure_passes(mode: str) -> None:
    passing = sorted(set(KNOWN[mode]) - set(report(mode).failed))
    assert not passing, f"take these out of [{mode}] in known_failures.toml: {passing}"


def test_listed_failures_have_a_reason() -> None:
    assert set(KNOWN) == set(MODES)
    nameless = [op for mode in MODES for op, why in KNOWN[mode].items() if len(why) < 10]
    assert not nameless, f"no reason given for {nameless}"


@pytest.mark.parametrize("mode", REQUIRED)
def test_share_that_passes(mode: str) -> None:
    found = report(mode)
    tested = len(found.passed) + len(found.failed)
    assert tested > 500, f"only {tested} ops were tested"
    assert len(found.passed) >= REQUIRED[mode] * tested, found.text()


@on_ral
def test_tiers_are_traced() -> None:
    """Every passing op left a trace of what ran: a tier, a copy or a view. Only allocation leaves neither."""
    found = report("forward")
    silent = {
        op for op in found.passed if not any(found.answers[op][key] for key in ("tiers", "copies", "views"))
    }
    assert silent <= ALLOCATE_ONLY, f"nothing was recorded for {silent - ALLOCATE_ONLY}"


@on_ral
@pytest.mark.parametrize("tier", REQUIRED_RIGHT)
def test_kernels_of_one_tier(tier: str) -> None:
    """So many operators have a kernel of that tier that is right in every layout, by the trace."""
    found = report(tier)
    computing = {name for a in found.answers.values() for name in a["tiers"]} - {"view"}
    assert computing == {tier}, f"RAL_FALLBACK={tier} ran {computing}"
    assert len(found.right_on(tier)) >= REQUIRED_RIGHT[tier], found.text()
