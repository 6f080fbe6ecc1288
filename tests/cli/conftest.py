"""A built plugin, and homes of their own."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parent))

from torch_fl_core.cli import new_plugin


@pytest.fixture(scope="session")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a new plugin, built by `make`."""
    if not (shutil.which("cc") and shutil.which("make")):
        pytest.skip("needs cc and make")
    folder = new_plugin.make_plugin("mychip", tmp_path_factory.mktemp("work"))
    old = os.umask(0o002)
    try:
        done = subprocess.run(
            ["make", "CFLAGS=-O1 -Wall -Wextra -Werror"], cwd=folder, capture_output=True, text=True
        )
        assert done.returncode == 0, done.stderr
        subprocess.run(["make", "archive"], cwd=folder, check=True, capture_output=True)
    finally:
        os.umask(old)
    return folder
