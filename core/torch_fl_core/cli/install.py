"""`ralctl install` and `ralctl uninstall`: plugins put into the user's plugin folder, and taken out again.

A plugin is checked before it is put in place, and put there by one rename, so that no process ever sees half of one.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from .libraries import cures_of
from .listing import advice
from .new_plugin import vendor_name
from .output import Failed, add_json, show
from .package import unpack
from .places import library_name, package_folder, plugin_files, search_path, user_folder
from .probe import ProbeError, plugin_statuses

#: Vendors whose plugin is in the wheel, and the distribution that brings its driver.
_DRIVERS = {"opencl": "pocl-binary-distribution"}


class Install:
    """a plugin from its folder or archive, or the driver that a plugin of the wheel needs (opencl)"""

    name = "install"
    examples = (
        "ralctl install opencl --yes",
        "ralctl install ./mychip",
        "ralctl install mychip.tar.gz --force",
    )

    @staticmethod
    def add_options(parser: argparse.ArgumentParser) -> None:
        parser.add_argument(
            "what",
            metavar="VENDOR_OR_PATH",
            help="a plugin's folder or archive (.tar.gz, .zip); or opencl, for PoCL from PyPI",
        )
        parser.add_argument("--force", action="store_true", help="replace a plugin that is there already")
        parser.add_argument("--yes", action="store_true", help="do not ask before pip installs something")
        add_json(parser)

    @staticmethod
    def run(args: argparse.Namespace) -> int:
        if args.what in _DRIVERS:
            status = install_driver(args.what, args.yes)
            _show(args.json, status)
            return int(status["status"] in ("MISSING_DEPS", "REFUSED"))
        path = Path(args.what)
        if not path.exists():
            known = ", ".join(_DRIVERS)
            raise Failed(f"{args.what} is neither a folder, an archive nor a vendor known by name ({known})")
        _show(args.json, install_plugin(path, args.force))
        return 0


class Uninstall:
    """takes a plugin out that `ralctl install` put in place"""

    name = "uninstall"
    examples = ("ralctl uninstall mychip",)

    @staticmethod
    def add_options(parser: argparse.ArgumentParser) -> None:
        parser.add_argument("vendor", metavar="VENDOR", type=vendor_name, help="the plugin's name")
        add_json(parser)

    @staticmethod
    def run(args: argparse.Namespace) -> int:
        removed = str(remove_plugin(args.vendor))
        show(args.json, {"removed": removed}, f"Removed {removed}.")
        return 0


# ---- Plugins ---------------------------------------------------------------------------------------


def install_plugin(source: Path, force: bool) -> dict[str, Any]:
    """Checks a folder or archive, puts it in place and loads it; returns its status with the folder as "installed".

    Raises Failed where it is not a plugin, is there already, or is REFUSED (it is then taken out again).
    """
    place = user_folder(os.environ)
    with _staging(place) as staging:
        vendor = unpack(source, staging / "new")
        target = place / vendor
        if os.path.lexists(target) and not force:
            raise Failed(
                f"{target} is there already; --force replaces it, `ralctl uninstall {vendor}` removes it"
            )
        with _put(staging / "new" / vendor, target, staging / "old"):
            status = _status_of(vendor, place)
            if status["status"] == "REFUSED":
                raise Failed(f"{vendor} is REFUSED and was taken out again: {status['reason']}")
    return {**status, "installed": str(target), "shadowed_by": _shadow(vendor, target)}


@contextlib.contextmanager
def _staging(place: Path) -> Iterator[Path]:
    """A private folder on the same file system as `place`, but not on the search path."""
    try:
        place.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise Failed(
            f"the folder {place} for your plugins cannot be made: {error.strerror}: {error.filename}; "
            f"set HOME to a folder that you may write to"
        ) from None
    if place.stat().st_mode & 0o022:
        place.chmod(0o755)  # else the RAL refuses every plugin in it
    folder = Path(tempfile.mkdtemp(prefix=".install-", dir=place.parent))
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@contextlib.contextmanager
def _put(new: Path, target: Path, backup: Path) -> Iterator[None]:
    """Moves `new` to `target`, a former one to `backup`; on an error inside the block the former state comes back."""
    had, placed = os.path.lexists(target), False
    if had:
        os.rename(target, backup)
    try:
        os.rename(new, target)
        placed = True
        yield
    except BaseException:
        if placed:
            os.rename(target, new)
        if had:
            os.rename(backup, target)
        raise


def _status_of(vendor: str, place: Path) -> dict[str, Any]:
    """The plugin's entry of `torch.ral.plugins()`, from a new process that looks into `place` first."""
    entry = {"name": vendor, "status": "NOT_CHECKED", "reason": "", "version": "", "missing": []}
    try:
        found = plugin_statuses(RAL_PLUGIN_PATH=str(place))
    except ProbeError as error:
        return {**entry, "status": "REFUSED" if error.crashed else "NOT_CHECKED", "reason": str(error)}
    listed = next((plugin for plugin in found if plugin["name"] == vendor), None)
    return listed or {**entry, "status": "REFUSED", "reason": f"it was not found in {place}"}


