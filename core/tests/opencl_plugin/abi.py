"""plugin.h for ctypes, and a thin device over one plugin: enough to allocate, copy and launch from Python.

It speaks the C ABI directly (no libral, no adapter), so that what passes here is the plugin's own doing.
"""

from __future__ import annotations

import ctypes as c
from pathlib import Path

import torch

DTYPES = [
    torch.bool, torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64, torch.float16, torch.bfloat16,
    torch.float32, torch.float64, torch.complex64, torch.complex128, torch.uint16, torch.uint32, torch.uint64,
]  # fmt: skip
DTYPE_NAMES = [str(d).removeprefix("torch.") for d in DTYPES]
_DL_CODES = [6, 1, 0, 0, 0, 0, 2, 4, 2, 2, 5, 5, 1, 1, 1]

SUCCESS, UNSUPPORTED, INVALID_ARGUMENT, INVALID_POINTER, OUT_OF_MEMORY, NOT_READY = 0, 1, 2, 3, 4, 10
HOST_VISIBLE, FP64 = 0x1, 0x8


class DeviceInfo(c.Structure):
    """ral_device_info."""

    _fields_ = [
        ("struct_size", c.c_uint32), ("kind", c.c_int32), ("name", c.c_char * 128), ("vendor", c.c_char * 64),
        ("driver", c.c_char * 64), ("total_memory", c.c_uint64), ("max_allocation", c.c_uint64), ("flags", c.c_uint32),
        ("compute_units", c.c_uint32), ("dtype_mask", c.c_uint32), ("dma_engines", c.c_uint32),
        ("alignment", c.c_uint32), ("max_rank", c.c_uint32), ("uuid", c.c_char * 40),
    ]  # fmt: skip


class Memory(c.Structure):
    """ral_memory."""

    _fields_ = [("handle", c.c_void_p), ("host_address", c.c_void_p)]


class DlDevice(c.Structure):
    """ral_dl_device."""

    _fields_ = [("device_type", c.c_int32), ("device_id", c.c_int32)]


class DlType(c.Structure):
    """ral_dl_type."""

    _fields_ = [("code", c.c_uint8), ("bits", c.c_uint8), ("lanes", c.c_uint16)]


class Tensor(c.Structure):
    """ral_tensor."""

    _fields_ = [
        ("data", c.c_void_p), ("device", DlDevice), ("ndim", c.c_int32), ("dtype", DlType),
        ("shape", c.POINTER(c.c_int64)), ("strides", c.POINTER(c.c_int64)), ("byte_offset", c.c_uint64),
    ]  # fmt: skip


class _Tensors(c.Structure):
    _fields_ = [("items", c.POINTER(c.POINTER(Tensor))), ("count", c.c_uint64)]


class _Complex(c.Structure):
    _fields_ = [("re", c.c_double), ("im", c.c_double)]


class _Ints(c.Structure):
    _fields_ = [("items", c.POINTER(c.c_int64)), ("count", c.c_uint64)]


class _Doubles(c.Structure):
    _fields_ = [("items", c.POINTER(c.c_double)), ("count", c.c_uint64)]


class _Union(c.Union):
    _fields_ = [
        ("tensor", c.POINTER(Tensor)), ("tensors", _Tensors), ("i", c.c_int64), ("d", c.c_double), ("b", c.c_int32),
        ("complex", _Complex), ("ints", _Ints), ("doubles", _Doubles), ("string", c.c_char_p),
    ]  # fmt: skip


class Value(c.Structure):
    """ral_value."""

    _fields_ = [("tag", c.c_int32), ("dtype", c.c_int32), ("u", _Union), ("i64", c.c_int64)]


class ArgUnion(c.Union):
    """The union inside ral_arg."""

    class _Buffer(c.Structure):
        _fields_ = [("handle", c.c_void_p), ("byte_offset", c.c_uint64)]

    _fields_ = [
        ("buffer", _Buffer), ("i32", c.c_int32), ("i64", c.c_int64), ("f32", c.c_float), ("f64", c.c_double)
    ]  # fmt: skip


class Arg(c.Structure):
    """ral_arg."""

    _fields_ = [("kind", c.c_int32), ("u", ArgUnion)]


_P = c.c_void_p
_I = c.c_int32
_U64 = c.c_uint64
_VALUES = c.POINTER(Value)


def _call(*types: object) -> object:
    return c.CFUNCTYPE(_I, *types)


class DeviceTable(c.Structure):
    """ral_device_table."""

    _fields_ = [
        ("struct_size", c.c_uint32), ("count", _call(c.POINTER(_I))), ("info", _call(_I, c.POINTER(DeviceInfo))),
        ("free_memory", _call(_I, c.POINTER(_U64))), ("synchronize", _call(_I)),
    ]  # fmt: skip


