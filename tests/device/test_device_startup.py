"""What happens at `import torch`, at first use, and where something is in the way."""

from __future__ import annotations

import pathlib
import re
import shutil
import subprocess
from typing import Any

import pytest
import torch

pytestmark = pytest.mark.usefixtures("ral")

DRIVERS = """
import re
def drivers():
    maps = open("/proc/self/maps").read()
    return sorted(set(re.findall(r"/(lib(?:OpenCL|pocl|LLVM|intelocl|MesaOpenCL|opencl_plugin)[^/ ]*)$", maps, re.M)))
"""


def test_import_opens_no_driver(must_pass: Any) -> None:
    text = must_pass(
        DRIVERS
        + """
import torch
print(drivers())
assert hasattr(torch, "ral")
torch.ones(3) + 1
torch.nn.Linear(2, 2)(torch.ones(1, 2)).sum().backward()
print(drivers())
torch.zeros(1, device="ral:0")
print(bool(drivers()))
"""
    )
    assert text.splitlines() == ["[]", "[]", "True"]


def test_autoload_can_be_switched_off(must_pass: Any) -> None:
    code = "import torch; print(hasattr(torch, 'ral'))"
    assert must_pass(code, TORCH_DEVICE_BACKEND_AUTOLOAD="0").strip() == "False"
    assert must_pass(code, TORCH_DEVICE_BACKEND_AUTOLOAD=None).strip() == "True"


def test_explicit_loading(must_pass: Any) -> None:
    text = must_pass(
        """
        import torch_fl_core
        module = torch_fl_core.load()
        assert torch_fl_core.load() is module
        import torch
        print((torch.ones(2, device="ral:0") + 1).tolist())
        """,
        TORCH_DEVICE_BACKEND_AUTOLOAD="0",
    )
    assert text.strip() == "[2.0, 2.0]"


def test_another_backend_holds_the_device_slot(python: Any) -> None:
    done = python(
        """
        import torch, warnings
        torch.utils.rename_privateuse1_backend("foo")
        import torch_fl_core
        with warnings.catch_warnings(record=True) as seen:
            warnings.simplefilter("always")
            torch_fl_core._autoload()
        print("WARNED", [str(w.message) for w in seen])
        try:
            torch_fl_core.load()
        except RuntimeError as error:
            print("REFUSED", error)
        print((torch.ones(2) + 1).tolist())
        """,
        TORCH_DEVICE_BACKEND_AUTOLOAD="0",
    )
    assert done.returncode == 0, done.stderr
    warned, refused, worked = done.stdout.strip().splitlines()
    assert "foo" in refused
    assert refused.startswith("REFUSED")
    assert warned.count("foo") == 1
    assert worked == "[2.0, 2.0]"


def test_torch_version_without_an_adapter(python: Any) -> None:
    done = python(
        """
        import torch, warnings
        torch.__version__ = "2.99.0"
        import torch_fl_core
        with warnings.catch_warnings(record=True) as seen:
            warnings.simplefilter("always")
            torch_fl_core._autoload()
        for w in seen:
            print("WARNED", str(w.message).replace(chr(10), " "))
        try:
            torch_fl_core.load()
        except Exception as error:
            print("REFUSED", type(error).__name__, str(error).replace(chr(10), " "))
        print((torch.ones(2) + 1).tolist())
        """,
        TORCH_DEVICE_BACKEND_AUTOLOAD="0",
    )
    assert done.returncode == 0, done.stderr
    warned, refused, worked = done.stdout.strip().splitlines()
    for line in (warned, refused):
        assert "2.99" in line
        assert "2.13" in line, "the text names a version that has an adapter"
    assert worked == "[2.0, 2.0]"


def test_other_operating_systems_are_refused(python: Any) -> None:
    done = python(
        """
        import torch, sys
        sys.platform = "win32"
        import torch_fl_core
        try:
            torch_fl_core.load()
        except Exception as error:
            print(error)
        """,
        TORCH_DEVICE_BACKEND_AUTOLOAD="0",
    )
    assert "Linux" in done.stdout, done.stdout + done.stderr
    assert "win32" in done.stdout or "Windows" in done.stdout


def test_adapter_path(python: Any, must_pass: Any) -> None:
    done = python(
        "import torch; print((torch.ones(2) + 1).tolist())", TORCH_FL_ADAPTER_PATH="/nowhere/libadapter.so"
    )
    assert done.returncode == 0, "import torch works all the same"
    assert done.stdout.strip() == "[2.0, 2.0]"
    assert "TORCH_FL_ADAPTER_PATH" in done.stderr
    assert "/nowhere/libadapter.so" in done.stderr
    own = must_pass("import torch_fl_core; print(torch_fl_core.load().__file__)").strip()
    text = must_pass(
        "import torch; print((torch.ones(2, device='ral:0') + 1).tolist())", TORCH_FL_ADAPTER_PATH=own
    )
    assert text.strip() == "[2.0, 2.0]"


