"""Reads trace files while their process writes them, and after it died. docs/trace-format.md says how.

Uses numpy only. A reader never makes the writer wait: it copies a run of records, then looks at their
sequence words again and discards those that the writer touched meanwhile.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import mmap
import os
import stat
import tempfile
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from torch_fl_core.trace import layout
from torch_fl_core.trace.layout import RING_DTYPE

_TRIES = 200  # of reading a text or a clock while it is being written
_COPY_RECORDS = 1 << 16  # records copied between two looks at their sequence words


class RingError(ValueError):
    """The file is no trace file that this reader can read; the text says why."""


@dataclass(frozen=True)
class RingInfo:
    """One trace file found in the trace folders."""

    path: Path
    pid: int
    kernel_id: str
    alive: bool


@dataclass(frozen=True)
class Clock:
    """One calibration: the same moment on two clocks, in nanoseconds."""

    monotonic_ns: int
    realtime_ns: int
    uncertainty_ns: int


def _stat_fields(pid: int) -> list[bytes]:
    """Fields 3 and up of /proc/<pid>/stat; empty when there is no such process."""
    try:
        text = Path(f"/proc/{pid}/stat").read_bytes()
    except (FileNotFoundError, ProcessLookupError):
        return []
    return text[text.rindex(b")") + 2 :].split()


def process_start(pid: int) -> int | None:
    """Start time of a process in clock ticks since boot (field 22 of its stat file); None if gone."""
    fields = _stat_fields(pid)
    if not fields or fields[0] in (b"Z", b"X"):
        return None
    return int(fields[19])


def parent_pid(pid: int) -> int | None:
    """Parent of a process; None if the process is gone."""
    fields = _stat_fields(pid)
    return int(fields[1]) if fields else None


class Strings(Mapping[int, str]):
    """Texts by id. Grows by itself while the process adds strings; id 0 and unknown ids read ""."""

    def __init__(self, ring: Ring) -> None:
        self._ring = ring
        self._texts = [""]
        self._used = 0

    def refresh(self) -> None:
        """Takes in the strings added since the last look."""
        header = self._ring.header
        base, capacity = int(header["string_offset"]), int(header["string_capacity"])
        used = min(int(header["string_used"]), capacity)
        data = self._ring.bytes_at(base + self._used, max(0, used - self._used))
        at = 0
        while at + 4 <= len(data):
            length = int.from_bytes(data[at : at + 4], "little")
            end = at + 4 + length
            if end > len(data):
                self._used += at  # the whole ones are not taken in twice
                raise RingError(f"{self._ring.path}: damaged string table")
            self._texts.append(data[at + 4 : end].decode("utf-8", "replace"))
            at = at + 4 + -(-length // 4) * 4
        self._used += at

    def __getitem__(self, key: int) -> str:
        number = int(key)
        if number >= len(self._texts):
            self.refresh()
        return self._texts[number] if 0 <= number < len(self._texts) else ""

    def __iter__(self) -> Iterator[int]:
        self.refresh()
        return iter(range(1, len(self._texts)))

    def __len__(self) -> int:
        self.refresh()
        return len(self._texts) - 1

    def select(self, ids: np.ndarray) -> dict[int, str]:
        """The texts of the given ids (any integer array), without 0."""
        return {int(i): self[i] for i in np.unique(ids) if i}


class Lease:
    """Keeps recording on in the ring's process until it expires or is closed. A context manager."""

    def __init__(self, path: Path, seconds: float) -> None:
        self._seconds = seconds
        self._fd = _open_own(path, os.O_RDWR)
        self._slot: Any = None
        try:
            self._map = mmap.mmap(self._fd, layout.HEADER_BYTES)
            leases = np.frombuffer(self._map, layout.HEADER_DTYPE, 1)["leases"][0]
            # Readers of this user agree on a free slot under a file lock; the writer takes no lock.
            fcntl.flock(self._fd, fcntl.LOCK_EX)
            try:
                free = np.flatnonzero(leases["expiry_ns"] <= time.monotonic_ns())
                if not len(free):
                    raise RingError(
                        f"{path}: all {layout.MAX_LEASES} readers' leases are taken; "
                        "end one reader or wait until its lease expires"
                    )
                self._slot = leases[int(free[0])]
                self._slot["owner_pid"], self._slot["flags"] = os.getpid(), 0
                self.renew()
            finally:
                fcntl.flock(self._fd, fcntl.LOCK_UN)
        except BaseException:
            os.close(self._fd)
            raise

    @property
    def expiry_ns(self) -> int:
        """When it runs out, in CLOCK_MONOTONIC nanoseconds; 0 once closed."""
        return 0 if self._slot is None else int(self._slot["expiry_ns"])

    def renew(self, seconds: float | None = None) -> None:
        """Lets it last `seconds` (by default as long as at first) from now."""
        if self._slot is None:
            raise RingError("the lease is closed")
        seconds = self._seconds if seconds is None else seconds
        self._slot["expiry_ns"] = time.monotonic_ns() + int(seconds * 1e9)

    def close(self) -> None:
        """Gives the slot back. Recording ends unless another lease holds it."""
        if self._slot is None:
            return
        self._slot["expiry_ns"] = 0
        self._slot = None
        os.close(self._fd)

    def __enter__(self) -> Lease:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()


