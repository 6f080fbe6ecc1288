"""`torch.ral`: what a `torch.<device>` module offers, plus what only this device has.

Devices are discovered at the first call that needs one, never at import.
"""

from __future__ import annotations

import json
import sys
from dataclasses import dataclass
from types import ModuleType
from typing import Any

import torch

from . import _pointers
from ._errors import RalError
from ._pointers import Pointer, check_pointer, pointer

_C: ModuleType
#: c10::DeviceType::PrivateUse1, as torch.Stream numbers device types.
_PRIVATE_USE_1 = 20
_KINDS = ("CPU", "GPU", "NPU", "OTHER")

__all__ = [
    "DeviceProperties",
    "Event",
    "Pointer",
    "RalError",
    "Stream",
    "StreamContext",
    "check_pointer",
    "current_device",
    "current_stream",
    "default_stream",
    "device",
    "device_count",
    "device_of",
    "devices",
    "empty_cache",
    "explain",
    "fallback_policy",
    "gc",
    "get_amp_supported_dtype",
    "get_device_name",
    "get_device_properties",
    "get_rng_state",
    "get_rng_state_all",
    "init",
    "initial_seed",
    "is_available",
    "is_bf16_supported",
    "is_initialized",
    "manual_seed",
    "manual_seed_all",
    "max_memory_allocated",
    "max_memory_reserved",
    "mem_get_info",
    "memory_allocated",
    "memory_reserved",
    "memory_snapshot",
    "memory_stats",
    "pending_builds",
    "plugins",
    "pointer",
    "record_memory_history",
    "reset_accumulated_memory_stats",
    "reset_peak_memory_stats",
    "seed",
    "seed_all",
    "set_device",
    "set_per_process_memory_fraction",
    "set_rng_state",
    "set_rng_state_all",
    "set_stream",
    "stream",
    "synchronize",
]

Device = torch.device | str | int | None


def install(extension: ModuleType) -> None:
    """Make this module `torch.ral` and give tensors, modules and storages their `.ral()` and `.is_ral`."""
    global _C
    _C = extension
    _pointers.install(extension)
    torch._register_device_module("ral", sys.modules[__name__])
    torch.utils.generate_methods_for_privateuse1_backend(for_storage=True)
    _map_dlpack_device()
    _print_from_host()


def _print_from_host() -> None:
    """Format tensors from one copy on the host: formatting them in place would run a dozen operators each."""
    from torch import _tensor_str as printer

    original = printer._tensor_str
    printer._tensor_str = lambda self, indent: original(
        self.cpu() if self.device.type == "ral" else self, indent
    )


def _map_dlpack_device() -> None:
    """Teach `Tensor.__dlpack_device__` our name: PyTorch 2.13 compares with the slot's former one only."""
    original = torch.Tensor.__dlpack_device__

    def dlpack_device(self: torch.Tensor) -> tuple[Any, int]:
        if self.device.type != "ral":
            return original(self)
        from torch.utils.dlpack import DLDeviceType

        return DLDeviceType.kDLExtDev, self.device.index

    torch.Tensor.__dlpack_device__ = dlpack_device  # type: ignore[method-assign]


def _index(device: Device, optional: bool = True) -> int:
    """Device index of what users pass; None is the current device."""
    if device is None:
        if not optional:
            raise ValueError("a device is needed: an index, 'ral:0' or torch.device('ral:0')")
        return _C.current_device()
    if isinstance(device, int):
        return device
    device = torch.device(device)
    if device.type != "ral":
        raise ValueError(f"expected a ral device, got '{device}'")
    return _C.current_device() if device.index is None else device.index


# ---- Availability --------------------------------------------------------------------------------


def is_available() -> bool:
    """Is there at least one device? Discovers devices at first call."""
    return _C.device_count() > 0


def device_count() -> int:
    """Number of live devices."""
    return _C.device_count()


def is_initialized() -> bool:
    """Have devices been discovered in this process?"""
    return _C.discovered()


def init() -> None:
    """Discover devices now rather than at first use."""
    _C.device_count()


def _lazy_init() -> None:
    init()


def _is_in_bad_fork() -> bool:
    return _C.forked()


def current_device() -> int:
    """Index of this thread's current device."""
    return _C.current_device()


def set_device(device: Device) -> None:
    """Make a device current for this thread. Raises RalError for an index that no device has."""
    index = _index(device)
    if index >= 0:
        _C.set_device(index)


def _exchange_device(index: int) -> int:
    return _C.set_device(index) if index >= 0 else _C.current_device()


def _maybe_exchange_device(index: int) -> int:
    return _exchange_device(index)


