"""Versions: Python, PyTorch and its adapter, the two distributions, and the kernel."""

from __future__ import annotations

import importlib.metadata
import platform
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from .finding import Finding

_LEAST_PYTHON = (3, 11)


def findings(root: Path) -> list[Finding]:
    """Findings on what is installed in this Python, and on the kernel below `root`."""
    from ..._loader import adapter_versions

    return [
        python(sys.version_info[:3]),
        *torch(installed("torch"), adapter_versions(), has_adapter),
        *distributions(installed("torch-fl"), installed("torch-fl-core"), own_version()),
        *kernel(root),
    ]


def installed(distribution: str) -> str | None:
    """Version of an installed distribution, without importing it."""
    try:
        return importlib.metadata.version(distribution)
    except importlib.metadata.PackageNotFoundError:
        return None


def own_version() -> str:
    """Version of the package that runs."""
    from ... import __version__

    return __version__


def has_adapter(torch_version: str) -> str:
    """ "" where there is an adapter for this PyTorch and this Python, else why not."""
    from ..._loader import adapter_path

    try:
        adapter_path(torch_version)
    except RuntimeError as error:
        return str(error)
    return ""


def python(version: Sequence[int]) -> Finding:
    """Is Python new enough?"""
    text = "Python " + ".".join(map(str, version))
    if tuple(version[:2]) >= _LEAST_PYTHON:
        return Finding("ok", text)
    return Finding("problem", text, "use Python 3.11 or newer")


def torch(version: str | None, adapters: Sequence[str], why_not: Callable[[str], str]) -> list[Finding]:
    """PyTorch, and the adapter for its version (`adapters`: "2.13", ...)."""
    have = ", ".join(adapters) or "no version"
    if version is None:
        wanted = f"torch=={adapters[-1]}.*" if adapters else "torch"
        return [Finding("problem", "PyTorch is not installed in this Python", f"pip install '{wanted}'")]
    problem = why_not(version)
    if not problem:
        return [Finding("ok", f"torch {version}, with an adapter")]
    text = f"torch {version} has no adapter here (there is one for torch {have})"
    return [Finding("problem", text, problem)]


def distributions(torch_fl: str | None, core: str | None, running: str) -> list[Finding]:
    """Are torch-fl, torch-fl-core and the running package of one version?"""
    found = []
    if core is not None and core != running:
        text = f"torch_fl_core {running} runs, but torch-fl-core {core} is installed"
        found.append(
            Finding("problem", text, "remove the other copy from sys.path or PYTHONPATH, or install again")
        )
    if torch_fl is not None and torch_fl != running:
        text = f"torch-fl {torch_fl} is installed beside torch-fl-core {running}"
        cure = f"pip install torch-fl=={running} (or both of the newer version)"
        found.append(Finding("problem", text, cure))
    beside = f", torch-fl {torch_fl}" if torch_fl else "; torch-fl (the notebook part) is not installed"
    return found or [Finding("ok", f"torch-fl-core {running}{beside}")]


def kernel(root: Path) -> list[Finding]:
    """Linux, WSL2 with its GPU bridge, or something that is not supported."""
    file = root / "proc/sys/kernel/osrelease"
    release = file.read_text().strip() if file.is_file() else ""
    if not release:
        return [Finding("problem", f"this is {platform.system()}, not Linux", "use Linux or WSL2")]
    if "microsoft" not in release.lower():
        return [Finding("ok", f"Linux {release}")]
    if "wsl2" not in release.lower() and "microsoft-standard" not in release:
        return [
            Finding(
                "problem", f"WSL1 ({release})", "convert it: `wsl --set-version <distribution> 2` in Windows"
            )
        ]
    if (root / "dev/dxg").exists():
        return [Finding("ok", f"WSL2 ({release}) with the GPU bridge /dev/dxg")]
    cure = "for a GPU: update Windows' GPU driver and run `wsl --update`; not needed for CPUs"
    return [Finding("note", f"WSL2 ({release}) without the GPU bridge /dev/dxg", cure)]
