"""Memory: counters, peaks, caching, running out, and that nothing is left behind."""

from __future__ import annotations

import gc
import re
import sys

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from torch_fl_core.trace import record

MIB = 2**20


@pytest.fixture(autouse=True)
def settled(ral: object) -> None:
    """Start with what earlier tests held given back."""
    torch.zeros(1, device="ral:0")
    gc.collect()
    torch.ral.synchronize()
    torch.ral.empty_cache()


def test_counters_follow_tensors(device: str) -> None:
    start = torch.ral.memory_allocated(device)
    x = torch.zeros(MIB, device=device)  # 4 MiB
    grown = torch.ral.memory_allocated(device) - start
    assert 4 * MIB <= grown <= 5 * MIB
    assert torch.ral.memory_reserved(device) >= torch.ral.memory_allocated(device)
    view = x[10:]
    assert torch.ral.memory_allocated(device) - start == grown, "a view takes no memory"
    del x
    assert torch.ral.memory_allocated(device) - start == grown, "the view keeps it"
    del view
    assert torch.ral.memory_allocated(device) == start


def test_peak(device: str) -> None:
    torch.ral.reset_peak_memory_stats(device)
    start = torch.ral.memory_allocated(device)
    torch.zeros(8 * MIB, dtype=torch.uint8, device=device)
    peak = torch.ral.max_memory_allocated(device)
    assert 8 * MIB <= peak - start <= 9 * MIB
    assert torch.ral.memory_allocated(device) == start
    torch.ral.reset_peak_memory_stats(device)
    assert torch.ral.max_memory_allocated(device) == start
    assert torch.ral.max_memory_reserved(device) >= torch.ral.memory_allocated(device)


def test_freed_blocks_are_reused(device: str) -> None:
    for _ in range(20):  # the first calls of an operator are measured, with small blocks of their own
        x = torch.ones(3 * MIB, dtype=torch.uint8, device=device)
        torch.ral.synchronize()
    reserved = torch.ral.memory_reserved(device)
    addresses = set()
    for _ in range(10):
        del x
        x = torch.ones(3 * MIB, dtype=torch.uint8, device=device)
        torch.ral.synchronize()
        addresses.add(x.data_ptr())
    assert len(addresses) == 1, "each took the place of the one before"
    assert torch.ral.memory_reserved(device) == reserved
    assert x.sum().item() == 3 * MIB


def test_empty_cache(device: str) -> None:
    x = torch.zeros(64 * MIB, dtype=torch.uint8, device=device)
    kept = torch.full((100,), 3.0, device=device)
    held = torch.ral.memory_reserved(device)
    del x
    assert torch.ral.memory_reserved(device) == held
    torch.ral.empty_cache()
    assert torch.ral.memory_reserved(device) <= held - 64 * MIB
    assert kept.cpu().tolist() == [3.0] * 100


def test_mem_get_info(device: str) -> None:
    free, total = torch.ral.mem_get_info(device)
    assert 0 < free <= total
    assert total == torch.ral.get_device_properties(device).total_memory
    x = torch.zeros(256 * MIB, dtype=torch.uint8, device=device)
    assert (
        torch.ral.mem_get_info(device)[0] <= free - 200 * MIB
        or torch.ral.memory_reserved(device) >= 256 * MIB
    )
    assert x[-1].item() == 0


def test_stats_and_snapshot(device: str) -> None:
    x = torch.zeros(12345, device=device)
    stats = torch.ral.memory_stats(device)
    assert stats["allocated_bytes"] == torch.ral.memory_allocated(device)
    assert stats["allocated_bytes_peak"] >= stats["allocated_bytes"]
    assert stats["reserved_bytes"] == torch.ral.memory_reserved(device)
    assert stats["allocations"] - stats["frees"] >= 1
    before = torch.ral.memory_stats(device)["cache_hits"]
    for _ in range(10):
        torch.zeros(777, device=device)
    assert torch.ral.memory_stats(device)["cache_hits"] >= before + 9
    blocks = [b for segment in torch.ral.memory_snapshot(device) for b in segment["blocks"]]
    mine = [b for b in blocks if b["address"] == x.data_ptr()]
    assert len(mine) == 1
    assert mine[0]["size"] >= 12345 * 4
    assert torch.accelerator.memory_allocated() >= 12345 * 4
    assert torch.accelerator.memory_stats()["allocated_bytes.all.current"] > 0


