"""A small trace for the tests: two devices, three threads, fallbacks, views, an autograd step."""

from __future__ import annotations

from pathlib import Path

from fake_ring import FakeRing

from torch_fl_core.trace.model import Trace
from torch_fl_core.trace.ring import Ring

T0 = 1_000_000_000_000  # CLOCK_MONOTONIC of the first record, ns
HASH = "0123456789ab"
STATUS = {
    "torch_fl": "0.1.0",
    "devices": [
        {"id": "ral:0", "index": 0, "kind": "CPU", "name": "PoCL <b>", "driver": "PoCL 6.0",
         "plugin": "opencl", "plugin_version": "0.9", "status": "LOADED"},
        {"id": "ral:1", "index": 1, "kind": "CPU", "name": "second", "status": "READY"},
    ],
    "plugins": [],
}  # fmt: skip
FELL = {"native": "no manifest entry", "jit": "switched off by RAL_JIT=off", "ran": "last"}


def us(n: float) -> int:
    """Nanoseconds on the clock at n microseconds after T0."""
    return T0 + round(n * 1000)


def fill(ring: FakeRing) -> None:
    """Writes the sample."""
    ring.status(STATUS)
    main, grad = "100 MainThread", "101 autograd"
    at = f"{HASH}:3"
    # op 1: convolution, native on ral:0, two outputs (one is its workspace)
    ring.emit("OP", "aten::convolution", begin_ns=us(0), end_ns=us(20), correlation=1,
              thread=main, location=at, sequence_number=7, shapes="[2, 2] float32")  # fmt: skip
    for number, size in ((10, 4096), (11, 512)):
        ring.emit("ALLOC", "convolution", begin_ns=us(1), end_ns=us(1), buffer=number, bytes=size,
                  device=0, correlation=1, thread=main, location=at)  # fmt: skip
    ring.emit("KERNEL", "convolution", kernel="conv_f32", tier="native", device=0, stream=0,
              queued_ns=us(5), begin_ns=us(10), end_ns=us(40), correlation=1, bytes=8192,
              buffer=10, thread=main, location=at, reason={"ran": "native"})  # fmt: skip
    ring.emit("FREE", begin_ns=us(41), end_ns=us(41), buffer=11, bytes=512, device=0)
    # op 2: a view, then a fallback on the cpu inside its op
    ring.emit("OP", "aten::view", begin_ns=us(21), end_ns=us(23), correlation=2, thread=main,
              location=f"{HASH}:4")  # fmt: skip
    ring.emit("VIEW", "view", begin_ns=us(22), end_ns=us(22), buffer=12, aux64=10, bytes=2048,
              device=0, correlation=2, thread=main, location=f"{HASH}:4")  # fmt: skip
    for i in range(2):
        begin = 50 + 100 * i
        ring.emit("OP", "max_pool2d_with_indices", begin_ns=us(begin), end_ns=us(begin + 90),
                  correlation=3 + i, thread=main, location=f"{HASH}:5",
                  inner_location="ffffffffffff:9")  # fmt: skip
        ring.emit("SYNC", "host op", begin_ns=us(begin + 1), end_ns=us(begin + 6), thread=main,
                  device=0)  # fmt: skip
        ring.emit("KERNEL", "max_pool2d_with_indices", tier="cpu", device=0, flags=0x2,
                  begin_ns=us(begin + 10), end_ns=us(begin + 80), correlation=3 + i, thread=main,
                  copied=100, reason=FELL, kernel="at::cpu", location=f"{HASH}:5",
                  inner_location="ffffffffffff:9")  # fmt: skip
        for k in range(2):
            ring.emit("ALLOC", "max_pool2d_with_indices", begin_ns=us(begin + 12 + k),
                      buffer=20 + 2 * i + k, bytes=64, device=0, correlation=3 + i,
                      location=f"{HASH}:5")  # fmt: skip
    # backward on another thread, on the forward's line
    ring.emit("KERNEL", "convolution_backward", tier="native", device=0, flags=0x1, thread=grad,
              begin_ns=us(260), end_ns=us(300), queued_ns=us(255), correlation=9,
              location=f"{HASH}:8", forward_location=at, kernel="conv_bwd_f32",
              reason={"ran": "native"})  # fmt: skip
    ring.emit("OP", "convolution_backward", begin_ns=us(250), end_ns=us(262), correlation=9,
              thread=grad, flags=0x1, sequence_number=7, location=f"{HASH}:8",
              forward_location=at)  # fmt: skip
    ring.emit("COPY", "device_to_host", begin_ns=us(301), end_ns=us(305), device=0, bytes=16,
              queued_ns=us(300), correlation=0, thread=main)  # fmt: skip
    ring.emit("COMPILE", "gelu_f32", begin_ns=us(30), end_ns=0, device=1)
    ring.emit("COMPILE", "gelu_f32", begin_ns=us(30), end_ns=us(230), device=1)
    ring.emit("COMPILE", "tanh_f32", begin_ns=us(290), end_ns=0, device=1)
    ring.emit("DECISION", "fft", tier="cpu", device=1, reason=FELL, begin_ns=us(299))
    ring.emit("MARK", f"cell begin {HASH}", begin_ns=us(0), end_ns=us(0), thread=main)


def sample_trace(folder: Path) -> Trace:
    """The sample as a Trace."""
    fake = FakeRing(folder=folder)
    with Ring(fake.path) as ring:
        reader = ring.reader()
        fill(fake)
        return Trace.from_records(
            reader.read(), ring.strings, ring.status(), meta={"pid": 4242, "kernel_id": "k"}
        )
