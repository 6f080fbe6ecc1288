"""Memory, copies, streams, events and their clock, the compile table, threads, and finding a driver."""

from __future__ import annotations

import ctypes as c
import os
import shutil
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
import torch
from abi import (
    HOST_VISIBLE,
    INVALID_ARGUMENT,
    INVALID_POINTER,
    OUT_OF_MEMORY,
    SUCCESS,
    Arg,
    Buffer,
    DeviceTensor,
    Kernel,
    Memory,
    Plugin,
    PluginError,
    Values,
)  # fmt: skip

HERE = Path(__file__).parent
ADD_ONE = b"""
__kernel void add_one(__global char* base, ulong offset, int count, float step) {
  const size_t i = get_global_id(0);
  if (i < (size_t)count) ((__global float*)(base + offset))[i] += step;
}
"""


def is_svm(plugin: Plugin) -> bool:
    """Whether this is the instance with shared virtual memory."""
    return plugin.path.parent.name == "svm"


def test_device_info(plugin: Plugin) -> None:
    """Every device says who it is; a bad index is an error with a text."""
    assert plugin.count() >= 1
    for index in range(plugin.count()):
        info = plugin.info(index)
        assert info.name
        assert info.vendor
        assert info.vendor in info.driver
        assert info.kind in (0, 1, 2, 3)
        assert info.compute_units >= 1
        assert 0 < info.max_allocation <= info.total_memory
        assert info.dtype_mask == (1 << 15) - 1
    with pytest.raises(PluginError) as caught:
        plugin.info(99)
    assert caught.value.status == INVALID_ARGUMENT
    assert "99" in str(caught.value)


def test_memory_forms(plugin: Plugin) -> None:
    """Shared memory: the handle is the address. Buffers: no address, and the flag says so."""
    buffer = Buffer(plugin, 0, 1000)
    if not is_svm(plugin):
        assert buffer.memory.host_address is None
        assert not plugin.info().flags & HOST_VISIBLE
        return
    if not plugin.info().flags & HOST_VISIBLE:
        pytest.skip("this driver has no fine-grain shared memory")
    assert buffer.memory.host_address == buffer.handle
    assert buffer.handle % plugin.info().alignment == 0
    c.memset(buffer.handle, 7, 1000)
    back = torch.empty(1000, dtype=torch.uint8)
    buffer.read(back.data_ptr(), 1000)
    assert (back == 7).all()


def test_memory_errors(plugin: Plugin) -> None:
    """Unknown handles, double frees, copies out of bounds, sizes beyond the device."""
    memory = Memory()
    too_much = plugin.info().max_allocation + 1
    assert plugin.memory.malloc(0, too_much, c.byref(memory)) == OUT_OF_MEMORY
    assert str(too_much) in plugin.error()
    assert plugin.memory.malloc(0, 64, c.byref(memory)) == SUCCESS
    host = torch.zeros(100, dtype=torch.uint8)
    assert (
        plugin.memory.copy_from_host(0, None, memory.handle, 32, host.data_ptr(), 64, None)
        == INVALID_ARGUMENT
    )
    assert plugin.memory.free(0, memory.handle) == SUCCESS
    assert plugin.memory.free(0, memory.handle) == INVALID_POINTER
    assert plugin.memory.copy_to_host(0, None, host.data_ptr(), memory.handle, 0, 1, None) == INVALID_POINTER


def test_copies_with_offsets(plugin: Plugin) -> None:
    """Host to device, on the device, back; at odd offsets, with events."""
    a, b = Buffer(plugin, 0, 4096), Buffer(plugin, 0, 4096)
    source = torch.arange(4096).to(torch.uint8)
    done = c.c_void_p()
    plugin.check(plugin.memory.copy_from_host(0, None, a.handle, 0, source.data_ptr(), 4096, c.byref(done)))
    plugin.check(plugin.event.synchronize(0, done))
    plugin.check(plugin.event.release(0, done))
    plugin.check(plugin.memory.copy_on_device(0, None, b.handle, 5, a.handle, 11, 1001, None))
    back = torch.zeros(1001, dtype=torch.uint8)
    plugin.check(plugin.memory.copy_to_host(0, None, back.data_ptr(), b.handle, 5, 1001, None))
    assert torch.equal(back, source[11:1012])
    plugin.check(plugin.memory.copy_from_host(0, None, a.handle, 0, None, 0, c.byref(done)))
    plugin.check(plugin.event.synchronize(0, done))
    plugin.check(plugin.event.release(0, done))


