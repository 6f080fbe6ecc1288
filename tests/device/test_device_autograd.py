"""Autograd on the device: small networks against float64 on the CPU."""

from __future__ import annotations

import copy
from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F
from torch import nn


class Residual(nn.Module):
    """Convolutions with a shortcut and both kinds of normalisation."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Conv2d(3, 8, 3, padding=1)
        self.norm = nn.GroupNorm(2, 8)
        self.deep = nn.Conv2d(8, 8, 3, padding=1, groups=2, bias=False)
        self.head = nn.Linear(8, 5)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = F.gelu(self.stem(x))
        x = x + F.silu(self.deep(self.norm(x)))
        return self.head(F.adaptive_avg_pool2d(x, 1).flatten(1))


class Attention(nn.Module):
    """One encoder block and a mean over the sequence."""

    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Embedding(20, 16)
        self.block = nn.TransformerEncoderLayer(16, 4, 32, dropout=0.0, batch_first=True)

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        return self.block(self.embed(ids)).mean(1)


class Recurrent(nn.Module):
    """An LSTM whose last state decides."""

    def __init__(self) -> None:
        super().__init__()
        self.lstm = nn.LSTM(4, 6, num_layers=2, batch_first=True)
        self.head = nn.Linear(6, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.head(self.lstm(x)[0][:, -1])


NETS: dict[str, tuple[Callable[[], nn.Module], Callable[[], torch.Tensor], int]] = {
    "mlp": (
        lambda: nn.Sequential(nn.Linear(6, 9), nn.Tanh(), nn.LayerNorm(9), nn.Linear(9, 4)),
        lambda: torch.randn(7, 6),
        4,
    ),
    "residual": (Residual, lambda: torch.randn(4, 3, 7, 7), 5),
    "attention": (Attention, lambda: torch.randint(0, 20, (3, 6)), 16),
    "recurrent": (Recurrent, lambda: torch.randn(5, 8, 4), 3),
    "pooled": (
        lambda: nn.Sequential(
            nn.Conv1d(2, 4, 3), nn.BatchNorm1d(4), nn.ELU(), nn.MaxPool1d(2), nn.Flatten(), nn.Linear(16, 3)
        ),
        lambda: torch.randn(6, 2, 10),
        3,
    ),
}
OPTIMIZERS = {
    "sgd": lambda p: torch.optim.SGD(p, lr=0.05, momentum=0.9, nesterov=True, weight_decay=1e-3),
    "adam": lambda p: torch.optim.Adam(p, lr=0.01),
    "adamw": lambda p: torch.optim.AdamW(p, lr=0.01, foreach=True),
    "rmsprop": lambda p: torch.optim.RMSprop(p, lr=0.005),
}


def train(
    net: nn.Module, x: torch.Tensor, target: torch.Tensor, optimizer: torch.optim.Optimizer
) -> list[float]:
    losses = []
    for _ in range(6):
        optimizer.zero_grad()
        loss = F.cross_entropy(net(x), target)
        loss.backward()
        nn.utils.clip_grad_norm_(net.parameters(), 1.0)
        optimizer.step()
        losses.append(loss.item())
    return losses


@pytest.mark.parametrize("optimizer", OPTIMIZERS)
@pytest.mark.parametrize("name", NETS)
def test_training_follows_float64(device: str, name: str, optimizer: str) -> None:
    torch.manual_seed(3)
    build, make_input, classes = NETS[name]
    net, x = build(), make_input()
    target = torch.arange(len(x)) % classes
    exact_net = copy.deepcopy(net).double()
    net.to(device)
    got = train(net, x.to(device), target.to(device), OPTIMIZERS[optimizer](net.parameters()))
    exact_x = x.double() if x.is_floating_point() else x
    want = train(exact_net, exact_x, target, OPTIMIZERS[optimizer](exact_net.parameters()))
    assert got == pytest.approx(want, rel=2e-3, abs=2e-4)
    assert got[-1] < got[0]


def test_gradients_of_views_and_in_place_ops(device: str) -> None:
    def loss(w: torch.Tensor) -> torch.Tensor:
        x = w.t()[1:, ::2].clone()
        x[0] *= 3
        x = torch.cat([x, w[0].expand(2, 3)[:, : x.shape[1]]])
        x[x > 0.5] = x[x > 0.5].square()
        return (x.masked_fill(x < -1, 0).cumsum(0) * x.flip(1)).sum()

    values = torch.linspace(-2, 2, 12).reshape(4, 3)
    there = values.clone().to(device).requires_grad_()
    exact = values.double().requires_grad_()
    loss(there).backward()
    loss(exact).backward()
    assert torch.allclose(there.grad.cpu().double(), exact.grad, rtol=1e-4, atol=1e-5)


def test_second_derivatives(device: str) -> None:
    x = torch.tensor([0.5, -1.0, 2.0], device=device, requires_grad=True)
    (first,) = torch.autograd.grad((x**4 + x.sin()).sum(), x, create_graph=True)
    (second,) = torch.autograd.grad(first.sum(), x)
    exact = torch.tensor([0.5, -1.0, 2.0], dtype=torch.float64)
    assert torch.allclose(second.cpu().double(), 12 * exact**2 - exact.sin(), atol=1e-4)


def test_custom_function_and_hooks(device: str) -> None:
    class Cube(torch.autograd.Function):
        @staticmethod
        def forward(ctx: object, x: torch.Tensor) -> torch.Tensor:
            ctx.save_for_backward(x)
            return x**3

        @staticmethod
        def backward(ctx: object, grad: torch.Tensor) -> torch.Tensor:
            (x,) = ctx.saved_tensors
            return 3 * x**2 * grad

    x = torch.tensor([1.0, 2.0], device=device, requires_grad=True)
    seen = []
    x.register_hook(lambda g: seen.append(g.cpu().tolist()))
    Cube.apply(x).sum().backward()
    assert seen == [[3.0, 12.0]]
    assert x.grad.cpu().tolist() == [3.0, 12.0]


def test_gradcheck_in_float64(device: str) -> None:
    torch.manual_seed(0)
    x = torch.randn(3, 4, dtype=torch.float64, device=device, requires_grad=True)
    w = torch.randn(4, 4, dtype=torch.float64, device=device, requires_grad=True)
    assert torch.autograd.gradcheck(lambda a, b: torch.softmax(a @ b, -1).logsumexp(0), (x, w))
    assert torch.autograd.gradgradcheck(lambda a: F.layer_norm(a, (4,)), (x,))


@pytest.mark.filterwarnings("ignore:Error detected", "ignore:Anomaly Detection")
def test_anomaly_mode_names_the_op(device: str) -> None:
    x = torch.tensor([0.0], device=device, requires_grad=True)
    with (
        pytest.raises(RuntimeError, match="SqrtBackward0.*nan"),
        torch.autograd.detect_anomaly(check_nan=True),
    ):
        (torch.sqrt(x) * 0).sum().backward()


def test_saved_tensors_are_versioned(device: str) -> None:
    x = torch.ones(3, device=device, requires_grad=True)
    y = x.exp()
    y.add_(1)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        y.sum().backward()


def test_no_grad_and_inference_mode(device: str) -> None:
    x = torch.ones(3, device=device, requires_grad=True)
    with torch.no_grad():
        assert not (x * 2).requires_grad
    with torch.inference_mode():
        y = x * 2
        y.mul_(2)
    assert y.is_inference()
    assert y.cpu().tolist() == [4.0] * 3
