"""OpInfo samples: how they are copied to a device, varied in layout and compared.

Used by opinfo_worker.py only. Copies keep the memory layout (strides, storage offset, expanded dimensions,
tensors that share one storage), so that an op meets on the device what it met on the CPU.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from typing import Any

import numpy
import torch
from torch.utils._pytree import tree_leaves

# Results of these are memory as it was found: only their metadata means anything.
UNINITIALISED = frozenset(
    {"empty", "empty_like", "empty_strided", "empty_permuted", "new_empty", "new_empty_strided"}
)
# Grown storage holds memory as it was found; what was there before is compared in tests/device.
GROWN = frozenset({"resize_", "resize_as_"})
# Results depend on the storage behind the input, not only on its elements.
STORAGE = frozenset({"as_strided", "as_strided_copy", "as_strided_scatter"})

RTOL = 1e-4
ATOL = 1e-4
# float32 kernels judged against float64: PyTorch's own tests use 1.3e-6 element-wise and up to 1e-4
# where sums are involved; samples hold values up to about 10.
NATIVE_RTOL = 2e-5
NATIVE_ATOL = 2e-5


def seed_all(seed: int) -> None:
    """Seed every generator that sample functions or ops may draw from."""
    random.seed(seed)
    numpy.random.seed(seed)
    torch.manual_seed(seed)


class Draws:
    """Context manager: whether the CPU's default generator was drawn from or seeded inside the block.

    OpInfo wraps many random ops in a function that seeds and restores the generator; the wish to seed is noted.
    """

    def __enter__(self) -> Draws:
        self.drew = False
        self._state = torch.get_rng_state()
        self._seed = torch.manual_seed
        torch.manual_seed = self._noted
        return self

    def _noted(self, seed: int) -> torch.Generator:
        self.drew = True
        return self._seed(seed)

    def __exit__(self, *_: object) -> None:
        torch.manual_seed = self._seed
        self.drew = self.drew or not torch.equal(self._state, torch.get_rng_state())


class Copier:
    """Copies the tensors of one sample to a device; the same tensor stays the same tensor."""

    def __init__(self, device: str) -> None:
        self.device = device
        self._tensors: dict[int, torch.Tensor] = {}
        self._storages: dict[tuple[int, torch.dtype], torch.Tensor] = {}
        self._alive: list[Any] = []

    def __call__(self, item: Any) -> Any:
        if isinstance(item, torch.Tensor):
            if id(item) not in self._tensors:
                self._alive.append(item)
                self._tensors[id(item)] = self._copy(item).requires_grad_(item.requires_grad)
            return self._tensors[id(item)]
        return item

    def _copy(self, tensor: torch.Tensor) -> torch.Tensor:
        tensor = tensor.detach()
        plain = tensor.layout == torch.strided and not tensor.is_nested
        if not plain or tensor.is_conj() or tensor.is_neg() or tensor.device.type != "cpu":
            return tensor.clone().to(self.device)
        storage = tensor.untyped_storage()
        key = (storage.data_ptr(), tensor.dtype)
        if storage.nbytes() == 0 or key not in self._storages:
            flat = torch.empty(0, dtype=tensor.dtype).set_(storage)
            self._storages[key] = flat.clone().to(self.device)
        return self._storages[key].as_strided(tensor.size(), tensor.stride(), tensor.storage_offset())


# Arguments after the first stay on the CPU, where these ops want them on every device.
HOST_ARGUMENTS = frozenset({"tensor_split"})


def copied(sample: Any, device: str, op: Any = None) -> Any:
    """`sample` on `device`; factory functions get a `device` keyword."""
    moved = sample.transform(Copier(device))
    if op is not None and op.name in HOST_ARGUMENTS:
        moved.args, moved.kwargs = sample.args, sample.kwargs

    def named(item: Any) -> Any:
        return torch.device(device) if isinstance(item, torch.device) or item == "cpu" else item

    moved.args = tuple(named(a) if isinstance(a, (str, torch.device)) else a for a in moved.args)
    if getattr(op, "is_factory_function", False) or "device" in moved.kwargs:
        moved.kwargs = dict(moved.kwargs, device=torch.device(device))
    return moved


def layouts(sample: Any, all_of_them: bool) -> Iterator[tuple[str, Any]]:
    """`sample` (on the CPU) as it is and with its float32 tensors transposed, strided, offset, expanded."""
    yield "plain", sample.transform(lambda t: t.detach().clone() if _varies(t) else t)
    if not all_of_them:
        return
    for name, change in _CHANGES.items():
        tensors = [t for t in tree_leaves((sample.input, sample.args, sample.kwargs)) if _varies(t)]
        if any(change(t) is not None for t in tensors):
            yield name, sample.transform(lambda t, change=change: _changed(t, change))


def rank(sample: Any) -> int:
    """The highest rank of the sample's tensors, at most 4."""
    tensors = tree_leaves((sample.input, sample.args, sample.kwargs))
    return min(4, max((t.dim() for t in tensors if isinstance(t, torch.Tensor)), default=0))


def _varies(item: Any) -> bool:
    return (
        isinstance(item, torch.Tensor)
        and item.dtype == torch.float32
        and item.layout == torch.strided
        and item.numel() > 0
    )


