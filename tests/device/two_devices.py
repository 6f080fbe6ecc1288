"""What needs two devices: run by test_device_pairs.py in a process of its own, on two halves of a CPU device.

Not collected by itself. Every check also runs without shared virtual memory, where host code sees no device memory.
"""

from __future__ import annotations

import copy
import io
import pickle
import threading
import time
from collections.abc import Iterator

import pytest
import torch
import torch.nn.functional as F

PAIRS = [("ral:0", "ral:1"), ("ral:1", "ral:0"), ("ral:0", "ral:0"), ("cpu", "ral:1"), ("ral:1", "cpu")]
DTYPES = (torch.bool, torch.uint8, torch.int16, torch.int64, torch.float16, torch.bfloat16, torch.float32)
DTYPES += (torch.float64, torch.complex64)


@pytest.fixture(autouse=True)
def on_the_first() -> Iterator[None]:
    """Each check begins and ends on ral:0."""
    torch.ral.set_device(0)
    yield
    torch.ral.synchronize(0)
    torch.ral.synchronize(1)
    torch.ral.set_device(0)


def test_there_are_two() -> None:
    assert torch.ral.device_count() == 2
    names = [torch.ral.get_device_name(i) for i in range(2)]
    assert names[0] != names[1]
    rows = torch.ral.devices()
    assert [row["id"] for row in rows] == ["ral:0", "ral:1"]


@pytest.mark.parametrize(("source", "target"), PAIRS)
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_copies(source: str, target: str, dtype: torch.dtype) -> None:
    numbers = torch.arange(60).reshape(3, 4, 5) % 7
    numbers = numbers > 3 if dtype == torch.bool else numbers.to(dtype)
    x = numbers.to(source)
    for view in (
        lambda t: t,
        lambda t: t.transpose(0, 2),
        lambda t: t[1:, ::2],
        lambda t: t[0, 0, 0],
        lambda t: t[:0],
        lambda t: t[:, :1].expand(3, 6, 5),
    ):
        moved = view(x).to(target)
        assert moved.device == torch.device(target)
        assert torch.equal(moved.cpu(), view(numbers))
        later = view(x).to(target, non_blocking=True)
        torch.ral.synchronize(0)
        torch.ral.synchronize(1)
        assert torch.equal(later.cpu(), view(numbers))


def test_copy_into_a_view_of_another_device() -> None:
    target = torch.zeros(4, 6, device="ral:1")
    target[1:3, ::2].copy_(torch.arange(6.0, device="ral:0").reshape(2, 3))
    expected = torch.zeros(4, 6)
    expected[1:3, ::2] = torch.arange(6.0).reshape(2, 3)
    assert torch.equal(target.cpu(), expected)


def test_a_copy_waits_for_the_work_before_it() -> None:
    x = torch.zeros(400_000, device="ral:0")
    for _ in range(30):
        x = x + 1
    assert x.to("ral:1", non_blocking=True).sum().item() == 30 * 400_000
    y = torch.zeros(400_000, device="ral:1")
    for _ in range(30):
        y.add_(1)
    back = torch.empty(400_000, device="ral:0")
    back.copy_(y)
    assert back.min().item() == back.max().item() == 30


def test_the_source_may_be_freed_right_after() -> None:
    results = []
    for number in range(20):
        x = torch.full((300_000,), float(number), device="ral:0")
        results.append(x.to("ral:1", non_blocking=True))
        del x
        torch.full((300_000,), -1.0, device="ral:0")
    assert [r.max().item() for r in results] == [float(n) for n in range(20)]
    assert [r.min().item() for r in results] == [float(n) for n in range(20)]


