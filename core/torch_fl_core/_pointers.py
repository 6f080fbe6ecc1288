"""Addresses of tensors for code outside PyTorch, and whether they still hold."""

from __future__ import annotations

from types import ModuleType
from typing import NamedTuple

import torch

_C: ModuleType


def install(extension: ModuleType) -> None:
    """Gives the functions here the adapter."""
    global _C
    _C = extension


class Pointer(NamedTuple):
    """Device memory of a tensor, as `pointer` found it.

    `address` is what `data_ptr()` gives; `bytes` reach from there to the end of the tensor's last element; `generation`
    is the id of its buffer's life, as in the trace and in `memory_snapshot`; `device` the index of the device.
    """

    address: int
    bytes: int
    generation: int
    device: int


def pointer(tensor: torch.Tensor) -> Pointer:
    """Where a tensor of a ral device lies, for code that takes addresses and keeps them.

    Keeping a Pointer does not keep the memory: `check_pointer` tells whether it is still the same. On devices that are
    not host-visible the address names the memory but cannot be read.

    Raises:
        ValueError: the tensor is not on a ral device, or has no elements.
    """
    if tensor.device.type != "ral":
        raise ValueError(
            f"a tensor on a ral device is wanted, this one is on {tensor.device}; move it with .to('ral')"
        )
    if tensor.numel() == 0:
        raise ValueError(
            f"a tensor of shape {tuple(tensor.shape)} has no elements, so there is no address to give"
        )
    return Pointer(*_C.pointer(tensor))


def check_pointer(pointer: Pointer) -> None:
    """Raises RalError with RAL_ERROR_INVALID_POINTER where the memory is no longer what the pointer was made for.

    Checked are the device, the bounds of the block, and the generation: memory that was freed and given out again is
    refused too.
    """
    _C.check_pointer(*pointer)
