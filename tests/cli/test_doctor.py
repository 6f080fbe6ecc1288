"""ralctl doctor: its findings on files below a made-up root and on made-up environments."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from plugin_sources import CRASHING, compile_plugin, lay, needs_compiler

from torch_fl_core import _pocl
from torch_fl_core.cli import places, ralctl
from torch_fl_core.cli.doctor import caches, conflicts, driver, nodes, plugins, variables, versions
from torch_fl_core.cli.doctor import report as doctor_report
from torch_fl_core.cli.doctor.finding import Finding, User
from torch_fl_core.cli.probe import ProbeError, plugin_statuses

ROOT = Path(__file__).resolve().parents[2]


def levels(found: list[Finding]) -> list[str]:
    return [f.level for f in found]


def test_doctor_runs_here(capsys: Any) -> None:
    status = ralctl.main(["doctor", "--json"])
    found = json.loads(capsys.readouterr().out)
    assert {f["topic"] for f in found} == {"driver", "versions", "conflicts", "caches", "plugins"}
    assert all(f["level"] in ("ok", "note", "problem") and f["found"] for f in found)
    assert all(f["cure"] for f in found if f["level"] == "problem")
    assert status == int(any(f["level"] == "problem" for f in found))


def test_doctor_needs_no_torch(tmp_path: Path) -> None:
    """Without PyTorch that is a finding, not a crash."""
    lay(tmp_path, "block/torch.py", text="raise ImportError('no torch in this test')")
    code = (
        f"import sys; sys.path.insert(0, {str(tmp_path / 'block')!r})\n"
        "from torch_fl_core.cli import ralctl\n"
        "status = ralctl.main(['doctor'])\n"
        "assert 'torch' not in sys.modules\n"
        "sys.exit(status)"
    )
    env = dict(os.environ, PYTHONPATH=str(tmp_path / "block"), HOME=str(tmp_path))
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=env, timeout=180)
    assert done.returncode == 1, done.stderr
    assert "PROBLEM  plugins cannot be asked: no torch in this test" in done.stdout


def test_doctor_s_text() -> None:
    found = [Finding("ok", "fine", "", "driver"), Finding("problem", "broken", "mend it", "plugins")]
    lines = doctor_report(found).splitlines()
    assert lines[0] == "Drivers" and "  ok       fine" in lines
    assert lines[-5:] == ["Plugins", "  PROBLEM  broken", "           -> mend it", "", "1 problem found."]


def test_opencl_drivers(tmp_path: Path) -> None:
    root = tmp_path / "root"
    (nothing,) = driver.opencl(root, {}, [])
    assert nothing.level == "note" and "ralctl install opencl" in nothing.cure
    lay(root, "etc/OpenCL/vendors/pocl.icd", text="libpocl.so.2\n")
    (broken,) = driver.opencl(root, {}, [])
    assert broken.level == "problem" and "libpocl.so.2, which is not there" in broken.found
    lay(root, "usr/lib/x86_64-linux-gnu/libpocl.so.2")
    working, no_loader = driver.opencl(root, {}, [])
    assert working.level == "ok" and no_loader.level == "problem" and "ocl-icd-libopencl1" in no_loader.cure
    lay(root, "opt/cl/libOpenCL.so.1")
    lay(root, "etc/ld.so.conf.d/cl.conf", text="# a comment\n/opt/cl\n")
    assert levels(driver.opencl(root, {}, [])) == ["ok", "ok"]
    lay(root, "etc/OpenCL/vendors/gone.icd", text="/opt/gone/libgone.so\n")
    stale = driver.opencl(root, {}, [])
    assert levels(stale) == ["ok", "ok", "note"] and "gone.icd" in stale[-1].cure


def test_opencl_drivers_elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    root = tmp_path / "root"
    site = lay(tmp_path / "site-packages", "pyopencl/.libs/libpocl-1.so")
    monkeypatch.setattr(_pocl, "_OURS", tmp_path / "ours")
    (pocl,) = _pocl.libraries([str(tmp_path), str(site)])
    assert pocl == site / "pyopencl/.libs/libpocl-1.so"
    assert levels(driver.opencl(root, {}, [pocl])) == ["ok"]
    lay(tmp_path, "libs/libOpenCL.so.1", "libs/libmine.so")
    lay(tmp_path, "mine.icd", text="libmine.so")
    environ = {"OCL_ICD_VENDORS": str(tmp_path / "mine.icd"), "LD_LIBRARY_PATH": str(tmp_path / "libs")}
    assert levels(driver.opencl(root, environ, [])) == ["ok", "ok"]
    lay(root, "odd/libOpenCL.so.1")
    lay(root, "etc/ld.so.cache", text="glibc-ld.so.cache1.1\0libOpenCL.so.1\0/odd/libOpenCL.so.1\0")
    loader, other, icd = driver.opencl(root, environ, [])
    assert (
        str(tmp_path / "libs") in loader.found and other.level == "note" and str(root / "odd") in other.found
    )


@pytest.fixture
def node(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A render node of group `render`, number 4242."""
    path = lay(tmp_path, "dev/dri/renderD128", "dev/kfd") / "dev/dri/renderD128"
    real = Path.stat

    def stat(self: Path, **kwargs: Any) -> Any:
        info = real(self, **kwargs)
        owned = self == path
        return SimpleNamespace(st_mode=0o20660, st_gid=4242) if owned else info

    monkeypatch.setattr(driver.Path, "stat", stat)
    monkeypatch.setattr(driver, "group_name", lambda gid: {4242: "render"}.get(gid, str(gid)))
    monkeypatch.setattr(driver, "group_members", lambda gid: ["alice"] if gid == 4242 else [])
    return path


