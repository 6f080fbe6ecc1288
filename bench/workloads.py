"""What the benchmark runs: each workload builds its operands on a device and returns one step to time."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import nn

Step = Callable[[], object]
M16 = 16 * 2**20


@dataclass(frozen=True)
class Workload:
    """`build(device)` gives a step; `cpu` another form for the CPU side, where the row compares two forms.

    `inner` steps make one measured run. `bar` is the largest ratio to torch CPU eager that is wanted;
    None: no bar.
    """

    name: str
    build: Callable[[str], Step]
    inner: int = 1
    bar: float | None = None
    cpu: Callable[[str], Step] | None = None


def _tensor(device: str, *shape: int) -> torch.Tensor:
    generator = torch.Generator().manual_seed(len(shape) + sum(shape))
    return torch.randn(*shape, generator=generator).to(device)


def _add(count: int) -> Callable[[str], Step]:
    def build(device: str) -> Step:
        x, y = _tensor(device, count), _tensor(device, count)
        return lambda: x + y

    return build


def _add_out(count: int) -> Callable[[str], Step]:
    def build(device: str) -> Step:
        x, y = _tensor(device, count), _tensor(device, count)
        out = torch.empty_like(x)
        return lambda: torch.add(x, y, out=out)

    return build


def _matmul(device: str) -> Step:
    x, y = _tensor(device, 1024, 1024), _tensor(device, 1024, 1024)
    return lambda: x @ y


def _linear(device: str) -> Step:
    torch.manual_seed(0)
    layer, x = nn.Linear(1024, 1024).to(device), _tensor(device, 2048, 1024)

    def step() -> torch.Tensor:
        with torch.no_grad():
            return layer(x)

    return step


def mlp_step(device: str) -> Step:
    """One SGD training step of a 784-512-512-10 MLP on a batch of 128."""
    torch.manual_seed(0)
    net = nn.Sequential(
        nn.Linear(784, 512), nn.ReLU(), nn.Linear(512, 512), nn.ReLU(), nn.Linear(512, 10)
    ).to(device)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.01)
    x, target = _tensor(device, 128, 784), (torch.arange(128) % 10).to(device)

    def step() -> None:
        optimizer.zero_grad()
        F.cross_entropy(net(x), target).backward()
        optimizer.step()

    return step


def _softmax(device: str) -> Step:
    x = _tensor(device, 4096, 4096)
    return lambda: torch.softmax(x, -1)


def _layer_norm(device: str) -> Step:
    x, weight, bias = _tensor(device, 4096, 4096), _tensor(device, 4096), _tensor(device, 4096)
    return lambda: F.layer_norm(x, (4096,), weight, bias)


WORKLOADS = {
    w.name: w
    for w in (
        Workload("add16", _add(16), inner=1000, bar=1.5),
        Workload("add16M", _add(M16), bar=0.6),
        Workload("add16M_out", _add(M16), bar=1.2, cpu=_add_out(M16)),
        Workload("matmul1024", _matmul, bar=1.2),
        Workload("linear", _linear, bar=1.2),
        Workload("mlp_step", mlp_step, inner=5, bar=1.6),
        Workload("softmax4096", _softmax),
        Workload("layer_norm4096", _layer_norm),
    )
}
# Growth of `import torch` in milliseconds, and slow-down of the MLP step under the default magic.
IMPORT_BAR_MS = 30.0
MAGIC_BAR = 1.05
