"""The template plugin, a vendor's starting point: builds with nothing but a C compiler, adds right, refuses well."""

from __future__ import annotations

import ctypes as c
import json
import shutil
import subprocess
from pathlib import Path

import pytest
import torch
from abi import HOST_VISIBLE, SUCCESS, UNSUPPORTED, DlDevice, DlType, Memory, Plugin, Tensor, Value

CORE = Path(__file__).resolve().parents[2]
SOURCE = CORE / "plugins" / "template"


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> Plugin:
    """The plugin, built as the comment in its source says."""
    compiler = shutil.which("cc") or shutil.which("gcc")
    if not compiler:
        pytest.skip("needs a C compiler")
    library = tmp_path_factory.mktemp("template") / "libtemplate_plugin.so"
    subprocess.run(
        [compiler, "-shared", "-fPIC", "-fvisibility=hidden", "-O2", "-Wall", "-Werror", "-I", CORE / "include",
         SOURCE / "template_plugin.c", "-o", library],
        check=True,
    )  # fmt: skip
    return Plugin(library)


def tensor(values: torch.Tensor) -> Value:
    """A ral_value over host memory, which is this device's memory as well."""
    rank = max(values.dim(), 1)
    raw = Tensor(
        values.data_ptr(), DlDevice(12, 0), values.dim(), DlType(2, values.element_size() * 8, 1),
        (c.c_int64 * rank)(*values.shape), (c.c_int64 * rank)(*values.stride()), 0,
    )  # fmt: skip
    value = Value(tag=1, dtype=8 if values.dtype == torch.float32 else 9)
    value.u.tensor = c.pointer(raw)
    return value


def test_device_and_memory(template: Plugin) -> None:
    """One host-visible device; memory is aligned and its address is the handle."""
    assert template.count() == 1
    info = template.info()
    assert info.flags & HOST_VISIBLE
    memory = Memory()
    template.check(template.memory.malloc(0, 100, c.byref(memory)))
    assert memory.handle == memory.host_address
    assert memory.handle % info.alignment == 0
    template.check(template.memory.free(0, memory.handle))
    assert template.memory.malloc(7, 100, c.byref(memory)) != SUCCESS


def launch(template: Plugin, a: torch.Tensor, b: torch.Tensor, out: torch.Tensor, alpha: float) -> int:
    """Status of add(a, b, alpha) -> out."""
    entry = json.loads((SOURCE / "kernel_manifest.json").read_text())["kernels"][0]
    kernel = c.c_void_p()
    names = [str(entry[key]).encode() for key in ("op_name", "kernel_path", "symbol", "dialect")]
    template.check(template.kernel.resolve(0, *names, c.byref(kernel)))
    args = (Value * 3)(tensor(a), tensor(b), Value(tag=4))
    args[2].u.d = alpha
    return template.kernel.launch(0, kernel, None, args, 3, (Value * 1)(tensor(out)), 1, None, None)


def test_add(template: Plugin) -> None:
    """Dense float32 adds; anything else is UNSUPPORTED and leaves the output alone."""
    a, b, out = torch.randn(5, 7), torch.randn(5, 7), torch.zeros(5, 7)
    assert launch(template, a, b, out, 2.0) == SUCCESS
    torch.testing.assert_close(out, a + 2 * b)
    out.zero_()
    assert launch(template, a.t(), b, out, 1.0) == UNSUPPORTED
    assert launch(template, a, b[0], out, 1.0) == UNSUPPORTED
    assert launch(template, a.double(), b, out, 1.0) == UNSUPPORTED
    assert template.error()
    assert not out.any()
    assert launch(template, torch.empty(0), torch.empty(0), torch.empty(0), 1.0) == SUCCESS
