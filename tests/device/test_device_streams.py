"""Streams and events, and that work done on the host keeps the order of its stream."""

from __future__ import annotations

import json
import os
import random
import threading

import pytest
import torch


def test_streams_are_objects_of_the_device(device: str, ral: object) -> None:
    default = torch.ral.current_stream(device)
    assert default.device == torch.device(device)
    assert torch.ral.default_stream(device) == default
    stream = torch.ral.Stream(device)
    assert stream != default
    with torch.ral.stream(stream):
        assert torch.ral.current_stream(device) == stream
        inner = torch.ral.Stream(device)
        with torch.ral.stream(inner):
            assert torch.ral.current_stream(device) == inner
        assert torch.ral.current_stream(device) == stream
    assert torch.ral.current_stream(device) == default
    with stream:  # torch.Stream's own form
        assert torch.accelerator.current_stream() == stream
    assert torch.accelerator.current_stream() == default


def test_events_order_and_measure(device: str, ral: object) -> None:
    x = torch.randn(800, 800).to(device)
    begin, end = (torch.ral.Event(enable_timing=True) for _ in range(2))
    begin.record()
    for _ in range(5):
        x = (x @ x).clamp(-1, 1)
    end.record()
    end.synchronize()
    assert begin.query()
    assert end.query()
    assert 0 < begin.elapsed_time(end) < 60_000
    late = torch.Event(device, enable_timing=True)
    late.record(torch.ral.current_stream(device))
    late.synchronize()
    assert begin.elapsed_time(late) >= begin.elapsed_time(end)


def test_elapsed_time_is_close_to_the_wall_clock(device: str, ral: object) -> None:
    import time

    begin, end = (torch.ral.Event(enable_timing=True) for _ in range(2))
    torch.zeros(1, device=device)
    torch.ral.synchronize()
    outer = time.perf_counter()
    begin.record()
    begin.synchronize()
    inner = time.perf_counter()
    time.sleep(0.1)
    at_least = (time.perf_counter() - inner) * 1e3
    end.record()
    end.synchronize()
    at_most = (time.perf_counter() - outer) * 1e3
    assert at_least - 5 <= begin.elapsed_time(end) <= at_most + 5


def test_event_misuse_is_refused(device: str, ral: object) -> None:
    torch.zeros(1, device=device)
    fresh, timed = torch.ral.Event(enable_timing=True), torch.ral.Event(enable_timing=True)
    timed.record()
    timed.synchronize()
    with pytest.raises((RuntimeError, ValueError)):
        fresh.elapsed_time(timed)
    plain = torch.ral.Event()
    plain.record()
    with pytest.raises((RuntimeError, ValueError), match="(?i)timing"):
        plain.elapsed_time(timed)


def test_one_stream_waits_for_another(device: str, ral: object) -> None:
    one, two = torch.ral.Stream(device), torch.ral.Stream(device)
    for number in range(20):
        with torch.ral.stream(one):
            x = torch.full((300_000,), float(number), device=device)
            for _ in range(4):
                x = x + 1
            event = one.record_event()
        two.wait_event(event)
        with torch.ral.stream(two):
            y = x * 2
        one.wait_stream(two)
        with torch.ral.stream(one):
            x.zero_()
        two.synchronize()
        assert y.min().item() == y.max().item() == 2.0 * (number + 4)
    one.synchronize()
    assert one.query()
    assert x.abs().max().item() == 0


def test_synchronize_waits_for_all_streams(device: str, ral: object) -> None:
    streams = [torch.ral.Stream(device) for _ in range(3)]
    x = torch.randn(500, 500).to(device)
    torch.ral.synchronize()
    for stream in streams:
        with torch.ral.stream(stream):
            for _ in range(3):
                x @ x
    torch.ral.synchronize(device)
    assert all(stream.query() for stream in streams)


def test_streams_belong_to_threads(device: str, ral: object) -> None:
    stream = torch.ral.Stream(device)
    seen = []
    with torch.ral.stream(stream):
        thread = threading.Thread(target=lambda: seen.append(torch.ral.current_stream(device)))
        thread.start()
        thread.join()
    assert seen == [torch.ral.default_stream(device)]


