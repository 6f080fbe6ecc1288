"""Every kernel of the reference tier against PyTorch on the CPU, through ctypes: no device and no adapter takes part.

Results are compared with PyTorch's float64 (complex128) result of the same inputs, rounded to the output's dtype.
`RAL_TEST_LIBRAL` names the libral.so to test; without it the installed one is.
"""

import ctypes
import importlib.util
import os
import pathlib

import pytest
import torch
from reference_makers import Maker
from reference_samples import GAPS, NATIVE, ROUNDED_BYTES, SAMPLES, SINGLE_CONSTANTS, STAND_INS

UNSUPPORTED = 1
DTYPES = [
    torch.bool, torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64, torch.float16, torch.bfloat16,
    torch.float32, torch.float64, torch.complex64, torch.complex128, torch.uint16, torch.uint32, torch.uint64,
]  # fmt: skip
WIDE = {d: torch.float64 for d in (torch.float16, torch.bfloat16, torch.float32)} | {
    torch.complex64: torch.complex128
}
# Relative and absolute, against the unrounded value: half a unit of the last place, and what PyTorch's own double
# precision may be off by. Integers' floating results come from PyTorch's float32.
TOLERANCE = {
    torch.float16: (2**-11 * 1.0001, 2**-25 * 1.0001), torch.bfloat16: (2**-8 * 1.0001, 1e-30),
    torch.float32: (2**-24 * 1.01, 1e-12), torch.float64: (1e-11, 1e-13), torch.complex64: (1.5e-7, 1e-7),
    torch.complex128: (1e-9, 1e-11),
}  # fmt: skip
SINGLE = (2e-6, 2e-7)


# ---- plugin.h in ctypes --------------------------------------------------------------------------


class DLDevice(ctypes.Structure):
    _fields_ = [("device_type", ctypes.c_int32), ("device_id", ctypes.c_int32)]


class DLType(ctypes.Structure):
    _fields_ = [("code", ctypes.c_uint8), ("bits", ctypes.c_uint8), ("lanes", ctypes.c_uint16)]


class Tensor(ctypes.Structure):
    _fields_ = [
        ("data", ctypes.c_void_p),
        ("device", DLDevice),
        ("ndim", ctypes.c_int32),
        ("dtype", DLType),
        ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("strides", ctypes.POINTER(ctypes.c_int64)),
        ("byte_offset", ctypes.c_uint64),
    ]


class List(ctypes.Structure):
    _fields_ = [("items", ctypes.c_void_p), ("count", ctypes.c_uint64)]


class Complex(ctypes.Structure):
    _fields_ = [("re", ctypes.c_double), ("im", ctypes.c_double)]


class Union(ctypes.Union):
    _fields_ = [
        ("tensor", ctypes.POINTER(Tensor)),
        ("list", List),
        ("i", ctypes.c_int64),
        ("d", ctypes.c_double),
        ("b", ctypes.c_int32),
        ("complex", Complex),
        ("string", ctypes.c_char_p),
    ]


class Value(ctypes.Structure):
    _fields_ = [
        ("tag", ctypes.c_int32),
        ("dtype", ctypes.c_int32),
        ("u", Union),
        ("i64", ctypes.c_int64),
    ]


NONE, TENSOR, TENSOR_LIST, INT, DOUBLE, BOOL, COMPLEX, INT_LIST, STRING, DTYPE = range(10)
DOUBLE_LIST, BOOL_LIST = 11, 12


def dl_type(dtype: torch.dtype) -> DLType:
    bits = torch.empty(0, dtype=dtype).element_size() * 8
    if dtype == torch.bool:
        code = 6
    elif dtype == torch.bfloat16:
        code = 4
    elif dtype.is_complex:
        code = 5
    elif dtype.is_floating_point:
        code = 2
    else:
        code = 0 if dtype.is_signed else 1
    return DLType(code, bits, 1)


