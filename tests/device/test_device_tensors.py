"""Making, moving, viewing and printing tensors on the device."""

from __future__ import annotations

import itertools

import pytest
import torch

DTYPES = [
    torch.bool,
    torch.uint8,
    torch.int8,
    torch.int16,
    torch.int32,
    torch.int64,
    torch.float16,
    torch.bfloat16,
    torch.float32,
    torch.float64,
    torch.complex64,
]


def test_creation(device: str) -> None:
    on = torch.device(device)
    made = {
        "zeros": (torch.zeros(2, 3, device=on), torch.zeros(2, 3)),
        "ones": (torch.ones(3, dtype=torch.int16, device=on), torch.ones(3, dtype=torch.int16)),
        "full": (torch.full((2,), 7.5, device=on), torch.tensor([7.5, 7.5])),
        "arange": (torch.arange(2, 11, 3, device=on), torch.tensor([2, 5, 8])),
        "linspace": (torch.linspace(0, 1, 5, device=on), torch.tensor([0, 0.25, 0.5, 0.75, 1])),
        "eye": (torch.eye(2, device=on), torch.tensor([[1.0, 0], [0, 1]])),
        "tensor": (torch.tensor([[1, 2], [3, 4]], device=on), torch.tensor([[1, 2], [3, 4]])),
        "as_tensor": (torch.as_tensor([True, False], device=on), torch.tensor([True, False])),
        "scalar": (torch.tensor(3.5, device=on), torch.tensor(3.5)),
        "empty": (torch.zeros(0, 4, device=on), torch.zeros(0, 4)),
        "zeros_like": (torch.zeros_like(torch.ones(2, device=on)), torch.zeros(2)),
        "new_full": (torch.ones(1, device=on).new_full((2,), 3), torch.tensor([3.0, 3.0])),
        "tril_indices": (torch.tril_indices(2, 2, device=on), torch.tensor([[0, 1, 1], [0, 0, 1]])),
    }
    for name, (got, want) in made.items():
        assert got.device == on, name
        assert got.dtype == want.dtype, name
        assert torch.equal(got.cpu(), want), name


def test_device_names(ral: object) -> None:
    assert torch.zeros(1, device="ral").device == torch.device("ral", torch.ral.current_device())
    assert torch.zeros(1).to("ral:0").device == torch.device("ral:0")
    assert torch.zeros(1).ral().device.type == "ral"
    assert torch.zeros(1).ral().is_ral
    assert not torch.zeros(1).is_ral
    with torch.device("ral:0"):
        assert torch.ones(2).device == torch.device("ral:0")
    assert torch.nn.Linear(2, 2).ral().weight.device.type == "ral"


@pytest.mark.filterwarnings("ignore:Casting complex values")
@pytest.mark.parametrize("target", DTYPES, ids=lambda d: str(d)[6:])
@pytest.mark.parametrize("source", DTYPES, ids=lambda d: str(d)[6:])
def test_copies_convert_like_the_cpu(device: str, source: torch.dtype, target: torch.dtype) -> None:
    values = torch.tensor([[0, 1, 2], [100, 3, 77]]).to(source)
    want = values.to(target)
    moved = values.to(device)
    assert torch.equal(moved.to(target).cpu(), want)
    assert torch.equal(values.t().to(device).to(target).cpu(), want.t())
    kept = torch.empty(2, 3, dtype=target, device=device)
    kept.copy_(values)
    assert torch.equal(kept.cpu(), want)
    back = torch.empty(2, 3, dtype=target)
    back.copy_(moved)
    assert torch.equal(back, want)


def test_negative_and_large_values_survive_casts(device: str) -> None:
    values = torch.tensor([-1.7, -0.4, 0.0, 1.5, 2.5, 123456.7, -3e9])
    for target in (torch.int64, torch.float16, torch.bfloat16, torch.float64, torch.bool):
        assert torch.equal(values.to(device).to(target).cpu(), values.to(target)), target
    exact = torch.tensor([2**53 + 1, -(2**62) - 3])
    assert exact.to(device).cpu().tolist() == exact.tolist()
    assert exact.to(device).clone().tolist() == exact.tolist()


