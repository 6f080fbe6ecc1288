"""The reference tier as the device runs it: sparse operands, results whose size depends on values, out= forms.

TORCH_FL_TEST_DEVICE names another device than ral:0.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
import torch.nn.functional as F

DEVICE = os.environ.get("TORCH_FL_TEST_DEVICE", "ral:0")
pytestmark = pytest.mark.skipif(not DEVICE.startswith("ral"), reason="only ral devices have tiers")


@pytest.fixture(autouse=True)
def policy_restored() -> Iterator[None]:
    before = torch.ral.fallback_policy()
    yield
    torch.ral.fallback_policy(before, strict=False)


def tiers(work: Callable[[], Any], order: str = "reference") -> tuple[Any, dict[str, set[str]]]:
    """The result of `work` under that order, and each operator's tiers by the trace."""
    from torch_fl_core import trace

    torch.ral.fallback_policy(order, strict=True)
    with trace.record() as found:
        result = work()
    torch.ral.fallback_policy("native,jit,reference,cpu", strict=False)
    frame = found.kernels
    return result, {op: set(part["tier"]) for op, part in frame.groupby("op")}


def sparse_matrix() -> torch.Tensor:
    generator = torch.Generator().manual_seed(3)
    dense = torch.randn(4, 5, generator=generator, dtype=torch.float64)
    return dense * (torch.rand(4, 5, generator=generator) > 0.5)


LAYOUTS = {"coo": torch.sparse_coo, "csr": torch.sparse_csr, "csc": torch.sparse_csc}
# PyTorch's composite kernels allocate the result of a compressed operand by an `empty` that only the cpu tier has.
SPARSE_ORDER = {"coo": "reference", "csr": "reference,cpu", "csc": "reference,cpu"}


def on_device(dense: torch.Tensor, layout: str) -> torch.Tensor:
    return dense.to(DEVICE).to_sparse(layout=LAYOUTS[layout])


@pytest.mark.parametrize("layout", LAYOUTS)
def test_sparse_times_dense(layout: str) -> None:
    dense, other = sparse_matrix(), torch.linspace(-1, 2, 15, dtype=torch.float64).reshape(5, 3)
    added = torch.linspace(3, 4, 12, dtype=torch.float64).reshape(4, 3)
    matrix, right, more = on_device(dense, layout), other.to(DEVICE), added.to(DEVICE)
    calls = {
        "mm": (lambda: torch.mm(matrix, right), dense @ other),
        "sparse.mm": (lambda: torch.sparse.mm(matrix, right), dense @ other),
        "addmm": (
            lambda: torch.addmm(more, matrix, right, beta=2, alpha=3),
            2 * added + 3 * (dense @ other),
        ),
        "by column": (lambda: torch.mm(matrix, right.t().contiguous().t()), dense @ other),
    }
    for name, (call, want) in calls.items():
        got, ran = tiers(call, SPARSE_ORDER[layout])
        assert ran.get("mm") == {"reference"} or ran.get("addmm") == {"reference"}, (name, ran)
        assert got.layout == torch.strided and got.device.type == "ral"
        torch.testing.assert_close(got.cpu(), want, msg=name)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_sparse_times_dense_of_other_dtypes(layout: str) -> None:
    for dtype in (torch.float32, torch.complex64):
        dense, other = sparse_matrix().to(dtype), torch.ones(5, 2, dtype=dtype)
        matrix, right = on_device(dense, layout), other.to(DEVICE)
        got, ran = tiers(lambda matrix=matrix, right=right: torch.mm(matrix, right), SPARSE_ORDER[layout])
        assert ran["mm"] == {"reference"}
        torch.testing.assert_close(got.cpu(), dense @ other)


def test_what_is_not_stored_once() -> None:
    """Elements that are there twice are summed, and a matrix may store none."""
    matrix = on_device(sparse_matrix(), "coo")
    doubled = (matrix + matrix).detach()
    nothing = on_device(torch.zeros(4, 5, dtype=torch.float64), "coo")
    right = torch.ones(5, 1, dtype=torch.float64, device=DEVICE)
    got, _ = tiers(lambda: torch.mm(doubled, right))
    torch.testing.assert_close(got.cpu(), 2 * sparse_matrix().sum(1, keepdim=True))
    got, _ = tiers(lambda: torch.mm(nothing, right))
    assert got.cpu().tolist() == [[0.0]] * 4


def test_sparse_operands_without_a_kernel_go_on_to_the_cpu() -> None:
    matrix = on_device(sparse_matrix(), "coo")
    got, ran = tiers(lambda: torch.sin(matrix), "reference,cpu")
    assert ran["sin"] == {"cpu"}
    torch.testing.assert_close(got.to_dense().cpu(), sparse_matrix().sin())


def sized_calls(x: torch.Tensor, mask: torch.Tensor) -> dict[str, Any]:
    return {
        "nonzero": x.nonzero(),
        "masked_select": x.masked_select(mask),
        "_unique2": torch.unique(x, return_inverse=True, return_counts=True),
    }


def test_results_of_unknown_size() -> None:
    """The same values, dtypes and strides as on the CPU, by the reference tier alone."""
    x = torch.tensor([[0.0, 2, -1, 0], [2, 0, 0, -1], [7, 7, 0, 0]])
    mask = torch.tensor([True, False, True, True])
    for given in (x, x.t(), x[:0], torch.tensor(3.0), x.to(torch.int16)):
        fits = mask if given.dim() and given.shape[-1] == 4 else torch.tensor(True)
        for op, want in sized_calls(given, fits).items():
            device_x, device_mask = given.to(DEVICE), fits.to(DEVICE)
            got, ran = tiers(lambda x=device_x, mask=device_mask, op=op: sized_calls(x, mask)[op])
            assert ran[op] == {"reference"}, (op, ran)
            for ours, theirs in zip(
                got if isinstance(got, tuple) else [got], want if isinstance(want, tuple) else [want]
            ):
                assert ours.device.type == "ral"
                assert (ours.shape, ours.dtype, ours.stride()) == (
                    theirs.shape,
                    theirs.dtype,
                    theirs.stride(),
                )
                assert torch.equal(ours.cpu(), theirs), op


