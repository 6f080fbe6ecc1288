"""DataLoader with worker processes and pinned memory, feeding the device."""

from __future__ import annotations

import pytest
import torch
from torch.utils.data import DataLoader, Dataset, TensorDataset


class Rows(Dataset):
    """Row k holds k, 2k, 3k; made in the worker."""

    def __len__(self) -> int:
        return 23

    def __getitem__(self, index: int) -> tuple[torch.Tensor, int]:
        return torch.tensor([1.0, 2.0, 3.0]) * index, index


@pytest.mark.parametrize("workers", [0, 2])
@pytest.mark.parametrize("pin", [False, True])
@pytest.mark.filterwarnings("error::UserWarning")
def test_loader_feeds_the_device(device: str, ral: object, workers: int, pin: bool) -> None:
    torch.ones(2, device=device).add_(1)  # the device is in use before workers are forked
    seen = 0
    for rows, labels in DataLoader(
        Rows(), batch_size=5, num_workers=workers, pin_memory=pin, timeout=60 * (workers > 0)
    ):
        assert rows.device.type == "cpu"
        assert rows.is_pinned() == pin
        there, ids = rows.to(device, non_blocking=True), labels.to(device, non_blocking=True)
        want = torch.tensor([[6.0]]) * labels.unsqueeze(1)
        assert torch.equal(there.sum(1, keepdim=True).cpu(), want)
        assert torch.equal(ids.cpu(), labels)
        seen += len(labels)
    assert seen == 23


def test_two_epochs_with_persistent_workers(device: str) -> None:
    data = TensorDataset(torch.arange(40.0).reshape(20, 2))
    loader = DataLoader(data, batch_size=4, shuffle=True, num_workers=2, persistent_workers=True, timeout=60)
    for _ in range(2):
        total = torch.zeros(2, device=device)
        for (batch,) in loader:
            total += batch.to(device).sum(0)
        assert total.cpu().tolist() == [380.0, 400.0]


def test_pinned_memory(device: str, ral: object) -> None:
    values = torch.arange(1000.0)
    pinned = values.pin_memory()
    assert pinned.is_pinned()
    assert not values.is_pinned()
    assert pinned.device.type == "cpu"
    assert torch.equal(pinned, values)
    assert torch.equal(pinned.to(device, non_blocking=True).cpu(), values)
    assert torch.empty(7, pin_memory=True).is_pinned()
    pinned += 1  # plain CPU work on pinned memory
    assert torch.equal(pinned, values + 1)


def test_pinned_source_is_not_reused_too_early(device: str, ral: object) -> None:
    sent = []
    for number in range(20):
        pinned = torch.full((50000,), float(number)).pin_memory()
        sent.append(pinned.to(device, non_blocking=True))
        del pinned
    torch.ral.synchronize()
    assert [t.min().item() for t in sent] == list(range(20))
    assert [t.max().item() for t in sent] == list(range(20))
