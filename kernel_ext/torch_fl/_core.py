"""The adapter's Python extension `_C`, found once: the only place that knows where it comes from."""

from __future__ import annotations

from typing import Any

__all__ = ["MissingCoreError", "core"]

_CURE = "install it beside this package: pip install torch-fl-core (or `make lab` in a checkout)"
_core: Any = None


class MissingCoreError(RuntimeError):
    """torch_fl_core or its adapter for this PyTorch is not there; the text names the cure."""


def core() -> Any:
    """Claims the device where that has not happened yet; returns the adapter's functions.

    Raises:
        MissingCoreError: PyTorch, torch_fl_core or an adapter for this PyTorch is missing.
    """
    global _core
    if _core is not None:
        return _core
    try:
        import torch_fl_core

        found = torch_fl_core.load()
    except ImportError as error:
        raise MissingCoreError(f"torch_fl_core cannot be used here: {error}; {_CURE}") from error
    if found is None:
        raise MissingCoreError(f"torch_fl_core has no adapter for this PyTorch; {_CURE}")
    _core = found
    return _core


def use(module: Any) -> None:
    """Sets the functions to use in place of the adapter's; None looks for them anew. For tests."""
    global _core
    _core = module
