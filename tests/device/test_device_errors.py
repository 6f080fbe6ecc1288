"""Bad input: a clear error, and nothing lost."""

from __future__ import annotations

import multiprocessing
import pathlib
import signal
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F

MIXED: dict[str, Callable[[torch.Tensor, torch.Tensor], object]] = {
    "add": lambda x, o: x + o,
    "add reversed": lambda x, o: o + x,
    "add in place": lambda x, o: x.clone().add_(o),
    "mul": lambda x, o: x * o,
    "matmul": lambda x, o: x @ o,
    "matmul reversed": lambda x, o: o @ x,
    "linear": lambda x, o: F.linear(x, o),
    "cat": lambda x, o: torch.cat([x, o]),
    "stack": lambda x, o: torch.stack([x, o]),
    "where": lambda x, o: torch.where(x > 0, x, o),
    "conv": lambda x, o: F.conv1d(x.unsqueeze(0), o.unsqueeze(0)),
    "layer_norm": lambda x, o: F.layer_norm(x, (3,), o[0]),
    "out": lambda x, o: torch.add(x, x, out=o.clone()),
    "gather": lambda x, o: x.gather(0, o.long() * 0),
    "index_select": lambda x, o: x.index_select(0, o[0].long() * 0),
    "mse_loss": lambda x, o: F.mse_loss(x, o),
    "atan2 (host-run)": lambda x, o: torch.atan2(x, o),
    "cdist (host-run)": lambda x, o: torch.cdist(x, o),
}


@pytest.mark.parametrize("name", MIXED)
def test_two_devices_in_one_op(device: str, ral: object, name: str) -> None:
    """PyTorch's own wording, as for CUDA and CPU, naming both devices."""
    x, other = torch.ones(3, 3, device=device), torch.ones(3, 3)
    wording = r"(?s)Expected all tensors to be on the same device(?=.*\bral:0\b)(?=.*\bcpu\b)"
    with pytest.raises(RuntimeError, match=wording):
        MIXED[name](x, other)
    assert torch.equal(x.cpu(), torch.ones(3, 3))
    assert torch.equal(other, torch.ones(3, 3))


def test_cpu_scalars_are_welcome(device: str, ral: object) -> None:
    x = torch.ones(3, device=device)
    assert (x + torch.tensor(2.0)).cpu().tolist() == [3.0] * 3
    assert (torch.tensor(2.0) - x).device == x.device
    assert (torch.tensor(2.0, dtype=torch.float64) * x).dtype == torch.float32
    assert x[torch.tensor([0, 2])].cpu().tolist() == [1.0, 1.0]
    assert torch.where(x > 0, torch.tensor(5.0), x).cpu().tolist() == [5.0] * 3


def test_unknown_index(ral: object) -> None:
    count = torch.ral.device_count()
    for call in (
        lambda: torch.zeros(2, device="ral:77"),
        lambda: torch.zeros(2).to("ral:77"),
        lambda: torch.ral.set_device(77),
        lambda: torch.ral.get_device_properties(77),
        lambda: torch.ral.synchronize("ral:77"),
        lambda: torch.ral.memory_allocated(77),
    ):
        with pytest.raises((RuntimeError, ValueError, AssertionError)) as caught:
            call()
        assert "77" in str(caught.value)
        assert str(count) in str(caught.value)
    assert torch.zeros(2, device="ral:0").tolist() == [0, 0]


WRONG: dict[str, Callable[[str], object]] = {
    "shapes of add": lambda d: torch.ones(3, device=d) + torch.ones(4, device=d),
    "shapes of matmul": lambda d: torch.ones(2, 3, device=d) @ torch.ones(2, 3, device=d),
    "shapes of linear": lambda d: F.linear(torch.ones(2, 3, device=d), torch.ones(4, 5, device=d)),
    "dimension": lambda d: torch.ones(2, device=d).sum(3),
    "softmax dimension": lambda d: torch.softmax(torch.ones(2, device=d), 5),
    "view": lambda d: torch.ones(6, device=d).view(4),
    "dtypes of matmul": lambda d: torch.ones(2, 2, device=d) @ torch.ones(2, 2, device=d).double(),
    "integer mean": lambda d: torch.ones(2, dtype=torch.int64, device=d).mean(),
    "result type": lambda d: torch.ones(2, dtype=torch.int32, device=d).add_(1.5),
    "bool subtraction": lambda d: (
        torch.ones(2, dtype=torch.bool, device=d) - torch.ones(2, dtype=torch.bool, device=d)
    ),
    "index": lambda d: torch.ones(3, device=d)[5],
    "cat shapes": lambda d: torch.cat([torch.ones(2, 2, device=d), torch.ones(2, 3, device=d)]),
    "conv channels": lambda d: F.conv2d(torch.ones(1, 2, 5, 5, device=d), torch.ones(1, 3, 3, 3, device=d)),
    "sort dimension": lambda d: torch.ones(2, device=d).sort(4),
    "singular matrix": lambda d: torch.linalg.inv(torch.zeros(2, 2, device=d)),
    "in-place leaf": lambda d: torch.ones(2, device=d, requires_grad=True).add_(1),
    "in-place shape": lambda d: torch.ones(2, device=d).add_(torch.ones(3, 2, device=d)),
    "overlap": lambda d: torch.ones(1, device=d).expand(3).add_(1),
    "empty max": lambda d: torch.ones(0, device=d).max(),
    "scatter index": lambda d: torch.zeros(3, device=d).scatter_(0, torch.tensor([9], device=d), 1.0),
    "masked shapes": lambda d: torch.ones(3, device=d)[torch.ones(4, dtype=torch.bool, device=d)],
}


