"""Every manifest entry against PyTorch on the CPU: integers and truth values exactly, floats against the same
operator in float64, over layouts (dense, transposed, sliced, offset, expanded, broadcast, 0-dim, empty), data types,
special values, and memory with and without shared addresses."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import torch
from abi import DTYPE_NAMES, DTYPES, FP64, UNSUPPORTED, HostScalar, Kernel, Plugin, PluginError
from cases import (
    ELEMENTWISE,
    OTHER_TOLERANCE,
    OTHERS,
    TOLERANCE,
    chosen_layouts,
    elementwise_calls,
    other_calls,
    special_calls,
)  # fmt: skip

MANIFEST = Path(__file__).resolve().parents[2] / "plugins" / "opencl" / "kernel_manifest.json"
OPS = [str(e["op_name"]).removeprefix("aten::") for e in json.loads(MANIFEST.read_text())["kernels"]]
# With this set, every operator runs on all its types and all layouts (an hour); else on a choice of them.
EVERYTHING = os.environ.get("RAL_TEST_EVERYTHING") == "1"

_right: dict[str, set[str]] = {}


def overload(name: str) -> torch._ops.OpOverload:
    """The PyTorch operator of a manifest name."""
    packet, _, variant = name.partition(".")
    return getattr(getattr(torch.ops.aten, packet), variant or "default")


def mapped(value: object, change: Callable[[torch.Tensor], torch.Tensor]) -> object:
    """`change` applied to a tensor or a list of them; all else as it is."""
    if isinstance(value, torch.Tensor):
        return change(value)
    if isinstance(value, list) and value and isinstance(value[0], torch.Tensor):
        return [change(v) for v in value]
    return value


def upcast(value: object) -> object:
    """Floats to float64, all else as it is."""
    if isinstance(value, torch.dtype) and value in (torch.float16, torch.bfloat16, torch.float32):
        return torch.float64
    return mapped(value, lambda t: t.double() if t.is_floating_point() else t)


def as_list(result: object) -> list[torch.Tensor]:
    """One or several results as a list."""
    return list(result) if isinstance(result, tuple | list) else [result]


def call_reference(name: str, args: list[object]) -> list[torch.Tensor]:
    """PyTorch's own results; keyword-only arguments are passed by name."""
    op = overload(name)
    schema = op._schema.arguments
    positional = [a for a, s in zip(args, schema, strict=False) if not s.kwarg_only]
    named = {s.name: a for a, s in zip(args, schema, strict=False) if s.kwarg_only}
    return as_list(op(*positional, **named))


def poisoned(like: torch.Tensor) -> torch.Tensor:
    """A dense output of the same shape and type, full of a pattern that no result has."""
    out = torch.empty_like(like, memory_format=torch.contiguous_format)
    out.untyped_storage().copy_(
        torch.full((out.untyped_storage().nbytes(),), 0x7B, dtype=torch.uint8).untyped_storage()
    )
    return out


def compare(name: str, got: torch.Tensor, native: torch.Tensor, exact: torch.Tensor, what: str) -> None:
    """Assert that `got` is right: `exact`, computed in float64, in the type of `native`. Where float64 has a
    number and PyTorch's own kernel overflows on the way, PyTorch's result is right as well."""
    assert got.dtype == native.dtype
    assert got.shape == native.shape
    if not native.is_floating_point():
        assert torch.equal(got, native), f"{name} {what}"
        return
    rtol, atol = TOLERANCE[native.dtype]
    if name in OTHER_TOLERANCE:
        rtol, atol = max(rtol, OTHER_TOLERANCE[name][0]), max(atol, OTHER_TOLERANCE[name][1])
    wanted = exact.to(native.dtype).double()
    overflowed = ~native.isfinite() & ((got == native) | (got.isnan() & native.isnan()))
    wanted = torch.where(overflowed, native.double(), wanted)
    torch.testing.assert_close(
        got.double(), wanted, rtol=rtol, atol=atol, equal_nan=True, msg=lambda m: f"{name} {what}: {m}"
    )