def row_of(t: torch.Tensor) -> dict:
    rows = [b for segment in torch.ral.memory_snapshot(t.device) for b in segment["blocks"]]
    return next(b for b in rows if b["address"] == t.data_ptr())


def test_snapshot_tells_who_allocated(device: str) -> None:
    x = torch.empty(1000, device=device)
    assert row_of(x)["op"] == "empty"
    assert row_of(x + 1)["op"] == "add"
    assert row_of(torch.cumsum(x, 0))["op"] == "cumsum"
    assert row_of(x)["line"] is None
    address = x.data_ptr()
    del x
    cached = [b for s in torch.ral.memory_snapshot(device) for b in s["blocks"] if b["address"] == address]
    assert all((b["op"], b["line"]) == (None, None) for b in cached if b["state"] == "cached")


def test_snapshot_covers_large_segments(device: str) -> None:
    """Blocks above 1 MiB are cut from shared segments; what lies between is listed as cached."""
    held = [torch.zeros(mib * MIB, dtype=torch.uint8, device=device) for mib in (3, 5, 2)]
    addresses = [t.data_ptr() for t in held]
    del held[1]
    rows = [
        s
        for s in torch.ral.memory_snapshot(device)
        if s["address"] <= addresses[0] < s["address"] + s["size"]
    ]
    blocks = rows[0]["blocks"]
    ends = [b["address"] + b["capacity"] for b in blocks]
    assert [rows[0]["address"], *ends] == [
        *(b["address"] for b in blocks),
        rows[0]["address"] + rows[0]["size"],
    ]
    states = {b["address"]: (b["state"], b["size"]) for b in blocks}
    assert states[addresses[0]] == ("active", 3 * MIB)
    assert states[addresses[1]] == ("cached", 0)
    assert states[addresses[2]] == ("active", 2 * MIB)
    assert [t.max().item() for t in held] == [0, 0]


def test_snapshot_lists_live_views(device: str) -> None:
    base = torch.zeros(10, 100, device=device)
    unknown = base[1]
    assert row_of(base)["views"] == [], "made while nothing recorded"
    with record():
        row = base[3]
        part = row[10:30]
        made = row_of(base)["views"]
    assert {v["parent"] for v in made} == {row_of(base)["id"]}, "of the block, a view of a view too"
    ranges = {(v["offset"], v["bytes"]) for v in made}
    assert ranges == {(3 * 100 * 4, 100 * 4), (3 * 100 * 4 + 10 * 4, 20 * 4)}
    assert row_of(base)["views"] == made, "they live as long as their tensors, recording or not"
    assert torch.ral.memory_stats(device)["live_views"] >= len(made)
    del part
    assert [(v["offset"], v["bytes"]) for v in row_of(base)["views"]] == [(3 * 100 * 4, 100 * 4)]
    del row
    assert row_of(base)["views"] == []
    assert unknown.shape == (100,)


def test_memory_history_names_the_line(device: str) -> None:
    torch.ral.record_memory_history()
    try:
        number = sys._getframe().f_lineno + 1
        x = torch.nn.functional.relu(torch.ones(500, device=device) + 1)
    finally:
        torch.ral.record_memory_history(False)
    assert row_of(x)["line"] == f"{__file__}:{number}"
    assert row_of(torch.ones(500, device=device))["line"] is None


def test_gc_names_what_no_tensor_shows(device: str) -> None:
    x = torch.ones(4321, device=device, requires_grad=True)
    torch.ral.record_memory_history()
    try:
        number = sys._getframe().f_lineno + 1
        loss = x.exp().sum()  # backward of exp needs its result, which has no name
    finally:
        torch.ral.record_memory_history(False)
    held = [h for h in torch.ral.gc()["held"] if h["bytes"] == 4321 * 4]
    assert [(h["op"], h["line"]) for h in held] == [("exp", f"{__file__}:{number}")]
    assert held[0]["device"] == str(x.device)
    loss.backward()  # frees it
    assert not [h for h in torch.ral.gc()["held"] if h["bytes"] == 4321 * 4]