class Values:
    """ral_value[] of Python values, and all that it points to."""

    def __init__(self) -> None:
        self.keep: list = []
        self.values: list[Value] = []

    def array(self) -> ctypes.Array:
        return (Value * max(1, len(self.values)))(*self.values)

    def tensor(self, t: torch.Tensor):
        shape = (ctypes.c_int64 * max(1, t.dim()))(*t.shape)
        strides = (ctypes.c_int64 * max(1, t.dim()))(*t.stride())
        base = t.untyped_storage().data_ptr()
        offset = t.storage_offset() * t.element_size()
        out = Tensor(base, DLDevice(12, 0), t.dim(), dl_type(t.dtype), shape, strides, offset)
        self.keep += [t, shape, strides, out]
        return ctypes.pointer(out)

    def add(self, value, schema_type: str) -> None:
        out = Value(NONE, -1)
        if value is None:
            pass
        elif isinstance(value, torch.Tensor):
            out.tag, out.dtype = TENSOR, DTYPES.index(value.dtype)
            out.u.tensor = self.tensor(value)
        elif isinstance(value, torch.dtype):
            out.tag, out.dtype = DTYPE, DTYPES.index(value)
        elif isinstance(value, str):
            text = value.encode()
            self.keep.append(text)
            out.tag, out.u.string = STRING, text
        elif isinstance(value, bool):
            out.tag, out.u.b = BOOL, value
        elif isinstance(value, int):
            out.tag, out.u.i = INT, value
        elif isinstance(value, float):
            out.tag, out.u.d = DOUBLE, value
        elif isinstance(value, complex):
            out.tag, out.u.complex = COMPLEX, Complex(value.real, value.imag)
        elif "Tensor" in schema_type:
            pointers = [self.tensor(t) if t is not None else None for t in value]
            array = (ctypes.POINTER(Tensor) * max(1, len(value)))(*pointers)
            self.keep.append(array)
            out.tag, out.u.list = (
                TENSOR_LIST,
                List(ctypes.cast(array, ctypes.c_void_p), len(value)),
            )
        else:
            kind = BOOL_LIST if "bool" in schema_type else INT_LIST
            item = ctypes.c_int32 if kind == BOOL_LIST else ctypes.c_int64
            array = (item * max(1, len(value)))(*value)
            self.keep.append(array)
            out.tag, out.u.list = kind, List(ctypes.cast(array, ctypes.c_void_p), len(value))
        self.values.append(out)


def _library() -> ctypes.CDLL:
    path = os.environ.get("RAL_TEST_LIBRAL")
    if not path:
        spec = importlib.util.find_spec("torch_fl_core")
        if spec is None or spec.origin is None:
            raise FileNotFoundError("torch_fl_core is not installed; RAL_TEST_LIBRAL may name a libral.so")
        path = str(pathlib.Path(spec.origin).parent / "libral.so")
    library = ctypes.CDLL(path)
    library.ral_reference_ops.restype = ctypes.c_char_p
    library.ral_reference_run.argtypes = [
        ctypes.c_char_p, ctypes.POINTER(Value), ctypes.c_uint32, ctypes.POINTER(Value), ctypes.c_uint32,
        ctypes.c_char_p, ctypes.c_uint64,
    ]  # fmt: skip
    return library


@pytest.fixture(scope="session")
def library() -> ctypes.CDLL:
    return _library()


# ---- Running one operator both ways --------------------------------------------------------------


def overload(op: str):
    name, _, kind = op.removeprefix("aten::").partition(".")
    return getattr(getattr(torch.ops.aten, name), kind or "default")


def bind(op: str, args: tuple, kwargs: dict) -> list:
    """All arguments in the schema's order but for out= ones, defaults included, with their schema types."""
    out = []
    for i, argument in enumerate(a for a in overload(op)._schema.arguments if not a.is_out):
        value = args[i] if i < len(args) else kwargs.get(argument.name, argument.default_value)
        out.append((value, str(argument.type)))
    return out


