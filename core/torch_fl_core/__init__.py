"""torch_fl_core: the `ral` device for an unmodified PyTorch, and the reader of its traces.

Importing this package does nothing but define names: `torch_fl_core.trace` (no PyTorch needed) can be
used by a server that has none. `load()` claims the device; plain `import torch` calls `_autoload`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from types import ModuleType

__version__ = "0.1.0"
__all__ = ["RalError", "adapter", "load", "__version__"]


def load() -> ModuleType:
    """Claim the device `ral` for this process and return the adapter extension (idempotent).

    Raises RuntimeError, naming the cure, where this PyTorch has no matching adapter, another package has
    taken PyTorch's PrivateUse1 slot, or the operating system is not Linux.
    """
    from . import _loader

    return _loader.load()


def adapter() -> ModuleType | None:
    """The adapter extension if the device has been claimed in this process, else None."""
    import sys

    loader = sys.modules.get(__name__ + "._loader")
    return loader.extension if loader else None


def _autoload() -> None:
    """Entry point of group `torch.backends`, called by `import torch`; never raises."""
    from . import _loader

    _loader.autoload()


def __getattr__(name: str) -> Any:
    if name == "RalError":
        from ._errors import RalError

        return RalError
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
