"""Where plugins are looked for and installed; the counterpart of libral's DeviceManager::search_path."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

VENDOR = re.compile(r"[a-z][a-z0-9_]*\Z")
SYSTEM_FOLDER = "opt/flagos/plugins"


def package_folder() -> Path:
    """The folder of the package torch_fl_core, as Python found it."""
    import torch_fl_core

    return Path(torch_fl_core.__path__[0])


def home(environ: Mapping[str, str]) -> Path:
    """The user's home folder."""
    return Path(environ.get("HOME") or Path.home())


def user_folder(environ: Mapping[str, str]) -> Path:
    """The folder that `ralctl install` writes into."""
    return home(environ) / ".local/share/ral/plugins"


def search_path(environ: Mapping[str, str], root: Path = Path("/")) -> list[Path]:
    """The folders that are searched, in order."""
    given = [Path(p) for p in environ.get("RAL_PLUGIN_PATH", "").split(":") if p]
    folders = [*given, package_folder() / "plugins", user_folder(environ), root / SYSTEM_FOLDER]
    return list(dict.fromkeys(folders))


def library_name(vendor: str) -> str:
    """File name of a vendor's plugin."""
    return f"lib{vendor}_plugin.so"


def plugin_files(folder: Path) -> dict[str, Path]:
    """Vendor: library, for each plugin in a folder of the search path."""
    try:
        names = sorted(p.name for p in folder.iterdir() if not p.name.startswith("."))
    except OSError:
        return {}
    files = {name: folder / name / library_name(name) for name in names}
    return {vendor: path for vendor, path in files.items() if path.exists() or path.is_symlink()}