def test_backward_runs_on_the_stream_of_forward(device: str, ral: object) -> None:
    stream = torch.ral.Stream(device)
    x = torch.ones(1000, device=device, requires_grad=True)
    with torch.ral.stream(stream):
        y = (x * 3).sum()
    y.backward()
    assert x.grad.cpu().tolist() == [3.0] * 1000


# Kernels of one work-group each, so that a core stays free, on stream 1, and copies from pinned memory on COPY_STREAM until the
# kernels are done. Tried again where the host came so late that there was nothing left to overlap.
OVERLAP = """
import json, torch, torch_fl_core.trace as t
device = "ral:0"
x = torch.randn(1, 1 << 21).to(device)
host = torch.arange(1024.0).pin_memory()
compute, other = torch.ral.Stream(device), torch.ral.Stream(device)
copying = {"other": other, "same": compute}[COPY_STREAM]

def overlap(a, b):
    return a["begin_ns"] < b["end_ns"] and b["begin_ns"] < a["end_ns"]

with torch.ral.fallback_policy("native", strict=True):
    with torch.ral.stream(compute):
        torch.softmax(x, -1)
    for attempt in range(20):
        target = torch.zeros(1024, device=device)
        torch.ral.synchronize()
        with t.record() as trace:
            with torch.ral.stream(compute):
                for _ in range(20):
                    torch.softmax(x, -1)
            with torch.ral.stream(copying):
                while not compute.query():
                    target.copy_(host, non_blocking=True)
                    copying.synchronize()
            torch.ral.synchronize()
        kernels = [r for r in trace.records if r["kind"] == t.Kind.KERNEL]
        copies = [r for r in trace.records if r["kind"] == t.Kind.COPY]
        during = sum(any(overlap(c, k) for k in kernels) for c in copies)
        if copies and (during or copying is compute):
            break
device_work = lambda records: not any(r["flags"] & (t.Flag.HOST | t.Flag.NO_DEVICE_TIME) for r in records)
print(json.dumps({
    "right": torch.equal(target.cpu(), host), "kernels": len(kernels), "copies": len(copies), "during": during,
    "kernels_on_device": device_work(kernels), "copies_on_device": device_work(copies),
    "kernel_streams": sorted({int(r["stream"]) for r in kernels}), "copy_streams": sorted({int(r["stream"]) for r in copies}),
    "host_visible": torch.ral.devices()[0]["host_visible"], "ids": [compute.stream_id, copying.stream_id],
}))
"""


def _overlap(must_pass: object, copy_stream: str, svm: str) -> dict:
    alone = {"RAL_OPENCL_SUBDEVICES": None, "RAL_VISIBLE_DEVICES": None, "RAL_OPENCL_SVM": svm}
    out = must_pass(f"COPY_STREAM = {copy_stream!r}\n{OVERLAP}", **alone)  # type: ignore[operator]
    seen = json.loads(out.splitlines()[-1])
    assert seen["right"] and seen["copies"] > 0
    assert (seen["kernels"], seen["kernels_on_device"]) == (20, True)
    assert seen["kernel_streams"] == seen["ids"][:1]
    return seen


needs_two_cores = pytest.mark.skipif(
    len(os.sched_getaffinity(0)) < 2, reason="needs two cores: one computes, one copies"
)


@needs_two_cores
def test_a_copy_on_another_stream_overlaps_compute(must_pass: object, ral: object) -> None:
    """Where the host cannot see device memory a copy is device work; by the device's own times it ran during a kernel."""
    seen = _overlap(must_pass, "other", svm="0")
    assert not seen["host_visible"] and seen["copies_on_device"]
    assert seen["copy_streams"] == seen["ids"][1:] != seen["ids"][:1]
    assert seen["during"] > 0


@needs_two_cores
def test_a_copy_on_the_same_stream_overlaps_nothing(must_pass: object, ral: object) -> None:
    """The same measurement says no where the order of a stream forbids it."""
    seen = _overlap(must_pass, "same", svm="0")
    assert seen["copies_on_device"] and seen["copy_streams"] == seen["kernel_streams"]
    assert seen["during"] == 0


@needs_two_cores
def test_a_copy_by_the_host_overlaps_compute(must_pass: object, ral: object) -> None:
    """Where the host sees device memory it copies itself, without waiting for kernels that do not use the memory."""
    seen = _overlap(must_pass, "other", svm="1")
    if not seen["host_visible"]:
        pytest.skip("this driver's memory is not visible to the host")
    assert not seen["copies_on_device"]
    assert seen["during"] > 0


