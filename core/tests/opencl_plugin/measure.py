"""Speed of a few operators on one OpenCL device, straight through the C ABI: `python measure.py LIBRARY`.

Medians of 11 launches with preallocated outputs, by the host's clock from launch to the event's completion, and by
the device's own times. Nothing is asserted.
"""

from __future__ import annotations

import ctypes as c
import json
import statistics
import sys
import tempfile
import time
from pathlib import Path

import torch

sys.path.insert(0, str(Path(__file__).parent))

from abi import DeviceTensor, Kernel, Plugin, Values


def measure(
    plugin: Plugin, entry: dict[str, object], args: list[object], outs: list[object], runs: int = 11
) -> tuple[float, float]:
    """Median milliseconds (host, device) of one call."""
    kernel = Kernel(plugin, 0, entry)
    inputs, outputs = Values(plugin, 0, args), Values(plugin, 0, outs)
    call = (inputs.raw, inputs.count, outputs.raw, outputs.count)
    plugin.check(plugin.kernel.prepare(0, kernel.handle, *call))
    size = c.c_uint64()
    plugin.check(plugin.kernel.workspace_size(0, kernel.handle, *call, c.byref(size)))
    scratch = DeviceTensor(plugin, 0, torch.zeros(size.value, dtype=torch.uint8)) if size.value else None
    host, device = [], []
    for _ in range(runs + 1):
        done = c.c_void_p()
        begin = time.perf_counter()
        plugin.check(
            plugin.kernel.launch(
                0, kernel.handle, None, *call, c.byref(scratch.raw) if scratch else None, c.byref(done)
            )
        )
        plugin.check(plugin.event.synchronize(0, done))
        host.append((time.perf_counter() - begin) * 1e3)
        times = [c.c_int64() for _ in range(3)]
        plugin.check(plugin.event.times(0, done, *[c.byref(t) for t in times]))
        device.append((times[2].value - times[1].value) / 1e6)
        plugin.check(plugin.event.release(0, done))
    return statistics.median(host[1:]), statistics.median(device[1:])


def main() -> None:
    """Print one line for each measured operator."""
    with tempfile.TemporaryDirectory() as folder:
        plugin = Plugin(sys.argv[1], folder)
        path = plugin.path.parent / "kernel_manifest.json"
        entries = {e["op_name"].removeprefix("aten::"): e for e in json.loads(path.read_text())["kernels"]}
        print(plugin.info().name.decode(), "|", plugin.info().driver.decode())
        big, square, small = torch.randn(1 << 24), torch.randn(4096, 4096), torch.randn(16)
        a, b = torch.randn(1024, 1024), torch.randn(1024, 1024)
        x = torch.randn(2048, 1024)
        rows = torch.zeros(4096, 1)
        calls: list[tuple[str, str, list[object], list[object], float]] = [
            ("add of 16", "add.Tensor", [small, small, 1], [small.clone()], 0),
            ("add of 16M", "add.Tensor", [big, big.clone(), 1], [big.clone()], 0),
            ("gelu of 16M", "gelu", [big, "none"], [big.clone()], 0),
            ("copy of a transposed 4096^2", "copy", [square, square.t(), False], [square.clone()], 0),
            ("bias add 4096^2", "add.Tensor", [square, square[0].clone(), 1], [square.clone()], 0),
            ("sum of 16M", "sum", [big, None], [torch.zeros(())], 0),
            ("column sum 4096^2", "sum.dim_IntList", [square, [0], False, None], [torch.zeros(4096)], 0),
            ("row sum 4096^2", "sum.dim_IntList", [square, [1], False, None], [torch.zeros(4096)], 0),
            ("argmax rows 4096^2", "argmax", [square, 1, False], [torch.zeros(4096, dtype=torch.int64)], 0),
            ("softmax 4096^2", "_softmax", [square, 1, False], [square.clone()], 0),
            ("layer_norm 4096^2", "native_layer_norm", [square, [4096], square[0].clone(), square[1].clone(), 1e-5],
             [square.clone(), rows, rows.clone()], 0),
            ("mm 1024^3", "mm", [a, b], [a.clone()], 2 * 1024**3),
            ("mm 1024^3, B transposed", "mm", [a, b.t()], [a.clone()], 2 * 1024**3),
            ("addmm 2048x1024x1024", "addmm", [a[0].clone(), x, b.t(), 1, 1], [x.clone()], 2 * 2048 * 1024**2),
            ("mm 128x784x512", "mm", [torch.randn(128, 784), torch.randn(512, 784).t()], [torch.zeros(128, 512)],
             2 * 128 * 784 * 512),
        ]  # fmt: skip
        for what, name, args, outs, flop in calls:
            host, device = measure(plugin, entries[name], args, outs)
            rate = f"{flop / host / 1e6:8.1f} GFLOP/s" if flop else ""
            print(f"{what:30} {host:9.3f} ms  (last kernel on the device {device:9.3f} ms) {rate}")


if __name__ == "__main__":
    main()
