"""Device nodes, judged by libral's own check: real character devices of the driver that is expected."""

from __future__ import annotations

import ctypes
from pathlib import Path

from ..places import package_folder

#: Names in /proc/devices; a node that is not listed may be any driver's.
_DRIVERS = {"renderD": "drm", "kfd": "kfd"}
_TEXT_BYTES = 1024


def refusal(path: Path, library: Path | None = None) -> str | None:
    """Why a node is not to be opened, as SecureContext::check_device_node says it; None where it may be.

    Raises OSError where libral (`library`, else the package's own) cannot be loaded.
    """
    check = ctypes.CDLL(str(library or package_folder() / "libral.so")).ral_secure_check_node
    check.argtypes = [ctypes.c_char_p, ctypes.c_char_p, ctypes.c_char_p, ctypes.c_uint64]
    driver = next((name for start, name in _DRIVERS.items() if path.name.startswith(start)), "")
    text = ctypes.create_string_buffer(_TEXT_BYTES)
    status = check(bytes(path), driver.encode(), text, _TEXT_BYTES)
    return text.value.decode(errors="replace") if status else None
