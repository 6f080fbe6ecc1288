"""Drivers: OpenCL's loader and the drivers that it knows, and the device files of GPUs with their permissions."""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from ... import _pocl
from ..libraries import cure_of
from . import nodes
from .finding import Finding, User, group_members, group_name

_LIBRARY_FOLDERS = (
    "lib",
    "lib64",
    "usr/lib",
    "usr/lib64",
    "usr/local/lib",
    "usr/local/lib64",
    "usr/lib/wsl/lib",
)
_NODES = ("dev/dri/renderD*", "dev/kfd", "dev/nvidia[0-9]*", "dev/nvidiactl", "dev/nvidia-uvm", "dev/dxg")
_LOADER = "libOpenCL.so.1"
_SUSPECT_CURE = (
    "let no driver open it: find out who put it there, remove it, and load the driver's kernel module anew"
)


def findings(root: Path, environ: Mapping[str, str], user: User) -> list[Finding]:
    """Findings on drivers below `root`."""
    return [*opencl(root, environ, _pocl.libraries()), *device_files(root, user)]


def library_folders(root: Path, environ: Mapping[str, str]) -> list[Path]:
    """Where the dynamic loader looks: LD_LIBRARY_PATH, /etc/ld.so.conf and what is built in."""
    named = [Path(p) for p in environ.get("LD_LIBRARY_PATH", "").split(":") if p]
    conf = root / "etc/ld.so.conf.d"
    files = [root / "etc/ld.so.conf", *(sorted(conf.glob("*.conf")) if conf.is_dir() else [])]
    lines = [
        line.strip() for f in files if f.is_file() for line in f.read_text(errors="replace").splitlines()
    ]
    configured = [root / line.lstrip("/") for line in lines if line.startswith("/")]
    usual = [root / f for f in _LIBRARY_FOLDERS]
    multiarch = [p for f in ("lib", "usr/lib") for p in sorted((root / f).glob("*-linux-gnu"))]
    return list(dict.fromkeys([*named, *configured, *multiarch, *usual]))


def find_libraries(name: str, root: Path, environ: Mapping[str, str]) -> list[Path]:
    """The copies of a library, as the dynamic loader would come to them; an absolute name is looked up below `root`."""
    if name.startswith("/"):
        found = [root / name.lstrip("/")]
    else:
        found = [folder / name for folder in library_folders(root, environ)] + _cached(name, root)
    by_file = {path.resolve(): path for path in reversed(found) if path.exists()}
    return list(reversed(by_file.values()))


def _cached(name: str, root: Path) -> list[Path]:
    """A library's places in the dynamic loader's cache."""
    cache = root / "etc/ld.so.cache"
    paths = re.findall(
        rb"/([^\0]*/" + re.escape(name.encode()) + rb")\0", cache.read_bytes() if cache.is_file() else b""
    )
    return [root / path.decode(errors="replace") for path in dict.fromkeys(paths)]


def icd_files(root: Path, environ: Mapping[str, str]) -> list[Path]:
    """The files that name OpenCL drivers: /etc/OpenCL/vendors, or what OCL_ICD_VENDORS names."""
    named = environ.get("OCL_ICD_VENDORS")
    place = Path(named) if named else root / "etc/OpenCL/vendors"
    return [place] if place.is_file() else sorted(place.glob("*.icd"))


def opencl(root: Path, environ: Mapping[str, str], pocl: Sequence[Path]) -> list[Finding]:
    """OpenCL's loader, its drivers, and the libraries `pocl` of PyPI's PoCL."""
    found: list[Finding] = []
    loaders = find_libraries(_LOADER, root, environ)
    working, broken = [], []
    for file in icd_files(root, environ):
        library = file.read_text(errors="replace").strip()
        (working if library and find_libraries(library, root, environ) else broken).append((file, library))
    usable = bool(pocl or (loaders and working))
    found += [Finding("ok", f"OpenCL loader {path}") for path in loaders[:1]]
    for path in loaders[1:]:
        text = f"another OpenCL loader, {path}, comes after {loaders[0]}"
        found.append(Finding("note", text, "where the wrong one is used, remove it or set LD_LIBRARY_PATH"))
    found += [Finding("ok", f"OpenCL driver {library} ({file})") for file, library in working]
    found += [Finding("ok", f"PoCL from PyPI: {path}") for path in pocl[:1]]
    for file, library in broken:
        cure = f"install that driver again, or remove {file}"
        text = f"{file} names the OpenCL driver {library or '(nothing)'}, which is not there"
        found.append(Finding("note" if usable else "problem", text, cure))
    if working and not loaders:
        text = f"there are OpenCL drivers, but not the loader {_LOADER}"
        found.append(Finding("note" if usable else "problem", text, "install Debian's ocl-icd-libopencl1"))
    if not usable and not working and not broken:
        found.append(
            Finding("note", "no OpenCL driver, so the plugin opencl has no device", cure_of(_LOADER))
        )
    return found


def device_files(
    root: Path,
    user: User,
    access: Callable[[Path, int], bool] = os.access,
    refusal: Callable[[Path], str | None] = nodes.refusal,
) -> list[Finding]:
    """The device files of GPUs: whether they are what they seem, and whether this user may open them."""
    seen = [path for pattern in _NODES for path in sorted(root.glob(pattern))]
    if not seen:
        return [
            Finding(
                "ok", "no device files of GPUs (/dev/dri/renderD*, /dev/kfd, /dev/nvidia*); fine for CPUs"
            )
        ]
    refused = [(path, why) for path in seen if (why := refusal(path)) is not None]
    real = [path for path in seen if path not in dict(refused)]
    allowed = [path for path in real if access(path, os.R_OK | os.W_OK)]
    found = [Finding("ok", f"{path} can be opened") for path in allowed]
    found += [_denied(path, user) for path in real if path not in allowed]
    return found + [Finding("problem", why, _SUSPECT_CURE) for _, why in refused]


def _denied(path: Path, user: User) -> Finding:
    info = path.stat()
    group, mode = group_name(info.st_gid), stat.S_IMODE(info.st_mode)
    if mode & 0o060 != 0o060 or info.st_gid == 0:
        cure = (
            "a udev rule of the driver's package gives the right: install that, or ask who runs this machine"
        )
    elif info.st_gid in user.groups:
        cure = (
            "you are in its group: a container or sandbox keeps the device out; pass it on (docker: --device)"
        )
    elif user.name in group_members(info.st_gid):
        cure = f"you joined the group {group} after logging in: log out and in again, or run `newgrp {group}`"
    else:
        cure = f"join the group: `sudo usermod -aG {group} {user.name}`, then log out and in again"
    text = f"{path} cannot be opened by {user.name} (mode {mode:04o}, group {group})"
    return Finding("problem", text, cure)
