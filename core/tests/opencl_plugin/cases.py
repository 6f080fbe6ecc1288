"""What to run each manifest entry on: argument patterns, value ranges and memory layouts.

A pattern is a list of arguments in schema order in which `T` stands for a tensor of the tested data type, `B` for
a bool tensor and everything else for itself. Element-wise patterns run on every layout of `ELEMENTWISE_LAYOUTS`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import torch

T, B = "tensor", "bool tensor"


@dataclass
class Spec:
    """How to call one operator: its patterns, and the range that float elements of each tensor are drawn from."""

    patterns: list[list[object]]
    low: float = -3.0
    high: float = 3.0
    second_low: float | None = None  # lower bound of all tensors after the first, where it differs
    special: bool = True  # also run on NaN, infinities, zeros and tiny numbers


def unary(names: str, low: float = -3.0, high: float = 3.0, **options: object) -> dict[str, Spec]:
    """Specs of operators with one tensor."""
    return {name: Spec([[T]], low, high, **options) for name in names.split()}


def binary(names: str, low: float = -3.0, high: float = 3.0, **options: object) -> dict[str, Spec]:
    """Specs of operators with two tensors."""
    return {name: Spec([[T, T]], low, high, **options) for name in names.split()}


ELEMENTWISE: dict[str, Spec] = {
    "add.Tensor": Spec([[T, T, 1], [T, T, 3], [T, T, -2]]),
    "add.Scalar": Spec([[T, 2, 1], [T, 3, 2]]),
    "sub.Tensor": Spec([[T, T, 1], [T, T, 2]]),
    "sub.Scalar": Spec([[T, 2, 1]]),
    "rsub.Tensor": Spec([[T, T, 1]]),
    "rsub.Scalar": Spec([[T, 3, 2]]),
    **binary("mul.Tensor maximum minimum fmax fmin atan2 hypot copysign.Tensor _prelu_kernel"),
    "mul.Scalar": Spec([[T, 3]]),
    "copysign.Scalar": Spec([[T, -2.0]]),
    "native_dropout_backward": Spec([[T, B, 1.25]]),
    "div.Tensor": Spec([[T, T]], second_low=0.5),
    "div.Scalar": Spec([[T, 3]]),
    "div.Tensor_mode": Spec([[T, T, None], [T, T, "trunc"], [T, T, "floor"]], second_low=0.5),
    "div.Scalar_mode": Spec([[T, 0.75, "floor"], [T, 3, "trunc"]]),
    **unary(
        "neg abs sign sgn square exp exp2 expm1 sin cos atan sinh cosh tanh asinh sigmoid relu silu mish erf erfc"
    ),
    **unary(
        "floor ceil round trunc frac hardswish hardsigmoid isnan isinf signbit logical_not bitwise_not zero"
    ),
    **unary("tan", -1.4, 1.4),
    **unary("reciprocal", 0.2, 3.0),
    **unary("sqrt rsqrt log log2 log10", 0.01, 9.0),
    **unary("log1p", -0.9, 5.0),
    **unary("asin acos atanh", -0.99, 0.99),
    **unary("acosh", 1.01, 5.0),
    "gelu": Spec([[T, "none"], [T, "tanh"]]),
    "leaky_relu": Spec([[T, 0.01]]),
    "elu": Spec([[T, 1.0, 1.0, 1.0], [T, 0.5, 1.5, 2.0]]),
    "softplus": Spec([[T, 1, 20], [T, 2.0, 1.0]]),
    "hardtanh": Spec([[T, -1, 1]]),
    "threshold": Spec([[T, 1, 2]]),
    "clamp": Spec([[T, 1, 2], [T, None, 1], [T, 1, None]]),
    "clamp.Tensor": Spec([[T, T, T], [T, T, None], [T, None, T]]),
    "clamp_min": Spec([[T, 1]]),
    "clamp_max": Spec([[T, 1]]),
    **binary("clamp_min.Tensor clamp_max.Tensor"),
    **binary("fmod.Tensor remainder.Tensor", second_low=0.5),
    "fmod.Scalar": Spec([[T, 1.5], [T, -1.5]]),
    "remainder.Scalar": Spec([[T, 1.5], [T, -1.5]]),
    "pow.Tensor_Tensor": Spec([[T, T]], 0.1, 3.0),
    "pow.Tensor_Scalar": Spec([[T, e] for e in (2, 3, 0.5, 1, -1, -2.0, -0.5, 1.7, 0)], 0.1, 3.0),
    "pow.Scalar": Spec([[2, T]]),
    "lerp.Scalar": Spec([[T, T, 0.25], [T, T, 0.75]], special=False),
    "lerp.Tensor": Spec([[T, T, T]], special=False),
    "addcmul": Spec([[T, T, T, 1], [T, T, T, 2]]),
    "addcdiv": Spec([[T, T, T, 0.5]], second_low=0.5),
    "where.self": Spec([[B, T, T]]),
    "masked_fill.Scalar": Spec([[T, B, 2]]),
    "masked_fill.Tensor": Spec([[T, B, torch.tensor(2)]]),
    **{
        f"{name}.Tensor": Spec([[T, T]])
        for name in "eq ne lt le gt ge bitwise_and bitwise_or bitwise_xor".split()
    },
    **{
        f"{name}.Scalar": Spec([[T, 1]])
        for name in "eq ne lt le gt ge bitwise_and bitwise_or bitwise_xor".split()
    },
    **binary("logical_and logical_or logical_xor"),
    "threshold_backward": Spec([[T, T, 1]]),
    **binary("sigmoid_backward tanh_backward silu_backward hardsigmoid_backward hardswish_backward"),
    "gelu_backward": Spec([[T, T, "none"], [T, T, "tanh"]]),
    "leaky_relu_backward": Spec([[T, T, 0.1, False]]),
    "hardtanh_backward": Spec([[T, T, -1.0, 1.0]]),
    "softplus_backward": Spec([[T, T, 1, 20], [T, T, 2, 1]]),
    "elu_backward": Spec([[T, 1.0, 1.0, 1.0, False, T], [T, 0.5, 1.5, 2.0, True, T]], special=False),
    "fill.Scalar": Spec([[T, 2]]),
    "fill.Tensor": Spec([[T, torch.tensor(2)]]),
    "copy": Spec([[T, T, False]], special=False),
    "_to_copy": Spec([[T]]),
}

# (pattern of tensors, trailing arguments) -> calls of operators that are not element-wise, as shapes; made into
# tensors by `other_calls`. A tuple is a shape, a list of tuples a tensor list; both become tensors.
S = tuple[int, ...]
_REDUCED: list[tuple[S, list[list[int] | None]]] = [
    ((6, 40), [[1], [0], [0, 1], None]),
    ((3, 17, 5, 20), [[1], [0, 2], [3], [0, 2, 3], [1, 3]]),
    ((9000,), [[0]]),
    ((3, 9000), [[1], [0]]),
    ((500, 33), [[0]]),
    ((), [None]),
]


def _reductions(trailing: Callable[[list[int] | None], list[object]]) -> list[list[object]]:
    return [[shape, *trailing(dims)] for shape, choices in _REDUCED for dims in choices]


def _one_dim(trailing: Callable[[int], list[object]]) -> list[list[object]]:
    pairs = [
        ((6, 40), 1),
        ((6, 40), 0),
        ((3, 17, 5, 20), 2),
        ((3, 17, 5, 20), -1),
        ((3, 9000), 1),
        ((4, 33, 16), 1),
        ((), 0),
    ]
    return [[shape, *trailing(dim)] for shape, dim in pairs]


_WHOLE: list[S] = [(5,), (6, 40), (3, 17, 5, 20), (), (70000,), (300, 301)]
_PRODUCTS: list[tuple[S, S]] = [
    ((5, 7), (7, 3)),
    ((64, 48), (48, 80)),
    ((33, 100), (100, 50)),
    ((1, 300), (300, 40)),
    ((130, 70), (70, 129)),
]
_BATCHED: list[tuple[S, S]] = [
    ((3, 5, 7), (3, 7, 4)),
    ((2, 40, 64), (2, 64, 50)),
    ((1, 33, 100), (1, 100, 66)),
]

OTHERS: dict[str, list[list[object]]] = {
    "sum": [[s, None] for s in _WHOLE],
    "mean": [[s, None] for s in _WHOLE],
    "prod": [[s, None] for s in _WHOLE[:4]],
    "max": [[s] for s in _WHOLE],
    "min": [[s] for s in _WHOLE],
    "any": [[s] for s in _WHOLE],
    "all": [[s] for s in _WHOLE],
    "sum.dim_IntList": _reductions(lambda d: [d, False, None])
    + [[(6, 40), [1], True, None], [(0, 5), [0], False, None]],
    "mean.dim": _reductions(lambda d: [d, False, None]) + [[(6, 40), [0], True, None]],
    "amax": _reductions(lambda d: [d or [], False]),
    "amin": _reductions(lambda d: [d or [], True]),
    "max.dim": _one_dim(lambda d: [d, False]),
    "min.dim": _one_dim(lambda d: [d, True]),
    "argmax": _one_dim(lambda d: [d, False]) + [[(6, 40), None, False], [(3, 17, 5, 20), None, False]],
    "argmin": _one_dim(lambda d: [d, True]) + [[(6, 40), None, False]],
    "prod.dim_int": _one_dim(lambda d: [d, False, None])[:4],
    "any.dim": _one_dim(lambda d: [d, False]),
    "all.dim": _one_dim(lambda d: [d, False]),
    "any.dims": _reductions(lambda d: [d, False]),
    "all.dims": _reductions(lambda d: [d, False]),
    "var.correction": [
        [(6, 40), [1], 1, False],
        [(6, 40), [0], 0, True],
        [(3, 17, 5, 20), [0, 2], 1, False],
        [(6, 40), None, 1, False],
    ],
    "std.correction": [[(6, 40), [1], 1, False], [(3, 17, 5, 20), [1], 2, False]],
    "_softmax": _one_dim(lambda d: [d, False]),
    "_log_softmax": _one_dim(lambda d: [d, False]),
    "_softmax_backward_data": [[s, *rest] for s, *rest in _one_dim(lambda d: [d])],
    "_log_softmax_backward_data": [[s, *rest] for s, *rest in _one_dim(lambda d: [d])],
    "native_layer_norm": [
        [(6, 40), [40], (40,), (40,), 1e-5],
        [(3, 5, 33), [5, 33], (5, 33), None, 1e-3],
        [(4, 100), [100], None, None, 1e-5],
        [(0, 8), [8], (8,), (8,), 1e-5],
    ],
    "mm": [list(p) for p in _PRODUCTS] + [[(4, 0), (0, 5)], [(0, 4), (4, 5)]],
    "bmm": [list(p) for p in _BATCHED],
    "addmm": [[(n,), (m, k), (k, n), 1, 1] for (m, k), (_, n) in _PRODUCTS]
    + [
        [(64, 80), (64, 48), (48, 80), 2, 3],
        [(64, 1), (64, 48), (48, 80), 1, 2],
        [(80,), (64, 48), (48, 80), 0, 1],
    ],
    "baddbmm": [[(b, m, n), (b, m, k), (b, k, n), 1, 2] for (b, m, k), (_, _, n) in _BATCHED],
    "mv": [[(5, 7), (7,)], [(64, 300), (300,)]],
    "addmv": [[(5,), (5, 7), (7,), 2, 3], [(64,), (64, 300), (300,), 1, 1]],
    "dot": [[(7,), (7,)], [(3000,), (3000,)]],
    "cat": [
        [[(3, 4), (2, 4)], 0],
        [[(3, 4), (3, 1), (3, 5)], 1],
        [[(2, 3, 4), (2, 3, 4)], -1],
        [[(0,), (3,), (2,)], 0],
    ],
    "cumsum": _one_dim(lambda d: [d]),
    "tril": [[(6, 40), 0], [(3, 7, 5), -1], [(3, 7, 5), 2]],
    "triu": [[(6, 40), 0], [(3, 7, 5), -1], [(3, 7, 5), 2]],
    "flip": [[(6, 40), [1]], [(3, 7, 5), [0, 2]], [(4,), [0]]],
}

# Sums in another order than PyTorch's: absolute error grows with what is summed.
OTHER_TOLERANCE: dict[str, tuple[float, float]] = {
    **{
        name: (1e-5, 1e-4)
        for name in "sum mean sum.dim_IntList mean.dim cumsum var.correction std.correction".split()
    },
    **{name: (1e-4, 1e-5) for name in "prod prod.dim_int".split()},
    **{name: (1e-5, 2e-4) for name in "mm bmm addmm baddbmm mv addmv dot".split()},
    **{
        name: (1e-5, 3e-5)
        for name in "native_layer_norm _softmax_backward_data _log_softmax_backward_data".split()
    },
}

TOLERANCE = {
    torch.float16: (2e-3, 2e-3),
    torch.bfloat16: (1.6e-2, 1.6e-2),
    torch.float32: (1.3e-6, 1e-5),
    torch.float64: (1e-7, 1e-9),
}


def values(shape: S, dtype: torch.dtype, low: float, high: float, generator: torch.Generator) -> torch.Tensor:
    """A dense tensor of random values: floats in [low, high), integers around 0 (or from 0), bools."""
    if dtype == torch.bool:
        return torch.rand(shape, generator=generator) > 0.5
    if dtype.is_floating_point:
        return (torch.rand(shape, generator=generator, dtype=torch.float64) * (high - low) + low).to(dtype)
    if dtype.is_complex:
        return torch.randn(shape, generator=generator, dtype=torch.complex128).to(dtype)
    start = 0 if low >= 0 or not dtype.is_signed else -9
    return torch.randint(start, 10, shape, generator=generator).to(dtype)


def arrange(make: Callable[[S], torch.Tensor], shape: S, layout: str) -> torch.Tensor:
    """A tensor of `shape` whose memory is laid out as named."""
    if layout == "transposed" and shape:
        return make(tuple(reversed(shape))).permute(*reversed(range(len(shape))))
    if layout == "sliced" and shape:
        wide = make((*shape[:-1], 2 * shape[-1] + 3))
        return wide[..., 3::2] if shape[-1] else make(shape)
    if layout == "offset":
        size = 1
        for n in shape:
            size *= n
        return make((size + 5,))[5:].view(shape)
    if layout == "expanded" and shape:
        return make((1, *shape[1:])).expand(shape)
    return make(shape)


# name -> for each tensor of a call (the last repeats): shape and layout
ELEMENTWISE_LAYOUTS: dict[str, list[tuple[S, str]]] = {
    "contiguous": [((33, 65), "contiguous")],
    "transposed": [((65, 33), "transposed")],
    "mixed": [((7, 5, 40), "contiguous"), ((7, 5, 40), "transposed"), ((7, 5, 40), "sliced")],
    "short rows": [((6, 5, 4, 3), "sliced"), ((6, 5, 4, 3), "transposed")],
    "long rows": [((3, 2500), "offset"), ((3, 2500), "sliced")],
    "broadcast": [((4, 1, 50), "contiguous"), ((3, 50), "expanded"), ((1,), "contiguous")],
    "expanded": [((20, 45), "expanded"), ((20, 45), "contiguous")],
    "rank 8": [((2, 1, 3, 2, 2, 1, 2, 3), "transposed"), ((2, 1, 3, 2, 2, 1, 2, 3), "contiguous")],
    "0-dim": [((), "contiguous")],
    "0-dim second": [((5, 6), "transposed"), ((), "contiguous")],
    "empty": [((0, 4), "contiguous")],
}
# Layouts that every operator's first pattern runs on; one of the others comes in by its name, and further patterns
# run on two. Each layout may need a build of its own, so that all of everything would take an hour.
CORE_LAYOUTS = ["contiguous", "transposed", "expanded", "0-dim", "empty"]
FURTHER_LAYOUTS = [name for name in ELEMENTWISE_LAYOUTS if name not in CORE_LAYOUTS]


def chosen_layouts(name: str, pattern: int, everything: bool) -> list[str]:
    """Layouts for one pattern of an operator; `everything` takes all."""
    if everything:
        return list(ELEMENTWISE_LAYOUTS)
    further = FURTHER_LAYOUTS[sum(map(ord, name)) % len(FURTHER_LAYOUTS)]
    return [*CORE_LAYOUTS, further] if pattern == 0 else ["contiguous", "empty"]


def special_values(dtype: torch.dtype) -> torch.Tensor:
    """NaN, infinities, signed zeros, tiny, large and ordinary numbers."""
    return torch.tensor(
        [
            float("nan"),
            float("inf"),
            -float("inf"),
            0.0,
            -0.0,
            1.0,
            -1.0,
            1e-30,
            -1e-30,
            0.5,
            -0.5,
            2.5,
            -2.5,
            100.0,
            -100.0,
            3.0,
        ],
        dtype=dtype,
    )


def elementwise_calls(
    spec: Spec, dtype: torch.dtype, layouts: Callable[[int], list[str]]
) -> Iterator[tuple[str, list[object]]]:
    """(description, arguments) for every pattern, on the layouts chosen for it."""
    generator = torch.Generator().manual_seed(7)
    for number, pattern in enumerate(spec.patterns):
        for name in layouts(number):
            places = ELEMENTWISE_LAYOUTS[name]
            args: list[object] = []
            tensors = 0
            for item in pattern:
                if item not in (T, B) or isinstance(item, torch.Tensor):
                    args.append(item.to(dtype) if isinstance(item, torch.Tensor) else item)
                    continue
                shape, layout = places[min(tensors, len(places) - 1)]
                kind = torch.bool if item == B else dtype
                low = spec.second_low if tensors and spec.second_low is not None else spec.low
                args.append(
                    arrange(lambda s, k=kind, b=low: values(s, k, b, spec.high, generator), shape, layout)
                )
                tensors += 1
            yield f"{pattern} {name}", args


def special_calls(spec: Spec, dtype: torch.dtype) -> Iterator[tuple[str, list[object]]]:
    """Every pair of special values for the first two tensors."""
    numbers = special_values(dtype)
    for pattern in spec.patterns:
        args: list[object] = []
        tensors = 0
        for item in pattern:
            if isinstance(item, torch.Tensor) or item not in (T, B):
                args.append(item.to(dtype) if isinstance(item, torch.Tensor) else item)
                continue
            view = numbers.view(-1, 1) if tensors % 2 == 0 else numbers.view(1, -1)
            args.append(view > 0 if item == B else view)
            tensors += 1
        yield f"{pattern} special values", args


def other_calls(name: str, dtype: torch.dtype) -> Iterator[tuple[str, list[object]]]:
    """(description, arguments) for every shape of `OTHERS`, dense and in other layouts."""
    generator = torch.Generator().manual_seed(11)
    small = name.startswith("prod")
    dense_only = name == "native_layer_norm"

    def make(shape: S) -> torch.Tensor:
        if name.startswith(("all", "any")) and dtype != torch.bool:
            return (torch.rand(shape, generator=generator) > 0.3).to(dtype)
        if small and not dtype.is_floating_point:
            return (
                values(shape, dtype, 1, 2, generator) % 3 + 1
                if dtype != torch.bool
                else values(shape, dtype, 0, 1, generator)
            )
        return values(shape, dtype, 0.7 if small else -2.0, 1.3 if small else 2.0, generator)

    for call in OTHERS[name]:
        for layout in ["contiguous"] if dense_only else ["contiguous", "transposed", "sliced", "expanded"]:
            args: list[object] = []
            for item in call:
                if isinstance(item, tuple):
                    args.append(arrange(make, item, layout))
                elif isinstance(item, list) and item and isinstance(item[0], tuple):
                    args.append([arrange(make, shape, layout) for shape in item])
                else:
                    args.append(item)
            if name.endswith("backward_data"):
                forward = torch._softmax if name.startswith("_softmax") else torch._log_softmax
                dim = int(str(args[1]))
                output = forward(make(args[0].shape).float(), dim, False).to(dtype)
                args = [args[0], output, dim, dtype]
            yield f"{call} {layout}", args