def test_import(plugin: Plugin) -> None:
    """Host memory as a device buffer, where handles are buffers."""
    host = torch.arange(4096, dtype=torch.uint8)
    memory = Memory()
    status = plugin.memory.import_host(0, host.data_ptr(), 4096, c.byref(memory))
    if status == 1:
        assert is_svm(plugin)
        return
    plugin.check(status)
    back = torch.zeros(10, dtype=torch.uint8)
    plugin.check(plugin.memory.copy_to_host(0, None, back.data_ptr(), memory.handle, 100, 10, None))
    assert torch.equal(back, host[100:110])
    assert plugin.memory.free(0, memory.handle) == INVALID_POINTER
    plugin.check(plugin.memory.release_import(0, memory.handle))


def event_times(plugin: Plugin, event: c.c_void_p) -> tuple[int, int, int]:
    """(queued, start, end) in ns of CLOCK_MONOTONIC."""
    times = [c.c_int64() for _ in range(3)]
    plugin.check(plugin.event.times(0, event, *[c.byref(t) for t in times]))
    return times[0].value, times[1].value, times[2].value


def test_event_times_are_on_the_monotonic_clock(
    plugin: Plugin, entries: dict[str, dict[str, object]]
) -> None:
    """Queued, start and end lie between the host's own readings, within the stated uncertainty."""
    kernel = Kernel(plugin, 0, entries["sin"])
    tensor = torch.randn(1 << 20)
    inputs, outputs = Values(plugin, 0, [tensor]), Values(plugin, 0, [torch.empty(1 << 20)])
    call = (inputs.raw, 1, outputs.raw, 1)
    plugin.check(plugin.kernel.prepare(0, kernel.handle, *call))
    uncertainty = c.c_int64()
    plugin.check(plugin.event.clock_uncertainty(0, c.byref(uncertainty)))
    assert 0 <= uncertainty.value < 1_000_000
    done = c.c_void_p()
    before = time.monotonic_ns()
    plugin.check(plugin.kernel.launch(0, kernel.handle, None, *call, None, c.byref(done)))
    plugin.check(plugin.event.synchronize(0, done))
    after = time.monotonic_ns()
    queued, start, end = event_times(plugin, done)
    plugin.check(plugin.event.release(0, done))
    slack = uncertainty.value + 1000
    assert before - slack <= queued <= start <= end <= after + slack
    assert end - start > 10_000


def test_streams_run_in_order_and_wait_for_events(
    plugin: Plugin, entries: dict[str, dict[str, object]]
) -> None:
    """A chain over two streams gives the right number only when each waits for the other."""
    first, second = c.c_void_p(), c.c_void_p()
    plugin.check(plugin.stream.create(0, 0, c.byref(first)))
    plugin.check(plugin.stream.create(0, -1, c.byref(second)))
    add, mul = Kernel(plugin, 0, entries["add.Scalar"]), Kernel(plugin, 0, entries["mul.Scalar"])
    tensor = DeviceTensor(plugin, 0, torch.zeros(100_000))
    plus, times = Values(plugin, 0, [tensor, 1.0, 1]), Values(plugin, 0, [tensor, 2.0])
    out = Values(plugin, 0, [tensor])
    for stream, other, kernel, args in [(first, second, add, plus), (second, first, mul, times)] * 10:
        done = c.c_void_p()
        plugin.check(
            plugin.kernel.launch(
                0, kernel.handle, stream, args.raw, args.count, out.raw, 1, None, c.byref(done)
            )
        )
        plugin.check(plugin.stream.wait_event(0, other, done))
        plugin.check(plugin.event.release(0, done))
    plugin.check(plugin.stream.flush(0, first))
    plugin.check(plugin.stream.synchronize(0, first))
    plugin.check(plugin.stream.synchronize(0, second))
    assert (tensor.back() == 2.0**11 - 2).all()
    marker = c.c_void_p()
    plugin.check(plugin.event.record(0, first, c.byref(marker)))
    plugin.check(plugin.event.synchronize(0, marker))
    assert plugin.event.query(0, marker) == SUCCESS
    plugin.check(plugin.event.release(0, marker))
    plugin.check(plugin.stream.destroy(0, first))
    plugin.check(plugin.stream.destroy(0, second))
    plugin.check(plugin.device.synchronize(0))


