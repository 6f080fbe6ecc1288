"""Caches: the folders that the RAL and PoCL write to are private, writable and have space."""

from __future__ import annotations

import os
import shutil
import stat
from collections.abc import Mapping
from pathlib import Path

from ..places import home
from .finding import Finding, User

_LEAST_BYTES = 64 << 20  # a trace file of a few threads
_LOW_BYTES = 1 << 30


def findings(environ: Mapping[str, str], user: User) -> list[Finding]:
    """Findings on each folder that is written to."""
    return [f for title, path, private in folders(environ, user) for f in examine(title, path, private, user)]


def folders(environ: Mapping[str, str], user: User) -> list[tuple[str, Path, bool]]:
    """(what it is, folder, must it be private?) of each folder that is written to."""
    base = environ.get("XDG_CACHE_HOME", "")
    cache = Path(base) if base.startswith("/") else home(environ) / ".cache"
    runtime = environ.get("XDG_RUNTIME_DIR")
    trace = Path(runtime) / "ral" if runtime else Path(environ.get("TMPDIR") or "/tmp") / f"ral-{user.uid}"
    return [
        ("kernel cache", cache / "ral", True),
        ("trace folder", trace, True),
        ("PoCL's cache", Path(environ.get("POCL_CACHE_DIR") or cache / "pocl"), False),
    ]


def examine(title: str, path: Path, private: bool, user: User) -> list[Finding]:
    """Findings on one folder, which need not exist yet."""
    name = f"{title} {path}"
    if path.is_symlink() and private:
        return [Finding("problem", f"{name} is a link, so it is not used", f"remove it: rm {path}")]
    if path.exists() and not path.is_dir():
        return [Finding("problem", f"{name} is not a folder", f"remove it: rm {path}")]
    there = path
    while not there.exists():
        there = there.parent
    if there == path and private:
        wrong = _not_private(name, path, user)
        if wrong:
            return [wrong]
    if not os.access(there, os.W_OK | os.X_OK):
        text = (
            f"{name} cannot be written"
            if there == path
            else f"{name} cannot be made: {there} is not writable"
        )
        return [Finding("problem", text, f"give yourself the right to write: `ls -ld {there}`")]
    return [_space(name, there)]


def _not_private(name: str, path: Path, user: User) -> Finding | None:
    info = path.stat()
    if info.st_uid != user.uid:
        text = f"{name} belongs to user {info.st_uid}, so it is not used"
        return Finding("problem", text, f"remove it (sudo rm -r {path}); it is made again")
    mode = stat.S_IMODE(info.st_mode)
    if mode & 0o077:
        text = f"{name} is open to others (mode {mode:04o}); the next process that uses it makes it private"
        return Finding("note", text, f"chmod 700 {path}")
    return None


def _space(name: str, there: Path) -> Finding:
    free = shutil.disk_usage(there).free
    text = f"{name}: {free / 2**20:,.0f} MiB free"
    if free < _LEAST_BYTES:
        return Finding("problem", text, f"make room on that file system: `df -h {there}`")
    return Finding("note", text, "space runs low there") if free < _LOW_BYTES else Finding("ok", text)
