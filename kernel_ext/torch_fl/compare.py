"""`%%ral_compare`: one cell on several devices; do the values agree, and what does each take?"""

from __future__ import annotations

import ast
import contextlib
import copy
import io
import statistics
import time
from dataclasses import dataclass
from html import escape
from typing import TYPE_CHECKING, Any

import pandas as pd
from IPython.core.error import UsageError

from torch_fl import words
from torch_fl._core import core
from torch_fl.recorder import Recording
from torch_fl.result import ProfileResult

if TYPE_CHECKING:
    import torch

_SEED = 0
_MOST_WARM_UPS = 5
_RANDOM = ("rand", "normal", "uniform", "bernoulli", "dropout", "multinomial", "exponential")


@dataclass(frozen=True)
class Plan:
    """What `%%ral_compare` was asked: devices, executions in a run, runs, tolerances."""

    devices: list[str]
    number: int
    runs: int
    rtol: float
    atol: float


class CompareResult:
    """The comparison: `times` (one row a device), `values` (one row a name and device), `ops`.

    Times in µs. `profiles` has the ProfileResult of one run on each device.
    """

    def __init__(
        self,
        times: pd.DataFrame,
        values: pd.DataFrame,
        profiles: dict[str, ProfileResult],
        copied: list[str],
    ) -> None:
        self.times, self.values, self.profiles, self.copied = times, values, profiles, copied

    @property
    def ops(self) -> pd.DataFrame:
        """Op time by op in µs, one column a device, from one profiled run."""
        columns = {
            device: result.kernels.groupby("op")["dur_us"].sum() for device, result in self.profiles.items()
        }
        frame = pd.DataFrame(columns).fillna(0.0)
        order = frame.max(axis=1).sort_values(ascending=False).index
        return frame.loc[order].rename_axis("op").reset_index()

    def verdict(self) -> str:
        """One sentence: who is faster, do the numbers agree."""
        order = self.times.sort_values("median_us")
        first, last = order.iloc[0], order.iloc[-1]
        ratio = last["median_us"] / first["median_us"]
        out = f"{first['device']} is {words.figures(ratio)} × faster than {last['device']}"
        seen = list(self.values["verdict"]) if len(self.values) else []
        for bad in ("off", "not comparable"):
            names = self.values[self.values["verdict"] == bad]["name"].unique() if seen else []
            if len(names):
                return f"{out}; {bad}: {', '.join(names)}"
        return f"{out}; all values {'the same' if all(v == 'same' for v in seen) else 'close'}"

    def _small(self) -> str:
        return f"copied before every run: {', '.join(self.copied) or 'nothing'}"

    def __repr__(self) -> str:
        parts = [self.verdict(), self._small(), "", self.times.to_string(index=False)]
        if len(self.values):
            parts += ["", self.values.to_string(index=False)]
        return "\n".join(parts)

    def _repr_html_(self) -> str:
        times = self.times.to_html(index=False, escape=True)
        values = self.values.to_html(index=False, escape=True) if len(self.values) else ""
        return (
            f"<p><b>{escape(self.verdict())}</b><br><small>{escape(self._small())}</small></p>{times}{values}"
        )


def run(shell: Any, cell: str, plan: Plan) -> CompareResult:
    """Runs a cell's text on each device of a plan, in the user's namespace, which is put back.

    Raises:
        UsageError: the cell awaits, or a device is not there.
        Exception: whatever the cell raises.
    """
    code, read = _compile(shell, cell)
    inputs = _inputs(shell.user_ns, read)
    runner = _Runner(shell, code, inputs, plan)
    times, outputs, profiles = [], [], {}
    for device in plan.devices:
        taken, values, profiles[device] = runner.on(device)
        outputs.append(values)
        spread = (max(taken) - min(taken)) / 2
        times.append(
            {
                "device": device,
                "median_us": statistics.median(taken),
                "spread_us": spread,
                "runs": len(taken),
                "warm_ups": runner.warm_ups,
                "peak_bytes": max(profiles[device].bundle["summary"]["peak_bytes"].values(), default=0),
            }
        )
    frame = pd.DataFrame(times)
    frame["ratio"] = frame["median_us"] / frame["median_us"].iloc[-1]
    drawn = any(_draws(profiles[d]) for d in plan.devices if d != "cpu")
    rows = [
        row
        for device, values in zip(plan.devices[:-1], outputs[:-1], strict=True)
        for row in _compare(values, outputs[-1], device, plan, drawn)
    ]
    columns = ["name", "device", "verdict", "largest_difference"]
    return CompareResult(frame, pd.DataFrame(rows, columns=columns), profiles, sorted(inputs))


