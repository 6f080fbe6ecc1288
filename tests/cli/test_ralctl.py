"""ralctl: usage, exit status, what lists print, and new plugins. `doctor` and `install` have files of their own."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from torch_fl_core.cli import libraries, listing, new_plugin, ralctl
from torch_fl_core.cli.probe import plugin_statuses

COMMANDS = ("list-devices", "plugin-status", "doctor", "new-plugin", "verify", "install", "uninstall")


# ---- Usage -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("command", [(), *((name,) for name in COMMANDS)])
def test_help_has_examples(command: tuple[str, ...], capsys: Any) -> None:
    assert ralctl.main([*command, "--help"]) == 0
    text = capsys.readouterr().out
    assert "examples:\n  " in text
    if command:
        assert "--json" in text
    else:
        assert all(name in text for name in COMMANDS)


@pytest.mark.parametrize(
    "argv",
    [[], ["fly"], ["new-plugin"], ["new-plugin", "My-Chip"], ["new-plugin", "9chip"], ["new-plugin", "../x"],
     ["install"], ["uninstall"], ["uninstall", "../x"], ["doctor", "--nonsense"]],
)  # fmt: skip
def test_wrong_usage_is_status_2(argv: list[str], capsys: Any) -> None:
    assert ralctl.main(argv) == 2
    assert "usage: ralctl" in capsys.readouterr().err


# ---- list-devices, plugin-status -------------------------------------------------------------------

DEVICES = [{"id": "ral:0", "kind": "CPU", "name": "PoCL", "vendor": "The pocl project", "status": "LOADED"}]
PLUGINS = [
    {"name": "opencl", "version": "0.9", "status": "LOADED", "reason": "", "missing": []},
    {
        "name": "cuda",
        "version": None,
        "status": "MISSING_DEPS",
        "missing": ["libcuda.so.1"],
        "reason": "not found",
    },
    {"name": "bad", "version": "1", "status": "REFUSED", "reason": "ABI 2, expected 0.9"},
]


@pytest.fixture
def ral(monkeypatch: pytest.MonkeyPatch) -> SimpleNamespace:
    module = SimpleNamespace(devices=lambda: DEVICES, plugins=lambda: PLUGINS)
    monkeypatch.setattr(listing, "torch_ral", lambda: module)
    return module


def test_list_devices(ral: SimpleNamespace, capsys: Any) -> None:
    assert ralctl.main(["list-devices"]) == 0
    assert capsys.readouterr().out.splitlines() == [
        "ID     TYPE  NAME  VENDOR            STATUS",
        "ral:0  CPU   PoCL  The pocl project  LOADED",
    ]
    assert ralctl.main(["list-devices", "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == DEVICES
    ral.devices = list
    assert ralctl.main(["list-devices"]) == 0
    assert capsys.readouterr().out.startswith("No devices.")


def test_plugin_status_names_reasons_and_cures(ral: SimpleNamespace, capsys: Any) -> None:
    assert ralctl.main(["plugin-status"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[:4] == [
        "NAME    VERSION  STATUS        DEPENDENCIES",
        "opencl  0.9      LOADED",
        "cuda             MISSING_DEPS  libcuda.so.1",
        "bad     1        REFUSED       ABI 2, expected 0.9",
    ]
    assert lines[4:6] == ["", "cuda is MISSING_DEPS: not found"]
    assert lines[6].startswith("  libcuda.so.1: part of NVIDIA's driver")
    assert ralctl.main(["plugin-status", "--json"]) == 0
    rows = json.loads(capsys.readouterr().out)
    assert [{k: v for k, v in row.items() if k != "cures"} for row in rows] == PLUGINS
    assert [[c["library"] for c in row["cures"]] for row in rows] == [[], ["libcuda.so.1"], []]


@pytest.mark.parametrize(
    ("library", "says"),
    [
        ("libOpenCL.so.1", "ocl-icd-libopencl1"),
        ("libOpenCL.so.1", "pip install pocl-binary-distribution"),
        ("libamdhip64.so", "ROCm"),
        ("libamdhip64.so.5", "libamdhip64-5"),
        ("libcuda.so.1", "NVIDIA"),
        ("libascendcl.so", "CANN"),
        ("libcnrt.so", "Neuware"),
        ("libze_loader.so.1", "level-zero"),
        ("libmystery.so.3", "apt-file search libmystery.so.3"),
    ],
)
def test_a_library_s_cure(library: str, says: str) -> None:
    assert says in libraries.cure_of(library)


def test_a_failure_is_one_line_and_status_1(monkeypatch: pytest.MonkeyPatch, capsys: Any) -> None:
    def broken() -> ModuleType:
        raise RuntimeError("another PrivateUse1 backend (npu) is in this process")

    monkeypatch.setattr(listing, "torch_ral", broken)
    assert ralctl.main(["list-devices"]) == 1
    assert capsys.readouterr().err.startswith("ralctl: another PrivateUse1 backend")


# ---- new-plugin ------------------------------------------------------------------------------------


def test_new_plugin_is_renamed_everywhere(tmp_path: Path, capsys: Any) -> None:
    assert ralctl.main(["new-plugin", "mychip2", "--output", str(tmp_path / "a b")]) == 0
    text = capsys.readouterr().out
    folder = tmp_path / "a b" / "mychip2"
    assert sorted(p.relative_to(folder).as_posix() for p in folder.rglob("*") if p.is_file()) == [
        "Makefile", "include/ral/plugin.h", "kernel_manifest.json", "mychip2_plugin.c",
    ]  # fmt: skip
    for path in folder.iterdir():
        assert not path.is_file() or "template" not in path.read_text(), path
        assert not path.stat().st_mode & 0o022, path
    manifest = json.loads((folder / "kernel_manifest.json").read_text())
    kernel = manifest["kernels"][0]
    assert manifest["vendor"] == kernel["backend"] == "mychip2"
    assert kernel["kernel_path"] == "libmychip2_plugin.so"
    assert '.name = "mychip2"' in (folder / "mychip2_plugin.c").read_text()
    commands = [line.strip() for line in text.splitlines() if line.startswith("  ")]
    assert commands == [
        f"make -C '{folder}'",
        f"RAL_PLUGIN_PATH='{folder.parent}' ralctl plugin-status",
        f"ralctl install '{folder}'",
    ]


def test_new_plugin_as_json(tmp_path: Path, capsys: Any) -> None:
    assert ralctl.main(["new-plugin", "mychip", "--json", "--output", str(tmp_path)]) == 0
    said = json.loads(capsys.readouterr().out)
    assert said["made"] == str(tmp_path / "mychip")
    assert said["files"] == ["Makefile", "include", "kernel_manifest.json", "mychip_plugin.c"]
    assert said["next"][-1] == f"ralctl install {tmp_path / 'mychip'}"


def test_new_plugin_takes_an_empty_folder_only(tmp_path: Path, capsys: Any) -> None:
    (tmp_path / "mychip").mkdir()
    assert ralctl.main(["new-plugin", "mychip", "--output", str(tmp_path)]) == 0
    before = (tmp_path / "mychip/mychip_plugin.c").read_text()
    assert ralctl.main(["new-plugin", "mychip", "--output", str(tmp_path)]) == 1
    assert "exists and is not an empty folder" in capsys.readouterr().err
    assert (tmp_path / "mychip/mychip_plugin.c").read_text() == before
    (tmp_path / "other").write_text("a file")
    assert ralctl.main(["new-plugin", "other", "--output", str(tmp_path)]) == 1


def test_the_installed_template_comes_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    checkout = new_plugin.template_folder()
    shutil.copytree(checkout, tmp_path / "template")
    monkeypatch.setattr(new_plugin, "package_folder", lambda: tmp_path)
    assert new_plugin.template_folder() == tmp_path / "template"


def test_next_commands_here() -> None:
    assert new_plugin.next_commands("mychip", Path()) == [
        "make -C mychip",
        "RAL_PLUGIN_PATH=. ralctl plugin-status",
        "ralctl install ./mychip",
    ]


def test_new_plugin_builds_and_loads(built: Path) -> None:
    found = {p["name"]: p for p in plugin_statuses(RAL_PLUGIN_PATH=str(built.parent))}
    assert (found["mychip"]["status"], found["mychip"]["reason"]) == ("READY", "")
    assert found["mychip"]["device_count"] == 1