def each_tensor(value, f):
    if isinstance(value, torch.Tensor):
        return f(value)
    if isinstance(value, (list, tuple)):
        return type(value)(each_tensor(v, f) for v in value)
    return value


def widened(value):
    if isinstance(value, torch.dtype):
        return WIDE.get(value, value)
    return each_tensor(value, lambda t: t.to(WIDE.get(t.dtype, t.dtype)))


def copied(value):
    """The same values in memory of the same layout."""
    return each_tensor(value, lambda t: torch.empty_strided(t.shape, t.stride(), dtype=t.dtype).copy_(t)
                       if 0 not in t.stride() else t.clone())  # fmt: skip


def spread(value):
    """The same values with gaps, an offset and the dims' order in memory reversed."""

    def one(t: torch.Tensor) -> torch.Tensor:
        if t.dim() == 0 or t.numel() == 0:
            return t
        room = torch.zeros([n * 2 + 1 for n in reversed(t.shape)], dtype=t.dtype)
        room = room.permute(*reversed(range(t.dim())))
        return room[tuple(slice(1, 2 * n, 2) for n in t.shape)].copy_(t)

    return each_tensor(value, one)


def run_torch(op: str, args: tuple, kwargs: dict) -> list:
    result = overload(STAND_INS.get(op, op))(*args, **kwargs)
    return list(result) if isinstance(result, (tuple, list)) else [result]


def run_reference(library, op: str, args: tuple, kwargs: dict, outs: list) -> tuple[int, str]:
    values, out_values = Values(), Values()
    for value, schema_type in bind(op, args, kwargs):
        values.add(value, schema_type)
    for out in outs:
        out_values.add(out, "Tensor")
    why = ctypes.create_string_buffer(512)
    status = library.ral_reference_run(
        op.encode(), values.array(), len(values.values), out_values.array(), len(outs), why, 512
    )
    return status, why.value.decode()


def assert_close(got: torch.Tensor, expected: torch.Tensor, what: str, single: bool = False) -> None:
    if not got.dtype.is_floating_point and not got.dtype.is_complex:
        assert torch.equal(got.to(torch.int64), expected.to(torch.int64)), f"{what}: {got} != {expected}"
        return
    relative, absolute = TOLERANCE[got.dtype]
    if single:
        relative, absolute = max(relative, SINGLE[0]), max(absolute, SINGLE[1])
    wide = WIDE.get(got.dtype, got.dtype)
    ours, theirs = got.to(wide), expected.to(wide)
    if not got.dtype.is_complex:  # beyond the dtype's largest number
        theirs = torch.where(ours.isinf(), expected.to(got.dtype).to(wide), theirs)
    close = torch.isclose(ours, theirs, rtol=relative, atol=absolute, equal_nan=True)
    if not close.all():
        pairs = list(zip(ours[~close].tolist(), theirs[~close].tolist()))
        raise AssertionError(f"{what}: {got.dtype}, (got, expected) {pairs[:5]} of {len(pairs)}")


def assert_rounded(op: str, args: tuple, kwargs: dict, got: torch.Tensor, native: torch.Tensor) -> None:
    """Bytes are the float64 result rounded to the nearest, and at most one from PyTorch's."""
    exact = run_torch(op, each_tensor(args, lambda t: t.double()), kwargs)[0].clamp(0, 255)
    assert ((got.double() - exact).abs() <= 0.5 + 1e-9).all(), f"{op}: {got} is not {exact} rounded"
    assert ((got.int() - native.int()).abs() <= 1).all(), f"{op}: {got} != {native}"


def single_precision(args) -> bool:
    """Whether PyTorch computes in float32 although nothing of that dtype goes in."""
    tensors = [a for a in args if isinstance(a, torch.Tensor)]
    return not any(t.dtype.is_floating_point or t.dtype.is_complex for t in tensors)