def _compile(shell: Any, cell: str) -> tuple[Any, set[str]]:
    # The magic's own line comes first in the cell, so that tracebacks show the right lines.
    source = "\n" + shell.transform_cell(cell)
    tree = ast.parse(source)
    if any(isinstance(node, ast.Await) for node in ast.walk(tree)):
        raise UsageError("%%ral_compare cannot run a cell that awaits")
    read: set[str] = set()
    made: set[str] = set()
    for statement in tree.body:
        names = [node for node in ast.walk(statement) if isinstance(node, ast.Name)]
        read |= {node.id for node in names if isinstance(node.ctx, ast.Load)} - made
        made |= {node.id for node in names if isinstance(node.ctx, ast.Store)}
    filename = shell.compile.cache(source, shell.execution_count, raw_code=cell)
    return compile(tree, filename, "exec"), read


def _inputs(namespace: dict[str, Any], read: set[str]) -> dict[str, Any]:
    """Names that the cell reads and that are copied: tensors, Modules, optimizers."""
    import torch

    kinds = (torch.Tensor, torch.nn.Module, torch.optim.Optimizer)
    return {n: namespace[n] for n in read if isinstance(namespace.get(n), kinds)}


class _Runner:
    def __init__(self, shell: Any, code: Any, inputs: dict[str, Any], plan: Plan) -> None:
        self._shell, self._code, self._inputs, self._plan = shell, code, inputs, plan
        self._printed = False
        self.warm_ups = 0

    def on(self, device: str) -> tuple[list[float], dict[str, Any], ProfileResult]:
        """Times (µs), values of the last run on the host, and the profile of one more run."""
        _check(device)
        self.warm_ups = 0
        recording = self._profiled(device)
        while recording.tables.compiling and self.warm_ups < _MOST_WARM_UPS:
            recording = self._profiled(device)
        times = []
        values: dict[str, Any] = {}
        for _ in range(self._plan.runs):
            taken, values = self._once(device)
            times.append(taken / self._plan.number)
        return times, values, ProfileResult.of(self._profiled(device))

    def _profiled(self, device: str) -> Recording:
        recording = Recording(core(), label=device)
        recording.start()
        try:
            self._once(device)
        finally:
            recording.stop()
        self.warm_ups += 1
        return recording

    def _once(self, device: str) -> tuple[float, dict[str, Any]]:
        import torch

        space = self._shell.user_ns
        before = dict(space)
        try:
            copies = _copies(self._inputs, device)
            space.update(copies)
            space["device"] = torch.device(device)
            torch.manual_seed(_SEED)
            silent = contextlib.redirect_stdout(io.StringIO())
            with contextlib.nullcontext() if not self._printed else silent:
                _wait(device)
                begin = time.perf_counter()
                for _ in range(self._plan.number):
                    exec(self._code, space)
                _wait(device)
                taken = time.perf_counter() - begin
            self._printed = True
            return taken * 1e6, _values(space, before, self._inputs)
        finally:
            space.clear()
            space.update(before)


def _check(device: str) -> None:
    import torch

    try:
        torch.empty(0, device=device)
    except RuntimeError as error:
        raise UsageError(f"-d {device}: {error}") from None


def _wait(device: str) -> None:
    import torch

    if device != "cpu":
        torch.ral.synchronize(device)