class device:
    """Context manager: the current device inside the block."""

    def __init__(self, device: Device) -> None:
        self.idx = _index(device)
        self.prev_idx = -1

    def __enter__(self) -> device:
        self.prev_idx = _exchange_device(self.idx)
        return self

    def __exit__(self, *_: object) -> None:
        _exchange_device(self.prev_idx)


class device_of(device):
    """Context manager: the device of a tensor or storage; nothing for others."""

    def __init__(self, obj: Any) -> None:
        place = getattr(obj, "device", None)
        self.idx = place.index if place is not None and place.type == "ral" else -1
        self.prev_idx = -1


@dataclass(frozen=True)
class DeviceProperties:
    """What a device's driver says of it. Memory in bytes."""

    name: str
    vendor: str
    driver: str
    type: str
    total_memory: int
    max_allocation: int
    multi_processor_count: int
    dma_engines: int
    host_visible: bool
    fp16: bool
    bf16: bool
    fp64: bool
    uuid: str
    plugin: str
    plugin_version: str


def get_device_properties(device: Device = None) -> DeviceProperties:
    """Properties of a device."""
    info = dict(_C.device_info(_index(device)))
    info["type"] = _KINDS[info.pop("kind")]
    info["multi_processor_count"] = info.pop("compute_units")
    return DeviceProperties(**info)


def get_device_name(device: Device = None) -> str:
    """The device's name, as its driver gives it."""
    return get_device_properties(device).name


def get_device_capability(device: Device = None) -> dict[str, bool]:
    """Which arithmetic a device's kernels have: {"fp16", "bf16", "fp64"}."""
    p = get_device_properties(device)
    return {"fp16": p.fp16, "bf16": p.bf16, "fp64": p.fp64}


def is_bf16_supported(including_emulation: bool = True) -> bool:
    """Can bfloat16 tensors be computed with? Without the device's own arithmetic another tier computes."""
    return including_emulation or get_device_properties().bf16


def get_amp_supported_dtype() -> list[torch.dtype]:
    """Data types that `torch.autocast("ral")` accepts."""
    return [torch.float16, torch.bfloat16]


# ---- Streams and events --------------------------------------------------------------------------


class Stream(torch.Stream):
    """An in-order queue of a device."""

    def __new__(cls, device: Device = None, priority: int = 0, **kwargs: Any) -> Stream:
        if kwargs:
            return super().__new__(cls, priority=priority, **kwargs)
        return super().__new__(cls, device=torch.device("ral", _index(device)), priority=priority)


class Event:
    """A point in a stream; with `enable_timing` it knows when it was reached. Makes a `torch.Event` of the current device."""

    # PyTorch compares events by their exact type, so a subclass could not be given to elapsed_time().
    def __new__(  # type: ignore[misc]
        cls, enable_timing: bool = False, blocking: bool = False, interprocess: bool = False
    ) -> torch.Event:
        if interprocess:
            raise ValueError("ral events cannot be shared between processes")
        return torch.Event(
            torch.device("ral", _C.current_device()), enable_timing=enable_timing, blocking=blocking
        )


def current_stream(device: Device = None) -> torch.Stream:
    """This thread's stream on a device."""
    return torch.accelerator.current_stream(torch.device("ral", _index(device)))


def default_stream(device: Device = None) -> torch.Stream:
    """The device's default stream."""
    return torch.Stream(stream_id=0, device_index=_index(device), device_type=_PRIVATE_USE_1)


def set_stream(stream: torch.Stream | None) -> None:
    """Make a stream this thread's current one on its device."""
    if stream is not None:
        torch.accelerator.set_stream(stream)


class StreamContext:
    """Context manager: the current stream inside the block. None changes nothing."""

    def __init__(self, stream: torch.Stream | None) -> None:
        self.stream = stream
        self._previous: torch.Stream | None = None
        self._device = -1

    def __enter__(self) -> StreamContext:
        if self.stream is not None:
            self._device = _exchange_device(self.stream.device.index)
            self._previous = current_stream(self.stream.device)
            set_stream(self.stream)
        return self

    def __exit__(self, *_: object) -> None:
        if self.stream is not None:
            set_stream(self._previous)
            _exchange_device(self._device)


def stream(stream: torch.Stream | None) -> StreamContext:
    """`with torch.ral.stream(s): ...` runs the block's work on `s`."""
    return StreamContext(stream)


def synchronize(device: Device = None) -> None:
    """Wait until all work of a device is done. Raises RalError for work that failed."""
    _C.synchronize(_index(device))


# ---- Memory --------------------------------------------------------------------------------------


def memory_stats(device: Device = None) -> dict[str, int]:
    """Counters of a device's memory pool: bytes, blocks, cache hits, and CPU tensors that keep pool memory."""
    return _C.memory_stats(_index(device))


def memory_allocated(device: Device = None) -> int:
    """Bytes in live tensors."""
    return memory_stats(device)["allocated_bytes"]


