"""Puts the packages of a plain checkout, and the trace tests' fake ring, on the path."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
for package, folder in (("torch_fl_core", "core"), ("torch_fl", "kernel_ext")):
    if importlib.util.find_spec(package) is None:
        sys.path.insert(0, str(ROOT / folder))
sys.path.insert(0, str(ROOT / "tests" / "trace"))