@pytest.mark.parametrize("name", WRONG)
def test_the_users_error_stays_pytorchs_error(device: str, name: str) -> None:
    with pytest.raises(Exception) as want:  # the type is what is compared
        WRONG[name]("cpu")
    with pytest.raises(type(want.value)) as got:
        WRONG[name](device)
    assert str(got.value).splitlines()[0] == str(want.value).splitlines()[0]


def test_work_goes_on_after_errors(device: str) -> None:
    x = torch.arange(4.0).to(device)
    for call in WRONG.values():
        with pytest.raises((RuntimeError, IndexError, TypeError)):
            call(device)
        assert (x * 2).cpu().tolist() == [0, 2, 4, 6]


def _use_in_child(pipe: Any, device: str, cpu_only: bool) -> None:
    try:
        total = (torch.ones(3) * 2).sum().item()
        if not cpu_only:
            torch.ones(3, device=device) + 1
        pipe.send(("ok", total))
    except BaseException as error:  # sent to the parent
        pipe.send((type(error).__name__, str(error)))


@pytest.mark.parametrize("cpu_only", [True, False])
def test_forked_child(device: str, ral: object, cpu_only: bool) -> None:
    x = torch.ones(3, device=device) + 1
    context = multiprocessing.get_context("fork")
    here, there = context.Pipe()
    child = context.Process(target=_use_in_child, args=(there, device, cpu_only))
    child.start()
    assert here.poll(30), "the child neither answered nor failed"
    kind, text = here.recv()
    child.join(10)
    assert child.exitcode == 0
    if cpu_only:
        assert (kind, text) == ("ok", 6.0)
    else:
        assert kind == "RalError", text
        assert "fork" in text
        assert "spawn" in text, "the text names the cure"
    assert (x + 1).cpu().tolist() == [3.0] * 3


def test_child_forked_before_first_use_may_use_the_device(must_pass: Any, device: str, ral: object) -> None:
    """Nothing is open before the first use, so such a child is like a fresh process."""
    text = must_pass(
        f"""
        import os, torch
        pid = os.fork()
        if pid == 0:
            print("child", (torch.ones(2, device={device!r}) + 1).tolist(), flush=True)
            os._exit(0)
        os.waitpid(pid, 0)
        print("parent", (torch.ones(2, device={device!r}) + 2).tolist())
        """
    )
    assert text.splitlines() == ["child [2.0, 2.0]", "parent [3.0, 3.0]"]


def test_spawned_child_works(device: str, ral: object, tmp_path: pathlib.Path) -> None:
    """In a script of its own: a spawned child imports the module that started it, which no test module allows."""
    script = tmp_path / "spawn.py"
    script.write_text(
        f"""
import multiprocessing

def child(pipe):
    import torch
    pipe.send((torch.ones(3, device={device!r}) * 2).sum().item())

if __name__ == "__main__":
    import torch
    torch.ones(1, device={device!r}).add_(1).item()
    context = multiprocessing.get_context("spawn")
    here, there = context.Pipe()
    process = context.Process(target=child, args=(there,))
    process.start()
    print(here.recv() if here.poll(90) else "silent")
    process.join(30)
    print(process.exitcode)
"""
    )
    done = subprocess.run([sys.executable, script], capture_output=True, text=True, timeout=180)
    assert (done.returncode, done.stdout.split()) == (0, ["6.0", "0"]), done.stderr


@pytest.mark.parametrize("tiers", [None, "native"])
@pytest.mark.parametrize("size", [600, 2500], ids=["many kernels", "one long kernel"])
def test_interrupt_while_waiting(python: Any, device: str, ral: object, tiers: str | None, size: int) -> None:
    """Ctrl-C in the middle of device work raises KeyboardInterrupt and leaves the device usable."""
    done = python(
        f"""
        import os, signal, threading, time, torch
        x = torch.randn({size}, {size}).to({device!r})
        (x[:4, :4] @ x[:4, :4]).sum().item()
        threading.Timer(0.7, lambda: os.kill(os.getpid(), signal.SIGINT)).start()
        try:
            while True:
                (x @ x).sum().item()
        except KeyboardInterrupt:
            y = torch.ones(300, 200, device={device!r})
            print("interrupted", (y.t() @ y).sum().item(), (y[0, :2] + 1).tolist())
        """,
        RAL_FALLBACK=tiers,
    )
    assert done.stdout.strip() == "interrupted 12000000.0 [2.0, 2.0]", done.stderr[-2000:]


def test_process_ends_cleanly_with_work_in_flight(python: Any, device: str, ral: object) -> None:
    done = python(
        f"""
        import torch
        x = torch.randn(1000, 1000).to({device!r})
        keep = [x @ x for _ in range(20)]
        """
    )
    assert done.returncode == 0, (
        f"{signal.Signals(-done.returncode).name if done.returncode < 0 else ''} {done.stderr}"
    )
    assert done.stderr == ""


def test_ral_error_is_a_runtime_error(ral: object) -> None:
    assert issubclass(torch.ral.RalError, RuntimeError)
