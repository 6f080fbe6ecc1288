"""PoCL from PyPI (pocl-binary-distribution): where its library lies among the folders of Python packages.

The plugin looks beside its own package and no further. pip may have put PoCL elsewhere: into the user's folder because ours
is not writable, or into a virtual environment that lies over the one with our wheel.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable
from pathlib import Path

_OURS = Path(__file__).parent.parent


def libraries(path: Iterable[str] | None = None) -> list[Path]:
    """PoCL's libraries in our own folder of packages and in those on Python's path, in that order.

    Only folders that installers write to count; a working folder that is on the path does not.
    """
    folders = [_OURS, *(Path(entry) for entry in (sys.path if path is None else path))]
    installed = [f for f in folders if f == _OURS or f.name in ("site-packages", "dist-packages")]
    return [file for f in dict.fromkeys(installed) for file in sorted(f.glob("pyopencl/.libs/libpocl*.so*"))]


def name_to_plugin() -> None:
    """Sets RAL_POCL_PATH where PoCL lies in another folder than ours and the variable is not set."""
    found = libraries()
    if found and not found[0].is_relative_to(_OURS) and not os.environ.get("RAL_POCL_PATH"):
        os.environ["RAL_POCL_PATH"] = str(found[0])
