"""Stands in for the adapter's `_C` in tests: the same trace functions on a FakeRing, and made-up ops.

    core = FakeCore(folder); core.op("mm", us=300); core.alloc(1, 4096)

In a kernel: `import fake_core; core = fake_core.install(folder)` before `%load_ext torch_fl`.
"""

from __future__ import annotations

import threading
import time
from pathlib import Path
from typing import Any

from fake_ring import FakeRing


class FakeCore:
    """The adapter's trace functions. Records only while acquired, as libral does."""

    def __init__(self, folder: Path | str, records: int = 1 << 16) -> None:
        self.ring = FakeRing(folder=folder, records=records, enabled=False)
        self.ring.status(
            {
                "torch_fl": "0.1.0",
                "devices": [{"id": "ral:0", "index": 0, "kind": "CPU", "name": "fake", "status": "LOADED"}],
                "plugins": [],
            }
        )
        self.acquired = 0
        self.kernel_id = ""
        self.flushes: list[bool] = []
        self._here = threading.local()
        self._buffers = 0
        self.snapshot: list[dict[str, Any]] = []

    # The contract.

    def trace_path(self) -> str:
        return str(self.ring.path)

    def trace_acquire(self) -> None:
        self.acquired += 1
        for fields in self.snapshot:
            self.ring.emit("ALLOC", **fields, flags=0x8)

    def trace_release(self) -> None:
        assert self.acquired > 0, "released more often than acquired"
        self.acquired -= 1

    def trace_flush(self, wait: bool = False) -> None:
        self.flushes.append(bool(wait))

    def trace_intern(self, text: str) -> int:
        return self.ring.intern(text)

    def trace_mark(self, text: str) -> None:
        self._emit("MARK", text)

    def trace_set_kernel_id(self, text: str) -> None:
        self.kernel_id = text
        self.ring.header["kernel_id"] = text.encode()

    def trace_line(self, location: int) -> None:
        self._here.line = self._here.inner = location

    def trace_inner(self, location: int) -> None:
        self._here.inner = location

    def trace_push(self) -> int:
        return getattr(self._here, "inner", 0)

    def trace_pop(self, word: int) -> None:
        self._here.inner = word

    # Made-up work.

    def _emit(self, kind: str, name: str, **fields: Any) -> None:
        if not self.acquired:
            return
        fields.setdefault("location", getattr(self._here, "line", 0))
        fields.setdefault("inner_location", getattr(self._here, "inner", 0))
        thread = threading.current_thread()
        fields.setdefault("thread", f"{thread.native_id} thread")
        self.ring.emit(kind, name, segment=thread.native_id, **fields)

    def op(self, name: str, us: float = 10, tier: str = "native", **fields: Any) -> None:
        """An op that runs a kernel of that length, now."""
        begin = time.monotonic_ns()
        fields.setdefault(
            "reason", {"ran": "native"} if tier == "native" else {"native": "no manifest entry"}
        )
        if tier in ("reference", "cpu"):
            fields["flags"] = fields.get("flags", 0) | 0x2
        self._emit("OP", name, begin_ns=begin, dur_ns=int(us * 1e3))
        fields.setdefault("device", 0)
        self._emit(
            "KERNEL", name, kernel=f"{name}_f32", tier=tier, begin_ns=begin, dur_ns=int(us * 1e3), **fields
        )

    def alloc(self, size: int, name: str = "empty", **fields: Any) -> int:
        """A block; returns its id."""
        self._buffers += 1
        self._emit("ALLOC", name, buffer=self._buffers, bytes=size, device=0, **fields)
        return self._buffers

    def free(self, buffer: int, size: int) -> None:
        """The death of a block."""
        self._emit("FREE", "", buffer=buffer, bytes=size, device=0)

    def lines(self) -> tuple[str, str]:
        """Texts of this thread's line and innermost line."""
        ids = {number: text for text, number in self.ring._ids.items()}
        here = self._here
        return ids.get(getattr(here, "line", 0), ""), ids.get(getattr(here, "inner", 0), "")


def install(folder: Path | str, records: int = 1 << 16) -> FakeCore:
    """Makes torch_fl use a fake core with its trace file in `folder`."""
    from torch_fl import _core

    core = FakeCore(folder, records)
    _core.use(core)
    return core
