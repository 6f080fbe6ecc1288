"""The exception that device failures raise."""

from __future__ import annotations


class RalError(RuntimeError):
    """A failure of a ral device or its plugin.

    The text begins with a code such as `RAL_ERROR_INVALID_POINTER` and names the values involved.
    """