class Steps:
    """The same random sequence of steps on the device's streams and, one after the other, on the CPU.

    All values are integers below 2**24, so float32 is exact and any difference is an order that was
    not kept or memory handed out too early.
    """

    SIZES = (7, 256, 4096, 200_000)

    def __init__(self, device: str, seed: int) -> None:
        self.random = random.Random(seed)
        self.device = device
        self.streams = [torch.ral.default_stream(device), *(torch.ral.Stream(device) for _ in range(3))]
        self.truth = {
            n: [torch.arange(float(n)).add(k).remainder(1009) for k in range(3)] for n in self.SIZES
        }
        self.there = {n: [t.to(device) for t in tensors] for n, tensors in self.truth.items()}
        self.last_use = {n: [self.streams[0]] * 3 for n in self.SIZES}

    def run(self, count: int) -> None:
        for number in range(count):
            if number % 37 == 0:
                torch.ral.fallback_policy(
                    self.random.choice(["native,jit,reference,cpu", "cpu", "native,cpu"])
                )
            self.step(number)
            if number % 250 == 249:
                self.compare(number)
        self.compare(count)

    def step(self, number: int) -> None:
        size = self.random.choice(self.SIZES)
        a, b = self.random.sample(range(3), 2)
        stream = self.random.choice(self.streams)
        for k in (a, b):
            stream.wait_stream(self.last_use[size][k])
            self.last_use[size][k] = stream
        change = self.random.choice(CHANGES)
        scalar = float(self.random.randrange(1, 5))
        with torch.ral.stream(stream):
            self.there[size][a] = change(self.there[size][a], self.there[size][b], scalar)
        self.truth[size][a] = change(self.truth[size][a], self.truth[size][b], scalar)

    def compare(self, number: int) -> None:
        for size in self.SIZES:
            for k, stream in enumerate(self.last_use[size]):
                stream.synchronize()
                assert torch.equal(self.there[size][k].cpu(), self.truth[size][k]), (
                    f"step {number}, size {size}"
                )


def _in_place(a: torch.Tensor, b: torch.Tensor, s: float) -> torch.Tensor:
    return a.mul_(s).add_(b).remainder_(1009)


def _half(a: torch.Tensor, b: torch.Tensor, s: float) -> torch.Tensor:
    a[: len(a) // 2].copy_(b[len(b) - len(a) // 2 :])
    return a


def _masked(a: torch.Tensor, b: torch.Tensor, s: float) -> torch.Tensor:
    return torch.where(a > b, a - b, b)


CHANGES = (
    lambda a, b, s: (a * s + b).remainder(1009),
    lambda a, b, s: a.flip(0),  # host-run where no kernel exists
    lambda a, b, s: torch.roll(a, 3) + torch.relu(b - 500).remainder(7),
    lambda a, b, s: a.sort().values,
    lambda a, b, s: b.clone(),
    lambda a, b, s: (a + b[0]).remainder(1009),
    lambda a, b, s: a[::2].repeat_interleave(2)[: len(a)].contiguous() if len(a) % 2 == 0 else a + s,
    lambda a, b, s: torch.full_like(a, s),
    _in_place,
    _half,
    _masked,
)


@pytest.mark.parametrize("seed", [1, 2])
def test_host_run_ops_keep_stream_order(device: str, ral: object, seed: int) -> None:
    before = torch.ral.fallback_policy()
    try:
        Steps(device, seed).run(1500)
    finally:
        torch.ral.fallback_policy(before)


def test_threads_share_a_device(device: str, ral: object) -> None:
    """Each thread works on its own tensors; all allocate from one pool."""
    faults = []

    def work(seed: int) -> None:
        try:
            stream = torch.ral.Stream(device)
            with torch.ral.stream(stream):
                want = torch.arange(5000.0) + seed
                x = want.to(device)
                for k in range(200):
                    x = (x + k).flip(0) if k % 5 == 0 else x + k
                    want = (want + k).flip(0) if k % 5 == 0 else want + k
                if not torch.equal(x.cpu(), want):
                    faults.append(f"thread {seed}: wrong values")
        except Exception as error:  # shown by the assertion below
            faults.append(f"thread {seed}: {error}")

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(120)
    assert not faults, faults
    assert not any(thread.is_alive() for thread in threads)