@pytest.mark.parametrize("index", [0, 1])
def test_ops_stay_where_their_operands_are(index: int) -> None:
    torch.ral.set_device(1 - index)
    x = torch.randn(64, 64, generator=torch.Generator().manual_seed(1))
    y = x.to(f"ral:{index}")
    results = {
        "mm": (y @ y, x @ x),
        "softmax": (y.softmax(1), x.softmax(1)),
        "sort (host-run)": (y.sort().values, x.sort().values),
        "view": (y[1:].t(), x[1:].t()),
        "like": (torch.zeros_like(y), torch.zeros_like(x)),
    }
    for name, (got, expected) in results.items():
        assert got.device == y.device, name
        torch.testing.assert_close(got.cpu(), expected, msg=name)
    assert torch.ral.current_device() == 1 - index


def test_current_device() -> None:
    assert torch.empty(1, device="ral").device.index == 0
    with torch.ral.device(1):
        assert torch.ral.current_device() == 1
        assert torch.empty(1, device="ral").device.index == 1
    assert torch.ral.current_device() == 0
    torch.accelerator.set_device_index(1)
    assert torch.ral.current_device() == 1


def test_two_devices_in_one_op() -> None:
    a, b = torch.ones(3, device="ral:0"), torch.ones(3, device="ral:1")
    for call in (lambda: a + b, lambda: b.add_(a), lambda: torch.cat([a, b]), lambda: a.sort().values @ b):
        with pytest.raises(RuntimeError, match=r"(?s)same device(?=.*ral:[01])"):
            call()
    assert a.tolist() == b.tolist() == [1.0] * 3


def test_events_order_streams_of_two_devices() -> None:
    first, second = torch.ral.Stream("ral:0"), torch.ral.Stream("ral:1")
    for round_ in range(10):
        with torch.ral.stream(first):
            x = torch.zeros(200_000, device="ral:0")
            for _ in range(20):
                x.add_(1)
            event = first.record_event()
        second.wait_event(event)
        with torch.ral.stream(second):
            y = x.to("ral:1", non_blocking=True) + round_
        second.synchronize()
        assert y.min().item() == y.max().item() == 20 + round_


def test_times_of_two_devices_are_on_one_clock() -> None:
    """Unlike CUDA's, events of two devices can be compared: their times are mapped to the host's clock."""
    a, b = torch.ral.Event(enable_timing=True), torch.ral.Event(enable_timing=True)
    (torch.zeros(10, device="ral:0") + 1).sum()
    a.record(torch.ral.current_stream("ral:0"))
    torch.ral.synchronize(0)
    time.sleep(0.05)
    (torch.zeros(10, device="ral:1") + 1).sum()
    b.record(torch.ral.current_stream("ral:1"))
    torch.ral.synchronize(1)
    assert a.elapsed_time(b) > 45
    assert b.elapsed_time(a) < -45


def test_memory_is_counted_apart() -> None:
    before = [torch.ral.memory_allocated(i) for i in range(2)]
    x = torch.empty(1 << 20, device="ral:1")
    assert torch.ral.memory_allocated(0) == before[0]
    assert torch.ral.memory_allocated(1) == before[1] + x.nbytes
    del x
    torch.ral.empty_cache()
    assert [torch.ral.memory_allocated(i) for i in range(2)] == before


