"""A writer of valid trace files in Python, for tests only: stands in for libral.

    ring = FakeRing(folder=tmp_path, kernel_id="abc")
    ring.status({"torch_fl": "0.1.0", "devices": [...], "plugins": []})
    ring.gauge(0, allocated=1024, total=1 << 30)
    ring.emit(kind="KERNEL", name="add", kernel="add_f32", tier="native", device=0, dur_ns=5000)

String fields (name, kernel, reason, thread, location, inner_location, forward_location, shapes) take
str or an id; `reason` also a dict. Times are CLOCK_MONOTONIC nanoseconds; `begin_ns` defaults to now.
"""

from __future__ import annotations

import json
import mmap
import os
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np

from torch_fl_core.trace import layout
from torch_fl_core.trace.ring import process_start

_STATUS_OFFSET = layout.HEADER_BYTES
_GAUGE_OFFSET = _STATUS_OFFSET + layout.STATUS_BYTES
_DIRECTORY_OFFSET = _GAUGE_OFFSET + layout.MAX_DEVICES * layout.GAUGE_DTYPE.itemsize
_STRING_OFFSET = _DIRECTORY_OFFSET + layout.MAX_SEGMENTS * layout.SEGMENT_DTYPE.itemsize
_PAGE = 4096


class FakeRing:
    """Writes one trace file. Closing keeps the file; `unlink()` removes it."""

    def __init__(
        self,
        path: str | os.PathLike[str] | None = None,
        *,
        folder: str | os.PathLike[str] | None = None,
        pid: int | None = None,
        start: int | None = None,
        kernel_id: str = "",
        records: int = 1024,
        string_bytes: int = layout.STRING_BYTES,
        enabled: bool = True,
    ) -> None:
        self.pid = os.getpid() if pid is None else pid
        self.start = (process_start(self.pid) or 1) if start is None else start
        if path is None:
            assert folder is not None, "give a path or a folder"
            Path(folder).mkdir(mode=0o700, parents=True, exist_ok=True)
            path = Path(folder) / f"{self.pid}-{self.start}.trace"
        self.path = Path(path)
        self._records = records
        self._ids: dict[str, int] = {}
        self._segment_of: dict[Any, int] = {}
        self._lock = threading.Lock()
        size = -(-(_STRING_OFFSET + string_bytes) // _PAGE) * _PAGE
        self._fd = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_TRUNC, 0o600)
        os.ftruncate(self._fd, size)
        self._map_file()
        h = self.header
        h["version"], h["record_bytes"] = layout.VERSION, layout.RING_DTYPE.itemsize
        h["pid"], h["process_start"], h["enabled"] = self.pid, self.start, enabled
        h["kernel_id"] = kernel_id.encode()
        h["created_ns"] = time.monotonic_ns()
        h["clock_monotonic_ns"], h["clock_realtime_ns"] = time.monotonic_ns(), time.time_ns()
        h["clock_uncertainty_ns"] = 100
        h["status_offset"], h["gauge_offset"] = _STATUS_OFFSET, _GAUGE_OFFSET
        h["directory_offset"] = _DIRECTORY_OFFSET
        h["string_offset"], h["string_capacity"] = _STRING_OFFSET, string_bytes
        h["string_count"] = 1
        self.status({"torch_fl": "0.1.0", "devices": [], "plugins": []})
        h["magic"] = layout.MAGIC

    def _map_file(self) -> None:
        self._mm = mmap.mmap(self._fd, 0)
        self.header = np.frombuffer(self._mm, layout.HEADER_DTYPE, 1)[0]
        self._directory = np.frombuffer(
            self._mm, layout.SEGMENT_DTYPE, layout.MAX_SEGMENTS, _DIRECTORY_OFFSET
        )
        self._gauges = np.frombuffer(self._mm, layout.GAUGE_DTYPE, layout.MAX_DEVICES, _GAUGE_OFFSET)

    def status(self, status: dict[str, Any]) -> None:
        """Replaces the status text."""
        data = json.dumps(status).encode()
        assert len(data) <= layout.STATUS_BYTES
        self.header["status_sequence"] += 1
        self._mm[_STATUS_OFFSET : _STATUS_OFFSET + len(data)] = data
        self.header["status_length"] = len(data)
        self.header["status_sequence"] += 1

    def gauge(self, device: int, **fields: int) -> None:
        """Sets fields of a device's gauge, such as `allocated=1024`."""
        for name, value in fields.items():
            self._gauges[device][name] = value

    def intern(self, text: str | int) -> int:
        """Id of a text; 0 for "" and for a full table."""
        if isinstance(text, int) or text == "":
            return int(text or 0)
        if text in self._ids:
            return self._ids[text]
        data = text.encode("utf-8", "surrogatepass")
        used, size = int(self.header["string_used"]), 4 + -(-len(data) // 4) * 4
        if used + size > int(self.header["string_capacity"]):
            self.header["strings_dropped"] += 1
            return 0
        at = _STRING_OFFSET + used
        self._mm[at : at + 4] = len(data).to_bytes(4, "little")
        self._mm[at + 4 : at + 4 + len(data)] = data
        self.header["string_used"] = used + size
        number = self._ids[text] = int(self.header["string_count"])
        self.header["string_count"] = number + 1
        return number

    def segment(self, key: Any = 0) -> int:
        """Directory index of a writer's segment; a new key adds a segment at the end of the file."""
        if key in self._segment_of:
            return self._segment_of[key]
        number = int(self.header["segment_count"])
        assert number < layout.MAX_SEGMENTS
        at = len(self._mm)
        size = -(-self._records * layout.RING_DTYPE.itemsize // _PAGE) * _PAGE
        os.ftruncate(self._fd, at + size)
        self._map_file()
        self._directory[number] = (at, self._records, 1, 0, 0)
        self.header["segment_count"] = number + 1
        self._segment_of[key] = number
        return number

    def slots(self, key: Any = 0) -> np.ndarray:
        """The records of a segment as they lie in the file (to damage them in tests)."""
        entry = self._directory[self.segment(key)]
        return np.frombuffer(self._mm, layout.RING_DTYPE, int(entry["capacity"]), int(entry["offset"]))

    def set_head(self, head: int, key: Any = 0) -> None:
        """Sets the count of records ever written, without writing any."""
        self._directory[self.segment(key)]["head"] = head

    def emit(
        self,
        kind: int | str,
        name: str | int = "",
        *,
        segment: Any = 0,
        dur_ns: int = 0,
        tier: int | str = 0,
        reason: dict[str, str] | str | int = "",
        **fields: Any,
    ) -> int:
        """Writes one record; returns its begin in nanoseconds."""
        with self._lock:
            record = np.zeros(1, layout.RING_DTYPE)
            r = record[0]
            r["kind"] = layout.Kind[kind.upper()] if isinstance(kind, str) else kind
            r["tier"] = layout.Tier[tier.upper()] if isinstance(tier, str) else tier
            r["device"], r["sequence_number"] = -1, -1
            r["thread"] = self.intern(f"{threading.get_native_id()} main")
            if isinstance(reason, dict):
                reason = json.dumps(reason, ensure_ascii=False)
            fields |= {"name": name, "reason": reason}
            fields.setdefault("begin_ns", time.monotonic_ns())
            fields.setdefault("end_ns", fields["begin_ns"] + dur_ns)
            for field, value in fields.items():
                r[field] = self.intern(value) if field in layout.STRING_FIELDS else value
            self._write(record, segment)
            return int(r["begin_ns"])

    def emit_array(self, records: np.ndarray, segment: Any = 0) -> None:
        """Writes many records at once (at most a segment's capacity)."""
        with self._lock:
            self._write(records.copy(), segment)

    def _write(self, records: np.ndarray, segment: Any) -> None:
        number, slots = self.segment(segment), self.slots(segment)
        assert len(records) <= len(slots)
        head = int(self._directory[number]["head"])
        index = np.arange(head, head + len(records), dtype=np.uint64)
        at = index % np.uint64(len(slots))
        records["sequence"] = 0  # a reader that looks now discards the slot
        slots[at] = records
        slots["sequence"][at] = index + np.uint64(1)
        self._directory[number]["head"] = head + len(records)

    def close(self) -> None:
        """Closes the file and keeps it, as a process that ends does."""
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1

    def unlink(self) -> None:
        """Closes and removes the file."""
        self.close()
        self.path.unlink(missing_ok=True)