def max_memory_allocated(device: Device = None) -> int:
    """Highest `memory_allocated` since the start or `reset_peak_memory_stats`, in bytes."""
    return memory_stats(device)["allocated_bytes_peak"]


def memory_reserved(device: Device = None) -> int:
    """Bytes held from the device, cached ones included."""
    return memory_stats(device)["reserved_bytes"]


def max_memory_reserved(device: Device = None) -> int:
    """Highest `memory_reserved`, in bytes."""
    return memory_stats(device)["reserved_bytes_peak"]


def reset_peak_memory_stats(device: Device = None) -> None:
    """Start the peaks anew from the present values."""
    _C.reset_peak(_index(device))


def reset_accumulated_memory_stats(device: Device = None) -> None:
    """Set the counts of allocations, frees and cache hits to zero."""
    _C.reset_accumulated(_index(device))


def empty_cache() -> None:
    """Give cached, unused memory of all devices back."""
    if _C.discovered():
        for index in range(_C.device_count()):
            _C.empty_cache(index)


def mem_get_info(device: Device = None) -> tuple[int, int]:
    """(free, total) bytes of a device."""
    index = _index(device)
    return _C.free_memory(index), _C.device_info(index)["total_memory"]


def memory_snapshot(device: Device = None) -> list[dict[str, Any]]:
    """Segments of the pool and the blocks in them, in the order of their addresses.

    A segment has address, size and blocks; a block address, size and capacity (bytes), buffer id (0 where cached),
    stream, state ("active", "cached"), and who allocated it: op and line, None where not known. The line is
    "file:line" under `record_memory_history()`, "cell's hash:line" in a cell under `%%ral_profile`. Blocks above 1 MiB
    cover their segment, so that what lies between two is a cached block.

    A block's views are the live ones: id, parent (the block's id), offset from the block's begin and bytes (of the
    elements, numel x itemsize). Known is only what view operators (`aten::view`, `select`, slices, ...) returned while
    something recorded (`%%ral_profile`), until that tensor ends. A view of a view has the block as its parent, since
    PyTorch keeps no more.
    """
    return _C.memory_snapshot(_index(device))


def record_memory_history(enabled: bool = True) -> None:
    """Note for every block from now on which line of Python allocated it, for `memory_snapshot` and `gc`.

    Costs some microseconds an allocation. What autograd's own threads allocate has no line.
    """
    _C.record_memory_history(bool(enabled))


def set_per_process_memory_fraction(fraction: float, device: Device = None) -> None:
    """Let the pool reserve at most this share (0 to 1) of the device's memory."""
    if not 0 < fraction <= 1:
        raise ValueError(f"fraction must be above 0 and at most 1, got {fraction}")
    _C.set_memory_fraction(fraction, _index(device))


def gc() -> dict[str, Any]:
    """Collect Python garbage, wait for all devices and give unused memory back.

    Returns {"freed_bytes": bytes given back to the devices, "live_views": views still alive, "held": blocks that are
    alive although no tensor of Python's shows them, the largest first}. What is held has device, id, bytes, op and
    line (see `memory_snapshot`): an autograd graph keeps it (what backward needs), or a CPU tensor made from it.
    """
    import gc as python_gc

    python_gc.collect()
    before, after, views = 0, 0, 0
    held: list[dict[str, Any]] = []
    if _C.discovered():
        for index in range(_C.device_count()):
            _C.synchronize(index)
            before += memory_reserved(index)
        empty_cache()
        for index in range(_C.device_count()):
            stats = memory_stats(index)
            after += stats["reserved_bytes"]
            views += stats["live_views"]
        held = _held_without_tensor()
    return {"freed_bytes": before - after, "live_views": views, "held": held}


def _held_without_tensor() -> list[dict[str, Any]]:
    import gc as python_gc

    shown = set()
    for found in python_gc.get_objects():
        if issubclass(type(found), torch.Tensor):  # isinstance() would wake lazy proxies
            shown.add(_C.buffer_id(found))
            if found.is_leaf and found.grad is not None:
                shown.add(_C.buffer_id(found.grad))
    rows = [
        {"device": f"ral:{index}", "id": b["id"], "bytes": b["size"], "op": b["op"], "line": b["line"]}
        for index in range(_C.device_count())
        for segment in _C.memory_snapshot(index)
        for b in segment["blocks"]
        if b["state"] == "active" and b["id"] not in shown
    ]
    return sorted(rows, key=lambda row: -row["bytes"])


# ---- Random numbers ------------------------------------------------------------------------------


def _generators() -> tuple[torch.Generator, ...]:
    return tuple(_C.default_generator(index) for index in range(_C.device_count()))


def manual_seed(seed: int) -> None:
    """Seed the current device's generator."""
    _C.default_generator(_C.current_device()).manual_seed(int(seed))


