"""Fixtures of the notebook tests: a shell with the extension on a fake core, and real kernels."""

from __future__ import annotations

import importlib.util
import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PATHS = [str(Path(__file__).resolve().parent), str(ROOT / "tests" / "trace")]
for name, folder in (("torch_fl", "kernel_ext"), ("torch_fl_core", "core")):
    if importlib.util.find_spec(name) is None:  # a plain checkout, nothing installed
        PATHS.append(str(ROOT / folder))
sys.path[:0] = PATHS


@pytest.fixture
def core(tmp_path: Path) -> Iterator[object]:
    """A fake core that torch_fl uses during the test."""
    import fake_core

    from torch_fl import _core, history, recorder

    made = fake_core.install(tmp_path / "ral")
    history.clear()
    yield made
    if recorder.active() is not None:  # the test failed in the midst of a profile
        recorder.active().abandon()
    _core.use(None)
    made.ring.unlink()


@pytest.fixture
def shell(core: object, tmp_path: Path) -> Iterator[object]:
    """A plain IPython shell with the extension loaded; `core` is in its namespace."""
    from IPython.core.interactiveshell import InteractiveShell
    from traitlets.config import Config

    from torch_fl import extension

    config = Config()
    config.HistoryManager.hist_file = ":memory:"
    shell = InteractiveShell(config=config)
    extension.load(shell)
    shell.user_ns["core"] = core
    yield shell
    extension.unload(shell)
    shell.history_manager.end_session()


@pytest.fixture
def kernel_path(monkeypatch: pytest.MonkeyPatch) -> None:
    """Kernels started during the test find the same packages and the fake core."""
    inherited = os.environ.get("PYTHONPATH")
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([*PATHS, *([inherited] if inherited else [])]))