def check(library, op: str, args: tuple, kwargs: dict, layout) -> None:
    shown = [tuple(a.shape) if isinstance(a, torch.Tensor) else a for a in args]
    what = f"{op} {shown} {kwargs} {layout.__name__}"
    native = run_torch(op, copied(args), kwargs)
    exact_args = copied(args) if op in NATIVE else widened(copied(args))
    wide_kwargs = kwargs if op in NATIVE else {k: widened(v) for k, v in kwargs.items()}
    exact = run_torch(op, exact_args, wide_kwargs)
    outs = [torch.full_like(t, 1) for t in native]
    if layout is spread:
        outs = spread(outs)
    ours = layout(copied(args))
    status, why = run_reference(library, op, ours, kwargs, outs)
    assert status == 0, f"{what}: {status} {why}"
    if op in ROUNDED_BYTES and args[0].dtype == torch.uint8:
        assert_rounded(op, args, kwargs, outs[0], native[0])
        return
    single = op in NATIVE | SINGLE_CONSTANTS or single_precision(args)
    for i, (got, expected) in enumerate(zip(outs, exact)):
        assert_close(got, expected, f"{what} output {i}", single)
    for got, expected in zip(ours, exact_args):
        if isinstance(got, torch.Tensor):
            assert_close(got, expected, f"{what} argument")


def samples(op: str, dtype: torch.dtype):
    for sample in SAMPLES[op](Maker(dtype)):
        kwargs = sample[-1] if sample and isinstance(sample[-1], dict) else {}
        yield (sample[:-1] if kwargs else sample), kwargs


@pytest.mark.parametrize("op", sorted(SAMPLES))
def test_operator(library, op: str) -> None:
    known = library.ral_reference_ops().decode().split()
    assert op in known, "a sample of an operator that has no reference kernel"
    checked = []
    for dtype in DTYPES:
        try:
            made = list(samples(op, dtype))
            for args, kwargs in made:
                run_torch(op, copied(args), kwargs)
        except (RuntimeError, NotImplementedError, IndexError, TypeError):
            continue  # PyTorch has no such operator for this dtype
        if dtype in GAPS.get(op, ()):
            continue
        for args, kwargs in made:
            check(library, op, args, kwargs, copied)
            check(library, op, args, kwargs, spread)
        checked.append(dtype)
    if os.environ.get("RAL_TEST_SHOW"):
        print(op, [str(d).removeprefix("torch.") for d in checked])
    assert checked, "PyTorch took no sample of this operator"


def test_gaps_are_refused(library) -> None:
    """What PyTorch does and the reference does not: refused, so that the next tier runs it."""
    for op, dtype in [(name, dtype) for name, dtypes in GAPS.items() for dtype in dtypes]:
        args, kwargs = next(samples(op, dtype))
        outs = [torch.full_like(t, 1) for t in run_torch(op, copied(args), kwargs)]
        status, why = run_reference(library, op, args, kwargs, outs)
        assert status == UNSUPPORTED and why, (op, dtype)
        assert all(torch.all(out == 1) for out in outs), (op, dtype)


def test_every_operator_has_a_sample(library) -> None:
    known = set(library.ral_reference_ops().decode().split())
    assert known - set(SAMPLES) == set()


def test_manifest_is_covered(library) -> None:
    """What OpenCL's kernels can be judged by."""
    import json

    manifest = pathlib.Path(__file__).parents[2] / "core/plugins/opencl/kernel_manifest.json"
    named = {k["op_name"] for k in json.loads(manifest.read_text())["kernels"]}
    assert named - set(library.ral_reference_ops().decode().split()) == set()