def check_call(kernel: Kernel, name: str, args: list[object], what: str) -> None:
    """Run one call and compare all its results."""
    try:
        dense = [mapped(a, lambda t: t.clone(memory_format=torch.contiguous_format)) for a in args]
        native = call_reference(name, dense)
        exact = call_reference(name, [upcast(a) for a in dense])
    except (RuntimeError, NotImplementedError) as error:
        if any(text in str(error) for text in ("not implemented", "not supported", "primitive descriptor")):
            return  # PyTorch's CPU backend has no kernel for this form to compare with
        raise
    got = kernel.run(args, [poisoned(t) for t in native])
    for g, n, e in zip(got, native, exact, strict=True):
        compare(name, g, n, e, what)


def dtypes_of(entry: dict[str, object], plugin: Plugin) -> list[torch.dtype]:
    """The entry's types that this device can compute, float32 first where it is one."""
    supported = [DTYPES[DTYPE_NAMES.index(str(d))] for d in entry["supported_dtypes"]]
    if not plugin.info().flags & FP64:
        supported = [d for d in supported if d != torch.float64]
    return sorted(supported, key=lambda d: d != torch.float32)


def calls_of(name: str, dtype: torch.dtype, first: bool) -> Iterator[tuple[str, list[object]]]:
    """The calls of one operator and type; the first type gets the layouts and special values."""
    if name not in ELEMENTWISE:
        for i, call in enumerate(other_calls(name, dtype)):
            if first or EVERYTHING or i % 4 == 0:
                yield call
        return
    spec = ELEMENTWISE[name]

    def layouts(pattern: int) -> list[str]:
        names = chosen_layouts(name, pattern, EVERYTHING) if first or EVERYTHING else ["contiguous"]
        return [n for n in names if not (name == "copy" and n == "broadcast")]  # copies only spread src

    yield from elementwise_calls(spec, dtype, layouts)
    if first and spec.special and dtype.is_floating_point:
        yield from special_calls(spec, dtype)


@pytest.mark.parametrize("name", OPS)
def test_values(plugin: Plugin, entries: dict[str, dict[str, object]], name: str) -> None:
    """All values of one operator in float32 (or its first type)."""
    kernel = Kernel(plugin, 0, entries[name])
    dtype = dtypes_of(entries[name], plugin)[0]
    for what, args in calls_of(name, dtype, first=True):
        check_call(kernel, name, args, f"{dtype} {what}")
    _right.setdefault(plugin.path.parent.name, set()).add(name)


@pytest.mark.slow
@pytest.mark.parametrize("name", OPS)
def test_other_types(plugin: Plugin, entries: dict[str, dict[str, object]], name: str) -> None:
    """One other data type, chosen by the operator's name so that all come up; or all of them."""
    others = dtypes_of(entries[name], plugin)[1:]
    if not others:
        pytest.skip("has one type only")
    kernel = Kernel(plugin, 0, entries[name])
    for dtype in others if EVERYTHING else [others[sum(map(ord, name)) % len(others)]]:
        for what, args in calls_of(name, dtype, first=False):
            check_call(kernel, name, args, f"{dtype} {what}")


def test_every_entry_has_cases(entries: dict[str, dict[str, object]]) -> None:
    """No manifest entry without a test."""
    assert set(entries) - set(ELEMENTWISE) - set(OTHERS) == set()


def test_count_of_right_ops(
    entries: dict[str, dict[str, object]], capsys: pytest.CaptureFixture[str]
) -> None:
    """Prints how many operators were right; at least 60 have to be."""
    with capsys.disabled():
        for mode, names in sorted(_right.items()):
            print(f"\nopencl plugin, {mode}: {len(names)} of {len(entries)} operators right")
    if len(_right) == 2:  # not when a part of the tests was chosen
        assert min(len(names) for names in _right.values()) >= 60


