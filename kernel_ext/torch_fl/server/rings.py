"""Finds a kernel's trace file and says what is in it."""

from __future__ import annotations

from typing import Any

from torch_fl_core.trace.ring import Ring, RingError, RingInfo, find_rings, parent_pid

_MAX_DEPTH = 16  # of processes between a kernel's launcher and the kernel

NOT_LOADED: dict[str, Any] = {
    "loaded": False,
    "devices": [],
    "plugins": [],
    "gauges": [],
    "pid": None,
    "recording": False,
}


def is_descendant(pid: int, ancestor: int) -> bool:
    """Is `pid` the process `ancestor` or one that it started, directly or not?"""
    current: int | None = pid
    for _ in range(_MAX_DEPTH):
        if current == ancestor:
            return True
        current = parent_pid(current) if current else None
        if not current or current == 1:
            return current == ancestor
    return False


def find_ring(kernel_id: str, kernel_pid: int | None) -> RingInfo | None:
    """The living trace file of a kernel: by its id, else by its process and that one's children.

    A ring that names another kernel is not taken. The kernel's own process goes before its children.
    """
    living = [r for r in find_rings() if r.alive]
    named = [r for r in living if r.kernel_id == kernel_id]
    if kernel_pid is not None:
        unnamed = [r for r in living if not r.kernel_id]
        named = (
            named
            or [r for r in unnamed if r.pid == kernel_pid]
            or [r for r in unnamed if is_descendant(r.pid, kernel_pid)]
        )
    if not named:
        return None
    # A restarted kernel keeps its id; of two living processes the newer one is it.
    return max(named, key=lambda r: r.path.stat().st_ctime_ns)


def describe(kernel_id: str, kernel_pid: int | None) -> dict[str, Any]:
    """Devices, plugins and gauges of a kernel; `loaded` is False where it has no trace file."""
    try:
        info = find_ring(kernel_id, kernel_pid)
        if info is None:
            return NOT_LOADED
        with Ring(info.path) as ring:
            status = ring.status()
            return {
                "loaded": True,
                "devices": status.get("devices", []),
                "plugins": status.get("plugins", []),
                "gauges": ring.gauges(),
                "pid": ring.pid,
                "recording": ring.recording,
            }
    except (FileNotFoundError, RingError):  # the process ended between two looks
        return NOT_LOADED
