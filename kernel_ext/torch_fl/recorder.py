"""One recording: turns the trace on, drains the ring into tables, and makes the bundle.

Knows neither IPython nor a page; session.py and live.py use it, and `torch_fl.profile()` does.
"""

from __future__ import annotations

import datetime
import re
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np

import torch_fl
from torch_fl import batch as batches
from torch_fl import leaks
from torch_fl.buffers import label
from torch_fl.bundle import BUNDLE_BYTES, fit
from torch_fl.instrument import source_hash
from torch_fl.tables import Tables
from torch_fl_core.trace.layout import Flag
from torch_fl_core.trace.recording import thread_names
from torch_fl_core.trace.ring import Ring

KEPT_RECORDS = 2_000_000  # in the result's frames, 128 bytes each; tables are exact beyond
SHOWN_RECORDS = 1500  # of one drain that a page shows, above which neighbours are merged: about one a pixel
SHOWN_US = 112_000  # what a page shows at once
_DENSE_RECORDS = 20_000  # of one drain, above which sums wait
_SUM_PERIOD_NS = 500_000_000  # between sums while it runs: half of their cost does not depend on the records
_MOST_PENDING = 1_000_000
_STORE_RECORDS = (
    60_000  # batch records kept for the bundle, of which some 7,000 fit; thinned to a quarter above
)

_active: Recording | None = None


def active() -> Recording | None:
    """The recording under way in this process, if any."""
    return _active


class AlreadyRecordingError(RuntimeError):
    """A profile is being taken already; there is one at a time."""


