"""The plugin ABI stays what 0.9 was: the headers' layout, a plugin built in its day, and one of a later day."""

from __future__ import annotations

import importlib.util
import json
import os
import re
import shutil
import subprocess
import sys
import textwrap
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

ABI = Path(__file__).resolve().parents[2] / "core/tests/abi"
FROZEN = ABI / "plugin_0_9"

pytestmark = [
    pytest.mark.skipif(not shutil.which("cc"), reason="needs a C compiler"),
    pytest.mark.skipif(sys.maxsize < 2**32, reason="the baseline is one of 64-bit machines"),
]


def _module(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(f"ral_abi_{name}", ABI / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


dump, compare = _module("dump"), _module("compare")


# ---- The layout ------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def baseline() -> dict[str, Any]:
    return json.loads(compare.BASELINE.read_text())


def test_the_layout_holds_the_baseline(baseline: dict[str, Any]) -> None:
    broken = compare.differences(baseline, dump.layout())
    assert not broken, "the headers break plugins built for ABI 0.9:\n  " + "\n  ".join(broken)


def test_the_baseline_is_that_of_the_frozen_header(baseline: dict[str, Any], tmp_path: Path) -> None:
    """The committed numbers are what the committed header gives; nothing was edited by hand."""
    shutil.copytree(dump.INCLUDE, tmp_path / "include")
    shutil.copy(FROZEN / "include/ral/plugin.h", tmp_path / "include/ral/plugin.h")
    frozen = dump.layout(tmp_path / "include")
    structs = {tag: struct for tag, struct in frozen["structs"].items() if "trace" not in tag}
    assert len(structs) == 15
    assert structs == {tag: struct for tag, struct in baseline["structs"].items() if "trace" not in tag}
    for section in ("typedefs", "functions"):
        assert frozen[section] == baseline[section]


def test_everything_in_the_headers_is_compared(baseline: dict[str, Any]) -> None:
    """The reader of the headers sees every struct, enumerator, value macro and table function."""
    for name in dump.HEADERS:
        text = dump._without_comments((dump.INCLUDE / name).read_text())
        now = dump.layout()
        assert set(re.findall(r"\bstruct\s+(\w+)\s*\{", text)) <= set(now["structs"])
        assert set(re.findall(r"\b(RAL_\w+)\s*=", text)) <= set(now["constants"])
        pointers = re.findall(r"\(\*\s*(\w+)\)\s*\(", text)
        members = {m["name"] for s in now["structs"].values() for m in s["members"]} | set(now["typedefs"])
        assert set(pointers) <= members
    tables = {tag: s for tag, s in baseline["structs"].items() if tag.endswith("_table")}
    arity = {
        f"{tag}.{m['name']}": m["type"].count(",") + 1
        for tag, s in tables.items()
        for m in s["members"]
        if "(*)" in m["type"]
    }
    assert len(arity) == 32
    assert arity["ral_kernel_table.launch"] == 9 and arity["ral_device_table.count"] == 1


Edit = Callable[[str], str]


def _swap(a: str, b: str) -> Edit:
    return lambda text: text.replace(a, "\0").replace(b, a).replace("\0", b)


def _sub(old: str, new: str) -> Edit:
    return lambda text: text.replace(old, new)


BREAKS: dict[str, tuple[Edit, str]] = {
    "a reordered member": (
        _swap("  uint64_t total_memory; ", "  uint64_t max_allocation; "),
        "ral_device_info.total_memory: offset 272, was 264",
    ),
    "reordered functions": (
        _swap("  ral_status (*count)(int32_t* out);", "  ral_status (*synchronize)(int32_t device);\n} ral_device_table;"),
        "ral_device_table.",
    ),
    "a wider type": (_sub("  uint32_t flags;   ", "  uint64_t flags;   "), "ral_device_info.flags: type uint64_t, was uint32_t"),
    "a type of the same size": (
        _sub("  uint32_t compute_units;", "  int32_t compute_units; "),
        "ral_device_info.compute_units: type int32_t, was uint32_t",
    ),
    "a longer text": (_sub("char uuid[40]", "char uuid[64]"), "ral_device_info.uuid: type char[64], was char[40]"),
    "a typedef": (_sub("typedef int32_t ral_status;", "typedef int64_t ral_status;"), "type ral_status is int64_t, it was int32_t"),
    "a removed enum value": (_sub("  RAL_ERROR_LAUNCH = 7, ", "  "), "constant RAL_ERROR_LAUNCH is gone (it was 7)"),
    "a renumbered enum value": (_sub("RAL_FLOAT16 = 6", "RAL_FLOAT16 = 26"), "constant RAL_FLOAT16 is 26, it was 6"),
    "a changed flag": (_sub("RAL_DEVICE_FP64 0x8u", "RAL_DEVICE_FP64 0x10u"), "constant RAL_DEVICE_FP64 is 16, it was 8"),
    "a removed member": (_sub("  void (*shutdown)(void);", ""), "ral_plugin.shutdown is gone"),
    "a member in the middle": (
        _sub("  const char* version;", "  const char* licence;\n  const char* version;"),
        "ral_plugin.licence is new at offset 16, inside the former 96 bytes",
    ),
    "a struct that may not grow": (
        _sub("  uint64_t byte_offset;\n} ral_tensor;", "  uint64_t byte_offset;\n  uint64_t spare;\n} ral_tensor;"),
        "ral_tensor.spare is new, but ral_tensor has no struct_size and may not grow",
    ),
    "one more argument": (
        _sub("(*free_memory)(int32_t device, uint64_t* bytes)", "(*free_memory)(int32_t device, int32_t pool, uint64_t* bytes)"),
        "ral_device_table.free_memory: type ral_status (*)(int32_t, int32_t, uint64_t*), was ral_status (*)(int32_t, uint64_t*)",
    ),
    "another result": (
        _sub("RAL_PLUGIN_EXPORT const char* ral_plugin_error(void)", "RAL_PLUGIN_EXPORT int ral_plugin_error(void)"),
        "function ral_plugin_error is int (void), it was const char* (void)",
    ),
    "a lower version": (_sub("#define RAL_ABI_MINOR 9", "#define RAL_ABI_MINOR 8"), "constant RAL_ABI_MINOR is 8, it was 9"),
    "another major version": (_sub("#define RAL_ABI_MAJOR 0", "#define RAL_ABI_MAJOR 1"), "constant RAL_ABI_MAJOR is 1, it was 0"),
}  # fmt: skip
ADDITIONS: dict[str, Edit] = {
    "a member at the end": _sub("  void (*shutdown)(void);", "  void (*shutdown)(void);\n  ral_status (*reset)(int32_t device);"),
    "an enum value": _sub("  RAL_ERROR_INTERNAL = 11", "  RAL_ERROR_INTERNAL = 11,\n  RAL_ERROR_BUSY = 12"),
    "a type": _sub("RAL_DTYPE_COUNT = 15", "RAL_FLOAT8 = 15,\n  RAL_DTYPE_COUNT = 16"),
    "a struct": _sub("typedef struct ral_plugin {", "typedef struct ral_link {\n  uint32_t struct_size;\n} ral_link;\ntypedef struct ral_plugin {"),
    "a minor version": _sub("#define RAL_ABI_MINOR 9", "#define RAL_ABI_MINOR 10"),
    "a parameter's name": _sub("uint64_t* bytes);\n  /* Optional: wait", "uint64_t* room);\n  /* Optional: wait"),
}  # fmt: skip


def edited(tmp_path: Path, edit: Edit) -> dict[str, Any]:
    """The layout of the frozen header with a change."""
    shutil.copytree(dump.INCLUDE, tmp_path / "include")
    text = (FROZEN / "include/ral/plugin.h").read_text()
    changed = edit(text)
    assert changed != text, "the change does not fit the header"
    (tmp_path / "include/ral/plugin.h").write_text(changed)
    return dump.layout(tmp_path / "include")


@pytest.mark.parametrize("name", BREAKS)
def test_a_break_is_found_and_told(name: str, baseline: dict[str, Any], tmp_path: Path) -> None:
    edit, says = BREAKS[name]
    broken = compare.differences(baseline, edited(tmp_path, edit))
    assert any(says in line for line in broken), broken


@pytest.mark.parametrize("name", ADDITIONS)
def test_an_addition_is_none(name: str, baseline: dict[str, Any], tmp_path: Path) -> None:
    assert compare.differences(baseline, edited(tmp_path, ADDITIONS[name])) == []


def test_a_member_in_the_padding_is_a_break(baseline: dict[str, Any]) -> None:
    """An old struct_size covers the padding at a struct's end: what it holds there is not the new member."""
    now = json.loads(json.dumps(baseline))
    last = now["structs"]["ral_device_info"]["members"][-1]
    was = json.loads(json.dumps(baseline))
    was["structs"]["ral_device_info"]["size"] = last["offset"] + last["size"] + 4
    now["structs"]["ral_device_info"]["size"] = was["structs"]["ral_device_info"]["size"]
    now["structs"]["ral_device_info"]["members"].append(
        {"name": "late", "type": "uint32_t", "offset": last["offset"] + last["size"], "size": 4}
    )
    assert ["ral_device_info.late is new" in line for line in compare.differences(was, now)] == [True]


# ---- Plugins of other days -------------------------------------------------------------------------

ADD = """
    import json, torch
    import torch_fl_core.trace
    mine = [d["id"] for d in torch.ral.devices() if d["plugin"] == "template"]
    status = [p for p in torch.ral.plugins() if p["name"] == "template"]
    answer = {"devices": mine, "plugins": status}
    if mine:
        x = torch.arange(12.0).reshape(3, 4).to(mine[0])
        y = torch.full((3, 4), 0.5).to(mine[0])
        with torch.ral.fallback_policy("native,cpu", strict=True), torch_fl_core.trace.record() as trace:
            z = torch.add(x, y, alpha=2)
        answer["values"] = z.cpu().flatten().tolist()
        answer["tiers"] = trace.kernels[["op", "tier"]].values.tolist()
    print(json.dumps(answer))
"""


def build(source: Path, folder: Path, *options: str) -> None:
    """Builds a plugin `template` below `folder`, against the frozen header only."""
    target = folder / "template/libtemplate_plugin.so"
    target.parent.mkdir()
    command = ["cc", "-shared", "-fPIC", "-fvisibility=hidden", "-O2", "-Wall", "-Werror", *options]
    subprocess.run([*command, "-I", FROZEN / "include", source, "-o", target], check=True)
    shutil.copy(FROZEN / "kernel_manifest.json", target.parent)
    for path in (target, target.with_name("kernel_manifest.json"), target.parent, folder):
        path.chmod(path.stat().st_mode & ~0o022)


def use(folder: Path) -> dict[str, Any]:
    """What a process says that adds on the plugin's device."""
    env = {k: v for k, v in os.environ.items() if k != "RAL_VISIBLE_DEVICES"} | {
        "RAL_PLUGIN_PATH": str(folder)
    }
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(ADD)], env=env, capture_output=True, text=True, timeout=180
    )
    assert done.returncode == 0, done.stderr[-4000:]
    return json.loads(done.stdout.splitlines()[-1])