class MemoryTable(c.Structure):
    """ral_memory_table."""

    _fields_ = [
        ("struct_size", c.c_uint32), ("malloc", _call(_I, _U64, c.POINTER(Memory))), ("free", _call(_I, _P)),
        ("copy_from_host", _call(_I, _P, _P, _U64, _P, _U64, c.POINTER(_P))),
        ("copy_to_host", _call(_I, _P, _P, _P, _U64, _U64, c.POINTER(_P))),
        ("copy_on_device", _call(_I, _P, _P, _U64, _P, _U64, _U64, c.POINTER(_P))),
        ("import_host", _call(_I, _P, _U64, c.POINTER(Memory))), ("release_import", _call(_I, _P)),
    ]  # fmt: skip


class StreamTable(c.Structure):
    """ral_stream_table."""

    _fields_ = [
        ("struct_size", c.c_uint32), ("create", _call(_I, _I, c.POINTER(_P))), ("destroy", _call(_I, _P)),
        ("synchronize", _call(_I, _P)), ("wait_event", _call(_I, _P, _P)), ("flush", _call(_I, _P)),
    ]  # fmt: skip


class EventTable(c.Structure):
    """ral_event_table."""

    _fields_ = [
        ("struct_size", c.c_uint32), ("record", _call(_I, _P, c.POINTER(_P))), ("query", _call(_I, _P)),
        ("synchronize", _call(_I, _P)),
        ("times", _call(_I, _P, c.POINTER(c.c_int64), c.POINTER(c.c_int64), c.POINTER(c.c_int64))),
        ("release", _call(_I, _P)), ("clock_uncertainty", _call(_I, c.POINTER(c.c_int64))),
    ]  # fmt: skip


class KernelTable(c.Structure):
    """ral_kernel_table."""

    _fields_ = [
        ("struct_size", c.c_uint32),
        ("resolve", _call(_I, c.c_char_p, c.c_char_p, c.c_char_p, c.c_char_p, c.POINTER(_P))),
        ("prepare", _call(_I, _P, _VALUES, c.c_uint32, _VALUES, c.c_uint32)),
        ("workspace_size", _call(_I, _P, _VALUES, c.c_uint32, _VALUES, c.c_uint32, c.POINTER(_U64))),
        ("launch",
         _call(_I, _P, _P, _VALUES, c.c_uint32, _VALUES, c.c_uint32, c.POINTER(Tensor), c.POINTER(_P))),
    ]  # fmt: skip


class CompileTable(c.Structure):
    """ral_compile_table."""

    _fields_ = [
        ("struct_size", c.c_uint32), ("dialect", c.c_char_p),
        ("compile", _call(_I, c.c_char_p, c.c_char_p, c.POINTER(_P))),
        ("binary", _call(_I, _P, _P, c.POINTER(_U64))), ("load", _call(_I, _P, _U64, c.POINTER(_P))),
        ("get_kernel", _call(_I, _P, c.c_char_p, c.POINTER(_P))),
        ("launch", _call(_I, _P, _P, c.POINTER(_U64), c.POINTER(_U64), c.POINTER(Arg), c.c_uint32, c.POINTER(_P))),
        ("release", _call(_I, _P)),
    ]  # fmt: skip


class PluginTable(c.Structure):
    """ral_plugin."""

    _fields_ = [
        ("struct_size", c.c_uint32), ("abi_version", c.c_uint32), ("name", c.c_char_p), ("version", c.c_char_p),
        ("last_error", _call(c.c_char_p, _U64)), ("device", c.POINTER(DeviceTable)),
        ("memory", c.POINTER(MemoryTable)), ("stream", c.POINTER(StreamTable)), ("event", c.POINTER(EventTable)),
        ("kernel", c.POINTER(KernelTable)), ("compile", c.POINTER(CompileTable)), ("manifest", _P), ("shutdown", _P),
    ]  # fmt: skip


class HostTable(c.Structure):
    """ral_host."""

    _fields_ = [
        ("struct_size", c.c_uint32), ("abi_version", c.c_uint32), ("log", c.CFUNCTYPE(None, _I, c.c_char_p)),
        ("compile_begin", c.CFUNCTYPE(_U64, _I, c.c_char_p)), ("compile_end", c.CFUNCTYPE(None, _U64, _I)),
        ("device_lost", c.CFUNCTYPE(None, _I, c.c_char_p)), ("device_arrived", c.CFUNCTYPE(None)),
        ("cache_folder", c.CFUNCTYPE(_P)), ("thread_budget", c.CFUNCTYPE(_I)),
    ]  # fmt: skip


