"""The modules torch.ral and torch.accelerator."""

from __future__ import annotations

import pytest
import torch

NAMES = """is_available device_count current_device set_device device get_device_name get_device_properties
synchronize Stream Event stream current_stream memory_allocated memory_reserved max_memory_allocated memory_stats
reset_peak_memory_stats empty_cache mem_get_info memory_snapshot record_memory_history manual_seed manual_seed_all get_rng_state
set_rng_state is_bf16_supported gc devices plugins fallback_policy explain""".split()


@pytest.mark.parametrize("name", NAMES)
def test_names_are_there_and_documented(ral: object, name: str) -> None:
    member = getattr(torch.ral, name)
    assert callable(member)
    assert member.__doc__, f"torch.ral.{name} has no docstring"


def test_devices(ral: object) -> None:
    assert torch.ral.is_available()
    count = torch.ral.device_count()
    assert count >= 1
    for index in range(count):
        properties = torch.ral.get_device_properties(index)
        assert torch.ral.get_device_name(index) == properties.name
        assert properties.name
        assert properties.total_memory > 2**20
    entries = torch.ral.devices()
    assert [e["id"] for e in entries] == [f"ral:{i}" for i in range(count)]
    for entry in entries:
        assert {"id", "index", "kind", "name", "vendor", "driver", "memory_total", "dtypes", "plugin"} <= set(
            entry
        )
        assert {"plugin_version", "status", "host_visible", "memory_allocated", "memory_reserved"} <= set(
            entry
        )
        assert "float32" in entry["dtypes"]
        assert entry["status"] in ("LOADED", "READY")
        assert entry["memory_total"] == torch.ral.get_device_properties(entry["index"]).total_memory


def test_plugins(ral: object) -> None:
    entries = torch.ral.plugins()
    assert all({"name", "version", "path", "status", "reason", "missing"} <= set(e) for e in entries)
    (opencl,) = [e for e in entries if e["name"] == "opencl"]
    assert opencl["status"] in ("LOADED", "READY")
    assert opencl["path"].endswith("libopencl_plugin.so")
    assert opencl["version"]
    assert opencl["missing"] == []


def test_current_device(ral: object, other_device: str) -> None:
    before = torch.ral.current_device()
    index = torch.device(other_device).index
    try:
        torch.ral.set_device(other_device)
        assert torch.ral.current_device() == index
        assert torch.zeros(1, device="ral").device.index == index
        assert torch.accelerator.current_device_index() == index
        with torch.ral.device(0):
            assert torch.ral.current_device() == 0
            assert torch.ones(1, device="ral").device.index == 0
        assert torch.ral.current_device() == index
        torch.ral.set_device(0)
        assert torch.ral.current_device() == 0
    finally:
        torch.ral.set_device(before)


def test_ops_run_on_the_device_of_their_tensors(ral: object, other_device: str) -> None:
    x = torch.arange(5.0).to(other_device)
    with torch.ral.device(0):
        for y in (x + 1, x.sort().values, x.clone(), torch.zeros_like(x), x.flip(0)):
            assert y.device == torch.device(other_device)
        x.requires_grad_()
        x.square().sum().backward()
    assert x.grad.device == torch.device(other_device)
    assert x.grad.cpu().tolist() == [0, 2, 4, 6, 8]


def test_accelerator(ral: object, device: str) -> None:
    assert torch.accelerator.is_available()
    assert torch.accelerator.current_accelerator().type == "ral"
    assert torch.accelerator.device_count() == torch.ral.device_count()
    x = torch.ones(1000, device=device)
    torch.accelerator.synchronize()
    assert torch.accelerator.memory_allocated(0) == torch.ral.memory_allocated(0)
    assert torch.accelerator.memory_reserved(0) == torch.ral.memory_reserved(0)
    assert torch.accelerator.max_memory_allocated(0) >= 4000
    torch.accelerator.reset_peak_memory_stats(0)
    torch.accelerator.empty_cache()
    assert torch.accelerator.current_stream(0) == torch.ral.current_stream(0)
    with torch.accelerator.device_index(0):
        assert torch.accelerator.current_device_index() == 0
    assert x.sum().item() == 1000


def test_autocast(ral: object, device: str) -> None:
    x = torch.ones(4, 8, device=device)
    layer = torch.nn.Linear(8, 2).to(device)
    exact = layer(x)
    for dtype in (torch.bfloat16, torch.float16):
        with torch.autocast("ral", dtype=dtype):
            y = layer(x)
            assert torch.is_autocast_enabled("ral")
        assert y.dtype == dtype
        assert torch.allclose(y.float().cpu(), exact.cpu(), atol=0.05)
    assert isinstance(torch.ral.is_bf16_supported(), bool)


def test_default_device(ral: object, device: str) -> None:
    torch.set_default_device(device)
    try:
        assert torch.ones(2).device == torch.device(device)
        assert torch.nn.Linear(2, 2).weight.device == torch.device(device)
    finally:
        torch.set_default_device("cpu")


def test_gc_frees_cycles(ral: object, device: str) -> None:
    start = torch.ral.memory_allocated(device)
    loop: list[object] = [torch.zeros(2**20, device=device)]
    loop.append(loop)
    del loop
    torch.ral.gc()
    assert torch.ral.memory_allocated(device) <= start
