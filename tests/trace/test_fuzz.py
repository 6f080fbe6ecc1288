"""Fuzzes the ring reader: a real trace file, changed at random, is read or refused with RingError.

RAL_FUZZ_SECONDS=600 fuzzes for longer than ten seconds; RAL_FUZZ_SEED=123 reads the one input of that
seed again. After a crash of the interpreter the input lies in pytest's temporary folder (input.trace).
"""

from __future__ import annotations

import json
import os
import random
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest
from fake_ring import _DIRECTORY_OFFSET, _GAUGE_OFFSET, _STATUS_OFFSET, _STRING_OFFSET, FakeRing

from torch_fl_core.trace import layout, ring
from torch_fl_core.trace.ring import Ring, RingError

SECONDS_PER_INPUT = 10
STRING_BYTES = 4096
EXTREMES = (
    0, 1, 2, 3, 4, 7, 63, 64, 65, 4095, 4096, 4097, 65535, 65536, 65537, (1 << 31) - 1, 1 << 31,
    (1 << 32) - 1, 1 << 32, 1 << 40, (1 << 62) - 1, 1 << 62, (1 << 63) - 1, 1 << 63, (1 << 64) - 2,
    (1 << 64) - 1,
)  # fmt: skip
STATUSES = (
    b"[" * 65000, b'{"a":' * 12000, b"[]", b"3", b"null", b"{", b"{}", b'{"devices": 3}', b'{"devices": null}',
    b'{"devices": [3]}', b'{"devices": {"index": 1}}', b'{"devices": [{"index": [0]}]}',
    b'{"devices": [{"index": {}}]}', b'{"devices": "text"}', b'{"x": ' + b"9" * 5000 + b"}",
    b'{"x": 1e999}', b'{"x": NaN}', b'"\xff\xfe"', b"\xff", b"\x00" * 16, b'{"x": "\\ud800"}',
)  # fmt: skip
FIELDS = [n for n in layout.HEADER_DTYPE.names or () if n not in ("magic", "kernel_id", "leases")]


def small_ring(folder: Path) -> bytes:
    """The bytes of a small ring with records in three segments, one of them lapped."""
    fake = FakeRing(folder=folder, records=64, string_bytes=STRING_BYTES)
    fake.status({"torch_fl": "0.1.0", "devices": [{"index": 0, "name": "Größe ✓"}], "plugins": []})
    fake.gauge(0, allocated=1024, total=1 << 30)
    for i in range(100):
        fake.emit("OP", f"op{i % 7}", segment=i % 3 if i < 30 else 0, bytes=i, reason={"jit": "ran ✓"})
    data = fake.path.read_bytes()
    fake.unlink()
    return data


@pytest.fixture
def whole(trace_folder: Path) -> bytes:
    """The file that is changed."""
    return small_ring(trace_folder)


@pytest.fixture
def lay(tmp_path: Path) -> Callable[[bytes], Path]:
    """Writes bytes as a trace file of this user."""

    def write(data: bytes) -> Path:
        path = tmp_path / "input.trace"
        path.write_bytes(data)
        path.chmod(0o600)
        return path

    return write


def mutate(whole: bytes, seed: int) -> bytes:
    """One to six changes; the same seed makes the same bytes."""
    rng = random.Random(seed)
    data = bytearray(whole)
    for _ in range(rng.randint(1, 6)):
        rng.choice((header, header, directory, strings, records, status, flip, shift))(rng, data)
    if rng.random() < 0.15:
        size = rng.choice((rng.randint(0, len(data)), rng.choice((0, 4095, 4096, 4097)), len(data) - 1))
        del data[max(size, 0) :]
    return bytes(data)


def number(rng: random.Random, size: int) -> bytes:
    """A number at the edge of something, or any."""
    value = rng.choice(EXTREMES) if rng.random() < 0.8 else rng.getrandbits(64)
    return (value & ((1 << 8 * size) - 1)).to_bytes(size, "little")


def put(data: bytearray, at: int, new: bytes) -> None:
    """Overwrites; what lies beyond the end is left out."""
    new = new[: max(0, len(data) - at)]
    data[at : at + len(new)] = new


def header(rng: random.Random, data: bytearray) -> None:
    dtype, at = (layout.HEADER_DTYPE.fields or {})[rng.choice(FIELDS)][:2]
    put(data, at, number(rng, dtype.itemsize))


def directory(rng: random.Random, data: bytearray) -> None:
    entry = _DIRECTORY_OFFSET + rng.randrange(6) * layout.SEGMENT_DTYPE.itemsize
    dtype, at = (layout.SEGMENT_DTYPE.fields or {})[rng.choice(("offset", "capacity", "head"))][:2]
    put(data, entry + at, number(rng, dtype.itemsize))


def strings(rng: random.Random, data: bytearray) -> None:
    put(data, _STRING_OFFSET + rng.randrange(40) * 4, number(rng, rng.choice((1, 4))))


def records(rng: random.Random, data: bytearray) -> None:
    slot = _STRING_OFFSET + STRING_BYTES + rng.randrange(192) * layout.RING_DTYPE.itemsize
    dtype, at = (layout.RING_DTYPE.fields or {})[rng.choice(layout.RING_DTYPE.names or ())][:2]
    put(data, slot + at, number(rng, dtype.itemsize))


def status(rng: random.Random, data: bytearray) -> None:
    text = rng.choice(STATUSES)
    put(data, _STATUS_OFFSET, text)
    at = (layout.HEADER_DTYPE.fields or {})["status_length"][1]
    put(data, at, len(text).to_bytes(4, "little"))


