"""The fallback chain: its policy, its explanations, and what the trace says of it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import torch
import torch.nn.functional as F

pytestmark = pytest.mark.usefixtures("ral")

TIERS = {"native", "jit", "reference", "cpu", "view"}


@pytest.fixture(autouse=True)
def policy_restored(ral: Any) -> Iterator[None]:
    before = torch.ral.fallback_policy()
    yield
    torch.ral.fallback_policy(before, strict=False)


def recorded(work: Any) -> Any:
    """The trace of a function."""
    from torch_fl_core import trace

    with trace.record() as found:
        work()
    return found


def test_default_policy() -> None:
    assert torch.ral.fallback_policy() == "native,jit,reference,cpu"


def test_policy_chooses_the_tier(device: str) -> None:
    x = torch.arange(100.0).to(device)
    for policy, tier in (("native", "native"), ("cpu", "cpu")):
        torch.ral.fallback_policy(policy)
        assert torch.ral.fallback_policy() == policy
        frame = recorded(lambda: x + x).kernels
        assert set(frame["tier"]) == {tier}
        assert set(frame["op"]) == {"add"}
    torch.ral.fallback_policy("native,cpu")
    assert set(recorded(lambda: x.sort()).kernels["tier"]) == {"cpu"}


def test_reference_kernels(device: str) -> None:
    """libral's C++ kernels run where the order puts them first, with the reason in the trace."""
    x = torch.randn(6, 5, generator=torch.Generator().manual_seed(0))
    calls = {
        "mm": lambda t: t @ t.t(),
        "sum": lambda t: t[::2].sum(0),
        "sort": lambda t: t.sort(1).values,
        "_softmax": lambda t: t.t().softmax(0),
        "cumsum": lambda t: t.cumsum(0),
        "mul_": lambda t: t.clone().mul_(3),
    }
    for order, strict in (("reference", False), ("reference,cpu", True)):
        torch.ral.fallback_policy(order, strict=strict)
        for op, call in calls.items():
            on_device = x.to(device)
            trace = recorded(lambda call=call, t=on_device: call(t))
            frame = trace.kernels
            assert op in set(frame["op"])
            assert set(frame["tier"]) == {"reference"}
            torch.testing.assert_close(call(on_device).cpu(), call(x))


def test_cpu_goes_before_reference_unless_the_order_is_strict(device: str) -> None:
    x = torch.arange(4.0).to(device)
    torch.ral.fallback_policy("reference,cpu", strict=False)
    assert set(recorded(lambda: x.sort()).kernels["tier"]) == {"cpu"}
    reason = torch.ral.explain("aten::sort", x)["reason"]
    assert "faster" in str(reason)


def test_reference_refuses_what_it_cannot_do(device: str) -> None:
    """What a reference kernel does not take goes on to the next tier, and a wrong call gets PyTorch's own error."""
    torch.ral.fallback_policy("reference,cpu", strict=True)
    index = torch.tensor([7], device=device)
    with pytest.raises(IndexError, match="out of range|out of bounds"):
        torch.arange(3.0).to(device)[index]
    torch.ral.fallback_policy("reference")
    with pytest.raises(NotImplementedError, match="no reference kernel"):
        torch.arange(4.0).to(device).reshape(2, 2).inverse()
    with pytest.raises(RuntimeError, match="size of tensor|broadcast"):
        torch.ones(3).to(device) + torch.ones(4).to(device)


def test_native_alone_refuses_what_it_has_no_kernel_for(device: str) -> None:
    x = torch.arange(3.0).to(device)
    torch.ral.fallback_policy("native")
    with pytest.raises(NotImplementedError, match="aten::sort") as caught:
        x.sort()
    assert "native" in str(caught.value)
    assert (x + 1).cpu().tolist() == [1, 2, 3]


@pytest.mark.parametrize("bad", ["gpu", "native,native", "cpu,cuda", "nativ"])
def test_bad_policy_is_refused_and_changes_nothing(bad: str) -> None:
    with pytest.raises((ValueError, RuntimeError)) as caught:
        torch.ral.fallback_policy(bad)
    assert bad.split(",")[-1] in str(caught.value)
    assert torch.ral.fallback_policy() == "native,jit,reference,cpu"


def test_policy_from_the_environment(must_pass: Any, device: str) -> None:
    code = f"""
import torch
from torch_fl_core import trace
print(torch.ral.fallback_policy())
x = torch.ones(3, device={device!r})
with trace.record() as t:
    x * 2
print(set(t.kernels["tier"]))
"""
    assert must_pass(code, RAL_FALLBACK="cpu").splitlines() == ["cpu", "{'cpu'}"]
    assert must_pass(code, RAL_FALLBACK="native").splitlines() == ["native", "{'native'}"]


