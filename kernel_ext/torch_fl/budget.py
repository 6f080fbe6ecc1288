"""`%ral_budget`: a cell that takes more time or memory than allowed fails."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from torch_fl import words
from torch_fl.result import ProfileResult


class BudgetError(AssertionError):
    """A cell went over its budget; the text says by how much."""


def checker(
    shell: Any, wall_us: float | None, peak_bytes: float | None
) -> Callable[[Any, ProfileResult], None]:
    """A check to call when the cell has ended, with IPython's result and the profile.

    IPython swallows what its hooks raise, so the error goes into the cell's result and is shown.
    """

    def check(result: Any, profile: ProfileResult) -> None:
        over = faults(profile, wall_us, peak_bytes)
        if not over:
            return
        error = BudgetError("over budget: " + "; ".join(over))
        result.error_in_exec = error
        try:
            raise error
        except BudgetError:
            shell.showtraceback(exception_only=True)

    return check


def faults(profile: ProfileResult, wall_us: float | None, peak_bytes: float | None) -> list[str]:
    """What of a profile is over its budget, in words."""
    out = []
    summary = profile.bundle["summary"]
    if wall_us is not None and summary["wall_us"] > wall_us:
        out.append(f"wall {words.time(summary['wall_us'])}, allowed {words.time(wall_us)}")
    if peak_bytes is not None:
        for device, peak in summary["peak_bytes"].items():
            if peak > peak_bytes:
                out.append(f"peak {words.size(peak)} on {device}, allowed {words.size(peak_bytes)}")
    return out
