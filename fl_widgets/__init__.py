"""Widgets that draw profiles: plain tables and binary batches in, pictures out. Imports no torch.

The drawing itself is TypeScript (``src/core``), built into ``static/widget.js`` for
``ProfileWidget`` and ``static/report.js`` for self-contained pages (``report_script``).
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

__all__ = ["MissingBuildError", "ProfileWidget", "report_script"]

_STATIC = Path(__file__).with_name("static")


class MissingBuildError(RuntimeError):
    """A built file of the front end is not there."""


def _built(name: str) -> Path:
    """Path of a built file. Raises MissingBuildError with the cure where it is missing."""
    path = _STATIC / name
    if not path.is_file():
        raise MissingBuildError(
            f"{path} is missing: the front end is not built. "
            "Run `make build` in the torch-fl checkout, or reinstall torch-fl."
        )
    return path


def report_script() -> str:
    """Source of the script that draws ``<script type="application/json" id="torch-fl-bundle">`` into ``#torch-fl``.

    Safe to put between ``<script>`` tags: it holds no ``</script``. Raises MissingBuildError.
    """
    return _built("report.js").read_text(encoding="utf-8").replace("</script", "<\\/script")


def __getattr__(name: str) -> Any:
    """Makes ``ProfileWidget`` at its first use, so that ``report_script`` needs no anywidget."""
    if name != "ProfileWidget":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from fl_widgets._widget import ProfileWidget

    globals()["ProfileWidget"] = ProfileWidget
    return ProfileWidget
