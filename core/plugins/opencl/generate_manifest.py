"""Write kernel_manifest.json from the tables below: `python generate_manifest.py`.

One row per operator; `--check` only compares with the file and exits 1 where it differs.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

FLOATS = ["float16", "bfloat16", "float32", "float64"]
INTS = ["uint8", "int8", "int16", "int32", "int64"]
ALL = ["bool", *INTS, *FLOATS]
BITS = ["bool", *INTS]
COPY = [*ALL, "complex64", "uint16", "uint32", "uint64"]

# symbol of kernels/elementwise.cl -> (ATen operators, dtypes)
ELEMENTWISE: dict[str, tuple[list[str], list[str]]] = {
    "add": (["add.Tensor", "add.Scalar"], ALL),
    "sub": (["sub.Tensor", "sub.Scalar"], [*INTS, *FLOATS]),
    "rsub": (["rsub.Tensor", "rsub.Scalar"], [*INTS, *FLOATS]),
    "mul": (["mul.Tensor", "mul.Scalar"], ALL),
    "mul3": (["native_dropout_backward"], ["bool", *FLOATS]),
    "div": (["div.Tensor", "div.Scalar"], ALL),
    "div_mode": (["div.Tensor_mode", "div.Scalar_mode"], FLOATS),
    "neg": (["neg"], [*INTS, *FLOATS]),
    "abs": (["abs"], [*INTS, *FLOATS]),
    "sign": (["sign", "sgn"], ALL),
    "square": (["square"], [*INTS, *FLOATS]),
    **{
        name: ([name], ALL)
        for name in (
            "reciprocal sqrt rsqrt exp exp2 expm1 log log2 log10 log1p sin cos tan asin acos atan sinh cosh tanh "
            "asinh acosh atanh sigmoid erf erfc"
        ).split()
    },
    **{
        name: ([name], FLOATS)
        for name in "silu mish gelu floor ceil round trunc frac leaky_relu elu hardswish hardsigmoid softplus".split()
    },
    "relu": (["relu"], [*INTS, *FLOATS]),
    "prelu": (["_prelu_kernel"], FLOATS),
    "hardtanh": (["hardtanh"], [*INTS[1:], *FLOATS]),
    "threshold": (["threshold"], [*INTS, *FLOATS]),
    "maximum": (["maximum"], ALL),
    "minimum": (["minimum"], ALL),
    "fmax": (["fmax"], ALL),
    "fmin": (["fmin"], ALL),
    "clamp": (["clamp", "clamp.Tensor"], [*INTS, *FLOATS]),
    "clamp_min": (["clamp_min", "clamp_min.Tensor"], [*INTS, *FLOATS]),
    "clamp_max": (["clamp_max", "clamp_max.Tensor"], [*INTS, *FLOATS]),
    "fmod": (["fmod.Tensor", "fmod.Scalar"], FLOATS),
    "remainder": (["remainder.Tensor", "remainder.Scalar"], FLOATS),
    "pow": (["pow.Tensor_Tensor", "pow.Tensor_Scalar", "pow.Scalar"], FLOATS),
    "atan2": (["atan2"], ALL),
    "hypot": (["hypot"], FLOATS),
    "copysign": (["copysign.Tensor", "copysign.Scalar"], ALL),
    "lerp": (["lerp.Scalar", "lerp.Tensor"], FLOATS),
    "addcmul": (["addcmul"], [*INTS, *FLOATS]),
    "addcdiv": (["addcdiv"], FLOATS),
    "where": (["where.self"], ALL),
    "masked_fill": (["masked_fill.Scalar", "masked_fill.Tensor"], ALL),
    **{name: ([f"{name}.Tensor", f"{name}.Scalar"], ALL) for name in "eq ne lt le gt ge".split()},
    **{name: ([name], ALL) for name in "logical_and logical_or logical_xor logical_not isnan isinf".split()},
    "signbit": (["signbit"], FLOATS),
    **{
        name: ([f"{name}.Tensor", f"{name}.Scalar"], BITS)
        for name in "bitwise_and bitwise_or bitwise_xor".split()
    },
    "bitwise_not": (["bitwise_not"], BITS),
    "threshold_backward": (["threshold_backward"], [*INTS, *FLOATS]),
    **{
        name: ([name], FLOATS)
        for name in (
            "sigmoid_backward tanh_backward gelu_backward silu_backward leaky_relu_backward hardtanh_backward "
            "hardsigmoid_backward hardswish_backward softplus_backward elu_backward"
        ).split()
    },
    "fill": (["fill.Scalar", "fill.Tensor"], ALL),
    "zero": (["zero"], ALL),
    "copy": (["copy"], COPY),
    "cast": (["_to_copy"], COPY),
}

# (file, symbol, ATen operators, dtypes, smallest rank, largest rank, contiguous only)
OTHERS: list[tuple[str, str, list[str], list[str], int, int, bool]] = [
    ("reduction.cl", "sum_all", ["sum"], ALL, 0, 8, False),
    ("reduction.cl", "sum", ["sum.dim_IntList"], ALL, 0, 8, False),
    ("reduction.cl", "mean_all", ["mean"], FLOATS, 0, 8, False),
    ("reduction.cl", "mean", ["mean.dim"], FLOATS, 0, 8, False),
    ("reduction.cl", "prod_all", ["prod"], ALL, 0, 8, False),
    ("reduction.cl", "prod", ["prod.dim_int"], ALL, 0, 8, False),
    ("reduction.cl", "amax", ["amax"], ALL, 0, 8, False),
    ("reduction.cl", "amin", ["amin"], ALL, 0, 8, False),
    ("reduction.cl", "max_all", ["max"], ALL, 0, 8, False),
    ("reduction.cl", "min_all", ["min"], ALL, 0, 8, False),
    ("reduction.cl", "max", ["max.dim"], ALL, 0, 8, False),
    ("reduction.cl", "min", ["min.dim"], ALL, 0, 8, False),
    ("reduction.cl", "argmax", ["argmax"], [*INTS, *FLOATS], 0, 8, False),
    ("reduction.cl", "argmin", ["argmin"], [*INTS, *FLOATS], 0, 8, False),
    ("reduction.cl", "any", ["any.dim", "any.dims"], ALL, 0, 8, False),
    ("reduction.cl", "all", ["all.dim", "all.dims"], ALL, 0, 8, False),
    ("reduction.cl", "any_all", ["any"], ALL, 0, 8, False),
    ("reduction.cl", "all_all", ["all"], ALL, 0, 8, False),
    ("reduction.cl", "var", ["var.correction"], FLOATS, 0, 8, False),
    ("reduction.cl", "std", ["std.correction"], FLOATS, 0, 8, False),
    ("softmax.cl", "softmax", ["_softmax"], FLOATS, 0, 8, False),
    ("softmax.cl", "log_softmax", ["_log_softmax"], FLOATS, 0, 8, False),
    ("softmax.cl", "softmax_backward", ["_softmax_backward_data"], FLOATS, 0, 8, False),
    ("softmax.cl", "log_softmax_backward", ["_log_softmax_backward_data"], FLOATS, 0, 8, False),
    ("norm.cl", "layer_norm", ["native_layer_norm"], FLOATS, 1, 8, True),
    ("matmul.cl", "mm", ["mm"], [*INTS, *FLOATS], 2, 2, False),
    ("matmul.cl", "bmm", ["bmm"], [*INTS, *FLOATS], 3, 3, False),
    ("matmul.cl", "addmm", ["addmm"], [*INTS, *FLOATS], 0, 2, False),
    ("matmul.cl", "baddbmm", ["baddbmm"], [*INTS, *FLOATS], 0, 3, False),
    ("matmul.cl", "mv", ["mv"], [*INTS, *FLOATS], 1, 2, False),
    ("matmul.cl", "addmv", ["addmv"], [*INTS, *FLOATS], 0, 2, False),
    ("matmul.cl", "dot", ["dot"], [*INTS, *FLOATS], 1, 1, False),
    ("shape.cl", "cat", ["cat"], ALL, 1, 8, False),
    ("shape.cl", "cumsum", ["cumsum"], ALL, 0, 8, False),
    ("shape.cl", "tril", ["tril"], ALL, 2, 8, False),
    ("shape.cl", "triu", ["triu"], ALL, 2, 8, False),
    ("shape.cl", "flip", ["flip"], ALL, 0, 8, False),
]


def entry(
    op: str,
    file: str,
    symbol: str,
    dtypes: list[str],
    ranks: tuple[int, int] = (0, 8),
    contiguous: bool = False,
) -> dict[str, object]:
    """One manifest entry."""
    return {
        "op_name": f"aten::{op}",
        "backend": "opencl",
        "supported_dtypes": dtypes,
        "min_shape_rank": ranks[0],
        "max_shape_rank": ranks[1],
        "requires_contiguous": contiguous,
        "kernel_path": f"kernels/{file}",
        "symbol": symbol,
        "dialect": "opencl-c",
    }


def manifest() -> str:
    """The manifest's text: a list of entries under "kernels"."""
    entries = [
        entry(op, "elementwise.cl", symbol, dtypes)
        for symbol, (names, dtypes) in ELEMENTWISE.items()
        for op in names
    ]
    for file, symbol, names, dtypes, low, high, contiguous in OTHERS:
        entries += [entry(op, file, symbol, dtypes, (low, high), contiguous) for op in names]
    lines = ",\n".join("    " + json.dumps(item) for item in entries)
    return (
        '{\n  "manifest_version": 1,\n  "vendor": "opencl",\n  "version": "0.9.0",\n  "kernels": [\n'
        + lines
        + "\n  ]\n}\n"
    )


def main() -> int:
    """Write or check the file beside this script."""
    path = Path(__file__).with_name("kernel_manifest.json")
    text = manifest()
    if "--check" in sys.argv[1:]:
        return 0 if path.exists() and path.read_text() == text else 1
    path.write_text(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