def flip(rng: random.Random, data: bytearray) -> None:
    if data:
        begin = rng.choice((0, _STATUS_OFFSET, _GAUGE_OFFSET, _STRING_OFFSET))
        at = min(begin + rng.randrange(512), len(data) - 1)
        data[at] ^= 1 << rng.randrange(8)


def shift(rng: random.Random, data: bytearray) -> None:
    """Bytes inserted, deleted or twice: all that follows lies elsewhere."""
    at = rng.choice((rng.randrange(512), rng.randrange(len(data) + 1)))
    size = rng.randint(1, 64)
    how = rng.randrange(3)
    if how == 0:
        del data[at : at + size]
    else:
        data[at:at] = rng.randbytes(size) if how == 1 else data[at : at + size]


def read_all(path: Path) -> list[str]:
    """Reads everything twice, each part for itself; returns which parts were refused."""
    refused = []
    with Ring(path) as opened:
        cursor = None

        def drain() -> None:
            nonlocal cursor
            cursor = cursor or opened.reader("oldest")
            found = cursor.read()
            assert found.dtype == layout.RING_DTYPE and np.all(np.diff(found["begin_ns"].astype(float)) >= 0)
            assert len(found) * found.itemsize <= layout.MAX_SEGMENTS * os.path.getsize(path)
            assert cursor.dropped is not None
            for field in layout.STRING_FIELDS:
                assert all(isinstance(text, str) for text in opened.strings.select(found[field]).values())

        parts: dict[str, Callable[[], object]] = {
            "records": drain,
            "now": lambda: opened.reader("now").read(),
            "strings": lambda: [opened.strings[i] for i in opened.strings],
            "status": lambda: json.dumps(opened.status()),
            "segments": opened.segments,
            "gauges": opened.gauges,
            "clock": opened.clock,
            "head": lambda: (opened.pid, opened.kernel_id, opened.recording, opened.alive()),
        }
        for _ in range(2):
            for name, part in parts.items():
                try:
                    part()
                except RingError as error:
                    assert str(path) in str(error)
                    refused.append(name)
    return refused


@pytest.fixture
def no_hang() -> Iterator[Callable[[], None]]:
    """Call it before each input: one that takes longer than SECONDS_PER_INPUT fails."""

    def late(*_: object) -> None:
        raise AssertionError(f"no answer after {SECONDS_PER_INPUT} s")

    before = signal.signal(signal.SIGALRM, late)
    yield lambda: signal.setitimer(signal.ITIMER_REAL, SECONDS_PER_INPUT)  # type: ignore[func-returns-value]
    signal.setitimer(signal.ITIMER_REAL, 0)
    signal.signal(signal.SIGALRM, before)


def test_the_seed_file_is_read(whole: bytes, lay: Callable[[bytes], Path]) -> None:
    path = lay(whole)
    assert read_all(path) == []
    with Ring(path) as opened:
        assert len(opened.reader("oldest").read()) == 64 + 20
        assert opened.gauges()[0]["allocated"] == 1024 and len(opened.strings) >= 9


def test_changed_files_are_read_or_refused(
    whole: bytes,
    lay: Callable[[bytes], Path],
    no_hang: Callable[[], None],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(ring, "_TRIES", 2)  # of a text that nobody finishes writing
    only = os.environ.get("RAL_FUZZ_SEED")
    end = time.monotonic() + float(os.environ.get("RAL_FUZZ_SECONDS", "10"))
    seed = int(only or 0)
    counts = {"refused": 0, "in part": 0, "whole": 0}
    while True:
        no_hang()
        path = lay(mutate(whole, seed))
        try:
            counts["in part" if read_all(path) else "whole"] += 1
        except RingError:
            counts["refused"] += 1
        except Exception as error:
            raise AssertionError(f"RAL_FUZZ_SEED={seed} of {path}: {error!r}") from error
        if only or time.monotonic() > end:
            break
        seed += 1
    print(f"{seed + 1} inputs: {counts}")
    assert only or min(counts.values()) > 0, counts  # all three ways are tried


# Found by the fuzzer.


@pytest.mark.parametrize("text", [b"[" * 65000, b'{"a":' * 12000])
def test_a_status_nested_too_deep_is_refused(fake: FakeRing, text: bytes) -> None:
    set_status(fake, text)
    with Ring(fake.path) as opened, pytest.raises(RingError, match="the status is no JSON"):
        opened.status()


@pytest.mark.parametrize(
    "text",
    [
        b'{"devices": 3}', b'{"devices": null}', b'{"devices": "text"}', b'{"devices": [3]}',
        b'{"devices": {"index": 1}}', b'{"devices": [{"index": [0]}]}', b'{"devices": [{"index": {}}]}',
    ],
)  # fmt: skip
def test_devices_that_are_no_list_of_objects_are_refused(fake: FakeRing, text: bytes) -> None:
    set_status(fake, text)
    with Ring(fake.path) as opened:
        for part in (opened.status, opened.gauges):
            with pytest.raises(RingError, match='"devices" in the status is no list of objects'):
                part()


def test_a_damaged_string_table_does_not_grow_with_each_look(fake: FakeRing) -> None:
    fake.intern("first")
    fake.intern("second")
    fake._mm[_STRING_OFFSET + 12 : _STRING_OFFSET + 16] = (1 << 30).to_bytes(4, "little")
    with Ring(fake.path) as opened:
        for _ in range(3):
            with pytest.raises(RingError, match="damaged string table"):
                opened.strings.refresh()
        assert opened.strings[1] == "first" and opened.strings._texts == ["", "first"]


def set_status(fake: FakeRing, text: bytes) -> None:
    """Puts bytes where the status text lies, JSON or not."""
    fake._mm[_STATUS_OFFSET : _STATUS_OFFSET + len(text)] = text
    fake.header["status_length"] = len(text)
