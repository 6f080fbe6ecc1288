"""Files and small plugins for the tests of this folder."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from torch_fl_core.cli import places

needs_compiler = pytest.mark.skipif(
    not (shutil.which("cc") and shutil.which("make")), reason="needs cc and make"
)


def lay(root: Path, *names: str, text: str = "") -> Path:
    """Files below a made-up root."""
    for name in names:
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    return root


CRASHING = """
#include <signal.h>
#include <ral/plugin.h>
const ral_plugin* ral_plugin_entry(const ral_host* host) { (void)host; raise(SIGSEGV); return 0; }
"""
REFUSING = """
#include <ral/plugin.h>
const ral_plugin* ral_plugin_entry(const ral_host* host) { (void)host; return 0; }
const char* ral_plugin_error(void) { return "TEXT"; }
"""


def compile_plugin(folder: Path, vendor: str, source: str) -> Path:
    """`folder`/`vendor` with a library made of `source`."""
    (folder / vendor).mkdir(parents=True, exist_ok=True)
    target = folder / vendor / f"lib{vendor}_plugin.so"
    include = places.package_folder() / "include"
    subprocess.run(
        ["cc", "-shared", "-fPIC", "-I", str(include), "-x", "c", "-", "-o", str(target)],
        input=source, text=True, check=True,
    )  # fmt: skip
    target.chmod(0o755)
    return folder / vendor