class Reader:
    """A cursor over all segments of a ring. `dropped` counts records that were lost to this reader."""

    def __init__(self, ring: Ring, since: str = "now") -> None:
        if since not in ("now", "oldest"):
            raise ValueError(f'since is "now" or "oldest", not {since!r}')
        self._ring = ring
        self._next: dict[int, int] = {}
        self._lost = 0
        self._unwritten_before = int(ring.header["records_dropped"])
        for number, (_, capacity, head) in enumerate(ring.segments()):
            self._next[number] = head if since == "now" else max(0, head - capacity)

    @property
    def dropped(self) -> int:
        """Records overwritten before they were read, or never written for want of room."""
        return self._lost + int(self._ring.header["records_dropped"]) - self._unwritten_before

    def read(self) -> np.ndarray:
        """All records written since the last call, ordered by begin_ns: an array of RING_DTYPE."""
        runs = []  # (offset in the file, number of the first record, how many), unbroken in the file
        for number, (offset, capacity, head) in enumerate(self._ring.segments()):
            first = self._next.get(number, 0)
            oldest = max(0, head - capacity)
            if first < oldest:
                self._lost += oldest - first
                first = oldest
            while first < head:
                count = min(head - first, _COPY_RECORDS, capacity - first % capacity)
                runs.append((offset + first % capacity * RING_DTYPE.itemsize, first, count))
                first += count
            self._next[number] = head
        records = np.empty(sum(count for _, _, count in runs), RING_DTYPE)
        used = 0
        for at, first, count in runs:
            used += self._copy(at, first, records[used : used + count])
        records = records[:used]
        begin = np.ascontiguousarray(records["begin_ns"])
        if np.all(begin[1:] >= begin[:-1]):
            return records
        return records.take(np.argsort(begin, kind="stable"))

    def _copy(self, at: int, first: int, out: np.ndarray) -> int:
        """Copies a run into out; returns how many were whole before and after, which come first."""
        live = self._ring.array_at(at, RING_DTYPE, len(out))
        out.view(np.uint8)[:] = live.view(np.uint8)  # at once; records are copied field by field
        wanted = np.arange(first + 1, first + 1 + len(out), dtype=np.uint64)
        whole = (out["sequence"] == wanted) & (live["sequence"] == wanted)
        good = int(np.count_nonzero(whole))
        if good < len(out):
            self._lost += len(out) - good
            out[:good] = out[whole]
        return good


