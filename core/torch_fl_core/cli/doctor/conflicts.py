"""Conflicts: another package in PyTorch's one slot for out-of-tree devices, and one vendor's plugin in two folders."""

from __future__ import annotations

import importlib.metadata
from collections.abc import Iterable, Mapping
from pathlib import Path

from ..places import plugin_files, search_path
from .finding import Finding

_OWN = "torch_fl_core:_autoload"
#: Packages that are known to take PyTorch's PrivateUse1 slot.
_TAKERS = (
    "torch_npu",
    "torch_mlu",
    "torch_musa",
    "torch_gcu",
    "torch_openreg",
    "torch_directml",
    "torch_rbln",
)


def findings(root: Path, environ: Mapping[str, str]) -> list[Finding]:
    """Findings on other backends and on plugins that hide each other."""
    points = importlib.metadata.entry_points(group="torch.backends")
    found = [*backends((p.name, p.value) for p in points), *duplicates(search_path(environ, root))]
    return found or [Finding("ok", "no other out-of-tree backend, no plugin twice")]


def backends(points: Iterable[tuple[str, str]]) -> list[Finding]:
    """Other entry points of the group torch.backends, as (name, value)."""
    found = []
    for name, value in dict.fromkeys(points):
        if value == _OWN:
            continue
        package = value.partition(":")[0].partition(".")[0]
        text = f"the package {package} is loaded by `import torch` as well (entry point {name} = {value})"
        if package in _TAKERS:
            cure = (
                f"PyTorch has room for one such device: use an environment without {package}, or uninstall it"
            )
            found.append(Finding("problem", text, cure))
        else:
            cure = (
                "where `import torch` warns that another package has PrivateUse1, use an environment for each"
            )
            found.append(Finding("note", text, cure))
    return found


def duplicates(folders: Iterable[Path]) -> list[Finding]:
    """Plugins of one vendor in several folders of the search path; the first is used."""
    first: dict[str, Path] = {}
    found = []
    for folder in folders:
        for vendor, path in plugin_files(folder).items():
            used = first.setdefault(vendor, path)
            if used.resolve() != path.resolve():
                text = f"plugin {vendor} is there twice: {used} is used, {path} is not"
                found.append(
                    Finding("note", text, f"remove the one that you do not want, such as {path.parent}")
                )
    return found