def test_gradients_cross_devices() -> None:
    x = torch.randn(8, 5, generator=torch.Generator().manual_seed(2))
    w0, w1 = (torch.linspace(-1, 1, n).reshape(shape) for n, shape in ((30, (5, 6)), (12, (6, 2))))
    a = w0.to("ral:0").requires_grad_()
    b = w1.to("ral:1").requires_grad_()
    ((x.to("ral:0") @ a).relu().to("ral:1") @ b).square().sum().backward()
    ca, cb = w0.clone().double().requires_grad_(), w1.clone().double().requires_grad_()
    ((x.double() @ ca).relu() @ cb).square().sum().backward()
    assert a.grad.device == torch.device("ral:0")
    assert b.grad.device == torch.device("ral:1")
    torch.testing.assert_close(a.grad.cpu().double(), ca.grad, rtol=1e-4, atol=1e-4)
    torch.testing.assert_close(b.grad.cpu().double(), cb.grad, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("order", ["native,jit,reference,cpu", "reference,cpu"])
def test_running_statistics(order: str) -> None:
    """native_batch_norm writes into arguments that its schema does not mark; they must reach every device's memory."""
    x = torch.randn(4, 3, 5, 5, generator=torch.Generator().manual_seed(4))
    expected = torch.nn.BatchNorm2d(3)
    module = copy.deepcopy(expected).to("ral:1")
    with torch.ral.fallback_policy(order, strict=True):
        for _ in range(3):
            expected(x)
            module(x.to("ral:1"))
    torch.testing.assert_close(module.running_mean.cpu(), expected.running_mean)
    torch.testing.assert_close(module.running_var.cpu(), expected.running_var)


def train(device: str) -> list[float]:
    torch.manual_seed(3)
    net = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.Tanh(), torch.nn.Linear(16, 3)).to(device)
    optimizer = torch.optim.Adam(net.parameters(), lr=0.05)
    x = torch.linspace(-1, 1, 160).reshape(20, 8).to(device)
    y = (torch.arange(20) % 3).to(device)
    losses = []
    for _ in range(15):
        optimizer.zero_grad()
        loss = F.cross_entropy(net(x), y)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


def test_the_same_training_on_each() -> None:
    expected = train("cpu")
    for device in ("ral:0", "ral:1"):
        assert train(device) == pytest.approx(expected, rel=1e-3)


def test_both_at_once_from_two_threads() -> None:
    results: dict[str, list[float]] = {}
    x = [torch.randn(128, 128, generator=torch.Generator().manual_seed(i)) for i in range(2)]
    errors: list[BaseException] = []

    def work(index: int) -> None:
        try:
            torch.ral.set_device(index)
            w = x[index].to(f"ral:{index}")
            y = w
            for _ in range(20):
                y = (w @ y * 0.05).tanh()
            results[f"ral:{index}"] = y.cpu()
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=work, args=(i,)) for i in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert not errors
    for index in range(2):
        y = x[index]
        for _ in range(20):
            y = (x[index] @ y * 0.05).tanh()
        torch.testing.assert_close(results[f"ral:{index}"], y, rtol=1e-3, atol=1e-3)


def test_save_load_and_copy() -> None:
    x = torch.arange(6.0, device="ral:1").reshape(2, 3)
    stream = io.BytesIO()
    torch.save({"x": x}, stream)
    for where, device in ((None, "ral:1"), ("ral:0", "ral:0"), ("cpu", "cpu"), ({"ral:1": "ral:0"}, "ral:0")):
        stream.seek(0)
        back = torch.load(stream, map_location=where, weights_only=True)["x"]
        assert back.device == torch.device(device)
        assert torch.equal(back.cpu(), x.cpu())
    for same in (pickle.loads(pickle.dumps(x)), copy.deepcopy(x), x.clone()):
        assert same.device == x.device
        assert torch.equal(same.cpu(), x.cpu())


def test_random_numbers_do_not_depend_on_the_device() -> None:
    draws = []
    for index in range(2):
        torch.ral.set_device(index)
        torch.ral.manual_seed(7)
        draws.append(torch.rand(100, device=f"ral:{index}").cpu())
    assert torch.equal(draws[0], draws[1])
    state = torch.ral.get_rng_state("ral:1")
    first = torch.rand(5, device="ral:1").cpu()
    torch.rand(5, device="ral:0")
    torch.ral.set_rng_state(state, "ral:1")
    assert torch.equal(torch.rand(5, device="ral:1").cpu(), first)


def test_the_trace_names_both_devices() -> None:
    from torch_fl_core import trace

    with trace.record() as recorded:
        x = torch.ones(1000, device="ral:0") + 1
        y = x.to("ral:1")
        (y * 2).sum().item()
    frame = recorded.kernels
    assert set(frame["device"]) >= {"ral:0", "ral:1"}
