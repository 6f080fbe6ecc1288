"""`record()`: records this process's work into a Trace. `Drain` empties a ring in the background."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from types import ModuleType
from typing import Any

import numpy as np

from torch_fl_core.trace.layout import RING_DTYPE, STRING_FIELDS
from torch_fl_core.trace.model import Trace
from torch_fl_core.trace.ring import Lease, Ring

DRAIN_SECONDS = 0.05


def thread_names() -> dict[int, str]:
    """Names of this process's Python threads by native id; also of ended ones that are still held.

    libral only knows the names that the system knows, and Python before 3.14 does not tell it its own.
    """
    threads = threading.enumerate()
    held = getattr(threading, "_dangling", ())
    for _ in range(10):
        with contextlib.suppress(RuntimeError):  # a thread began during the look
            threads = [*held, *threads]
            break
    return {t.native_id: t.name for t in threads if t.native_id is not None}


def named_threads(strings: Mapping[int, str], ids: np.ndarray, names: Mapping[int, str]) -> dict[int, str]:
    """Texts "<tid> <name>" of the given string ids, with Python's name where it is known."""
    found = {}
    for number in np.unique(ids).tolist():
        text = strings.get(number, "")
        tid = text.partition(" ")[0]
        name = names.get(int(tid)) if tid.isdigit() else None
        found[number] = f"{tid} {name}" if name else text
    return found


class Drain:
    """Reads a ring from now on, every 50 ms in a daemon thread, so that nothing is overwritten unread."""

    def __init__(self, ring: Ring, *, lease_seconds: float | None = None) -> None:
        """With `lease_seconds` it also keeps recording on in the ring's process."""
        self._reader = ring.reader("now")
        self._parts: list[np.ndarray] = []
        self._lock = threading.Lock()
        self._stop = threading.Event()
        self._names: dict[int, str] | None = {} if lease_seconds is None else None
        self._error: Exception | None = None
        self._lease: Lease | None = None if lease_seconds is None else ring.lease(lease_seconds)
        self._thread = threading.Thread(target=self._run, name="ral-trace-drain", daemon=True)
        self._thread.start()

    def _run(self) -> None:
        try:
            while not self._stop.wait(DRAIN_SECONDS):
                if self._lease is not None:
                    self._lease.renew()
                self.drain()
        except Exception as error:
            self._error = error

    def drain(self) -> None:
        """Takes in what is there now."""
        with self._lock:
            records = self._reader.read()
            if len(records):
                self._parts.append(records)
            if self._names is not None:
                self._names |= thread_names()

    def name_threads(self, strings: Mapping[int, str], records: np.ndarray) -> dict[int, str]:
        """The strings that records use, threads by their Python names. Only for this process's ring."""
        ids = np.concatenate([records[f] for f in STRING_FIELDS])
        texts = {int(i): strings.get(int(i), "") for i in np.unique(ids)}
        return texts | named_threads(strings, records["thread"], self._names or {})

    def finish(self) -> tuple[np.ndarray, int]:
        """Stops; returns all records in order of begin, and how many were lost."""
        self._stop.set()
        self._thread.join()
        try:
            if self._error is not None:
                raise self._error
            self.drain()
        finally:
            if self._lease is not None:
                self._lease.close()
        records = np.concatenate([np.empty(0, RING_DTYPE), *self._parts])
        self._parts = []
        return records.take(np.argsort(records["begin_ns"], kind="stable")), self._reader.dropped


def meta_of(ring: Ring) -> dict[str, Any]:
    """What a trace keeps about its process."""
    clock = ring.clock()
    return {
        "pid": ring.pid,
        "kernel_id": ring.kernel_id,
        "realtime_offset_ns": clock.realtime_ns - clock.monotonic_ns,
    }


@contextmanager
def record() -> Iterator[Trace]:
    """Records all ral work of this process while the block runs. The Trace is filled when it ends.

    Also when it ends by an exception. Waits for the devices at the end, so that their last work is in
    it. Raises RuntimeError where the device cannot be had (the text says why).
    """
    import torch_fl_core

    adapter = torch_fl_core.load()
    path = adapter.trace_path()
    if not path:
        raise RuntimeError(
            "no trace file could be made; libral's log says why (a full disk, no private folder)"
        )
    with Ring(path) as ring:
        yield from _record(adapter, ring)


def _record(adapter: ModuleType, ring: Ring) -> Iterator[Trace]:
    trace = Trace()
    epoch_ns = time.monotonic_ns()
    drain = Drain(ring)
    try:
        adapter.trace_acquire()
    except BaseException:
        drain.finish()
        raise
    failure: BaseException | None = None
    try:
        yield trace
    except BaseException as error:
        failure = error
        raise
    finally:
        try:
            _wait(adapter, failure)
        finally:
            adapter.trace_release()
            records, dropped = drain.finish()
            texts = drain.name_threads(ring.strings, records)
            trace.fill(records, texts, ring.status(), epoch_ns, dropped, meta_of(ring))


def _wait(adapter: ModuleType, failure: BaseException | None) -> None:
    """Waits for the devices. Their error does not hide the block's own, it becomes a note on it."""
    try:
        adapter.trace_flush(True)
    except RuntimeError as error:
        if failure is None:
            raise
        failure.add_note(f"While waiting for the devices: {error}")