def test_explain(device: str) -> None:
    x = torch.zeros(4, 4, device=device)
    before = torch.ral.memory_allocated(device)
    told = torch.ral.explain("add", x, x)
    assert told["op"] == "aten::add.Tensor"
    assert told["tier"] in TIERS
    assert told["device"] == device
    assert told["reason"]["ran"]
    told = torch.ral.explain("aten::sort", x)
    assert told["tier"] == "cpu"
    assert "no manifest entry" in told["reason"]["native"]
    assert torch.ral.memory_allocated(device) == before, "nothing ran"
    with pytest.raises((ValueError, RuntimeError, AttributeError), match="no_such_op"):
        torch.ral.explain("no_such_op", x)


def test_every_kernel_has_a_tier_and_a_reason(device: str) -> None:
    torch.manual_seed(0)
    net = torch.nn.Sequential(
        torch.nn.Conv2d(1, 4, 3),
        torch.nn.BatchNorm2d(4),
        torch.nn.ReLU(),
        torch.nn.Flatten(),
        torch.nn.Linear(144, 10),
    ).to(device)
    optimizer = torch.optim.Adam(net.parameters())

    def work() -> None:
        x = torch.rand(5, 1, 8, 8, device=device)
        loss = F.cross_entropy(net(x), torch.arange(5, device=device))
        loss.backward()
        optimizer.step()
        x.flatten().sort()
        loss.item()

    found = recorded(work)
    kernels = found.kernels
    assert len(kernels) > 20
    assert set(kernels["tier"]) <= TIERS
    assert kernels["op"].str.match(r"\w+$").all(), kernels["op"].unique()
    assert (kernels["dur_us"] >= 0).all()
    assert (kernels["device"] == device).all() or (kernels["device"] == 0).all()
    ran = {op.rstrip("_") for op in kernels["op"]}
    assert {"convolution", "convolution_backward", "native_batch_norm", "addmm", "uniform", "sort"} <= ran, (
        ran
    )
    decisions = found.decisions
    assert len(decisions) > 0
    assert set(decisions["tier"]) <= TIERS
    assert decisions["ran"].str.len().gt(0).all()
    assert decisions["count"].sum() == len(kernels)


def test_the_trace_sees_memory(device: str) -> None:
    def work() -> None:
        x = torch.zeros(1000, device=device)
        x[10:20].add_(1)

    memory = recorded(work).memory
    assert (memory["bytes"] >= 4000).any()
    assert memory["end_us"].notna().any()


def test_results_agree_between_tiers(device: str) -> None:
    """What a native kernel computes is what the CPU computes, for the same call."""
    torch.manual_seed(1)
    x, y = torch.randn(33, 65).to(device), torch.randn(33, 65).to(device)
    calls = {
        "add": lambda: x + y,
        "mul scalar": lambda: x * 2.5,
        "relu": lambda: torch.relu(x),
        "gelu": lambda: F.gelu(x),
        "exp": lambda: x.exp(),
        "sum": lambda: x.sum(0),
        "mean": lambda: x.mean(1, keepdim=True),
        "amax": lambda: x.amax(0),
        "softmax": lambda: torch.softmax(x, -1),
        "matmul": lambda: x @ y.t(),
        "where": lambda: torch.where(x > y, x, y),
        "transposed": lambda: x.t() + y.t(),
    }
    for name, call in calls.items():
        torch.ral.fallback_policy("cpu")
        want = call().cpu()
        torch.ral.fallback_policy("native,cpu")
        assert torch.allclose(call().cpu(), want, rtol=1e-5, atol=1e-5), name


def test_measured_choice_can_be_switched_off(must_pass: Any, device: str) -> None:
    text = must_pass(
        f"""
        import torch
        from torch_fl_core import trace
        x = torch.ones(16, device={device!r})
        for _ in range(50):
            x + x
        with trace.record() as t:
            x + x
        print(set(t.kernels["tier"]))
        """,
        RAL_FALLBACK_STRICT="1",
    )
    assert text.strip() == "{'native'}"


def test_profiler_sees_device_kernels(device: str) -> None:
    from torch.profiler import ProfilerActivity, profile

    x = torch.ones(100, 100, device=device)
    with profile(activities=[ProfilerActivity.CPU, ProfilerActivity.PrivateUse1]) as result:
        for _ in range(3):
            (x @ x).relu()
        torch.ral.synchronize()
    names = {e.key: e.count for e in result.key_averages()}
    assert names["aten::mm"] == 3
    assert names["aten::relu"] == 3