@pytest.mark.parametrize("svm", ["1", "0"], ids=["svm", "buffers"])
def test_events_across_devices(
    library: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, svm: str
) -> None:
    """An event of one device holds back a stream of another; two halves of a CPU are two devices."""
    monkeypatch.setenv("RAL_OPENCL_SUBDEVICES", "2")
    monkeypatch.setenv("RAL_OPENCL_SVM", svm)
    copy = shutil.copytree(library.parent, tmp_path / "halves")  # a library of its own has its own state
    plugin = Plugin(copy / library.name, str(tmp_path))
    assert plugin.count() >= 2
    marker, stream = c.c_void_p(), c.c_void_p()
    plugin.check(plugin.event.record(0, None, c.byref(marker)))
    plugin.check(plugin.stream.create(1, 0, c.byref(stream)))
    plugin.check(plugin.stream.wait_event(1, stream, marker))
    plugin.check(plugin.event.release(0, marker))
    plugin.check(plugin.stream.synchronize(1, stream))
    plugin.check(plugin.stream.destroy(1, stream))


def test_prepare_completes_the_build(plugin: Plugin, entries: dict[str, dict[str, object]]) -> None:
    """prepare works without data, reports its builds, and leaves nothing for launch to build."""
    kernel = Kernel(plugin, 0, entries["mm"])
    host = torch.randn(64, 64)
    inputs, outputs = Values(plugin, 0, [host, host]), Values(plugin, 0, [torch.zeros(64, 64)])
    kept = [t.raw.data for t in (*inputs.tensors, *outputs.tensors)]
    for tensor in (*inputs.tensors, *outputs.tensors):
        tensor.raw.data = None
    plugin.check(plugin.kernel.prepare(0, kernel.handle, inputs.raw, 2, outputs.raw, 1))
    for tensor, data in zip((*inputs.tensors, *outputs.tensors), kept, strict=True):
        tensor.raw.data = data
    builds = len(plugin.compiles)
    torch.testing.assert_close(kernel.run([host, host], [torch.zeros(64, 64)], prepare=False)[0], host @ host)
    assert len(plugin.compiles) == builds
    assert all(status == SUCCESS for _, status in plugin.compiles)