class PluginError(RuntimeError):
    """A status other than SUCCESS; `status` holds it."""

    def __init__(self, status: int, text: str) -> None:
        super().__init__(f"status {status}: {text}")
        self.status = status


class HostScalar(float):
    """A number handed over as RAL_VALUE_HOST_SCALAR of `dtype`."""

    dtype: torch.dtype

    def __new__(cls, value: float, dtype: torch.dtype) -> HostScalar:
        self = super().__new__(cls, value)
        self.dtype = dtype
        return self


class Plugin:
    """A loaded plugin library. `compiles` lists (name, status) of every reported build."""

    def __init__(self, path: str | Path, cache_folder: str = "") -> None:
        self.compiles: list[list[object]] = []
        self.messages: list[tuple[int, str]] = []
        self._folder = c.create_string_buffer(cache_folder.encode())
        types = dict(HostTable._fields_)
        self._host = HostTable(
            c.sizeof(HostTable), 9, types["log"](lambda level, text: self.messages.append((level, text.decode()))),
            types["compile_begin"](self._begin), types["compile_end"](self._end),
            types["device_lost"](lambda device, reason: None), types["device_arrived"](lambda: None),
            types["cache_folder"](lambda: c.addressof(self._folder)), types["thread_budget"](lambda: 0),
        )  # fmt: skip
        self.path = Path(path)
        library = c.CDLL(str(path))
        library.ral_plugin_entry.restype = c.POINTER(PluginTable)
        library.ral_plugin_error.restype = c.c_char_p
        table = library.ral_plugin_entry(c.byref(self._host))
        if not table:
            raise PluginError(9, library.ral_plugin_error().decode())
        self.table = table.contents
        self.device = self.table.device.contents
        self.memory = self.table.memory.contents
        self.stream = self.table.stream.contents if self.table.stream else None
        self.event = self.table.event.contents if self.table.event else None
        self.kernel = self.table.kernel.contents if self.table.kernel else None
        self.compile = self.table.compile.contents if self.table.compile else None

    def _begin(self, device: int, what: bytes) -> int:
        self.compiles.append([what.decode(), None])
        return len(self.compiles)

    def _end(self, id_: int, status: int) -> None:
        self.compiles[id_ - 1][1] = status

    def error(self) -> str:
        """The plugin's text for this thread's last failure."""
        buffer = c.create_string_buffer(4096)
        self.table.last_error(buffer, 4096)
        return buffer.value.decode(errors="replace")

    def check(self, status: int) -> None:
        """Raise PluginError unless `status` is SUCCESS."""
        if status != SUCCESS:
            raise PluginError(status, self.error())

    def info(self, index: int = 0) -> DeviceInfo:
        """Device information."""
        info = DeviceInfo(struct_size=c.sizeof(DeviceInfo))
        self.check(self.device.info(index, c.byref(info)))
        return info

    def count(self) -> int:
        """Number of devices."""
        count = _I()
        self.check(self.device.count(c.byref(count)))
        return count.value


class Buffer:
    """Device memory of `bytes`, freed with the object."""

    def __init__(self, plugin: Plugin, index: int, bytes_: int) -> None:
        self.plugin, self.index, self.bytes = plugin, index, bytes_
        self.memory = Memory()
        plugin.check(plugin.memory.malloc(index, max(bytes_, 1), c.byref(self.memory)))
        self.handle = self.memory.handle

    def write(self, address: int, bytes_: int) -> None:
        """Copy from host memory, waiting."""
        if bytes_:
            self.plugin.check(
                self.plugin.memory.copy_from_host(self.index, None, self.handle, 0, address, bytes_, None)
            )

    def read(self, address: int, bytes_: int) -> None:
        """Copy to host memory, waiting for the default stream."""
        if bytes_:
            self.plugin.check(
                self.plugin.memory.copy_to_host(self.index, None, address, self.handle, 0, bytes_, None)
            )

    def __del__(self) -> None:
        if getattr(self, "handle", None):
            self.plugin.device.synchronize(self.index)
            self.plugin.memory.free(self.index, self.handle)


class DeviceTensor:
    """The device's copy of a CPU tensor, with the same shape, strides and offset."""

    def __init__(self, plugin: Plugin, index: int, host: torch.Tensor) -> None:
        self.host = host
        storage = host.untyped_storage()
        self.buffer = Buffer(plugin, index, storage.nbytes())
        self.buffer.write(storage.data_ptr(), storage.nbytes())
        rank = max(host.dim(), 1)
        self._shape = (c.c_int64 * rank)(*host.shape)
        self._strides = (c.c_int64 * rank)(*host.stride())
        code = DTYPES.index(host.dtype)
        self.raw = Tensor(
            self.buffer.handle, DlDevice(12, index), host.dim(), DlType(_DL_CODES[code], host.element_size() * 8, 1),
            self._shape, self._strides, host.storage_offset() * host.element_size(),
        )  # fmt: skip

    def back(self) -> torch.Tensor:
        """A CPU tensor with the device's present values."""
        storage = torch.empty(self.buffer.bytes, dtype=torch.uint8)
        self.buffer.read(storage.data_ptr(), self.buffer.bytes)
        result = torch.empty(0, dtype=self.host.dtype)
        return result.set_(
            storage.untyped_storage(), self.host.storage_offset(), self.host.shape, self.host.stride()
        )