@pytest.mark.parametrize(
    ("value", "word"),
    [("native,gpu", "gpu"), ("native,native", "native"), (",", ""), ("NATIVE;CPU", "NATIVE;CPU")],
)
def test_bad_fallback_policy_in_the_environment(python: Any, value: str, word: str) -> None:
    done = python("import torch; print(torch.ones(2, device='ral:0').tolist())", RAL_FALLBACK=value)
    text = done.stdout + done.stderr
    assert "RAL_FALLBACK" in text
    assert word in text
    assert done.returncode != 0 or "[1.0, 1.0]" in done.stdout


# ---- plugins -----------------------------------------------------------------------------------------
PLUGIN_SOURCE = """
#include "ral/plugin.h"
#include <stdlib.h>
#include <string.h>
static ral_status count(int32_t* out) { *out = 1; return RAL_SUCCESS; }
static ral_status info(int32_t device, ral_device_info* out) {
  (void)device;
  uint32_t size = out->struct_size;
  memset(out, 0, size);
  out->struct_size = size;
  strcpy(out->name, "Test device");
  strcpy(out->vendor, "Test");
  strcpy(out->driver, "test 1");
  out->total_memory = 1u << 30;
  out->max_allocation = 1u << 28;
  out->flags = RAL_DEVICE_HOST_VISIBLE;
  out->dtype_mask = (1u << RAL_DTYPE_COUNT) - 1;
  return RAL_SUCCESS;
}
static ral_status alloc(int32_t device, uint64_t bytes, ral_memory* out) {
  (void)device;
  out->handle = out->host_address = aligned_alloc(64, (bytes + 63) / 64 * 64);
  return out->handle ? RAL_SUCCESS : RAL_ERROR_OUT_OF_MEMORY;
}
static ral_status release(int32_t device, ral_handle handle) { (void)device; free(handle); return RAL_SUCCESS; }
static const ral_device_table devices = {sizeof devices, count, info, 0, 0};
static const ral_memory_table memory = {sizeof memory, alloc, release, 0, 0, 0, 0, 0};
static const ral_plugin plugin = {sizeof plugin, ABI, NAME, "1.2.3", 0, &devices, &memory, 0, 0, 0, 0, 0, 0};
const ral_plugin* ral_plugin_entry(const ral_host* host) { (void)host; return ENTRY; }
const char* ral_plugin_error(void) { return "missing: libtestdriver.so.1"; }
"""
GOOD_MANIFEST = '{"manifest_version": 1, "kernels": []}'


class PluginFolder:
    """A search folder with plugins made for a test."""

    def __init__(self, path: pathlib.Path, include: pathlib.Path) -> None:
        self.path = path
        self.include = include
        path.chmod(0o755)

    def folder(self, name: str, manifest: str | None = GOOD_MANIFEST) -> pathlib.Path:
        made = self.path / name
        made.mkdir(mode=0o755)
        if manifest is not None:
            (made / "kernel_manifest.json").write_text(manifest)
        return made / f"lib{name}_plugin.so"

    def compile(
        self,
        name: str,
        manifest: str | None = GOOD_MANIFEST,
        abi: str = "RAL_ABI_VERSION",
        entry: str = "&plugin",
    ) -> pathlib.Path:
        library = self.folder(name, manifest)
        source = self.path / f"{name}.c"
        source.write_text(PLUGIN_SOURCE)
        compiler = shutil.which("gcc") or shutil.which("cc")
        assert compiler, "these tests need a C compiler"
        names = [f"-DABI={abi}", f'-DNAME="{name}"', f"-DENTRY={entry}"]
        subprocess.run(
            [compiler, "-shared", "-fPIC", "-I", self.include, *names, source, "-o", library], check=True
        )
        library.chmod(0o755)
        return library


@pytest.fixture
def plugins(tmp_path: pathlib.Path, repository: pathlib.Path) -> PluginFolder:
    return PluginFolder(tmp_path, repository / "core" / "include")


SHOW = """
import json, torch
x = torch.ones(2, device="ral:0") + 1
assert x.tolist() == [2.0, 2.0]
print(json.dumps({"plugins": torch.ral.plugins(), "devices": torch.ral.devices()}))
"""