MIXED = [
    ("add.Tensor", [torch.arange(-5, 5, dtype=torch.int32), torch.linspace(-1, 1, 10), 1]),
    ("add.Tensor", [torch.ones(4, dtype=torch.bool), torch.arange(4), 2]),
    ("mul.Tensor", [torch.linspace(-2, 2, 9, dtype=torch.float16), torch.linspace(0, 1, 9)]),
    ("div.Tensor", [torch.arange(1, 9), torch.arange(2, 10, dtype=torch.int32)]),
    ("eq.Tensor", [torch.arange(5), torch.tensor([0.0, 1.5, 2.0, 3.0, 4.5])]),
    ("lt.Tensor", [torch.tensor([200, 100], dtype=torch.uint8), torch.tensor([-1, 120], dtype=torch.int8)]),
    ("eq.Scalar", [torch.tensor([0.1, 0.2]), 0.1]),
    ("eq.Scalar", [torch.tensor([0.1, 0.2], dtype=torch.float16), 0.1]),
    ("eq.Scalar", [torch.tensor([0.1, 0.2], dtype=torch.bfloat16), 0.1]),
    ("gt.Scalar", [torch.tensor([1, 2, 3]), 1.5]),
    ("where.self", [torch.tensor([True, False]), torch.tensor([1.5, 2.5]), torch.tensor(7)]),
    ("maximum", [torch.tensor([2**40 + 1, 5]), torch.tensor([2**40, 6])]),
    ("mul.Tensor", [torch.tensor([2**40 + 1, -(2**33)]), torch.tensor([3, 7])]),
    ("sum", [torch.tensor([2**53 + 1, 1, 2**60]), None]),
    ("sum", [torch.ones(3000, dtype=torch.bool), None]),
    ("sum", [torch.linspace(0, 1, 50), torch.float64]),
    ("sum.dim_IntList", [torch.arange(12, dtype=torch.int8).view(3, 4), [1], False, torch.float32]),
    ("_softmax", [torch.linspace(-2, 2, 40).half().view(4, 10), 1, False]),
    ("max.dim", [torch.tensor([[1.0, float("nan"), 3.0, float("nan")], [2.0, 2.0, 1.0, 0.0]]), 1, False]),
    ("argmax", [torch.tensor([[1.0, float("nan"), 3.0], [2.0, 2.0, 1.0]]), None, False]),
    ("amax", [torch.tensor([[1.0, float("nan"), 3.0], [2.0, 5.0, 1.0]]), [1], False]),
    (
        "native_layer_norm",
        [torch.randn(4, 64).half(), [64], torch.ones(64).half(), torch.zeros(64).half(), 1e-5],
    ),
]


@pytest.mark.parametrize(("name", "args"), MIXED, ids=lambda v: v if isinstance(v, str) else "")
def test_mixed_types(
    plugin: Plugin, entries: dict[str, dict[str, object]], name: str, args: list[object]
) -> None:
    """Type promotion as PyTorch has it, exact 64-bit integers, NaN in extrema."""
    native = call_reference(name, args)
    got = Kernel(plugin, 0, entries[name]).run(args, [poisoned(t) for t in native])
    for g, n in zip(got, native, strict=True):
        compare(name, g, n, n, "mixed types")


CASTS = ["bool", "uint8", "int8", "int16", "int32", "int64", "float16", "bfloat16", "float32", "float64"]


@pytest.mark.parametrize("source", CASTS)
def test_casts(plugin: Plugin, entries: dict[str, dict[str, object]], source: str) -> None:
    """copy and _to_copy from one type to others."""
    values = (
        torch.tensor([0, 1, 2, 3, 100, 7])
        if source in ("bool", "uint8")
        else torch.tensor([0, -1, 2, -3, 100, 7])
    )
    src = values.to(getattr(torch, source))
    copy, cast = Kernel(plugin, 0, entries["copy"]), Kernel(plugin, 0, entries["_to_copy"])
    at = CASTS.index(source)
    for target in CASTS if EVERYTHING else [CASTS[(at + step) % len(CASTS)] for step in (0, 1, 3, 6)]:
        if "float64" in (source, target) and not plugin.info().flags & FP64:
            continue
        dst = torch.zeros(4, 6, dtype=getattr(torch, target))
        signed_to_unsigned = target == "uint8" and src.is_floating_point()
        wanted = src.to(torch.int64).to(torch.uint8) if signed_to_unsigned else src.to(dst.dtype)
        assert torch.equal(copy.run([dst, src, False], [poisoned(dst)])[0], wanted.expand(4, 6)), target
        assert torch.equal(cast.run([src], [poisoned(dst[0])])[0], wanted), target


def test_half_rounding(plugin: Plugin, entries: dict[str, dict[str, object]]) -> None:
    """float32 to the small floats rounds to nearest even, infinities and NaN included."""
    numbers = torch.tensor(
        [1.0, 1.0009765, 65504.0, 65520.0, 1e-8, 6e-8, -2.5e-7, float("inf"), float("nan"), 3.1415927, -1e38]
    )
    numbers = torch.cat([numbers, torch.randn(500)])
    cast = Kernel(plugin, 0, entries["_to_copy"])
    for dtype in (torch.float16, torch.bfloat16):
        got = cast.run([numbers], [poisoned(numbers.to(dtype))])[0]
        torch.testing.assert_close(got, numbers.to(dtype), rtol=0, atol=0, equal_nan=True)


