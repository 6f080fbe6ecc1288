"""Fixtures: the plugin library (built here unless $RAL_OPENCL_PLUGIN names one), once with shared virtual memory
and once with buffers only."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))

from abi import Plugin

SOURCE = Path(__file__).resolve().parents[2] / "plugins" / "opencl"


def pytest_configure(config: pytest.Config) -> None:
    """The marker of tests that take minutes, for runs of this folder alone."""
    config.addinivalue_line("markers", "slow: takes minutes")


@pytest.fixture(scope="session")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Path of libopencl_plugin.so, with manifest and kernels beside it."""
    named = os.environ.get("RAL_OPENCL_PLUGIN")
    if named:
        return Path(named)
    build = tmp_path_factory.mktemp("opencl_build")
    subprocess.run(["cmake", "-S", SOURCE, "-B", build], check=True, capture_output=True)
    subprocess.run(["cmake", "--build", build], check=True, capture_output=True)
    return build / "opencl" / "libopencl_plugin.so"


@pytest.fixture(scope="session")
def entries(library: Path) -> dict[str, dict[str, object]]:
    """The manifest's entries by operator name without "aten::"."""
    manifest = json.loads((library.parent / "kernel_manifest.json").read_text())
    return {str(e["op_name"]).removeprefix("aten::"): e for e in manifest["kernels"]}


@pytest.fixture(scope="session")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The cache folder that the host offers, shared by both modes."""
    return tmp_path_factory.mktemp("opencl_cache")


def load(library: Path, folder: Path, cache: Path, svm: bool) -> Plugin:
    """Load a copy of the library (so that it has its own state) with or without shared virtual memory."""
    copy = folder / ("svm" if svm else "buffers")
    if not copy.exists():
        shutil.copytree(library.parent, copy)
    before = os.environ.pop("RAL_OPENCL_SVM", None)
    try:
        if not svm:
            os.environ["RAL_OPENCL_SVM"] = "0"
        return Plugin(copy / library.name, str(cache))
    finally:
        os.environ.pop("RAL_OPENCL_SVM", None)
        if before is not None:
            os.environ["RAL_OPENCL_SVM"] = before


@pytest.fixture(scope="session", params=[True, False], ids=["svm", "buffers"])
def plugin(
    request: pytest.FixtureRequest, library: Path, cache: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Plugin]:
    """The plugin, with shared virtual memory and without."""
    yield load(library, tmp_path_factory.mktemp("opencl_plugin"), cache, request.param)
