"""Numbers as the views write them: three significant figures, units with a space, thin thousands."""

from __future__ import annotations

import math

THIN = "\u2009"
TIERS = ("native", "jit", "reference", "cpu")
LETTERS = {"native": "N", "jit": "J", "reference": "R", "cpu": "C", "view": "V"}


def figures(value: float, digits: int = 3) -> str:
    """`value` with that many significant figures and no exponent: 1.39, 67.4, 600."""
    if value == 0 or not math.isfinite(value):
        return "0" if value == 0 else str(value)
    places = digits - 1 - math.floor(math.log10(abs(value)))
    rounded = round(value, places)
    if abs(rounded) >= 10 ** (digits - places):  # 9.996 became 10.00
        places -= 1
    return f"{rounded:.{max(0, places)}f}"


def time(us: float) -> str:
    """Microseconds as text: `600 µs`, `67.4 ms`, `1.44 s`; zero reads `none`."""
    if us <= 0:
        return "none"
    if us < 999.5:
        return f"{figures(us)} µs"
    if us < 999_500:
        return f"{figures(us / 1e3)} ms"
    return f"{figures(us / 1e6)} s"


def size(count: float) -> str:
    """Bytes as text in powers of 1024; zero reads `none`."""
    if count <= 0:
        return "none"
    if count < 1024:
        return f"{count:.0f} B"
    for unit in ("KiB", "MiB", "GiB", "TiB"):
        count /= 1024
        if count < 1024 or unit == "TiB":
            break
    return f"{count:.{2 if count < 10 else 1}f} {unit}"


def share(part: float) -> str:
    """A share of one in percent: `55 %`, one decimal under 10 %, `< 0.1 %`; zero reads `0 %`."""
    percent = part * 100
    if percent <= 0:
        return "0 %"
    if percent < 0.1:
        return "< 0.1 %"
    return f"{percent:.1f} %" if percent < 9.95 else f"{percent:.0f} %"


def count(number: float) -> str:
    """A whole number with thin spaces between thousands."""
    return f"{round(number):,}".replace(",", THIN)


def op(name: str) -> str:
    """An op's name as the views write it: without its namespace."""
    return name.removeprefix("aten::")