class Values:
    """An array of ral_value made from Python values; keeps what they point to alive."""

    def __init__(self, plugin: Plugin, index: int, items: list[object]) -> None:
        self.count = len(items)
        self.raw = (Value * max(self.count, 1))()
        self.keep: list[object] = []
        self.tensors: list[DeviceTensor | None] = []
        for value, item in zip(self.raw, items, strict=False):
            self.tensors.append(self._fill(plugin, index, value, item))

    def _fill(self, plugin: Plugin, index: int, value: Value, item: object) -> DeviceTensor | None:
        value.dtype = -1
        if item is None:
            value.tag = 0
        elif isinstance(item, torch.Tensor | DeviceTensor):
            tensor = item if isinstance(item, DeviceTensor) else DeviceTensor(plugin, index, item)
            value.tag, value.dtype = 1, DTYPES.index(tensor.host.dtype)
            value.u.tensor = c.pointer(tensor.raw)
            self.keep.append(tensor)
            return tensor
        elif isinstance(item, HostScalar):
            value.tag, value.dtype = 13, DTYPES.index(item.dtype)
            value.u.complex.re, value.i64 = float(item), int(item) if item == item and abs(item) < 9e18 else 0
        elif isinstance(item, bool):
            value.tag, value.u.b = 5, int(item)
        elif isinstance(item, int):
            value.tag, value.u.i = 3, item
        elif isinstance(item, float):
            value.tag, value.u.d = 4, item
        elif isinstance(item, str):
            value.tag, value.u.string = 8, item.encode()
        elif isinstance(item, torch.dtype):
            value.tag, value.dtype = 9, DTYPES.index(item)
        elif item and all(isinstance(x, torch.Tensor) for x in item):
            tensors = [DeviceTensor(plugin, index, x) for x in item]
            array = (c.POINTER(Tensor) * len(tensors))(*[c.pointer(t.raw) for t in tensors])
            value.tag, value.u.tensors.items, value.u.tensors.count = 2, array, len(tensors)
            self.keep += [tensors, array]
        elif item and all(isinstance(x, bool) for x in item):
            array = (c.c_int32 * len(item))(*item)
            value.tag, value.u.ints.count = 12, len(item)
            value.u.ints.items = c.cast(array, c.POINTER(c.c_int64))
            self.keep.append(array)
        else:
            array = (c.c_int64 * max(len(item), 1))(*item)
            value.tag, value.u.ints.items, value.u.ints.count = 7, array, len(item)
            self.keep.append(array)
        return None


class Kernel:
    """A resolved manifest entry."""

    def __init__(self, plugin: Plugin, index: int, entry: dict[str, object]) -> None:
        self.plugin, self.index = plugin, index
        self.handle = _P()
        path = plugin.path.parent / str(entry["kernel_path"])
        plugin.check(
            plugin.kernel.resolve(
                index, str(entry["op_name"]).encode(), str(path).encode(), str(entry["symbol"]).encode(),
                str(entry["dialect"]).encode(), c.byref(self.handle),
            )
        )  # fmt: skip

    def run(self, args: list[object], outs: list[object], prepare: bool = True) -> list[torch.Tensor]:
        """Prepare, launch on the default stream, wait for the event; gives the outputs' values."""
        plugin, index = self.plugin, self.index
        inputs, outputs = Values(plugin, index, args), Values(plugin, index, outs)
        call = (inputs.raw, inputs.count, outputs.raw, outputs.count)
        if prepare:
            plugin.check(plugin.kernel.prepare(index, self.handle, *call))
        size = _U64()
        plugin.check(plugin.kernel.workspace_size(index, self.handle, *call, c.byref(size)))
        scratch = (
            DeviceTensor(plugin, index, torch.empty(size.value, dtype=torch.uint8)) if size.value else None
        )
        workspace = c.byref(scratch.raw) if scratch else None
        done = _P()
        plugin.check(plugin.kernel.launch(index, self.handle, None, *call, workspace, c.byref(done)))
        plugin.check(plugin.event.synchronize(index, done))
        plugin.check(plugin.event.release(index, done))
        return [t.back() for t in outputs.tensors]