@pytest.mark.parametrize(
    "layout", ["contiguous", "transposed", "sliced", "expanded", "offset", "empty", "scalar"]
)
def test_copies_of_every_layout(device: str, layout: str) -> None:
    base = torch.arange(60.0).reshape(3, 4, 5)
    view = {
        "contiguous": lambda t: t,
        "transposed": lambda t: t.permute(2, 0, 1),
        "sliced": lambda t: t[::2, 1:, ::3],
        "expanded": lambda t: t[:, :1].expand(3, 4, 5),
        "offset": lambda t: t[1, 2:],
        "empty": lambda t: t[:, 4:],
        "scalar": lambda t: t[2, 3, 4],
    }[layout]
    want = view(base)
    there = view(base.clone().to(device))  # a view on the device
    sent = want.to(device)  # a view that was sent
    for got in (there, sent, there.clone(), there.contiguous(), sent.cpu().to(device)):
        assert got.shape == want.shape
        assert torch.equal(got.cpu(), want)
    assert there.stride() == want.stride()
    assert there.storage_offset() == want.storage_offset()
    target = torch.zeros(3, 4, 5, device=device)
    if layout != "expanded":
        view(target).copy_(want)
        expected = torch.zeros(3, 4, 5)
        view(expected).copy_(want)
        assert torch.equal(target.cpu(), expected)


def test_channels_last_is_kept(device: str) -> None:
    image = torch.arange(48.0).reshape(1, 3, 4, 4).to(memory_format=torch.channels_last)
    there = image.to(device)
    assert there.is_contiguous(memory_format=torch.channels_last)
    assert torch.equal(there.cpu(), image)
    assert (there + 1).is_contiguous(memory_format=torch.channels_last)


def test_round_trip_between_devices(other_device: str) -> None:
    values = torch.arange(10.0).reshape(2, 5)
    there = values.to("ral:0").to(other_device)
    assert there.device == torch.device(other_device)
    assert torch.equal(there.t().to("ral:0").cpu(), values.t())
    target = torch.zeros(5, 2, device="ral:0")
    target.t().copy_(there)
    assert torch.equal(target.cpu(), values.t())
    assert torch.equal((there * 2).to("ral:0").double().cpu(), values.double() * 2)


def test_every_pair_of_devices(ral: object) -> None:
    values = torch.arange(6, dtype=torch.int32)
    count = torch.ral.device_count()
    for a, b in itertools.product(range(count), range(count)):
        moved = values.to(f"ral:{a}").to(f"ral:{b}")
        assert moved.device.index == b
        assert torch.equal((moved + 1).cpu(), values + 1), (a, b)


def test_views_share_memory(device: str) -> None:
    base = torch.zeros(4, 6, device=device)
    want = torch.zeros(4, 6)
    for view in (
        lambda t: t[1],
        lambda t: t[:, 2:4],
        lambda t: t.t()[3],
        lambda t: t.view(24)[5::7],
        lambda t: t.unfold(1, 2, 2)[0, 1],
        lambda t: t.as_strided((2, 2), (13, 5), 3),
        lambda t: t.diagonal(1),
        lambda t: t.reshape(2, 2, 6).permute(1, 2, 0)[0],
        lambda t: t.split(2, 1)[2],
        lambda t: t.unsqueeze(0).squeeze(0)[2:],
        lambda t: t.detach()[3],
    ):
        view(base).add_(1.5)
        view(want).add_(1.5)
        assert torch.equal(base.cpu(), want)
        assert view(base).data_ptr() == base.data_ptr() + 4 * view(want).storage_offset()
    alias = base.view(torch.int32)
    alias[0, 0] = 0x40490FDB
    assert base[0, 0].item() == pytest.approx(3.14159274)
    numbers = torch.zeros(3, 2, device=device)
    torch.view_as_complex(numbers).add_(1 + 2j)
    assert numbers.cpu().tolist() == [[1.0, 2.0]] * 3