def test_launches_from_many_threads(plugin: Plugin, entries: dict[str, dict[str, object]]) -> None:
    """One kernel, several threads, different arguments: no launch gets another's."""
    kernel = Kernel(plugin, 0, entries["add.Scalar"])
    kernel.run([torch.zeros(1000), 1.0, 1], [torch.zeros(1000)])
    wrong: list[object] = []

    def work(number: int) -> None:
        try:
            for i in range(40):
                host = torch.full((1000,), float(number))
                got = kernel.run([host, float(i), 1], [torch.zeros(1000)], prepare=False)[0]
                if not (got == number + i).all():
                    wrong.append((number, i))
        except PluginError as error:
            wrong.append(error)

    threads = [threading.Thread(target=work, args=(n,)) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []


def run_add_one(plugin: Plugin, module: c.c_void_p) -> torch.Tensor:
    """Launch `add_one` of a module on 1000 zeros behind an offset."""
    kernel, done = c.c_void_p(), c.c_void_p()
    plugin.check(plugin.compile.get_kernel(0, module, b"add_one", c.byref(kernel)))
    tensor = DeviceTensor(plugin, 0, torch.zeros(1100))
    args = (Arg * 3)()
    args[0].kind, args[0].u.buffer.handle, args[0].u.buffer.byte_offset = 0, tensor.buffer.handle, 400
    args[1].kind, args[1].u.i32 = 1, 1000
    args[2].kind, args[2].u.f32 = 3, 1.5
    sizes = (c.c_uint64 * 3)(1024, 1, 1)
    plugin.check(
        plugin.compile.launch(0, kernel, None, sizes, (c.c_uint64 * 3)(64, 1, 1), args, 3, c.byref(done))
    )
    plugin.check(plugin.event.synchronize(0, done))
    plugin.check(plugin.event.release(0, done))
    plugin.check(plugin.compile.launch(0, kernel, None, sizes, (c.c_uint64 * 3)(), args, 3, None))
    plugin.check(plugin.device.synchronize(0))
    return tensor.back()


def test_compile_table(plugin: Plugin) -> None:
    """Source to module to kernel; the binary loads again; errors carry the build log."""
    module, again = c.c_void_p(), c.c_void_p()
    assert plugin.compile.dialect == b"opencl-c"
    plugin.check(plugin.compile.compile(0, ADD_ONE, b"", c.byref(module)))
    wanted = torch.zeros(1100)
    wanted[100:] = 3.0
    assert torch.equal(run_add_one(plugin, module), wanted)
    size = c.c_uint64()
    plugin.check(plugin.compile.binary(0, module, None, c.byref(size)))
    data = c.create_string_buffer(size.value)
    plugin.check(plugin.compile.binary(0, module, data, c.byref(size)))
    plugin.check(plugin.compile.release(0, module))
    plugin.check(plugin.compile.load(0, data, size.value, c.byref(again)))
    assert torch.equal(run_add_one(plugin, again), wanted)
    kernel = c.c_void_p()
    assert plugin.compile.get_kernel(0, again, b"absent", c.byref(kernel)) == INVALID_ARGUMENT
    plugin.check(plugin.compile.release(0, again))
    with pytest.raises(PluginError, match="no_such_name"):
        plugin.check(
            plugin.compile.compile(0, b"__kernel void f() { no_such_name(); }", b"", c.byref(module))
        )
    assert plugin.compile.load(0, b"garbage", 7, c.byref(again)) != SUCCESS


SECOND_PROCESS = """
import json, sys
sys.path.insert(0, sys.argv[1])
from abi import Kernel, Plugin
import torch
plugin = Plugin(sys.argv[2], sys.argv[3])
entries = {e["op_name"]: e for e in json.load(open(plugin.path.parent / "kernel_manifest.json"))["kernels"]}
out = Kernel(plugin, 0, entries["aten::add.Tensor"]).run([torch.ones(9), torch.ones(9), 3], [torch.zeros(9)])[0]
print(out.tolist() == [4.0] * 9, len(plugin.compiles), plugin.info().vendor.decode())
"""


DEVICE_NAMES = """
import sys
sys.path.insert(0, sys.argv[1])
from abi import Plugin
plugin = Plugin(sys.argv[2])
for index in range(plugin.count()):
    print(plugin.info(index).name.decode())
"""


def device_names(library: Path) -> list[str]:
    """The names of a plugin's devices in a fresh process."""
    command = [sys.executable, "-c", DEVICE_NAMES, str(HERE), str(library)]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()


def second_process(library: Path, cache: Path, **environment: str) -> str:
    """What a fresh process prints: right?, number of builds, vendor."""
    command = [sys.executable, "-c", SECOND_PROCESS, str(HERE), str(library), str(cache)]
    result = subprocess.run(command, capture_output=True, text=True, env={**os.environ, **environment})
    return result.stdout.strip() or result.stderr.strip().splitlines()[-1]


def test_second_process_builds_nothing(library: Path, tmp_path: Path) -> None:
    """Binaries come from the cache folder; a broken one is built anew."""
    first = second_process(library, tmp_path).split()
    assert first[:2] == ["True", "1"]
    assert second_process(library, tmp_path).split()[:2] == ["True", "0"]
    files = list(tmp_path.glob("*.clbin"))
    assert len(files) == 1
    files[0].write_bytes(files[0].read_bytes()[:100])
    assert second_process(library, tmp_path).split()[:2] == ["True", "1"]


def pypi_pocl() -> Path | None:
    """PoCL as pocl-binary-distribution installs it, where it is installed."""
    for folder in map(Path, sys.path):
        for path in folder.glob("pyopencl/.libs/libpocl*.so"):
            return path
    return None


def test_pocl_without_a_loader(library: Path, tmp_path: Path) -> None:
    """Where the loader knows no driver, PoCL from PyPI is used directly, named or found beside the plugin."""
    pocl = pypi_pocl()
    if pocl is None:
        pytest.skip("pocl-binary-distribution is not installed")
    nothing = {"OCL_ICD_VENDORS": "/nonexistent"}
    named = second_process(library, tmp_path, RAL_POCL_PATH=str(pocl), **nothing)
    assert named.split() == ["True", "1", "PoCL"]
    site = tmp_path / "site-packages"
    folder = site / "torch_fl_core" / "plugins" / "opencl"
    folder.parent.mkdir(parents=True)
    folder.symlink_to(library.parent)
    (site / "pyopencl").symlink_to(pocl.parents[1])
    found = second_process(folder / library.name, tmp_path, RAL_POCL_PATH="", **nothing)
    assert found.split()[0] == "True"


FORWARD = """
#include <dlfcn.h>
void* clGetExtensionFunctionAddress(const char* name) {
  void* driver = dlopen("%s", RTLD_NOW);
  void* (*look_up)(const char*) = driver ? dlsym(driver, "clGetExtensionFunctionAddress") : 0;
  return look_up ? look_up(name) : 0;
}
"""


def test_intel_driver_of_the_environment(library: Path, tmp_path: Path) -> None:
    """What intel-opencl-rt puts into the environment's lib is used beside what the loader knows, each platform once.

    A driver that passes everything on to PoCL stands for it here: any driver in that place is taken.
    """
    icd = Path("/etc/OpenCL/vendors/pocl.icd")
    pocl = icd.read_text().strip() if icd.exists() else str(pypi_pocl() or "")
    if not pocl:
        assert not os.environ.get("CI"), "PoCL is not installed: .ci/run installs Debian's"
        pytest.skip("needs PoCL to stand for Intel's driver (Debian, Ubuntu: apt install pocl-opencl-icd)")
    folder = tmp_path / "lib/python3.11/site-packages/torch_fl_core/plugins/opencl"
    folder.parent.mkdir(parents=True)
    folder.symlink_to(library.parent)
    driver, source = tmp_path / "lib/libintelocl.so", tmp_path / "forward.c"
    source.write_text(FORWARD % pocl)
    subprocess.run(["cc", "-shared", "-fPIC", "-o", driver, source, "-ldl"], check=True)
    alone = {"OCL_ICD_VENDORS": "/nonexistent", "RAL_POCL_PATH": "/nonexistent/libpocl.so"}
    assert second_process(folder / library.name, tmp_path, **alone).split() == ["True", "1", "PoCL"]
    assert device_names(folder / library.name) == device_names(library) != []
    driver.write_text("no library")
    assert "missing: libOpenCL.so.1" in second_process(folder / library.name, tmp_path, **alone)


def test_no_driver_at_all(library: Path, tmp_path: Path) -> None:
    """The reason begins with the missing library and names the cure."""
    said = second_process(
        library, tmp_path, OCL_ICD_VENDORS="/nonexistent", RAL_POCL_PATH="/nonexistent/libpocl.so"
    )
    assert "missing: libOpenCL.so.1" in said
    assert "pip install pocl-binary-distribution" in said


def test_linker_outside_the_path(library: Path, tmp_path: Path) -> None:
    """PoCL links its kernels with `ld`, and ends the process without it: found even where the PATH leaves it out."""
    if not Path("/usr/bin/ld").exists():
        pytest.skip("needs /usr/bin/ld")
    said = second_process(library, tmp_path, PATH="/nonexistent", POCL_CACHE_DIR=str(tmp_path / "pocl"))
    assert said.split()[:2] == ["True", "1"]