def show(must_pass: Any, plugins: PluginFolder, name: str) -> dict[str, Any]:
    """The report on one plugin, ral:0 still working."""
    import json

    found = json.loads(must_pass(SHOW, RAL_PLUGIN_PATH=str(plugins.path)).splitlines()[-1])
    assert any(p["name"] == "opencl" and p["status"] in ("LOADED", "READY") for p in found["plugins"])
    (report,) = [p for p in found["plugins"] if p["name"] == name]
    return report | {"devices": [d for d in found["devices"] if d["plugin"] == name]}


def refused(must_pass: Any, plugins: PluginFolder, library: pathlib.Path, *words: str) -> None:
    """The plugin is listed as REFUSED with its file and a reason that has the words; it gives no device."""
    report = show(must_pass, plugins, library.parent.name)
    assert report["status"] == "REFUSED"
    assert report["devices"] == []
    assert str(library) in report["path"] + report["reason"]
    for word in words:
        assert re.search(word, report["reason"]), report["reason"]


def test_a_good_plugin_gives_a_device(must_pass: Any, plugins: PluginFolder) -> None:
    plugins.compile("good")
    report = show(must_pass, plugins, "good")
    assert report["status"] in ("LOADED", "READY")
    assert report["version"] == "1.2.3"
    (device,) = report["devices"]
    assert device["name"] == "Test device"
    code = f"""
import torch
x = torch.arange(6.0, device={device["id"]!r}).reshape(2, 3).requires_grad_()
(x @ x.t()).sum().backward()
print(x.grad.tolist(), x.device)
"""
    text = must_pass(code, RAL_PLUGIN_PATH=str(plugins.path))
    want = torch.arange(6.0).reshape(2, 3).requires_grad_()
    (want @ want.t()).sum().backward()
    assert text.strip() == f"{want.grad.tolist()} {device['id']}"


def test_not_a_library(must_pass: Any, plugins: PluginFolder) -> None:
    library = plugins.folder("broken")
    library.write_text("this is not a library\n")
    refused(must_pass, plugins, library, "ELF|header|library")


def test_library_without_entry(must_pass: Any, plugins: PluginFolder) -> None:
    library = plugins.folder("empty")
    subprocess.run(["gcc", "-shared", "-x", "c", "/dev/null", "-o", library], check=True)
    refused(must_pass, plugins, library, "ral_plugin_entry")


def test_wrong_abi(must_pass: Any, plugins: PluginFolder) -> None:
    library = plugins.compile("future", abi="(7u<<16)")
    refused(must_pass, plugins, library, r"ABI.*7\.0|7\.0.*ABI")


def test_missing_driver(must_pass: Any, plugins: PluginFolder) -> None:
    plugins.compile("lonely", entry="0")
    report = show(must_pass, plugins, "lonely")
    assert report["status"] == "MISSING_DEPS"
    assert report["missing"] == ["libtestdriver.so.1"]


@pytest.mark.parametrize("manifest", ["{ not json", "[1, 2]", '{"no_kernels": true}', ""])
def test_broken_manifest(must_pass: Any, plugins: PluginFolder, manifest: str) -> None:
    library = plugins.compile("garbled", manifest=manifest)
    report = show(must_pass, plugins, "garbled")
    assert "kernel_manifest.json" in report["reason"]
    if report["status"] == "REFUSED":
        assert report["devices"] == []
    assert str(library) in report["path"] + report["reason"]


def test_bad_manifest_entry_is_named(must_pass: Any, plugins: PluginFolder) -> None:
    entry = (
        '{"op_name": "aten::relu", "backend": "test", "supported_dtypes": ["float33"], "min_shape_rank": 0,'
        ' "max_shape_rank": 4, "requires_contiguous": true, "kernel_path": "relu.c"}'
    )
    plugins.compile("partly", manifest='{"kernels": [' + entry + "]}")
    report = show(must_pass, plugins, "partly")
    assert report["status"] in ("LOADED", "READY")
    assert "aten::relu" in report["reason"]
    assert "float33" in report["reason"] or "supported_dtypes" in report["reason"]
    assert len(report["devices"]) == 1


def test_missing_manifest(must_pass: Any, plugins: PluginFolder) -> None:
    plugins.compile("bare", manifest=None)
    report = show(must_pass, plugins, "bare")
    assert "kernel_manifest.json" in report["reason"]


def test_library_that_others_may_write(must_pass: Any, plugins: PluginFolder) -> None:
    library = plugins.compile("open")
    library.chmod(0o777)
    refused(must_pass, plugins, library, "writable")


def test_search_path_of_nothing(must_pass: Any, tmp_path: pathlib.Path) -> None:
    text = must_pass(
        "import torch; print((torch.ones(2, device='ral:0') + 1).tolist())",
        RAL_PLUGIN_PATH=f"{tmp_path}:/nowhere/at/all:",
    )
    assert text.strip() == "[2.0, 2.0]"