def _copies(inputs: dict[str, Any], device: str) -> dict[str, Any]:
    """Deep copies on a device. What is shared among them stays shared; optimizers follow their Modules."""
    import torch

    memo: dict[int, Any] = {}
    # A tensor that is no leaf cannot be deep-copied; its value is what the cell reads.
    plain = {n: v.detach() if isinstance(v, torch.Tensor) and not v.is_leaf else v for n, v in inputs.items()}
    copied = {name: copy.deepcopy(value, memo) for name, value in plain.items()}
    moved: dict[int, Any] = {}
    for name, value in copied.items():
        if isinstance(value, torch.nn.Module):
            old = list(value.parameters())
            copied[name] = value.to(device)
            new = copied[name].parameters()
            moved.update({id(a): b for a, b in zip(old, new, strict=True)})
    for name, value in copied.items():
        if isinstance(value, torch.Tensor):
            on = moved.get(id(value))
            if on is None:
                on = value.detach().to(device).requires_grad_(value.requires_grad)
            copied[name] = moved[id(value)] = on
    for value in copied.values():
        if isinstance(value, torch.optim.Optimizer):
            _follow(value, moved, device)
    return copied


def _follow(optimizer: torch.optim.Optimizer, moved: dict[int, Any], device: str) -> None:
    import torch

    for group in optimizer.param_groups:
        group["params"] = [moved.get(id(p), p) for p in group["params"]]
    for old in list(optimizer.state):
        state = optimizer.state.pop(old)
        optimizer.state[moved.get(id(old), old)] = {
            key: value.to(device) if isinstance(value, torch.Tensor) and value.dim() else value
            for key, value in state.items()
        }


def _values(space: dict[str, Any], before: dict[str, Any], inputs: dict[str, Any]) -> dict[str, Any]:
    """Tensors that the cell made or changed, on the host, by name; gradients of leaves too.

    `before` are the user's names, `inputs` those whose copies the cell read.
    """
    import torch

    out: dict[str, Any] = {}

    def take(name: str, tensor: torch.Tensor, old: torch.Tensor | None) -> None:
        value = tensor.detach().cpu().clone()
        if old is None or not torch.equal(value, old.detach().cpu()):
            out[name] = value
        if tensor.is_leaf and tensor.grad is not None:
            out[f"{name}.grad"] = tensor.grad.detach().cpu().clone()

    for name, value in list(space.items()):
        if name.startswith("_") or (name in before and before[name] is value):
            continue
        old = inputs.get(name)
        if isinstance(value, torch.nn.Module):
            same = isinstance(old, torch.nn.Module)
            known = dict([*old.named_parameters(), *old.named_buffers()]) if same else {}
            for part, tensor in [*value.named_parameters(), *value.named_buffers()]:
                take(f"{name}.{part}", tensor, known.get(part))
        elif isinstance(value, torch.Tensor):
            take(name, value, old if isinstance(old, torch.Tensor) else None)
        elif isinstance(value, float):
            out[name] = torch.tensor(value, dtype=torch.float64)
    return out


def _draws(result: ProfileResult) -> bool:
    """Did the profiled run draw random numbers on its device?"""
    ops = result.kernels["op"].unique()
    return any(part in str(op) for op in ops for part in _RANDOM)


def _compare(
    mine: dict[str, Any], reference: dict[str, Any], device: str, plan: Plan, drawn: bool
) -> list[dict[str, Any]]:
    import torch

    rows = []
    for name in sorted(mine.keys() & reference.keys()):
        a, b = mine[name], reference[name]
        largest = float("nan")
        if a.shape != b.shape or a.dtype != b.dtype:
            verdict = "off"
        elif torch.equal(a, b):
            verdict, largest = "same", 0.0
        else:
            wide = torch.complex128 if a.is_complex() else torch.float64
            difference = (a.to(wide) - b.to(wide)).abs()
            largest = float(difference.max()) if difference.numel() else 0.0
            near = torch.allclose(a.to(wide), b.to(wide), plan.rtol, plan.atol, equal_nan=True)
            verdict = "close" if near else "off"
        if verdict == "off" and drawn:
            verdict = "not comparable"
        rows.append({"name": name, "device": device, "verdict": verdict, "largest_difference": largest})
    return rows
