"""The float32 functions of kernels/math.cl against float64: error in units in the last place over their whole range."""

from __future__ import annotations

import pytest
import torch
from abi import Kernel, Plugin

# operator, range of x, largest error in ulp
RANGES = [
    ("exp", -104.0, 88.7, 1.5),
    ("exp2", -149.0, 127.9, 1.5),
    ("expm1", -20.0, 88.0, 2.5),
    ("log", 1e-38, 1e3, 1.5),
    ("log", 0.5, 2.0, 1.5),
    ("log1p", -0.999, 50.0, 2.5),
    ("tanh", -10.0, 10.0, 2.5),
    ("erf", -5.0, 5.0, 2.0),
    ("sigmoid", -80.0, 80.0, 3.0),
]


def ulp_error(got: torch.Tensor, exact: torch.Tensor) -> float:
    """Largest distance of float32 `got` from float64 `exact`, in units of the last place of the exact result."""
    rounded = exact.float().abs()
    step = (torch.nextafter(rounded, torch.tensor(float("inf"))) - rounded).double()
    return float(((got.double() - exact).abs() / step).max())


@pytest.mark.parametrize(("name", "low", "high", "bound"), RANGES, ids=lambda v: str(v))
def test_error(
    plugin: Plugin, entries: dict[str, dict[str, object]], name: str, low: float, high: float, bound: float
) -> None:
    """200,001 evenly spaced numbers."""
    x = torch.linspace(low, high, 200_001, dtype=torch.float64).float()
    got = Kernel(plugin, 0, entries[name]).run([x], [torch.zeros_like(x)])[0]
    error = ulp_error(got, getattr(torch, name)(x.double()))
    assert error <= bound, f"{name}: {error:.2f} ulp"