def check_add(answer: dict[str, Any]) -> None:
    (plugin,) = answer["plugins"]
    assert plugin["status"] in ("READY", "LOADED") and not plugin["reason"], plugin
    assert answer["values"] == [i + 1.0 for i in range(12)]
    assert ["add", "native"] in answer["tiers"]


def test_a_plugin_of_0_9_runs(tmp_path: Path) -> None:
    build(FROZEN / "template_plugin.c", tmp_path)
    check_add(use(tmp_path))


def test_a_plugin_of_a_later_minor_version_runs(tmp_path: Path) -> None:
    build(ABI / "future_plugin.c", tmp_path, "-DFUTURE_ABI=RAL_ABI_MAJOR<<16|10", f"-I{ABI}")
    check_add(use(tmp_path))


def test_a_plugin_of_another_major_version_is_refused(tmp_path: Path) -> None:
    build(ABI / "future_plugin.c", tmp_path, "-DFUTURE_ABI=1<<16", f"-I{ABI}")
    answer = use(tmp_path)
    (plugin,) = answer["plugins"]
    assert answer["devices"] == [] and plugin["status"] == "REFUSED"
    assert "built for plugin ABI 1.0; this RAL has 0." in plugin["reason"]
    assert "plugin.h" in plugin["reason"]