@pytest.mark.parametrize(
    ("name", "groups", "cure"),
    [
        ("bob", {100}, "sudo usermod -aG render bob"),
        ("alice", {100}, "log out and in again, or run `newgrp render`"),
        ("bob", {4242}, "docker: --device"),
    ],
)
def test_a_device_file_that_may_not_be_opened(
    node: Path, tmp_path: Path, name: str, groups: set, cure: str
) -> None:
    def may_open(path: Path, mode: int) -> bool:
        return path != node

    found = driver.device_files(tmp_path, User(name, 1000, frozenset(groups)), may_open, lambda path: None)
    assert levels(found) == ["ok", "problem"]
    assert f"{node} cannot be opened by {name} (mode 0660, group render)" in found[1].found
    assert cure in found[1].cure


def test_a_file_in_a_nodes_place_is_named(tmp_path: Path) -> None:
    path = lay(tmp_path, "dev/kfd") / "dev/kfd"
    (found,) = driver.device_files(tmp_path, User.current())
    assert found.level == "problem"
    assert f"device node {path} is a regular file, not a character device" in found.found
    assert "remove it" in found.cure


def test_a_node_is_judged_by_its_driver(tmp_path: Path) -> None:
    assert nodes.refusal(Path("/dev/null")) is None
    link = tmp_path / "renderD128"
    link.symlink_to("/dev/null")
    assert "which is not driver drm's in /proc/devices" in nodes.refusal(link)
    link.unlink()
    os.mkfifo(link)
    assert "not a character device" in nodes.refusal(link)
    assert "cannot be used: No such file" in nodes.refusal(tmp_path / "kfd")


def test_no_device_files_are_fine(tmp_path: Path) -> None:
    assert levels(driver.device_files(tmp_path, User.current())) == ["ok"]


def test_versions() -> None:
    assert versions.python((3, 11, 2)).level == "ok"
    assert versions.python((3, 10, 2)).level == "problem"
    (none,) = versions.torch(None, ["2.13"], lambda v: "")
    assert none.level == "problem" and none.cure == "pip install 'torch==2.13.*'"
    assert levels(versions.torch("2.13.0+cpu", ["2.13"], lambda v: "")) == ["ok"]
    (other,) = versions.torch("2.9.0", ["2.13"], lambda v: "build the adapter")
    assert other.level == "problem" and other.cure == "build the adapter" and "torch 2.13" in other.found
    assert levels(versions.distributions("0.1.0", "0.1.0", "0.1.0")) == ["ok"]
    assert levels(versions.distributions(None, None, "0.1.0")) == ["ok"]
    (beside,) = versions.distributions("0.2.0", "0.1.0", "0.1.0")
    assert beside.level == "problem" and "torch-fl==0.1.0" in beside.cure
    assert levels(versions.distributions("0.1.0", "0.2.0", "0.1.0")) == ["problem"]


