"""A plugin whose kernels are the reference tier's, so that all must pass; a kernel's symbol names what is wrong with it."""

from __future__ import annotations

import ctypes
import json
import subprocess
from collections.abc import Iterable
from pathlib import Path

from torch_fl_core.cli import new_plugin, places

ALL_TYPES = (
    "bool", "uint8", "int8", "int16", "int32", "int64", "float16", "bfloat16", "float32", "float64", "complex64",
)  # fmt: skip

_KERNELS = r"""
#include <math.h>
#include <signal.h>

ral_status ral_reference_run(const char* op, const ral_value* args, uint32_t arg_count, const ral_value* outs,
                             uint32_t out_count, char* why, uint64_t why_bytes);

struct ral_kernel_s {
  char op[100], fault[40];
};

/* The places of an output's elements: offsets in elements, row-major. */
static int64_t place(const ral_tensor* t, int64_t i) {
  int64_t at = 0;
  for (int32_t d = t->ndim - 1; d >= 0; i /= t->shape[d], --d) at += i % t->shape[d] * t->strides[d];
  return at;
}

static int64_t count_of(const ral_tensor* t) {
  int64_t n = 1;
  for (int32_t d = 0; d < t->ndim; ++d) n *= t->shape[d];
  return n;
}

static int mixed(const ral_value* args, uint32_t n) {
  for (uint32_t i = 1; i < n; ++i)
    if (args[i].tag == RAL_VALUE_TENSOR && args[0].tag == RAL_VALUE_TENSOR && args[i].dtype != args[0].dtype) return 1;
  return 0;
}

static int has_number(const ral_value* args, uint32_t n) {
  for (uint32_t i = 0; i < n; ++i)
    if (args[i].tag == RAL_VALUE_HOST_SCALAR) return 1;
  return 0;
}

static ral_status kernel_launch(int32_t device, ral_kernel kernel, ral_stream stream, const ral_value* args,
                                uint32_t arg_count, const ral_value* outs, uint32_t out_count,
                                const ral_tensor* workspace, ral_event* done) {
  (void)device, (void)stream, (void)workspace;
  if (done) *done = NULL;
  const ral_tensor* out = outs[0].u.tensor;
  char* data = (char*)out->data + out->byte_offset;
  const int64_t count = count_of(out), size = out->dtype.bits / 8;
  const char* fault = kernel->fault;
  if (strcmp(fault, "crash") == 0 && out->ndim == 0) raise(SIGSEGV);
  for (volatile int hangs = strcmp(fault, "hang") == 0; hangs;) {
  }
  if (strcmp(fault, "in_place") == 0) /* writes before it reads */
    for (int64_t i = 0; i < count; ++i) memset(data + place(out, i) * size, 0, size);
  char why[200];
  const ral_status status = ral_reference_run(kernel->op, args, arg_count, outs, out_count, why, sizeof why);
  if (status != RAL_SUCCESS) return fail(status, why);
  for (int64_t i = 0; i < count; ++i) {
    float* number = (float*)(data + place(out, i) * size);
    if (strcmp(fault, "nan") == 0 && outs[0].dtype == RAL_FLOAT32 && isnan(*number)) *number = 0;
    if (strcmp(fault, "infinity") == 0 && outs[0].dtype == RAL_FLOAT32 && isinf(*number)) *number = 3e38f;
    if (strcmp(fault, "complex") == 0 && outs[0].dtype == RAL_COMPLEX64) number[1] = -number[1];
    if (strcmp(fault, "mixed") == 0 && mixed(args, arg_count)) memset(data + place(out, i) * size, 1, size);
    if (strcmp(fault, "number") == 0 && has_number(args, arg_count)) memset(data + place(out, i) * size, 1, size);
    if (strcmp(fault, "values") == 0) memset(data + place(out, i) * size, 1, size);
  }
  return RAL_SUCCESS;
}

static ral_status kernel_resolve(int32_t device, const char* op_name, const char* path, const char* symbol,
                                 const char* dialect, ral_kernel* out) {
  (void)device, (void)path, (void)dialect;
  *out = calloc(1, sizeof **out);
  snprintf((*out)->op, sizeof (*out)->op, "%s", op_name);
  snprintf((*out)->fault, sizeof (*out)->fault, "%s", symbol);
  return RAL_SUCCESS;
}
"""


def reference_ops() -> list[str]:
    """The names of all operators that the reference tier has."""
    library = ctypes.CDLL(str(places.package_folder() / "libral.so"))
    library.ral_reference_ops.restype = ctypes.c_char_p
    return library.ral_reference_ops().decode().split()


def entry(op: str, fault: str = "right", dtypes: Iterable[str] = ALL_TYPES) -> dict[str, object]:
    """A manifest entry. Faults: crash, hang, in_place, nan, infinity, complex, mixed, number, values."""
    return {
        "op_name": op, "backend": "reference", "supported_dtypes": list(dtypes), "min_shape_rank": 0,
        "max_shape_rank": 8, "requires_contiguous": False, "kernel_path": "none", "symbol": fault,
    }  # fmt: skip


def make_reference_plugin(folder: Path, entries: Iterable[dict[str, object]]) -> Path:
    """The plugin "refchip", built."""
    made = new_plugin.make_plugin("refchip", folder)
    source = made / "refchip_plugin.c"
    text = source.read_text()
    begin, end = (
        text.index("typedef ral_status (*launch_fn)"),
        text.index("static const ral_kernel_table kKernel"),
    )
    source.write_text(text[:begin] + _KERNELS + text[end:])
    (made / "kernel_manifest.json").write_text(json.dumps({"manifest_version": 1, "kernels": list(entries)}))
    done = subprocess.run(["make", "CFLAGS=-O1"], cwd=made, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return made
