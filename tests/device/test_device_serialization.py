"""Saving, loading, copying and pickling tensors and modules of the device."""

from __future__ import annotations

import copy
import io
import pickle

import torch
from torch import nn


def saved(item: object) -> io.BytesIO:
    buffer = io.BytesIO()
    torch.save(item, buffer)
    buffer.seek(0)
    return buffer


def test_tensors_return_to_their_device(device: str) -> None:
    values = torch.arange(12.0).reshape(3, 4)
    there = values.to(device)
    buffer = saved({"whole": there, "view": there[1:, ::2]})
    loaded = torch.load(buffer)
    assert loaded["whole"].device == torch.device(device)
    assert torch.equal(loaded["whole"].cpu(), values)
    assert torch.equal(loaded["view"].cpu(), values[1:, ::2])
    loaded["view"].zero_()  # the two still share memory
    assert loaded["whole"][1, 0].item() == 0
    assert torch.equal(there.cpu(), values)


def test_map_location(device: str, other_device: str) -> None:
    values = torch.arange(5)
    buffer = saved(values.to(device))
    for location, expected in (
        ("cpu", "cpu"),
        (other_device, other_device),
        ({device: "cpu"}, "cpu"),
        (lambda storage, _: storage.cpu(), "cpu"),
        (torch.device(other_device), other_device),
    ):
        buffer.seek(0)
        loaded = torch.load(buffer, map_location=location)
        assert loaded.device == torch.device(expected)
        assert torch.equal(loaded.cpu(), values)
    loaded = torch.load(saved(values), map_location=device)
    assert loaded.device == torch.device(device)
    assert torch.equal(loaded.cpu(), values)


def test_file_loads_where_there_is_no_ral(
    device: str, ral: object, tmp_path: object, must_pass: object
) -> None:
    path = tmp_path / "model.pt"
    torch.save({"weight": torch.arange(3.0).to(device)}, path)
    text = must_pass(
        f"import torch; print(torch.load({str(path)!r}, map_location='cpu')['weight'].tolist())",
        TORCH_DEVICE_BACKEND_AUTOLOAD="0",
    )
    assert text.strip() == "[0.0, 1.0, 2.0]"


def test_module_and_optimizer_state(device: str) -> None:
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4)).to(device)
    optimizer = torch.optim.Adam(net.parameters(), lr=0.1)
    x = torch.ones(2, 3, device=device) * torch.tensor([[1.0], [2.0]], device=device)
    net(x).square().sum().backward()
    optimizer.step()
    twin = nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4)).to(device)
    twin_optimizer = torch.optim.Adam(twin.parameters(), lr=0.1)
    state = torch.load(saved((net.state_dict(), optimizer.state_dict())))
    twin.load_state_dict(state[0])
    twin_optimizer.load_state_dict(state[1])
    for model, opt in ((net, optimizer), (twin, twin_optimizer)):
        opt.zero_grad()
        model(x).square().sum().backward()
        opt.step()
    for a, b in zip(net.state_dict().values(), twin.state_dict().values(), strict=True):
        assert a.device == torch.device(device)
        assert torch.equal(a.cpu(), b.cpu())


def test_deepcopy_and_pickle(device: str) -> None:
    base = torch.arange(6.0).to(device)
    parameter = nn.Parameter(base.clone())
    both = [base, base[2:4], parameter]
    for again in (copy.deepcopy(both), pickle.loads(pickle.dumps(both))):
        assert [t.device for t in again] == [torch.device(device)] * 3
        assert torch.equal(again[0].cpu(), base.cpu())
        assert isinstance(again[2], nn.Parameter)
        assert again[2].requires_grad
        again[0].add_(10)
        assert base.cpu().tolist() == [0, 1, 2, 3, 4, 5]
    twin = copy.deepcopy(both)
    twin[0].fill_(7)
    assert twin[1].cpu().tolist() == [7, 7]
    assert pickle.loads(pickle.dumps(torch.device(device))) == torch.device(device)


def test_storage_copies(device: str) -> None:
    values = torch.arange(4, dtype=torch.int32)
    storage = values.to(device).untyped_storage()
    assert storage.cpu().tolist() == values.untyped_storage().tolist()
    assert storage.clone().device == torch.device(device)