def _changed(item: Any, change: Callable[[torch.Tensor], torch.Tensor | None]) -> Any:
    changed = change(item.detach()) if _varies(item) else None
    return item if changed is None else changed


def _transposed(t: torch.Tensor) -> torch.Tensor | None:
    return t.transpose(0, -1).contiguous().transpose(0, -1) if t.dim() >= 2 else None


def _strided(t: torch.Tensor) -> torch.Tensor | None:
    if t.dim() == 0:
        return None
    wide = torch.full((*t.shape[:-1], t.shape[-1] * 2), float("nan"))
    wide[..., ::2] = t
    return wide[..., ::2]


def _offset(t: torch.Tensor) -> torch.Tensor:
    flat = torch.full((t.numel() + 3,), float("nan"))
    flat[3:] = t.reshape(-1)
    return flat[3:].view(t.shape)


def _expanded(t: torch.Tensor) -> torch.Tensor | None:
    return t[:1].expand(t.shape) if t.dim() >= 1 and t.shape[0] > 1 else None


_CHANGES = {"transposed": _transposed, "strided": _strided, "offset": _offset, "expanded": _expanded}


def in_float64(sample: Any) -> Any:
    """A contiguous float64 copy of a float32 sample."""

    def convert(item: Any) -> Any:
        if not isinstance(item, torch.Tensor):
            return item
        item = item.detach().clone()
        if item.layout == torch.strided:
            item = item.contiguous()
        return item.double() if item.dtype == torch.float32 else item

    return sample.transform(convert)


def dense_cpu(tensor: torch.Tensor) -> torch.Tensor:
    """The values of any tensor as a strided CPU tensor."""
    tensor = tensor.detach().cpu()
    if tensor.layout != torch.strided:
        tensor = tensor.to_dense()
    tensor = tensor.resolve_conj().resolve_neg()
    return tensor.to(torch.complex64) if tensor.dtype == torch.complex32 else tensor


def check_metadata(got: Any, want: Any, device_type: str) -> None:
    """Raise AssertionError unless the leaves agree in number, type, dtype, shape and device type."""
    got_leaves, want_leaves = tree_leaves(got), tree_leaves(want)
    assert len(got_leaves) == len(want_leaves), f"{len(got_leaves)} results, not {len(want_leaves)}"
    for g, w in zip(got_leaves, want_leaves, strict=True):
        if not isinstance(w, torch.Tensor):
            assert type(g) is type(w), f"a result is {type(g).__name__}, not {type(w).__name__}"
            continue
        assert isinstance(g, torch.Tensor), f"a result is {type(g).__name__}, not a tensor"
        assert g.device.type == device_type, f"a result is on {g.device}"
        assert g.dtype == w.dtype, f"dtype {g.dtype}, not {w.dtype}"
        assert g.layout == w.layout, f"layout {g.layout}, not {w.layout}"
        assert tuple(g.shape) == tuple(w.shape), f"shape {tuple(g.shape)}, not {tuple(w.shape)}"
        assert g.requires_grad == w.requires_grad, f"requires_grad {g.requires_grad}, not {w.requires_grad}"


def check_values(got: Any, want: Any, rtol: float = RTOL, atol: float = ATOL) -> None:
    """Raise AssertionError unless all leaves are close; NaN and inf must agree in place."""
    for g, w in zip(tree_leaves(got), tree_leaves(want), strict=True):
        if isinstance(w, torch.Tensor):
            torch.testing.assert_close(
                dense_cpu(g), dense_cpu(w), rtol=rtol, atol=atol, equal_nan=True, check_stride=False
            )
        elif isinstance(w, (float, complex)):
            torch.testing.assert_close(g, w, rtol=rtol, atol=atol, equal_nan=True)
        elif not isinstance(w, torch.device):
            assert g == w, f"{g!r}, not {w!r}"


def check_against_float64(got: Any, exact: Any, float32: Any) -> None:
    """Raise AssertionError unless each element is close to `exact` (float64).

    At a discontinuity (floor, comparison) rounding of the inputs decides: there an element may also
    equal the CPU's float32 result.
    """
    for g, e, f in zip(tree_leaves(got), tree_leaves(exact), tree_leaves(float32), strict=True):
        if not isinstance(f, torch.Tensor):
            check_values(g, f)
            continue
        g, e, f = dense_cpu(g), dense_cpu(e), dense_cpu(f)
        if g.is_complex():  # real and imaginary parts, each by itself
            g, e, f = (torch.view_as_real(t.resolve_conj()) for t in (g, e, f))
        if not g.is_floating_point():
            assert torch.equal(g, f), f"{int((g != f).sum())} of {g.numel()} elements differ"
            continue
        e = e.to(torch.float32).double()  # overflow of float32 is not an error of the kernel
        wide = g.double()
        close = torch.isclose(wide, e, rtol=NATIVE_RTOL, atol=NATIVE_ATOL, equal_nan=True) | (g == f)
        if not close.all():
            where = tuple(int(i) for i in (~close).nonzero()[0])
            raise AssertionError(
                f"{int((~close).sum())} of {g.numel()} elements differ, first at {where}: "
                f"{g[where].item()!r}, not {e[where].item()!r}"
            )