def test_out_of_unknown_size() -> None:
    x = torch.tensor([[0.0, 2, -1], [2, 0, 0]])
    on = x.to(DEVICE)
    for shape in ((0,), (3, 2)):
        out = torch.empty(shape, dtype=torch.int64, device=DEVICE)
        got, ran = tiers(lambda out=out: torch.nonzero(on, out=out))
        assert ran["nonzero"] == {"reference"}
        assert got is out or got.data_ptr() == out.data_ptr()
        assert torch.equal(out.cpu(), x.nonzero())
    out = torch.full((3,), -5.0, device=DEVICE)
    tiers(lambda: torch.masked_select(on, on > 0, out=out))
    assert out.cpu().tolist() == [2, 2]
    # An input as the output is PyTorch's to refuse.
    row = on[0].clone()
    with pytest.raises(RuntimeError, match="memory location|overlap"):
        tiers(lambda: torch.masked_select(row, row > 0, out=row), "reference,cpu")


def test_a_mask_that_does_not_fit_gets_pytorchs_error() -> None:
    x, mask = torch.ones(4, device=DEVICE), torch.ones(3, dtype=torch.bool, device=DEVICE)
    with pytest.raises(RuntimeError, match="size of tensor|broadcast"):
        tiers(lambda: x.masked_select(mask), "reference,cpu")


def test_factories_by_the_reference_alone() -> None:
    calls: dict[str, Callable[[str], torch.Tensor]] = {
        "arange": lambda d: torch.arange(2, 11, 3, device=d),
        "linspace": lambda d: torch.linspace(-1, 1, 7, device=d, dtype=torch.float64),
        "logspace": lambda d: torch.logspace(0, 2, 5, device=d, dtype=torch.float64),
        "eye": lambda d: torch.eye(3, 2, device=d),
        "full": lambda d: torch.full((2, 3), 2.5, device=d),
        "tril_indices": lambda d: torch.tril_indices(3, 4, 1, device=d),
        "triu_indices": lambda d: torch.triu_indices(3, 4, dtype=torch.int32, device=d),
    }
    for name, call in calls.items():
        want = call("cpu")
        got, ran = tiers(lambda call=call: call(DEVICE))
        assert set().union(*ran.values()) == {"reference"}, (name, ran)
        assert (got.dtype, got.stride(), got.device.type) == (want.dtype, want.stride(), "ral"), name
        torch.testing.assert_close(got.cpu(), want, msg=name)


def test_layers_by_the_reference_alone() -> None:
    """Pooling, resampling and grid samples with their gradients, as modules call them."""
    generator = torch.Generator().manual_seed(1)
    volume = torch.randn(1, 2, 4, 6, 5, generator=generator, dtype=torch.float64)
    image = torch.randn(1, 2, 6, 5, generator=generator, dtype=torch.float64)
    grid = torch.rand(1, 3, 4, 2, generator=generator, dtype=torch.float64) * 2.4 - 1.2
    grid3d = torch.rand(1, 2, 3, 2, 3, generator=generator, dtype=torch.float64) * 2.4 - 1.2
    calls: dict[str, tuple[Callable[..., torch.Tensor], tuple[torch.Tensor, ...]]] = {
        "max_pool3d": (lambda x: F.max_pool3d(x, 2, padding=1), (volume,)),
        "avg_pool3d": (lambda x: F.avg_pool3d(x, 2, stride=1), (volume,)),
        "adaptive_avg_pool3d": (lambda x: F.adaptive_avg_pool3d(x, (2, 3, 2)), (volume,)),
        "adaptive_max_pool3d": (lambda x: F.adaptive_max_pool3d(x, 2), (volume,)),
        "adaptive_max_pool2d": (lambda x: F.adaptive_max_pool2d(x, (3, 2)), (image,)),
        "area": (lambda x: F.interpolate(x, (3, 4), mode="area"), (image,)),
        "trilinear": (lambda x: F.interpolate(x, scale_factor=2, mode="trilinear"), (volume,)),
        "nearest-exact": (lambda x: F.interpolate(x, (3, 3, 3), mode="nearest-exact"), (volume,)),
        "bicubic": (lambda x: F.interpolate(x, (9, 4), mode="bicubic"), (image,)),
        "grid_sample": (lambda x, g: F.grid_sample(x, g, "bicubic", "reflection", True), (image, grid)),
        "grid_sample 3d": (lambda x, g: F.grid_sample(x, g, "bilinear", "border", False), (volume, grid3d)),
    }
    for name, (call, inputs) in calls.items():
        want_in = [t.clone().requires_grad_() for t in inputs]
        want = call(*want_in)
        weights = torch.linspace(-1, 1, want.numel(), dtype=torch.float64).reshape(want.shape)
        want.backward(weights)
        got_in = [t.to(DEVICE).requires_grad_() for t in inputs]
        given = weights.to(DEVICE)

        def work(call=call, got_in=got_in, given=given) -> torch.Tensor:
            got = call(*got_in)
            got.backward(given)
            return got

        got, ran = tiers(work)
        assert set().union(*ran.values()) <= {"reference", "view"}, (name, ran)
        torch.testing.assert_close(got.detach().cpu(), want.detach(), msg=name)
        for ours, theirs in zip(got_in, want_in):
            torch.testing.assert_close(ours.grad.cpu(), theirs.grad, msg=name)