def _shadow(vendor: str, target: Path) -> str:
    """The library that is used in the place of the one just installed, or ""."""
    for folder in search_path(os.environ):
        path = plugin_files(folder).get(vendor)
        if path is not None:
            return "" if path.resolve().parent == target.resolve() else str(path)
    return ""


def remove_plugin(vendor: str) -> Path:
    """Removes a plugin from the user's folder; returns what was removed. Raises Failed where there is none."""
    target = user_folder(os.environ) / vendor
    if target.is_symlink():
        target.unlink()
        return target
    if not target.is_dir():
        raise Failed(f"no plugin {vendor} in {target.parent}{_elsewhere(vendor)}")
    with _staging(target.parent) as staging:
        os.rename(target, staging / vendor)
    return target


def _elsewhere(vendor: str) -> str:
    for folder in search_path(os.environ):
        path = plugin_files(folder).get(vendor)
        if path is not None and folder == package_folder() / "plugins":
            return f"; {path.parent} belongs to the wheel of torch_fl_core and leaves with it"
        if path is not None:
            return f"; the one in {path.parent} was not put there by ralctl: remove that folder yourself"
    return ""


# ---- Drivers from PyPI -----------------------------------------------------------------------------


def install_driver(vendor: str, yes: bool) -> dict[str, Any]:
    """Installs the driver of a plugin that is in the wheel, unless it has a device; returns the plugin's status.

    Raises Failed where the user declines or pip fails.
    """
    before = _wheel_status(vendor)
    if before.get("device_count"):
        return {**before, "installed": ""}
    distribution = _DRIVERS[vendor]
    command = [sys.executable, "-m", "pip", "install", distribution]
    if not yes and not _agreed(f"Install {distribution} from PyPI into {sys.prefix}? [y/N] "):
        raise Failed(f"nothing was installed; --yes agrees to: {' '.join(command)}")
    # pip's own lines belong to the user, not into --json.
    if subprocess.run(command, stdout=sys.stderr, check=False).returncode:
        raise Failed(f"pip could not install {distribution}; its lines above say why")
    return {**_wheel_status(vendor), "installed": distribution}


def _agreed(question: str) -> bool:
    if not sys.stdin.isatty():
        return False
    print(question, end="", file=sys.stderr, flush=True)
    return sys.stdin.readline().strip().lower() in ("y", "yes")


def _wheel_status(vendor: str) -> dict[str, Any]:
    entry = {"name": vendor, "status": "NOT_CHECKED", "reason": "", "version": "", "missing": []}
    try:
        found = plugin_statuses()
    except ProbeError as error:
        return {**entry, "reason": str(error)}
    listed = next((plugin for plugin in found if plugin["name"] == vendor), None)
    return listed or {**entry, "status": "REFUSED", "reason": f"{library_name(vendor)} was not found"}


# ---- Reports ---------------------------------------------------------------------------------------


def _show(as_json: bool, status: dict[str, Any]) -> None:
    show(as_json, {**status, "cures": cures_of(status)}, "\n".join(_lines(status)))


def _lines(status: dict[str, Any]) -> list[str]:
    name, count = status["name"], status.get("device_count") or 0
    lines = []
    if status["installed"]:
        lines.append(f"Installed {status['installed']}.")
    elif count:
        lines.append("There is a driver already; nothing to install.")
    lines.append(f"{name} is {status['status']}, {count} device{'s' * (count != 1)}.")
    if status["reason"] and not status.get("missing"):
        lines[-1] = lines[-1][:-1] + f": {status['reason']}"
    if status.get("shadowed_by"):
        lines.append(f"It is not used here: {status['shadowed_by']} comes first on the search path.")
    return lines + advice(status)[1:]
