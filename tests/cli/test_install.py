"""ralctl install and uninstall: what is put in place, what is refused and leaves nothing. pip is a stand-in."""

from __future__ import annotations

import io
import json
import os
import sys
import tarfile
import zipfile
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from plugin_sources import CRASHING, REFUSING, compile_plugin, lay, needs_compiler

from torch_fl_core import _pocl
from torch_fl_core.cli import install, package, ralctl
from torch_fl_core.cli.probe import plugin_statuses


@pytest.fixture
def user_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The user's plugin folder, in a home of its own."""
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.delenv("RAL_PLUGIN_PATH", raising=False)
    return tmp_path / "home/.local/share/ral/plugins"


def modes(folder: Path) -> set[int]:
    return {p.stat().st_mode & 0o022 for p in [folder, *folder.rglob("*")]}


@pytest.mark.parametrize("kind", ["folder", ".tar.gz", ".zip"])
def test_install_and_uninstall(
    built: Path, user_folder: Path, tmp_path: Path, kind: str, capsys: Any
) -> None:
    source = built
    if kind == ".tar.gz":
        source = built / "mychip.tar.gz"
    elif kind == ".zip":
        source = tmp_path / "any name.zip"
        with zipfile.ZipFile(source, "w") as archive:
            for name in ("libmychip_plugin.so", "kernel_manifest.json"):
                archive.write(built / name, f"mychip/{name}")
    assert ralctl.main(["install", str(source)]) == 0
    target = user_folder / "mychip"
    assert capsys.readouterr().out.splitlines() == [f"Installed {target}.", "mychip is READY, 1 device."]
    assert target.stat().st_mode & 0o777 == 0o755 and modes(target) == {0}
    assert (target / "kernel_manifest.json").is_file()
    assert {p["name"] for p in plugin_statuses()} >= {"mychip"}
    assert sorted(p.name for p in user_folder.parent.iterdir()) == ["plugins"]
    assert ralctl.main(["uninstall", "mychip", "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == {"removed": str(target)}
    assert not target.exists() and sorted(p.name for p in user_folder.parent.iterdir()) == ["plugins"]
    assert ralctl.main(["uninstall", "mychip"]) == 1
    assert "no plugin mychip" in capsys.readouterr().err


def test_install_replaces_with_force_only(built: Path, user_folder: Path, capsys: Any) -> None:
    assert ralctl.main(["install", str(built)]) == 0
    lay(user_folder, "mychip/mark")
    assert ralctl.main(["install", str(built)]) == 1
    assert "--force replaces it" in capsys.readouterr().err
    assert (user_folder / "mychip/mark").exists()
    assert ralctl.main(["install", str(built), "--force", "--json"]) == 0
    answer = json.loads(capsys.readouterr().out)
    assert (answer["status"], answer["installed"]) == ("READY", str(user_folder / "mychip"))
    assert not (user_folder / "mychip/mark").exists()


@needs_compiler
@pytest.mark.parametrize("source", [REFUSING.replace("TEXT", "needs a newer board"), CRASHING])
def test_a_refused_plugin_is_taken_out_and_the_old_one_comes_back(
    built: Path, user_folder: Path, tmp_path: Path, source: str, capsys: Any
) -> None:
    bad = compile_plugin(tmp_path, "mychip", source)
    assert ralctl.main(["install", str(bad)]) == 1
    assert "mychip is REFUSED and was taken out again: " in capsys.readouterr().err
    assert not (user_folder / "mychip").exists()
    assert ralctl.main(["install", str(built)]) == 0
    assert ralctl.main(["install", str(bad), "--force"]) == 1
    assert (user_folder / "mychip/kernel_manifest.json").is_file()
    assert sorted(p.name for p in user_folder.parent.iterdir()) == ["plugins"]


@needs_compiler
def test_a_plugin_that_lacks_a_library_stays_and_names_the_cure(
    user_folder: Path, tmp_path: Path, capsys: Any
) -> None:
    source = REFUSING.replace("TEXT", "missing: libcnrt.so (no driver)")
    assert ralctl.main(["install", str(compile_plugin(tmp_path, "cambri", source))]) == 0
    text = capsys.readouterr().out
    assert "cambri is MISSING_DEPS" in text and "libcnrt.so: part of Cambricon's Neuware" in text
    assert (user_folder / "cambri").is_dir()


def test_a_plugin_that_stays_hidden_is_told(
    built: Path, user_folder: Path, monkeypatch: Any, capsys: Any
) -> None:
    monkeypatch.setenv("RAL_PLUGIN_PATH", str(built.parent))
    assert ralctl.main(["install", str(built)]) == 0
    assert f"It is not used here: {built / 'libmychip_plugin.so'} comes first" in capsys.readouterr().out


def tar_of(path: Path, *members: tuple[str, bytes | tarfile.TarInfo]) -> Path:
    """An archive of (name, bytes) or (name, TarInfo)."""
    with tarfile.open(path, "w:gz") as tar:
        for name, content in members:
            info = content if isinstance(content, tarfile.TarInfo) else tarfile.TarInfo(name)
            info.name = name
            data = content if isinstance(content, bytes) else b""
            info.size = len(data)
            tar.addfile(info, io.BytesIO(data))
    return path


def special(kind: bytes, target: str = "") -> tarfile.TarInfo:
    info = tarfile.TarInfo()
    info.type, info.linkname = kind, target
    return info


LIBRARY = ("chip/libchip_plugin.so", b"\x7fELF")


@pytest.mark.parametrize(
    ("members", "says"),
    [
        ([LIBRARY, ("/etc/evil", b"x")], "absolute or leads out"),
        ([LIBRARY, ("chip/../../evil", b"x")], "absolute or leads out"),
        ([LIBRARY, ("chip/a", special(tarfile.SYMTYPE, "/etc/passwd"))], "link or a special file"),
        ([LIBRARY, ("chip/a", special(tarfile.LNKTYPE, LIBRARY[0]))], "link or a special file"),
        ([LIBRARY, ("chip/a", special(tarfile.CHRTYPE))], "link or a special file"),
        ([LIBRARY, ("chip/a", special(tarfile.FIFOTYPE))], "link or a special file"),
        ([LIBRARY, LIBRARY], "twice"),
        ([LIBRARY, ("chip/libchip_plugin.so/x", b"")], "twice"),
        ([LIBRARY, ("other/libother_plugin.so", b"")], "exactly one plugin"),
        ([("libchip_plugin.so", b"")], "exactly one plugin"),
        ([("Chip/libChip_plugin.so", b"")], "no plugin name"),
        ([], "exactly one plugin"),
    ],
)
def test_a_bad_archive_leaves_nothing(
    members: list, says: str, user_folder: Path, tmp_path: Path, capsys: Any
) -> None:
    archive = tar_of(tmp_path / "x.tar.gz", *members)
    assert ralctl.main(["install", str(archive)]) == 1
    assert says in capsys.readouterr().err
    assert [str(p) for p in user_folder.parent.rglob("*")] == [str(user_folder)]
    assert sorted(p.name for p in tmp_path.iterdir()) == ["home", "x.tar.gz"]


def test_archives_are_bounded(user_folder: Path, tmp_path: Path, monkeypatch: Any, capsys: Any) -> None:
    archive = tar_of(tmp_path / "x.tar.gz", LIBRARY, ("chip/zeros", bytes(1 << 16)))
    monkeypatch.setattr(package, "MAX_BYTES", 1 << 15)
    assert ralctl.main(["install", str(archive)]) == 1
    assert "holds more than" in capsys.readouterr().err
    monkeypatch.setattr(package, "MAX_BYTES", 1 << 20)
    monkeypatch.setattr(package, "MAX_FILES", 1)
    assert ralctl.main(["install", str(archive)]) == 1
    assert "more than 1 files" in capsys.readouterr().err


def test_a_link_in_a_zip_is_refused(user_folder: Path, tmp_path: Path, capsys: Any) -> None:
    path = tmp_path / "x.zip"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr(*LIBRARY)
        link = zipfile.ZipInfo("chip/a")
        link.external_attr = 0o120777 << 16
        archive.writestr(link, "/etc/passwd")
    assert ralctl.main(["install", str(path)]) == 1
    assert "link or a special file" in capsys.readouterr().err


@pytest.mark.parametrize("name", ["x.tar.gz", "x.zip", "x.txt"])
def test_what_is_no_archive(name: str, user_folder: Path, tmp_path: Path, capsys: Any) -> None:
    lay(tmp_path, name, text="not an archive")
    assert ralctl.main(["install", str(tmp_path / name)]) == 1
    assert "archive" in capsys.readouterr().err
    cut = tmp_path / "cut.tar.gz"
    whole = tar_of(tmp_path / "whole.tar.gz", (LIBRARY[0], os.urandom(5000))).read_bytes()
    cut.write_bytes(whole[:2000])
    assert ralctl.main(["install", str(cut)]) == 1
    assert "no sound archive" in capsys.readouterr().err


def test_folders_that_are_no_plugin(user_folder: Path, tmp_path: Path, capsys: Any) -> None:
    folder = lay(tmp_path / "chip", "chip_plugin.c")
    assert ralctl.main(["install", str(folder)]) == 1
    assert "build it first (make)" in capsys.readouterr().err
    lay(folder, "libchip_plugin.so")
    (folder / "link").symlink_to("/etc/passwd")
    assert ralctl.main(["install", str(folder)]) == 1
    assert "plain files only" in capsys.readouterr().err
    assert ralctl.main(["install", "no_such_vendor"]) == 1
    assert "nor a vendor known by name (opencl)" in capsys.readouterr().err


@pytest.fixture
def pip(monkeypatch: pytest.MonkeyPatch) -> SimpleNamespace:
    """A pip that installs nothing and notes the commands; `status` and `devices` (before, after) are what it meets."""
    fake = SimpleNamespace(calls=[], status=0, devices=[0, 1])

    def run(command: list[str], **kwargs: Any) -> SimpleNamespace:
        fake.calls.append(command)
        return SimpleNamespace(returncode=fake.status)

    def statuses() -> list[dict]:
        count = fake.devices.pop(0)
        missing = [] if count else ["libOpenCL.so.1"]
        status = "READY" if count else "MISSING_DEPS"
        return [{"name": "opencl", "status": status, "reason": "", "missing": missing, "device_count": count}]

    monkeypatch.setattr(install.subprocess, "run", run)
    monkeypatch.setattr(install, "plugin_statuses", statuses)
    return fake


def test_install_opencl_asks_pip(pip: SimpleNamespace, capsys: Any) -> None:
    assert ralctl.main(["install", "opencl", "--yes"]) == 0
    assert pip.calls == [[sys.executable, "-m", "pip", "install", "pocl-binary-distribution"]]
    assert capsys.readouterr().out.splitlines() == [
        "Installed pocl-binary-distribution.", "opencl is READY, 1 device."
    ]  # fmt: skip


def test_install_opencl_where_there_is_a_driver(pip: SimpleNamespace, capsys: Any) -> None:
    pip.devices = [1]
    assert ralctl.main(["install", "opencl"]) == 0
    assert pip.calls == [] and "nothing to install" in capsys.readouterr().out


@pytest.mark.parametrize(("answer", "installs"), [("y\n", True), ("n\n", False), ("", False)])
def test_install_opencl_asks_first(
    pip: SimpleNamespace, monkeypatch: Any, answer: str, installs: bool
) -> None:
    stdin = io.StringIO(answer)
    stdin.isatty = lambda: True  # type: ignore[method-assign]
    monkeypatch.setattr(sys, "stdin", stdin)
    assert ralctl.main(["install", "opencl"]) == (0 if installs else 1)
    assert bool(pip.calls) == installs


def test_install_opencl_without_a_terminal_or_with_a_failing_pip(
    pip: SimpleNamespace, monkeypatch: Any, capsys: Any
) -> None:
    monkeypatch.setattr(sys, "stdin", io.StringIO("y\n"))
    assert ralctl.main(["install", "opencl"]) == 1
    assert pip.calls == [] and "--yes agrees to" in capsys.readouterr().err
    pip.devices = [0, 0]
    assert ralctl.main(["install", "opencl", "--yes"]) == 1  # pip did its work, and still no device
    assert "opencl is MISSING_DEPS" in capsys.readouterr().out
    pip.devices, pip.status = [0, 0], 1
    assert ralctl.main(["install", "opencl", "--yes"]) == 1
    assert "pip could not install" in capsys.readouterr().err


def test_uninstall_says_whose_a_plugin_is(
    user_folder: Path, tmp_path: Path, monkeypatch: Any, capsys: Any
) -> None:
    lay(tmp_path, "other/chip/libchip_plugin.so")
    monkeypatch.setenv("RAL_PLUGIN_PATH", str(tmp_path / "other"))
    assert ralctl.main(["uninstall", "chip"]) == 1
    assert f"the one in {tmp_path / 'other/chip'} was not put there by ralctl" in capsys.readouterr().err
    assert ralctl.main(["uninstall", "opencl"]) == 1
    assert "belongs to the wheel" in capsys.readouterr().err


def test_a_plugin_folder_that_cannot_be_made(
    built: Path, tmp_path: Path, monkeypatch: Any, capsys: Any
) -> None:
    lay(tmp_path, "file")
    monkeypatch.setenv("HOME", str(tmp_path / "file"))
    assert ralctl.main(["install", str(built)]) == 1
    said = capsys.readouterr().err
    assert "cannot be made: Not a directory" in said and "set HOME to a folder" in said


def test_pocl_in_another_folder_of_packages_is_named_to_the_plugin(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """pip's --user folder, or a virtual environment over ours; never a working folder, never over the user's own choice."""
    library = "pyopencl/.libs/libpocl-1.so"
    work, outer, user = tmp_path / "work", tmp_path / "a/site-packages", tmp_path / "b/dist-packages"
    lay(work, library), outer.mkdir(parents=True), lay(user, library)
    monkeypatch.setattr(_pocl, "_OURS", outer)
    monkeypatch.setattr(sys, "path", [str(work), "", str(outer), str(user)])
    monkeypatch.setenv("RAL_POCL_PATH", "")
    _pocl.name_to_plugin()
    assert os.environ["RAL_POCL_PATH"] == str(user / library)
    monkeypatch.setenv("RAL_POCL_PATH", "/mine.so")
    _pocl.name_to_plugin()
    assert os.environ["RAL_POCL_PATH"] == "/mine.so"
    monkeypatch.delenv("RAL_POCL_PATH")
    lay(outer, library)
    _pocl.name_to_plugin()
    assert "RAL_POCL_PATH" not in os.environ