def test_view_outlives_its_base(device: str) -> None:
    view = torch.arange(1000.0).to(device)[990:]
    for _ in range(50):  # whoever gets the base's memory wrongly would overwrite it
        torch.full((1000,), -1.0, device=device)
    assert view.cpu().tolist() == list(range(990, 1000))


def test_resize_and_set(device: str) -> None:
    tensor = torch.arange(4.0).to(device)
    tensor.resize_(2, 5)
    assert tensor.shape == (2, 5)
    assert tensor.cpu().flatten()[:4].tolist() == [0, 1, 2, 3]
    tensor.resize_(3)
    assert tensor.cpu().tolist() == [0, 1, 2]
    other = torch.empty(0, device=device).set_(tensor.untyped_storage(), 1, (2,))
    other.fill_(9)
    assert tensor.cpu().tolist() == [0, 9, 9]
    assert tensor.untyped_storage().device == torch.device(device)
    assert tensor.untyped_storage().nbytes() == 40


def test_printing(device: str) -> None:
    tensor = torch.tensor([[1.5, -2.0], [float("nan"), 1e10]])
    text = repr(tensor.to(device))
    if device != "cpu":
        assert f"device='{device}'" in text
        text = text.replace(f", device='{device}'", "")
    assert text.replace(" ", "") == repr(tensor).replace(" ", "")
    assert repr(torch.zeros(0, device=device)).startswith("tensor([]")
    assert "..." in repr(torch.zeros(2000, device=device))
    assert f"{torch.tensor(2.5, device=device):.2f}" == "2.50"
    assert "requires_grad=True" in repr(torch.zeros(1, device=device, requires_grad=True))


def test_values_reach_python(device: str) -> None:
    tensor = torch.tensor([[1, 2], [3, 4]], device=device)
    assert tensor.tolist() == [[1, 2], [3, 4]]
    assert [row.sum().item() for row in tensor] == [3, 7]
    assert tensor[1, 0].item() == 3
    assert bool(torch.tensor(True, device=device))
    assert int(torch.tensor(2**40, device=device)) == 2**40
    assert complex(torch.tensor(1 + 2j, device=device)) == 1 + 2j
    assert 3 in tensor
    assert len(tensor) == 2
    assert list(range(5))[torch.tensor(2, device=device)] == 2


def test_non_blocking_copies(device: str) -> None:
    values = torch.arange(100000.0)
    sent = values.to(device, non_blocking=True)
    back = (sent * 3).to("cpu", non_blocking=True)
    if device != "cpu":
        torch.accelerator.synchronize()
    assert torch.equal(back, values * 3)


def test_source_may_change_after_a_blocking_copy(device: str) -> None:
    values = torch.ones(1 << 20)
    for round_number in range(5):
        values.fill_(round_number)
        sent = values.to(device, copy=True)
        values.fill_(-1)
        assert sent.min().item() == sent.max().item() == round_number


def test_complex_and_conjugate(device: str) -> None:
    z = torch.complex(torch.arange(4.0), torch.arange(4.0) + 1)
    there = z.to(device)
    assert torch.equal(there.conj().cpu(), z.conj())
    assert torch.equal(there.conj().resolve_conj().cpu(), z.conj().resolve_conj())
    assert torch.equal(there.imag.cpu(), z.imag)
    assert torch.equal(torch.view_as_real(there).cpu(), torch.view_as_real(z))
    target = torch.zeros(4, dtype=torch.complex64, device=device)
    target.copy_(z.conj())
    assert torch.equal(target.cpu(), z.conj().resolve_conj())
    assert torch.equal(there.conj().imag.cpu(), -z.imag)


def test_no_tensor_is_reached_through_numpy_by_mistake(device: str, ral: object) -> None:
    with pytest.raises(TypeError, match="ral"):
        torch.zeros(2, device=device).numpy()