class Ring:
    """One process's trace file, mapped read-only. Raises RingError for anything else."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path)
        self._fd = _open_own(self.path, os.O_RDONLY)
        try:
            self._size = os.fstat(self._fd).st_size
            if self._size < layout.HEADER_BYTES:
                raise RingError(f"{self.path}: too short for a trace file ({self._size} bytes)")
            self._map = mmap.mmap(self._fd, self._size, access=mmap.ACCESS_READ)
            self._check()
        except BaseException:
            os.close(self._fd)
            self._fd = -1
            raise
        self.strings = Strings(self)

    def _check(self) -> None:
        header = self.header
        if int(header["magic"]) != layout.MAGIC:
            raise RingError(f"{self.path}: not a trace file")
        if int(header["version"]) != layout.VERSION:
            raise RingError(
                f"{self.path}: trace format {int(header['version'])}, this reader knows "
                f"{layout.VERSION}; use the torch-fl-core that wrote it"
            )
        if int(header["record_bytes"]) != RING_DTYPE.itemsize:
            raise RingError(f"{self.path}: records of {int(header['record_bytes'])} bytes")

    @property
    def header(self) -> np.void:
        """The header as it stands now, a live view: index it by the fields of HEADER_DTYPE."""
        return np.frombuffer(self._map, layout.HEADER_DTYPE, 1)[0]

    @property
    def pid(self) -> int:
        """Process id of the writer."""
        return int(self.header["pid"])

    @property
    def kernel_id(self) -> str:
        """Jupyter kernel id of the writer, "" where there is none."""
        return bytes(self.header["kernel_id"]).decode("utf-8", "replace")

    @property
    def recording(self) -> bool:
        """True while the writer records."""
        return bool(self.header["enabled"])

    def bytes_at(self, offset: int, length: int) -> bytes:
        """A copy of bytes of the file; maps anew when the file has grown."""
        self._reach(offset + length)
        return self._map[offset : offset + length]

    def array_at(self, offset: int, dtype: np.dtype, count: int) -> np.ndarray:
        """A live, read-only view of the file; maps anew when the file has grown."""
        self._reach(offset + count * dtype.itemsize)
        return np.frombuffer(self._map, dtype, count, offset)

    def _reach(self, end: int) -> None:
        if end <= self._size:
            return
        size = os.fstat(self._fd).st_size
        if end > size:
            raise RingError(f"{self.path}: damaged, {end} bytes expected of {size}")
        # Views handed out keep the old map alive; it goes with the last of them.
        self._map = mmap.mmap(self._fd, size, access=mmap.ACCESS_READ)
        self._size = size

    def segments(self) -> list[tuple[int, int, int]]:
        """(offset, capacity, head) of each segment; capacity in records."""
        header = self.header
        count = min(int(header["segment_count"]), layout.MAX_SEGMENTS)
        entries = self.array_at(int(header["directory_offset"]), layout.SEGMENT_DTYPE, count)
        found = [(int(e["offset"]), int(e["capacity"]), int(e["head"])) for e in entries]
        for offset, capacity, head in found:
            if head and not capacity:
                raise RingError(f"{self.path}: damaged, a segment without room")
            self._reach(offset + capacity * RING_DTYPE.itemsize)
        return found

    def status(self) -> dict[str, Any]:
        """The status text as a dict; {} before the process wrote one."""
        for _ in range(_TRIES):
            header = self.header
            before = int(header["status_sequence"])
            length = min(int(header["status_length"]), layout.STATUS_BYTES)
            text = self.bytes_at(int(header["status_offset"]), length)
            if before % 2 == 0 and before == int(header["status_sequence"]):
                return _parse_status(text, self.path)
            time.sleep(0.0005)
        raise RingError(f"{self.path}: the process died while it wrote its status")

    def gauges(self) -> list[dict[str, int]]:
        """Memory and work of each device: the fields of ral_trace_gauge and `device`, its index."""
        offset = int(self.header["gauge_offset"])
        gauges = self.array_at(offset, layout.GAUGE_DTYPE, layout.MAX_DEVICES)
        known = {d.get("index") for d in self.status().get("devices", [])}
        names = [n for n in layout.GAUGE_DTYPE.names or () if n != "spare"]
        return [
            {"device": i, **{n: int(g[n]) for n in names}}
            for i, g in enumerate(gauges)
            if i in known or g["total"]
        ]

    def clock(self) -> Clock:
        """The last calibration of CLOCK_MONOTONIC against the wall clock."""
        for _ in range(_TRIES):
            header = self.header
            before = int(header["clock_sequence"])
            clock = Clock(
                int(header["clock_monotonic_ns"]),
                int(header["clock_realtime_ns"]),
                int(header["clock_uncertainty_ns"]),
            )
            if before % 2 == 0 and before == int(header["clock_sequence"]):
                return clock
            time.sleep(0.0005)
        raise RingError(f"{self.path}: the process died while it wrote its clock")

    def alive(self) -> bool:
        """Is the writing process still there (and not another one with its pid)?"""
        return process_start(self.pid) == int(self.header["process_start"])

    def lease(self, seconds: float) -> Lease:
        """Turns recording on for `seconds`; renew() it before they pass."""
        return Lease(self.path, seconds)

    def reader(self, since: str = "now") -> Reader:
        """A cursor from "now" on, or from the "oldest" record still there."""
        return Reader(self, since)

    def close(self) -> None:
        """Closes the file; the object is of no use afterwards."""
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1

    def __enter__(self) -> Ring:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()


def _parse_status(text: bytes, path: Path) -> dict[str, Any]:
    if not text:
        return {}
    try:
        status = json.loads(text)
    except (ValueError, RecursionError) as error:  # RecursionError: nested too deep
        raise RingError(f"{path}: the status is no JSON: {error}") from error
    if not isinstance(status, dict):
        raise RingError(f"{path}: the status is no JSON object")
    for name in ("devices", "plugins"):
        if not _are_objects(status.get(name, [])):
            raise RingError(f'{path}: "{name}" in the status is no list of objects')
    return status


def _are_objects(value: object) -> bool:
    """A list of dicts whose "index", where they have one, is a number."""
    return isinstance(value, list) and all(
        isinstance(v, dict) and isinstance(v.get("index", 0), int) for v in value
    )


def _open_own(path: Path, how: int) -> int:
    """Opens a regular file that belongs to this user alone; RingError otherwise."""
    fd = os.open(path, how | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK)
    info = os.fstat(fd)
    if not stat.S_ISREG(info.st_mode):
        fault = "not a regular file"
    elif info.st_uid != os.geteuid():
        fault = "owned by another user"
    elif info.st_mode & 0o077:
        fault = f"open to others (mode {info.st_mode & 0o777:o}, 600 expected)"
    else:
        return fd
    os.close(fd)
    raise RingError(f"{path}: {fault}")


def trace_folders() -> list[Path]:
    """Folders in which processes of this user put trace files, existing or not."""
    temporary = Path(os.environ.get("TMPDIR") or tempfile.gettempdir())
    folders = [temporary / f"ral-{os.geteuid()}", Path("/tmp") / f"ral-{os.geteuid()}"]
    runtime = os.environ.get("XDG_RUNTIME_DIR")
    if runtime:
        folders.insert(0, Path(runtime) / "ral")
    return list(dict.fromkeys(folders))


def _trace_files() -> Iterator[Path]:
    for folder in trace_folders():
        try:
            info = folder.lstat()
        except FileNotFoundError:
            continue
        # A folder that others may write to could hold anything.
        private = info.st_uid == os.geteuid() and not info.st_mode & 0o022
        if stat.S_ISDIR(info.st_mode) and private:
            yield from sorted(folder.glob("*.trace"))


@contextlib.contextmanager
def _opened(path: Path) -> Iterator[Ring | None]:
    """The ring at path, or None where it is gone, damaged or not ours."""
    try:
        ring = Ring(path)
    except (OSError, RingError):
        yield None
        return
    with ring:
        yield ring


def find_rings() -> list[RingInfo]:
    """Trace files of this user, living and dead; files that are not ours or damaged are left out."""
    found = []
    for path in _trace_files():
        with _opened(path) as ring:
            if ring is not None:
                found.append(RingInfo(path, ring.pid, ring.kernel_id, ring.alive()))
    return found


def _last_life(path: Path, ring: Ring) -> float:
    """When the dead process was last seen, in seconds since 1970."""
    # A mapped file's time of change need not move; the clock in the header was written each second.
    return max(path.stat().st_mtime, int(ring.header["clock_realtime_ns"]) / 1e9)


def remove_stale(older_than_s: float = 3600) -> list[Path]:
    """Removes files of processes that died over `older_than_s` seconds ago; returns their paths."""
    removed = []
    for path in _trace_files():
        with _opened(path) as ring:
            if ring is None or ring.alive():
                continue
            with contextlib.suppress(FileNotFoundError):  # another reader was faster
                if time.time() - _last_life(path, ring) > older_than_s:
                    path.unlink()
                    removed.append(path)
    return removed
