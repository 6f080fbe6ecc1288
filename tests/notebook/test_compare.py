"""`%%ral_compare`: copies, verdicts, the namespace put back. With torch on the CPU."""

from __future__ import annotations

from typing import Any

import pytest

torch = pytest.importorskip("torch")


def compare(shell: Any, body: str, options: str = "-d cpu -d cpu -r 2", *, ok: bool = True) -> Any:
    result = shell.run_cell(f"%%ral_compare {options} -o c\n{body}")
    assert result.success is ok, result.error_in_exec
    return shell.user_ns.get("c")


def test_values_times_and_namespace(shell: Any) -> None:
    net = torch.nn.Linear(3, 2)
    shell.user_ns.update(net=net, x=torch.ones(4, 3), kept=[1], torch=torch)
    before = {k: v.detach().clone() for k, v in net.state_dict().items()}
    got = compare(shell, "y = net(x).sum()\ny.backward()\nx.add_(1)\ntotal = y.item()")
    assert got.times["device"].tolist() == ["cpu", "cpu"] and (got.times["median_us"] > 0).all()
    names = {"y", "total", "x", "net.weight.grad", "net.bias.grad"}  # what did not change is left out
    assert set(got.values["name"]) == names
    assert set(got.values["verdict"]) == {"same"}
    assert "all values the same" in got.verdict() and "copied before every run: net, x" in repr(got)
    assert "y" not in shell.user_ns and "device" not in shell.user_ns
    assert net.weight.grad is None and torch.equal(shell.user_ns["x"], torch.ones(4, 3))
    assert all(torch.equal(before[k], v) for k, v in net.state_dict().items())


def test_an_optimizer_follows_the_copied_module(shell: Any) -> None:
    net = torch.nn.Linear(3, 1)
    optimizer = torch.optim.Adam(net.parameters(), lr=0.1)
    net(torch.ones(1, 3)).sum().backward()
    optimizer.step()
    optimizer.zero_grad()
    before = net.weight.detach().clone()
    shell.user_ns.update(net=net, optimizer=optimizer, x=torch.ones(4, 3))
    body = "loss = net(x).sum()\nloss.backward()\noptimizer.step()\nmoved = (net.weight - start).abs().sum()"
    shell.user_ns["start"] = before
    got = compare(shell, body)
    assert torch.equal(net.weight, before)
    assert {"moved", "net.weight", "net.bias"} <= set(got.values["name"])
    space = dict(shell.user_ns)
    from torch_fl.compare import _copies

    copies = _copies({n: space[n] for n in ("net", "optimizer")}, "cpu")
    assert copies["optimizer"].param_groups[0]["params"][0] is copies["net"].weight
    assert copies["net"].weight is not net.weight
    assert copies["optimizer"].state[copies["net"].weight]["exp_avg"].shape == (1, 3)


def test_verdicts(shell: Any) -> None:
    shell.user_ns.update(torch=torch, calls=[])
    body = (
        "calls.append(1)\nnear = torch.tensor(1.0 + 1e-7 * len(calls))\nfar = torch.tensor(float(len(calls)))"
    )
    got = compare(shell, body)
    verdicts = dict(zip(got.values["name"], got.values["verdict"], strict=True))
    assert verdicts == {"near": "close", "far": "off"}
    assert "; off: far" in got.verdict()


def test_the_cell_is_run_n_times_a_run(shell: Any) -> None:
    shell.user_ns["calls"] = []
    compare(shell, "calls.append(1)", "-d cpu -d cpu -r 3 -n 4")
    assert len(shell.user_ns["calls"]) == 2 * (1 + 3 + 1) * 4  # a warm-up, the runs and a profiled one


@pytest.mark.parametrize(
    ("options", "body", "said"),
    [
        ("-d cpu", "1", "at least two devices"),
        ("-d cpu -d nodevice", "1", "nodevice"),
        ("-d cpu -d cpu", "await f()", "cannot run a cell that awaits"),
    ],
)
def test_wrong_use_is_said(shell: Any, options: str, body: str, said: str, capsys: Any) -> None:
    compare(shell, body, options, ok=False)
    assert said in capsys.readouterr().err


def test_an_error_leaves_the_namespace_alone(shell: Any, core: Any) -> None:
    shell.user_ns["x"] = torch.ones(2)
    compare(shell, "x.zero_()\nbad = 1 / 0", ok=False)
    assert torch.equal(shell.user_ns["x"], torch.ones(2)) and "bad" not in shell.user_ns
    assert core.acquired == 0