@pytest.mark.parametrize(
    ("release", "dxg", "level"),
    [
        ("6.1.0-amd64", False, "ok"),
        ("5.15.90.1-microsoft-standard-WSL2", True, "ok"),
        ("5.15.90.1-microsoft-standard-WSL2", False, "note"),
        ("4.4.0-19041-Microsoft", False, "problem"),
        (None, False, "problem"),
    ],
)
def test_kernel(tmp_path: Path, release: str | None, dxg: bool, level: str) -> None:
    if release:
        lay(tmp_path, "proc/sys/kernel/osrelease", text=release + "\n")
    if dxg:
        lay(tmp_path, "dev/dxg")
    assert levels(versions.kernel(tmp_path)) == [level]


def test_other_backends() -> None:
    own, npu, hpu = ("ral", "torch_fl_core:_autoload"), ("npu", "torch_npu:_autoload"), ("x", "acme.t:load")
    assert conflicts.backends([own]) == []
    found = conflicts.backends([own, npu, hpu])
    assert levels(found) == ["problem", "note"]
    assert "torch_npu" in found[0].cure and "acme" in found[1].found


def test_a_vendor_twice(tmp_path: Path) -> None:
    lay(
        tmp_path,
        "a/chip/libchip_plugin.so",
        "b/chip/libchip_plugin.so",
        "b/other/libother_plugin.so",
        "b/x/y.so",
    )
    (tmp_path / "link").symlink_to("a")
    folders = [tmp_path / name for name in ("a", "link", "b", "missing")]
    (found,) = conflicts.duplicates(folders)
    assert found.level == "note" and str(tmp_path / "b/chip") in found.cure


def test_the_search_path(tmp_path: Path) -> None:
    environ = {"HOME": str(tmp_path), "RAL_PLUGIN_PATH": "/x::/y:/x"}
    path = places.search_path(environ, tmp_path / "root")
    own = places.package_folder() / "plugins"
    assert path == [
        Path("/x"), Path("/y"), own, tmp_path / ".local/share/ral/plugins", tmp_path / "root/opt/flagos/plugins",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("name", "value", "level", "says"),
    [
        ("RAL_FALLBACK", "native,cpu", "ok", ""),
        ("RAL_FALLBACK", "native,gpu", "problem", "'gpu'; the tiers are native, jit, reference, cpu"),
        ("RAL_FALLBACK", "cpu,cpu", "problem", "twice"),
        ("RAL_LOG", "info", "ok", ""),
        ("RAL_LOG", "verbose", "problem", "debug, info, warning, error"),
        ("RAL_VISIBLE_DEVICES", "1,0", "ok", ""),
        ("RAL_VISIBLE_DEVICES", "", "ok", ""),
        ("RAL_VISIBLE_DEVICES", "1, PoCL", "ok", ""),
        ("RAL_VISIBLE_DEVICES", "1,,0", "problem", "empty word"),
        ("RAL_TRACE_RECORDS", "many", "problem", "no number"),
        ("RAL_MEMORY_FRACTION", "0.5", "ok", ""),
        ("RAL_MEMORY_FRACTION", "2", "problem", "above 0 and at most 1"),
        ("RAL_OPENCL_SUBDEVICES", "65", "problem", "1 to 64"),
        ("RAL_AUTOLOAD", "yes", "problem", "neither 0 nor 1"),
        ("RAL_PLUGIN_PATH", "/no/such/folder", "problem", "no folder"),
        ("RAL_PLUGIN_ALLOW", "/no/such/file", "problem", "no readable file"),
        ("TORCH_FL_ADAPTER_PATH", "/no/such/file", "problem", "no readable file"),
        ("RAL_FALBACK", "cpu", "problem", "did you mean RAL_FALLBACK?"),
        ("RAL_PLUGINS_PATH", "/", "problem", "did you mean RAL_PLUGIN_PATH?"),
        ("RAL_MYCHIP_SPEED", "9", "note", "unless a plugin reads it"),
    ],
)
def test_variables(name: str, value: str, level: str, says: str) -> None:
    (found,) = variables.findings({name: value, "HOME": "/"})
    assert found.level == level
    assert says in f"{found.found} {found.cure}"


