"""record(): what it asks of the adapter, and that long blocks, exceptions and failures lose nothing."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from fake_ring import FakeRing
from trace_sample import STATUS

from torch_fl_core.trace import record


class Adapter:
    """Stands in for the adapter extension: notes the calls, writes a small ring."""

    def __init__(self, folder: Path, records: int) -> None:
        self.ring = FakeRing(folder=folder, records=records, enabled=False)
        self.ring.status(STATUS)
        self.calls: list[str] = []
        self.flush_error: Exception | None = None

    def trace_path(self) -> str:
        return str(self.ring.path)

    def trace_acquire(self) -> None:
        self.calls.append("acquire")
        self.ring.emit("ALLOC", "empty", buffer=1, bytes=64, device=0, flags=0x8)

    def trace_release(self) -> None:
        self.calls.append("release")

    def trace_flush(self, wait: bool = False) -> None:
        self.calls.append(f"flush {wait}")
        self.ring.emit("KERNEL", "late", device=0, dur_ns=100)
        if self.flush_error:
            raise self.flush_error


@pytest.fixture
def adapter(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Adapter]:
    found = Adapter(tmp_path / "ral", records=4096)
    monkeypatch.setattr(sys.modules["torch_fl_core"], "load", lambda: found, raising=False)
    yield found
    found.ring.unlink()


def drains() -> int:
    return sum(t.name == "ral-trace-drain" for t in threading.enumerate())


def test_the_block_and_nothing_else_is_recorded(adapter: Adapter) -> None:
    adapter.ring.emit("KERNEL", "before", device=0)
    with record() as trace:
        assert len(trace.kernels) == 0
        adapter.ring.emit("KERNEL", "inside", device=0, dur_ns=50)
    adapter.ring.emit("KERNEL", "after", device=0)
    assert trace.kernels["op"].tolist() == ["inside", "late"]
    assert trace.memory["snapshot"].tolist() == [True]
    assert adapter.calls == ["acquire", "flush True", "release"]
    assert 0 <= trace.kernels["begin_us"].iloc[0] < 5e6
    assert trace.status == STATUS and trace.meta["pid"] == adapter.ring.pid and drains() == 0


def test_a_long_block_overruns_no_ring(adapter: Adapter) -> None:
    with record() as trace:
        for i in range(12):  # three times as much as the ring holds
            for _ in range(1024):
                adapter.ring.emit("KERNEL", "k", device=0, bytes=i)
            time.sleep(0.12)
    assert len(trace.kernels) == 12 * 1024 + 1 and trace.dropped == 0


def test_what_was_lost_is_counted(adapter: Adapter) -> None:
    with record() as trace:
        adapter.ring.set_head(3 * 4096)  # faster than anyone can read
    assert trace.dropped >= 2 * 4096


def test_an_exception_keeps_the_trace_and_stays_the_blocks_own(adapter: Adapter) -> None:
    adapter.flush_error = RuntimeError("device lost")
    with pytest.raises(KeyError, match="mine") as caught, record() as trace:
        adapter.ring.emit("KERNEL", "inside", device=0)
        raise KeyError("mine")
    assert trace.kernels["op"].tolist() == ["inside", "late"]
    assert caught.value.__notes__ == ["While waiting for the devices: device lost"]
    assert adapter.calls[-1] == "release" and drains() == 0


def test_a_devices_failure_at_the_end_is_raised_and_keeps_the_trace(adapter: Adapter) -> None:
    adapter.flush_error = RuntimeError("device lost")
    with pytest.raises(RuntimeError, match="device lost"), record() as trace:
        adapter.ring.emit("KERNEL", "inside", device=0)
    assert trace.kernels["op"].tolist() == ["inside", "late"]
    assert adapter.calls == ["acquire", "flush True", "release"]


def test_records_nest(adapter: Adapter) -> None:
    with record() as outer:
        adapter.ring.emit("KERNEL", "a", device=0)
        with record() as inner:
            adapter.ring.emit("KERNEL", "b", device=0)
    assert inner.kernels["op"].tolist() == ["b", "late"]
    assert outer.kernels["op"].tolist() == ["a", "b", "late", "late"]
    assert adapter.calls.count("acquire") == adapter.calls.count("release") == 2


def test_threads_have_their_python_names(adapter: Adapter) -> None:
    def work() -> None:
        # libral knows the system's name only
        adapter.ring.emit("KERNEL", "mul", device=0, flags=2, thread=f"{threading.get_native_id()} python")

    with record() as trace:
        threads = [threading.Thread(target=work, name=f"nb13-{k}") for k in range(3)]
        for thread in threads:
            thread.start()
            thread.join()
        adapter.ring.emit("KERNEL", "add", device=0, thread="999999999 pt_autograd_0")
    names = trace.kernels["thread"].str.partition(" ")[2].tolist()
    assert names[:4] == ["nb13-0", "nb13-1", "nb13-2", "pt_autograd_0"]


def test_without_a_trace_file_it_says_so(adapter: Adapter, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(adapter, "trace_path", lambda: "")
    with pytest.raises(RuntimeError, match="no trace file could be made"), record():
        raise AssertionError("the block must not run")
    assert adapter.calls == [] and drains() == 0
