"""`torch.ral.pointer`: addresses that are kept outside PyTorch, checked by device, bounds and generation."""

from __future__ import annotations

import pytest
import torch


@pytest.fixture(params=[300, 3 << 20], ids=["small", "large"])
def floats(request: pytest.FixtureRequest) -> int:
    """Elements of a tensor in a small block and in a large one."""
    return request.param


def test_a_pointer_says_where_a_tensor_lies(device: str) -> None:
    x = torch.zeros(4, 6, device=device)
    found = torch.ral.pointer(x)
    assert (found.address, found.bytes, found.device) == (x.data_ptr(), 96, x.device.index)
    part = torch.ral.pointer(x[1:3, 2:4])
    assert part.address == x.data_ptr() + 4 * (6 + 2)
    assert part.bytes == 4 * (6 + 2), "two rows, from the first element to the last"
    assert part.generation == found.generation, "a view is of the same buffer"
    torch.ral.check_pointer(found)
    torch.ral.check_pointer(part)


def test_memory_given_out_again_is_of_another_generation(device: str, floats: int) -> None:
    x = torch.zeros(floats, device=device)
    kept = torch.ral.pointer(x)
    torch.ral.synchronize()
    del x
    with pytest.raises(
        torch.ral.RalError, match="RAL_ERROR_INVALID_POINTER: buffer 0x[0-9a-f]+ not mapped .*freed"
    ):
        torch.ral.check_pointer(kept)
    again = torch.zeros(floats, device=device)
    assert again.data_ptr() == kept.address, "the block is reused"
    with pytest.raises(torch.ral.RalError, match=f"generation {kept.generation} not mapped"):
        torch.ral.check_pointer(kept)
    torch.ral.check_pointer(torch.ral.pointer(again))


def test_bounds_and_device_are_checked(device: str, floats: int) -> None:
    x = torch.zeros(floats, device=device)
    found = torch.ral.pointer(x)
    for wrong, words in [
        (found._replace(bytes=found.bytes + 1), "reach past the end"),
        (found._replace(bytes=2**64 - 1), "reach past the end"),
        (found._replace(address=0x1000), "buffer 0x1000 not mapped"),
    ]:
        with pytest.raises(torch.ral.RalError, match=words):
            torch.ral.check_pointer(wrong)
    with pytest.raises(RuntimeError, match="99"):
        torch.ral.check_pointer(found._replace(device=99))


def test_what_has_no_address_is_refused(device: str) -> None:
    with pytest.raises(ValueError, match="this one is on cpu"):
        torch.ral.pointer(torch.zeros(3))
    with pytest.raises(ValueError, match="no elements"):
        torch.ral.pointer(torch.zeros(0, 3, device=device))