def manual_seed_all(seed: int) -> None:
    """Seed every device's generator; opens no driver (slots without a device are seeded too)."""
    for index in range(16):
        _C.default_generator(index).manual_seed(int(seed))


def seed() -> None:
    """Seed the current device's generator with a random number."""
    _C.default_generator(_C.current_device()).seed()


def seed_all() -> None:
    """Seed every device's generator with one random number."""
    manual_seed_all(_C.default_generator(0).seed())


def initial_seed() -> int:
    """Seed of the current device's generator."""
    return _C.default_generator(_C.current_device()).initial_seed()


def get_rng_state(device: Device = "ral") -> torch.Tensor:
    """The generator's state: 16 bytes, Philox {seed, offset}."""
    return _C.default_generator(_index(device)).get_state()


def set_rng_state(new_state: torch.Tensor, device: Device = "ral") -> None:
    """Set what `get_rng_state` returned."""
    _C.default_generator(_index(device)).set_state(new_state)


def get_rng_state_all() -> list[torch.Tensor]:
    """States of all devices."""
    return [generator.get_state() for generator in _generators()]


def set_rng_state_all(new_states: list[torch.Tensor]) -> None:
    """Set what `get_rng_state_all` returned."""
    for index, state in enumerate(new_states):
        set_rng_state(state, index)


def __getattr__(name: str) -> Any:
    if name == "default_generators":
        return _generators()
    if name == "_initialized":  # torch.utils.checkpoint asks so whether there is a state to keep
        return is_initialized()
    raise AttributeError(f"module 'torch.ral' has no attribute {name!r}")


# ---- Devices, plugins and the fallback chain -----------------------------------------------------


def devices() -> list[dict[str, Any]]:
    """One entry a device: id, kind, name, vendor, driver, plugin, status, data types, and memory in bytes."""
    rows = json.loads(_C.status_json())["devices"]
    for row in rows:
        stats = _C.memory_stats(row["index"])
        row["memory_allocated"] = stats["allocated_bytes"]
        row["memory_reserved"] = stats["reserved_bytes"]
    return rows


def plugins() -> list[dict[str, Any]]:
    """One entry a plugin found: name, version, path, status (LOADED, READY, MISSING_DEPS, REFUSED), reason, missing."""
    return _C.plugins()


class _Policy(str):
    """The chain in force, as text; a context manager that puts the former one back."""

    _former: tuple[str, bool]

    def __enter__(self) -> _Policy:
        return self

    def __exit__(self, *_: object) -> None:
        _C.set_policy(*self._former)


def fallback_policy(order: str | None = None, strict: bool | None = None) -> _Policy:
    """Read, or set, which tiers may run an operator and in which order.

    `order` is a comma-separated list of native, jit, reference and cpu. With `strict` the order is kept even where a
    measurement says that a later tier is faster. Returns the chain now in force; used with `with`, the former one
    comes back at the end. Raises RalError naming the word for an unknown or repeated tier.
    """
    former = _C.policy()
    if order is not None or strict is not None:
        _C.set_policy(former[0] if order is None else order, former[1] if strict is None else strict)
    policy = _Policy(_C.policy()[0])
    policy._former = former
    return policy


def pending_builds() -> int:
    """How many native kernels are being built, or wait for it, in the background.

    Each build has one of the host's cores for a while: benchmarks warm up until there are none.
    """
    return _C.pending_builds()


def explain(op_name: str, *args: Any, **kwargs: Any) -> dict[str, Any]:
    """The chain's decision for a call, without running it.

    `op_name` is an ATen name, "add" or "add.Tensor". Returns {"op", "device", "tier", "kernel", "reason"}, where
    `reason` maps each tier that was passed over to why, and "ran" to why the chosen one runs. For an operator that
    PyTorch composes of others it is the decision for the first of these.
    Raises ValueError for an unknown operator or arguments that reach no ral device.
    """
    packet_name, _, overload = op_name.removeprefix("aten::").partition(".")
    packet = getattr(torch.ops.aten, packet_name, None)
    if packet is None or (overload and overload not in packet.overloads()):
        raise ValueError(f"unknown operator {op_name!r}; use an ATen name such as 'add' or 'add.Tensor'")
    call = getattr(packet, overload) if overload else packet
    _C.set_explaining(True)
    try:
        with torch.no_grad():
            call(*args, **kwargs)
    except RuntimeError as error:
        if "ral: explained" not in str(error):
            raise
    else:
        raise ValueError(
            f"{op_name} reached no computing operator of a ral device (a view, a copy, or no ral tensor)"
        )
    finally:
        _C.set_explaining(False)
    answer = _C.take_explanation()
    answer["reason"] = json.loads(answer["reason"])
    return answer