def test_out_of_memory(device: str) -> None:
    kept = torch.full((1000,), 5.0, device=device)
    asked = 2**46
    with pytest.raises(torch.OutOfMemoryError) as caught:
        torch.empty(asked, dtype=torch.uint8, device=device)
    text = str(caught.value)
    assert device in text
    assert re.search(r"64(\.0+)? TiB|70368744177664|65536(\.0+)? GiB", text), text
    for word in ("in use", "free"):
        assert word in text, text
    assert (kept + 1).sum().item() == 6000
    assert torch.ral.memory_stats(device)["out_of_memory"] >= 1


def test_out_of_memory_gives_back_the_cache_first(device: str) -> None:
    """Cached blocks are returned to the device before an allocation fails."""
    torch.ral.set_per_process_memory_fraction(1.0, device)
    total = torch.ral.mem_get_info(device)[1]
    held = torch.ral.memory_reserved(device)
    limit = held + 96 * MIB
    torch.ral.set_per_process_memory_fraction(limit / total, device)
    try:
        x = torch.zeros(80 * MIB, dtype=torch.uint8, device=device)
        with pytest.raises(torch.OutOfMemoryError):
            torch.zeros(84 * MIB, dtype=torch.uint8, device=device)
        del x  # cached now
        y = torch.zeros(84 * MIB, dtype=torch.uint8, device=device)
        assert y.max().item() == 0
    finally:
        torch.ral.set_per_process_memory_fraction(1.0, device)


def train(device: str, steps: int) -> None:
    net = nn.Sequential(
        nn.Conv2d(1, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.Flatten(), nn.Linear(4 * 36, 10)
    ).to(device)
    optimizer = torch.optim.Adam(net.parameters())
    for step in range(steps):
        x = torch.rand(3 + step % 5, 1, 8, 8, device=device)
        loss = F.cross_entropy(net(x), torch.zeros(len(x), dtype=torch.int64, device=device))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        loss.item()
        torch.sort(x.flatten())
        torch.linalg.svd(x[0, 0])


def test_counters_return_to_where_they_began(device: str) -> None:
    train(device, 5)
    gc.collect()
    torch.ral.synchronize()
    start, blocks = torch.ral.memory_allocated(device), torch.ral.memory_stats(device)["active_blocks"]
    train(device, 30)
    gc.collect()
    torch.ral.synchronize()
    assert torch.ral.memory_allocated(device) == start
    assert torch.ral.memory_stats(device)["active_blocks"] == blocks


def test_reserved_memory_does_not_grow(device: str) -> None:
    train(device, 20)
    reserved = torch.ral.memory_reserved(device)
    train(device, 60)
    assert torch.ral.memory_reserved(device) <= reserved + 4 * MIB


def test_no_cpu_tensor_keeps_pool_memory(device: str) -> None:
    """What CPU kernels allocate for a ral result is adopted or freed, never left with a CPU tensor."""
    kept = []
    for k in range(1, 40):
        x = torch.rand(k, 7, device=device)
        kept += [
            x.sort().values.cpu(),
            x.unique().cpu(),
            x.topk(2).values,
            x.flip(0).tolist(),
            torch.fft.fft(x).cpu(),
        ]
        kept.append(torch.linalg.inv(x[:1, :1] + 1).cpu())
        with pytest.raises(RuntimeError):
            x.view(13, 13)
        with pytest.raises(RuntimeError):
            torch.linalg.inv(torch.zeros(3, 3, device=device))
    assert torch.ral.memory_stats(device)["foreign_cpu_blocks"] == 0
    assert len(kept) == 39 * 6


def test_memory_survives_use_after_free_on_another_stream(device: str) -> None:
    side = torch.ral.Stream(device)
    results = []
    for number in range(30):
        x = torch.full((400_000,), float(number), device=device)
        side.wait_stream(torch.ral.current_stream(device))
        with torch.ral.stream(side):
            y = x * 2
            x.record_stream(side)
            results.append(y)
        del x
        torch.full((400_000,), -1.0, device=device)  # would take x's block
    side.synchronize()
    assert [r.min().item() for r in results] == [2.0 * n for n in range(30)]
    assert [r.max().item() for r in results] == [2.0 * n for n in range(30)]