class Recording:
    """Records from `start()` to `stop()`.

    Args:
        core: the adapter's functions.
        source: text of the cell, "" outside a notebook.
        devices: names such as "ral:0"; None records all.
        label: the user's name for this profile.
    """

    def __init__(
        self,
        core: Any,
        source: str = "",
        devices: list[str] | None = None,
        label: str | None = None,
    ) -> None:
        self.source, self.label = source, label
        self.lock = threading.RLock()
        self.begin_ns = self.end_ns = 0
        self.state = "running"
        self.failed_line: int | None = None
        self.error: str | None = None
        self.drain_cpu_s = 0.0
        self.dropped_from_frames = 0
        self.started_at = datetime.datetime.now(datetime.UTC)
        self.kept: list[np.ndarray] = []
        self._kept_records = 0
        self._core = core
        self._devices = None if devices is None else {_index(name) for name in devices}
        self._store: list[np.ndarray] = []
        self._stored = 0
        self._thinned = False
        self._leaks: list[dict[str, Any]] = []
        self._threads: dict[int, str] = {}
        self._pending: list[np.ndarray] = []
        self._pending_records = 0
        self._not_kept: list[int] = []  # parts of `_pending` that the bundle's store has not had
        self._sums_due = 0
        self.last_read = 0

    # Life.

    def start(self) -> None:
        """Turns recording on. Raises AlreadyRecordingError while another profile is taken."""
        global _active
        if _active is not None:
            raise AlreadyRecordingError(
                "a profile is being taken already (torch_fl.recording() is True); end it first, "
                "with `%ral_profile off` where that began it"
            )
        self._ring = Ring(self._core.trace_path())
        self._reader = self._ring.reader("now")
        self.strings = _Strings(self._ring.strings, self._threads)
        cell = source_hash(self.source)
        self.begin_ns = time.monotonic_ns()
        self.tables = Tables(self.begin_ns, self.source, cell, self.strings)
        self._core.trace_acquire()
        _active = self
        self._core.trace_mark(f"cell begin {cell}")

    def collect(self) -> None:
        """Takes in what was recorded since the last call and leaves it to be summed later: the least work there is."""
        with self.lock:
            self._core.trace_flush(False)
            self._read_for_later()
            if self._pending_records > _MOST_PENDING:
                self._sum_up()

    def drain(self) -> np.ndarray:
        """Takes in what was recorded since the last call; returns it as batch records, neighbours merged where it is much.

        Sums are made up every half second. Where records come faster than they can be summed at
        a small cost to the cell, the sums wait longer, for the end at the latest, and of the batch only a
        sample is returned.
        """
        with self.lock:
            self._core.trace_flush(False)
            records = self._read()
            room = self._pending_records < _MOST_PENDING
            if len(records) > _DENSE_RECORDS and room:
                step = -(-len(records) // SHOWN_RECORDS)
                sample = batches.from_records(records[::step], self.begin_ns)
                sample["count"] = step
                self._not_kept.append(len(self._pending) - 1)
                return sample
            batch = self._keep_for_bundle(records)
            if self._pending_records <= 2 * _DENSE_RECORDS and time.monotonic_ns() < self._sums_due:
                self.tables.note_state(records)
            else:
                self._sum_up()
            return batch

    def _read_for_later(self) -> None:
        self._read()
        self._not_kept.append(len(self._pending) - 1)

    def _read(self) -> np.ndarray:
        records = self._own(self._reader.read())
        self._name_threads()
        self._pending.append(records)
        self._pending_records += len(records)
        self.last_read = len(records)
        return records

    def _sum_up(self) -> None:
        """Sums all that was read."""
        for records in _together([self._pending[i] for i in self._not_kept], _DENSE_RECORDS):
            self._keep_for_bundle(records)
        self._not_kept = []
        for records in self._pending:
            room = KEPT_RECORDS - self._kept_records
            self.dropped_from_frames += max(0, len(records) - max(0, room))
            if room > 0 and len(records):
                self.kept.append(records[:room])
                self._kept_records += len(self.kept[-1])
        for records in _together(self._pending, _DENSE_RECORDS):
            self.tables.add(records)
        self._pending, self._pending_records = [], 0
        self._sums_due = time.monotonic_ns() + _SUM_PERIOD_NS

    @property
    def events(self) -> int:
        """Records taken in so far."""
        return self.tables.events + self._pending_records

    def _own(self, records: np.ndarray) -> np.ndarray:
        """Without what was queued or done before the cell began, after it ended, or on other devices."""
        if not len(records):
            return records
        begin, queued = records["begin_ns"], records["queued_ns"]  # 0 where it is no device work
        before = (queued > 0) & (queued < self.begin_ns)
        late = self.end_ns and begin[-1] > self.end_ns
        if begin[0] >= self.begin_ns and not (late or self._devices or before.any()):
            return records
        own = (begin >= self.begin_ns) | (records["flags"] & int(Flag.SNAPSHOT) != 0)
        own &= ~before
        if late:
            own &= np.where(queued > 0, queued, begin) <= self.end_ns
        device = records["device"]
        if self._devices is not None:
            own &= (device < 0) | np.isin(device, list(self._devices))
        return records if own.all() else records.take(np.flatnonzero(own))

    def stop(
        self,
        *,
        state: str = "done",
        error: BaseException | None = None,
        failed_line: int | None = None,
        namespace: Mapping[str, Any] | None = None,
    ) -> None:
        """Ends it: waits for the devices' queues, turns recording off, takes the rest in."""
        global _active
        if not self.end_ns:
            self.end_ns = time.monotonic_ns()
        try:
            self._core.trace_mark(f"cell end {source_hash(self.source)}")
            self._core.trace_flush(True)
        finally:
            self._core.trace_release()
            _active = None
        with self.lock:
            self._read_for_later()
            self._sum_up()
            self.state, self.failed_line = state, failed_line
            if error is not None:
                text = str(error)
                self.error = f"{type(error).__name__}: {text}" if text else type(error).__name__
            if namespace is not None:
                self._leaks = self._find_leaks(namespace)
            self.strings.settle(self._used_strings())
            self.status = self._ring.status()
            self.dropped = self._reader.dropped
            clock = self._ring.clock()
            self.epoch_ns = clock.realtime_ns - clock.monotonic_ns
            self._ring.close()

    def abandon(self) -> None:
        """Turns recording off without taking anything more in, after a failure in this code."""
        global _active
        if _active is self:
            _active = None
            self._core.trace_release()
        self.end_ns = self.end_ns or time.monotonic_ns()

    def _used_strings(self) -> set[int]:
        ids: set[int] = set()
        for records in self.kept:
            for field in ("name", "kernel", "reason", "thread", "location", "inner_location"):
                ids.update(np.unique(records[field]).tolist())
            for field in ("forward_location", "shapes"):
                ids.update(np.unique(records[field]).tolist())
        return ids

    def _find_leaks(self, namespace: Mapping[str, Any]) -> list[dict[str, Any]]:
        if "torch" not in sys.modules:
            return []
        return leaks.find(
            self.tables.buffers.live,
            self.tables.line_of,
            lambda row, line: label(row, self.strings, line),
            namespace,
            getattr(self._core, "buffer_id", None),
        )

    # Names of threads.

    def _name_threads(self) -> None:
        self._threads.update(thread_names())
        main = threading.main_thread().native_id
        if main is not None:
            self._threads[main] = "main"

    # What is shown.

    @property
    def now_ns(self) -> int:
        """The end of what is recorded so far, CLOCK_MONOTONIC."""
        return self.end_ns or time.monotonic_ns()

    @property
    def now_us(self) -> float:
        """µs since the cell began."""
        return (self.now_ns - self.begin_ns) / 1e3

    def lost(self) -> int:
        """Records that were overwritten before they were read."""
        return self.dropped if self.state != "running" else self._reader.dropped

    def summary(self) -> dict[str, Any]:
        """The summary of docs/profile-format.md as of now."""
        with self.lock:
            out = self.tables.summary(self.now_ns, self.lost(), self.drain_cpu_s, self.state)
        out["failed_line"], out["error"] = self.failed_line, self.error
        if self.state != "running":
            out["line"] = out["compiling"] = None
        return out

    def make_tables(self) -> dict[str, Any]:
        """The tables of docs/profile-format.md as of now."""
        with self.lock:
            tables = self.tables.tables(self.now_ns)
        tables["leaks"] = self._leaks
        return tables

    def _keep_for_bundle(self, records: np.ndarray) -> np.ndarray:
        """Puts records into the bundle's store; returns them as batch records as they went in.

        All of them until the store is full for the first time. From then on it holds more than a bundle has room for
        anyway, and gets no more than a page would show.
        """
        batch = kept = batches.from_records(records, self.begin_ns)
        if not len(batch):
            return batch
        if self._thinned:
            kept = batches.thin(batch, SHOWN_RECORDS, SHOWN_US / 1000)
        self._store.append(kept)
        self._stored += len(kept)
        if self._stored > _STORE_RECORDS:
            every = np.concatenate(self._store)
            thinned = batches.thin(every, _STORE_RECORDS // 4, self.now_us / (4 * _STORE_RECORDS))
            self._store, self._stored, self._thinned = [thinned], len(thinned), True
        return kept

    def bundle(self, limit: int = BUNDLE_BYTES) -> dict[str, Any]:
        """The bundle of docs/profile-format.md, at most `limit` bytes as JSON."""
        with self.lock:
            if self._pending_records:
                self._sum_up()
            store = np.concatenate(self._store) if self._store else np.empty(0, batches.BATCH_DTYPE)
            summary, tables = self.summary(), self.make_tables()
            thinned, now, lost, events = self._thinned, self.now_us, self.lost(), self.events
            status = self.status if self.state != "running" else self._ring.status()
        head: dict[str, Any] = {
            "version": 1,
            "created": self.started_at.isoformat(timespec="seconds").replace("+00:00", "Z"),
            "torch_fl": torch_fl.__version__,
            "torch": _torch_version(),
            "label": self.label,
            "source": self.source,
            "devices": status.get("devices", []),
            "summary": summary,
            "tables": tables,
        }
        return fit(head, store, self.strings, limit, now, lost, events, thinned)


def _together(parts: list[np.ndarray], enough: int) -> Iterator[np.ndarray]:
    """The records of `parts` in the same order, in fewer pieces: each the first to hold `enough`, and the rest."""
    waiting: list[np.ndarray] = []
    for i, part in enumerate(parts):
        waiting.append(part)
        if sum(map(len, waiting)) >= enough or i == len(parts) - 1:
            yield waiting[0] if len(waiting) == 1 else np.concatenate(waiting)
            waiting = []


class _Strings(Mapping[int, str]):
    """The trace's texts; a thread's text bears its Python name. Settled ones outlive the ring."""

    _THREAD = re.compile(r"(\d+) (.*)", re.DOTALL)

    def __init__(self, texts: Mapping[int, str], threads: dict[int, str]) -> None:
        self._texts, self._threads = texts, threads

    def __getitem__(self, key: int) -> str:
        text = self._texts.get(key, "")
        match = self._THREAD.fullmatch(text) if text[:1].isdigit() else None
        if match and int(match[1]) in self._threads:
            return f"{match[1]} {self._threads[int(match[1])]}"
        return text

    def __iter__(self) -> Any:
        return iter(self._texts)

    def __len__(self) -> int:
        return len(self._texts)

    def settle(self, ids: set[int]) -> None:
        """Copies all texts known so far, so that the ring may be closed."""
        every = {int(i): self._texts[i] for i in self._texts}
        self._texts = {**dict.fromkeys(ids, ""), **every}

    def plain(self) -> dict[int, str]:
        """All texts as a dict."""
        return {i: self[i] for i in self._texts}


def _index(name: str) -> int:
    match = re.fullmatch(r"ral(?::(\d+))?", name.strip())
    if match is None:
        raise ValueError(f"-d takes a device such as ral:0, not {name!r}")
    return int(match[1] or 0)


def _torch_version() -> str | None:
    torch = sys.modules.get("torch")
    return str(torch.__version__).partition("+")[0] if torch else None


Progress = Callable[[Recording], None]
