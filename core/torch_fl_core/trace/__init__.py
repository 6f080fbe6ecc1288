"""Reading what the devices did: `record()` for this process, `ring` for others. Imports no torch.

with torch_fl_core.trace.record() as trace:
    model(x)
trace.kernels.groupby("op").dur_us.sum()
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from torch_fl_core.trace.layout import RING_DTYPE, Flag, Kind, Tier
    from torch_fl_core.trace.model import Trace
    from torch_fl_core.trace.recording import record
    from torch_fl_core.trace.ring import (
        Lease,
        Reader,
        Ring,
        RingError,
        RingInfo,
        find_rings,
        remove_stale,
        trace_folders,
    )

_HOMES = {
    **dict.fromkeys(("RING_DTYPE", "Flag", "Kind", "Tier"), "layout"),
    **dict.fromkeys(("Lease", "Reader", "Ring", "RingError", "RingInfo"), "ring"),
    **dict.fromkeys(("find_rings", "remove_stale", "trace_folders"), "ring"),
    "Trace": "model",
    "record": "recording",
}

__all__ = [
    "RING_DTYPE",
    "Flag",
    "Kind",
    "Lease",
    "Reader",
    "Ring",
    "RingError",
    "RingInfo",
    "Tier",
    "Trace",
    "find_rings",
    "record",
    "remove_stale",
    "trace_folders",
]


def __getattr__(name: str) -> Any:
    # Late, so that a reader of rings (the Jupyter Server part) never loads pandas.
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