def test_complex_copy(plugin: Plugin, entries: dict[str, dict[str, object]]) -> None:
    """Copies without conversion move bits, also of types that no kernel computes in."""
    src = torch.randn(5, 7, dtype=torch.complex64).t()
    got = Kernel(plugin, 0, entries["copy"]).run(
        [torch.empty(7, 5, dtype=torch.complex64), src, False], [poisoned(src)]
    )[0]
    assert torch.equal(got, src)


def test_host_scalars(plugin: Plugin, entries: dict[str, dict[str, object]]) -> None:
    """0-dim host tensors stand in for tensors."""
    a = torch.tensor([[1.0, 2.0], [3.0, 4.0]])
    add = Kernel(plugin, 0, entries["add.Tensor"])
    assert torch.equal(add.run([a, HostScalar(0.5, torch.float64), 2], [poisoned(a)])[0], a + 1)
    assert torch.equal(add.run([HostScalar(3, torch.int64), a, 1], [poisoned(a)])[0], a + 3)
    less = Kernel(plugin, 0, entries["lt.Tensor"])
    half = torch.tensor([0.1, 0.2], dtype=torch.float16)
    got = less.run([half, HostScalar(0.1, torch.float64)], [torch.zeros(2, dtype=torch.bool)])[0]
    assert got.tolist() == [False, False]
    big = torch.tensor([2**60, 2**60 + 1])
    got = Kernel(plugin, 0, entries["eq.Tensor"]).run(
        [big, HostScalar(2**60, torch.int64)], [torch.zeros(2, dtype=torch.bool)]
    )[0]
    assert got.tolist() == [True, False]


def test_outputs_keep_their_layout(plugin: Plugin, entries: dict[str, dict[str, object]]) -> None:
    """Outputs with strides and offsets: only their own elements change."""
    a, b = torch.randn(6, 8), torch.randn(6, 8)
    base = torch.full((8, 13), 9.0)
    out = base[:, 2:8].t()
    got = Kernel(plugin, 0, entries["sub.Tensor"]).run([a, b, 1], [out])[0]
    assert torch.equal(got, a - b)
    whole = torch.empty(0).set_(got.untyped_storage(), 0, (8, 13), (13, 1))
    assert (whole[:, :2] == 9).all()
    assert (whole[:, 8:] == 9).all()
    got = Kernel(plugin, 0, entries["sum.dim_IntList"]).run([a, [0], False, None], [torch.zeros(16)[1::2]])[0]
    torch.testing.assert_close(got, a.sum(0))
    product = Kernel(plugin, 0, entries["mm"]).run([a, b.t()], [torch.zeros(6, 6).t()])[0]
    torch.testing.assert_close(product, a @ b.t())


def test_in_place(plugin: Plugin, entries: dict[str, dict[str, object]]) -> None:
    """The same memory as input and output, dense and transposed."""
    from abi import DeviceTensor

    for host in (torch.randn(40, 50), torch.randn(50, 40).t()):
        tensor = DeviceTensor(plugin, 0, host)
        got = Kernel(plugin, 0, entries["mul.Scalar"]).run([tensor, 3.0], [tensor])[0]
        assert torch.equal(got, host * 3)


def test_unsupported_is_said_before_anything_is_written(
    plugin: Plugin, entries: dict[str, dict[str, object]]
) -> None:
    """A call that no kernel takes: status UNSUPPORTED, a text, untouched output."""
    out = torch.full((4,), 5, dtype=torch.int64)
    kernel = Kernel(plugin, 0, entries["exp"])
    with pytest.raises(PluginError) as caught:
        kernel.run([torch.ones(4, dtype=torch.int64)], [out])
    assert caught.value.status == UNSUPPORTED
    assert "exp" in str(caught.value)
    with pytest.raises(PluginError) as caught:
        Kernel(plugin, 0, entries["amax"]).run([torch.empty(0, 3), [0], False], [torch.zeros(3)])
    assert caught.value.status == UNSUPPORTED
