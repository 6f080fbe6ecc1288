"""Random numbers: seeds, states of 16 bytes (Philox seed and offset), generators."""

from __future__ import annotations

import struct

import pytest
import torch
import torch.nn.functional as F


def draws(device: str, generator: torch.Generator | None = None) -> list[torch.Tensor]:
    """A little of every kind of random op."""
    probabilities = torch.tensor([0.1, 0.2, 0.7], device=device)
    made = [
        torch.rand(50, device=device, generator=generator),
        torch.randn(50, device=device, generator=generator),
        torch.randint(0, 1000, (50,), device=device, generator=generator),
        torch.randperm(50, device=device, generator=generator),
        torch.bernoulli(torch.full((50,), 0.5, device=device), generator=generator),
        torch.multinomial(probabilities, 20, replacement=True, generator=generator),
        torch.empty(50, device=device).exponential_(generator=generator),
        torch.normal(torch.zeros(50, device=device), 1.0, generator=generator),
    ]
    if generator is None:
        made.append(F.dropout(torch.ones(100, device=device), 0.5))
    return [t.cpu() for t in made]


def equal(a: list[torch.Tensor], b: list[torch.Tensor]) -> bool:
    return all(torch.equal(x, y) for x, y in zip(a, b, strict=True))


def test_seed_repeats(device: str) -> None:
    torch.manual_seed(5)
    first, second = draws(device), draws(device)
    torch.manual_seed(5)
    assert equal(first, draws(device))
    assert equal(second, draws(device))
    assert not any(torch.equal(x, y) for x, y in zip(first, second, strict=True))
    torch.manual_seed(6)
    assert not torch.equal(first[0], draws(device)[0])


def test_device_seeds(device: str, ral: object) -> None:
    torch.ral.manual_seed(11)
    first = draws(device)
    torch.ral.manual_seed_all(11)
    assert equal(first, draws(device))
    assert torch.ral.initial_seed() == 11


def test_distributions(device: str) -> None:
    torch.manual_seed(1)
    n = 200_000
    uniform = torch.rand(n, device=device).cpu().double()
    assert uniform.min() >= 0
    assert uniform.max() < 1
    assert uniform.mean().item() == pytest.approx(0.5, abs=0.005)
    assert uniform.var().item() == pytest.approx(1 / 12, abs=0.002)
    normal = torch.randn(n, device=device).cpu().double()
    assert normal.mean().item() == pytest.approx(0, abs=0.02)
    assert normal.std().item() == pytest.approx(1, abs=0.02)
    assert (normal.abs() > 3).double().mean().item() == pytest.approx(0.0027, abs=0.001)
    dropped = F.dropout(torch.ones(n, device=device), 0.25).cpu()
    assert (dropped == 0).double().mean().item() == pytest.approx(0.25, abs=0.01)
    assert dropped.max().item() == pytest.approx(4 / 3)
    assert torch.randperm(1000, device=device).cpu().sort().values.tolist() == list(range(1000))


def test_draws_of_odd_sizes_do_not_overlap(device: str) -> None:
    torch.manual_seed(2)
    seen = torch.cat(
        [torch.rand(k, device=device, dtype=torch.float64).cpu() for k in (1, 3, 5, 17, 64, 1, 1000)]
    )
    assert len(seen.unique()) == len(seen)


def test_state_is_philox_seed_and_offset(device: str, ral: object) -> None:
    torch.ral.manual_seed(1234)
    state = torch.ral.get_rng_state(device)
    assert state.dtype == torch.uint8
    assert state.device.type == "cpu"
    assert len(state) == 16
    assert struct.unpack("<QQ", bytes(state.tolist()))[0] == 1234
    first = draws(device)
    moved = torch.ral.get_rng_state(device)
    assert struct.unpack("<QQ", bytes(moved.tolist()))[0] == 1234
    assert not torch.equal(moved, state)
    torch.ral.set_rng_state(state, device)
    assert equal(first, draws(device))
    assert torch.equal(torch.ral.get_rng_state(device), moved)


def test_generators(device: str, ral: object) -> None:
    one, two = (torch.Generator(device).manual_seed(3) for _ in range(2))
    assert one.device == torch.device(device)
    torch.manual_seed(7)
    before = torch.ral.get_rng_state(device)
    first = draws(device, one)
    assert torch.equal(torch.ral.get_rng_state(device), before), (
        "a given generator left the default one alone"
    )
    assert equal(first, draws(device, two))
    assert one.initial_seed() == 3
    state = one.get_state()
    assert len(state) == 16
    after = draws(device, one)
    one.set_state(state)
    assert equal(after, draws(device, one))
    twin = one.clone_state() if hasattr(one, "clone_state") else None
    if twin is not None:
        assert equal(draws(device, one), draws(device, twin))
    with pytest.raises(RuntimeError):
        one.set_state(torch.zeros(3, dtype=torch.uint8))
    one.seed()
    assert one.initial_seed() != 3


def test_cpu_generator_is_refused(device: str, ral: object) -> None:
    with pytest.raises(RuntimeError, match="(?i)generator"):
        torch.rand(3, device=device, generator=torch.Generator().manual_seed(1))


def test_fork_rng(device: str, ral: object) -> None:
    torch.manual_seed(21)
    torch.rand(3, device=device)
    state = torch.ral.get_rng_state(device)
    want = draws(device)
    torch.ral.set_rng_state(state, device)
    with torch.random.fork_rng(devices=[torch.device(device).index], device_type="ral"):
        torch.manual_seed(99)
        draws(device)
    assert torch.equal(torch.ral.get_rng_state(device), state)
    assert equal(want, draws(device))


def test_checkpoint_repeats_dropout(device: str) -> None:
    from torch.utils.checkpoint import checkpoint

    for reentrant in (False, True):
        torch.manual_seed(4)
        x = torch.ones(500, device=device, requires_grad=True)
        y = checkpoint(lambda t: F.dropout(t, 0.5), x, use_reentrant=reentrant)
        torch.rand(100, device=device)
        y.sum().backward()
        assert torch.equal((x.grad != 0).cpu(), (y != 0).cpu())


def test_model_initialisation_repeats(device: str) -> None:
    nets = []
    for _ in range(2):
        torch.manual_seed(8)
        with torch.device(device):
            nets.append(torch.nn.Sequential(torch.nn.Linear(5, 6), torch.nn.Conv2d(1, 2, 3)))
    for a, b in zip(nets[0].parameters(), nets[1].parameters(), strict=True):
        assert a.device == torch.device(device)
        assert torch.equal(a.cpu(), b.cpu())
        assert a.abs().max().item() > 0
