"""torch_fl: the IPython extension of the `ral` device. `%load_ext torch_fl` brings the magics.

Nothing is imported here until it is asked for, so that the Jupyter Server part (`torch_fl.server`)
works in an environment without PyTorch.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from IPython.core.interactiveshell import InteractiveShell

    from torch_fl.result import ProfileResult, profile

__version__ = "0.1.0"
__all__ = [
    "ProfileResult",
    "last",
    "load_ipython_extension",
    "profile",
    "recording",
    "unload_ipython_extension",
]

_LAZY = {
    "profile": "torch_fl.result",
    "ProfileResult": "torch_fl.result",
    "_jupyter_server_extension_points": "torch_fl.server",
    "_load_jupyter_server_extension": "torch_fl.server",
}


def __getattr__(name: str) -> Any:
    if name not in _LAZY:
        raise AttributeError(f"module 'torch_fl' has no attribute {name!r}")
    value = getattr(importlib.import_module(_LAZY[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(set(globals()) | set(_LAZY))


def _jupyter_labextension_paths() -> list[dict[str, str]]:
    return [{"src": "labextension", "dest": "torch-fl-lab"}]


def load_ipython_extension(shell: InteractiveShell) -> None:
    """`%load_ext torch_fl`: claims the device and registers the magics. Loading twice does nothing."""
    from torch_fl import extension

    extension.load(shell)


def unload_ipython_extension(shell: InteractiveShell) -> None:
    """`%unload_ext torch_fl`: takes the magics and hooks away; cells run before keep working."""
    from torch_fl import extension

    extension.unload(shell)


def last() -> ProfileResult | None:
    """The profile taken last in this process and still held; None where there is none."""
    from torch_fl import history

    return history.last()


def recording() -> bool:
    """True while a profile is being taken by a magic or by `torch_fl.profile()`."""
    from torch_fl import recorder

    return recorder.active() is not None