REFUSED = [
    ("aten::div.Tensor_mode", lambda: (torch.tensor([4, 5]), torch.tensor([2, 0]), {"rounding_mode": "floor"})),
    ("aten::gather", lambda: (torch.arange(4.0), 0, torch.tensor([1, 9]))),
    ("aten::index.Tensor", lambda: (torch.arange(4.0), [torch.tensor([1, -9])])),
    ("aten::mm", lambda: (torch.ones(2, 3), torch.ones(2, 2))),
    ("aten::lt.Tensor", lambda: (torch.ones(2, dtype=torch.complex64), torch.ones(2))),
    ("aten::add.Tensor", lambda: (torch.ones(3), torch.ones(2))),
]  # fmt: skip


@pytest.mark.parametrize("op,make", REFUSED, ids=[r[0] for r in REFUSED])
def test_refused_before_anything_is_written(library, op: str, make) -> None:
    sample = make()
    kwargs = sample[-1] if isinstance(sample[-1], dict) else {}
    dtype = torch.int64 if op.startswith("aten::div") else torch.float32
    out = torch.full((2, 2) if op == "aten::mm" else (2,), 77, dtype=dtype)
    status, why = run_reference(library, op, sample[: len(sample) - bool(kwargs)], kwargs, [out])
    assert status == UNSUPPORTED and why
    assert torch.all(out == 77)


@pytest.mark.parametrize("op", ["aten::add.Tensor", "aten::mul.Tensor", "aten::addmm", "aten::index_put"])
def test_in_place(library, op: str) -> None:
    for args, kwargs in samples(op, torch.float32):
        self = args[0].clone()
        expected = run_torch(op, widened(copied(args)), kwargs)[0]
        if self.shape != expected.shape:
            continue
        status, why = run_reference(library, op, (self, *args[1:]), kwargs, [self])
        assert status == 0, why
        assert_close(self, expected, op)


def test_expanded_inputs(library) -> None:
    a, b = torch.randn(3, 1).expand(3, 4), torch.randn(1).expand(3, 4)
    out = torch.empty(3, 4)
    assert run_reference(library, "aten::add.Tensor", (a, b), {}, [out])[0] == 0
    torch.testing.assert_close(out, a + b)


MIXED = [
    (torch.int64, torch.float32), (torch.float16, torch.float32), (torch.bfloat16, torch.float16),
    (torch.uint8, torch.int8), (torch.bool, torch.float16), (torch.float32, torch.complex64),
    (torch.int32, torch.complex128), (torch.float64, torch.float32), (torch.bool, torch.int16),
]  # fmt: skip


@pytest.mark.parametrize(
    "op", ["add.Tensor", "mul.Tensor", "div.Tensor", "eq.Tensor", "maximum", "where.self", "cat"]
)
def test_mixed_dtypes(library, op: str) -> None:
    """Inputs of two dtypes, with and without dims, and the output of the promoted one."""
    for first, second in MIXED:
        for shape in ((2, 3), ()):
            a, b = Maker(first).positive(2, 3), Maker(second).positive(*shape)
            args: tuple = (a, b)
            if op == "where.self":
                args = (torch.tensor([True, False, True]), a, b)
            elif op == "cat":
                args = ([a, b.expand(2, 3)],)
            elif op == "maximum" and (first.is_complex or second.is_complex):
                continue
            native = run_torch("aten::" + op, args, {})
            outs = [torch.full_like(t, 1) for t in native]
            status, why = run_reference(library, "aten::" + op, args, {}, outs)
            assert status == 0, (first, second, why)
            wide = run_torch("aten::" + op, widened(args), {})[0]
            expected = wide if op != "eq.Tensor" else native[0]
            assert_close(outs[0], expected, f"{op} {first} {second}", single=single_precision(args))


def test_ranks(library) -> None:
    shape = [1, 2, 1, 1] * 4
    a, out = torch.randn(shape), torch.empty(shape)
    assert run_reference(library, "aten::exp", (a,), {}, [out])[0] == 0
    assert_close(out, a.double().exp(), "exp")
    assert run_reference(library, "aten::exp", (a[None],), {}, [out[None]]) == (UNSUPPORTED, "rank 17 > 16")