def test_every_variable_that_the_sources_read_is_known() -> None:
    """A variable that is added to the RAL has to be known to the doctor, or it is reported as a typing error."""
    pattern = re.compile(r'(?:getenv|variable|environ\.get)\(\s*"((?:RAL|TORCH_FL)_[A-Z_]+)"')
    folders = [ROOT / "core" / name for name in ("ral", "adapter", "plugins", "torch_fl_core")]
    sources = [p for f in folders for p in f.rglob("*") if p.suffix in (".cpp", ".c", ".h", ".py")]
    read = {name for path in sources for name in pattern.findall(path.read_text())}
    assert len(read) >= 8
    assert read <= set(variables.KNOWN)


def test_caches(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    me = User.current()
    folder = tmp_path / "cache"
    assert levels(caches.examine("cache", folder, True, me)) in (["ok"], ["note"])
    folder.mkdir(mode=0o700)
    assert levels(caches.examine("cache", folder, True, me)) in (["ok"], ["note"])
    folder.chmod(0o755)
    (open_to_all,) = caches.examine("cache", folder, True, me)
    assert open_to_all.level == "note" and "open to others (mode 0755)" in open_to_all.found
    (foreign,) = caches.examine("cache", folder, True, User("bob", me.uid + 1, frozenset()))
    assert foreign.level == "problem" and "belongs to user" in foreign.found
    (tmp_path / "link").symlink_to(folder)
    assert levels(caches.examine("cache", tmp_path / "link", True, me)) == ["problem"]
    lay(tmp_path, "file")
    assert levels(caches.examine("cache", tmp_path / "file", True, me)) == ["problem"]
    folder.chmod(0o700)
    monkeypatch.setattr(caches.shutil, "disk_usage", lambda path: SimpleNamespace(free=1 << 20))
    (full,) = caches.examine("cache", folder, True, me)
    assert full.level == "problem" and "1 MiB free" in full.found
    monkeypatch.setattr(caches.os, "access", lambda path, mode: False)
    assert "cannot be written" in caches.examine("cache", folder, True, me)[0].found
    assert "cannot be made" in caches.examine("cache", folder / "x", True, me)[0].found


def test_cache_folders_follow_the_environment() -> None:
    me = User("me", 7, frozenset())
    environ = {"HOME": "/h", "XDG_RUNTIME_DIR": "/run/7", "POCL_CACHE_DIR": "/p"}
    assert [str(path) for _, path, _ in caches.folders(environ, me)] == ["/h/.cache/ral", "/run/7/ral", "/p"]
    environ = {"HOME": "/h", "XDG_CACHE_HOME": "/c", "TMPDIR": "/t"}
    assert [str(path) for _, path, _ in caches.folders(environ, me)] == ["/c/ral", "/t/ral-7", "/c/pocl"]


def test_plugin_findings(tmp_path: Path) -> None:
    ready = {"name": "a", "version": "1", "status": "READY", "reason": "", "missing": [], "device_count": 1}
    lacks = {"name": "b", "status": "MISSING_DEPS", "reason": "needs it", "missing": ["libcuda.so.1"]}
    refused = {"name": "c", "status": "REFUSED", "reason": "chmod go-w it", "missing": [], "path": "/p"}
    found = plugins.findings(tmp_path, {}, lambda environ: [ready, lacks, refused])
    assert levels(found) == ["ok", "note", "problem"]
    assert "NVIDIA" in found[1].cure and "chmod go-w it" in found[2].found
    assert levels(plugins.findings(tmp_path, {}, lambda environ: [lacks])) == ["problem", "problem"]
    (none,) = plugins.findings(tmp_path, {}, lambda environ: [])
    assert none.level == "problem" and "ralctl install opencl" in none.cure
    hidden = plugins.findings(
        tmp_path, {"RAL_VISIBLE_DEVICES": "7"}, lambda environ: [{**ready, "device_count": 0}]
    )
    assert levels(hidden) == ["ok", "problem"] and hidden[1].cure.startswith("unset it")

    def crash(environ: Any) -> list:
        raise ProbeError("loading the plugins ended the process (SIGSEGV): x", crashed=True)

    (crashed,) = plugins.findings(tmp_path, {}, crash)
    assert crashed.level == "problem" and "SIGSEGV" in crashed.found


@needs_compiler
def test_a_plugin_that_ends_the_process_is_found(tmp_path: Path) -> None:
    compile_plugin(tmp_path, "crash", CRASHING)
    with pytest.raises(ProbeError, match="SIGSEGV") as caught:
        plugin_statuses(RAL_PLUGIN_PATH=str(tmp_path))
    assert caught.value.crashed
