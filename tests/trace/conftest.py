"""Fixtures of the trace tests: a private trace folder and a fake ring in it."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
if importlib.util.find_spec("torch_fl_core") is None:  # a plain checkout, nothing installed
    sys.path.insert(0, str(ROOT / "core"))
sys.path.insert(0, str(Path(__file__).resolve().parent))


@pytest.fixture
def trace_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder that readers look in during the test, empty; no other trace file is seen."""
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path / "run"))
    monkeypatch.setenv("TMPDIR", str(tmp_path / "tmp"))
    from torch_fl_core.trace import ring

    folder = tmp_path / "run" / "ral"
    folder.mkdir(mode=0o700, parents=True)
    monkeypatch.setattr(ring, "trace_folders", lambda: [folder])
    return folder


@pytest.fixture
def fake(trace_folder: Path):
    """A fake ring of this process in the trace folder."""
    from fake_ring import FakeRing

    ring = FakeRing(folder=trace_folder, kernel_id="11111111-2222-3333-4444-555555555555")
    yield ring
    ring.unlink()
