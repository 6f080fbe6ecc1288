"""The ring reader: cursors, torn and overwritten records, growth, leases, ownership, stale files."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from pathlib import Path

import numpy as np
import pytest
from fake_ring import FakeRing

from torch_fl_core.trace import layout, ring
from torch_fl_core.trace.ring import Ring, RingError

STATUS = {
    "torch_fl": "0.1.0",
    "devices": [{"id": "ral:0", "index": 0, "kind": "CPU", "name": "Größe ✓"}],
    "plugins": [{"name": "opencl", "status": "LOADED"}],
}


def test_records_come_whole_with_their_texts(fake: FakeRing) -> None:
    reader = Ring(fake.path).reader()
    begin = fake.emit(
        "KERNEL", "add", kernel="add_f32", tier="native", device=0, stream=3, dur_ns=500,
        bytes=64, copied=7, buffer=9, correlation=5, location="0123456789ab:12",
        reason={"native": "", "ran": "natív ✓"}, shapes="[16] float32",
    )  # fmt: skip
    records = reader.read()
    assert len(records) == 1 and records.dtype == layout.RING_DTYPE
    r = records[0]
    assert (r["begin_ns"], r["end_ns"]) == (begin, begin + 500)
    assert [r[f] for f in ("bytes", "copied", "buffer", "correlation", "stream", "device")] == [
        64, 7, 9, 5, 3, 0,
    ]  # fmt: skip
    texts = reader._ring.strings
    assert texts[r["name"]] == "add" and texts[r["kernel"]] == "add_f32"
    assert texts[r["reason"]] == '{"native": "", "ran": "natív ✓"}'
    assert texts[r["location"]] == "0123456789ab:12" and texts[0] == "" and texts[10**6] == ""
    assert reader.read().size == 0 and reader.dropped == 0


def test_since_now_and_oldest(fake: FakeRing) -> None:
    for i in range(5):
        fake.emit("OP", f"op{i}", bytes=i)
    opened = Ring(fake.path)
    now, oldest = opened.reader("now"), opened.reader("oldest")
    fake.emit("OP", "op5", bytes=5)
    assert now.read()["bytes"].tolist() == [5]
    assert oldest.read()["bytes"].tolist() == [0, 1, 2, 3, 4, 5]
    with pytest.raises(ValueError, match="yesterday"):
        opened.reader("yesterday")


def test_segments_are_merged_by_time_and_file_growth_is_followed(fake: FakeRing) -> None:
    opened = Ring(fake.path)
    reader = opened.reader()
    size = os.path.getsize(fake.path)
    for thread in range(4):
        for i in range(10):
            fake.emit("OP", "x", begin_ns=1000 + i * 4 + thread, segment=thread, bytes=thread)
    assert os.path.getsize(fake.path) > size
    records = reader.read()
    assert records["begin_ns"].tolist() == list(range(1000, 1040))
    assert records["bytes"].tolist() == [0, 1, 2, 3] * 10


def test_overwritten_records_are_discarded_and_counted(trace_folder: Path) -> None:
    fake = FakeRing(folder=trace_folder, records=64)
    reader = Ring(fake.path).reader()
    for i in range(64 * 3 + 5):
        fake.emit("OP", "x", begin_ns=i, bytes=i)
    assert reader.read()["bytes"].tolist() == list(range(64 * 2 + 5, 64 * 3 + 5))
    assert reader.dropped == 64 * 2 + 5
    fake.header["records_dropped"] += 3
    assert reader.dropped == 64 * 2 + 8


def test_torn_records_are_discarded_and_counted(fake: FakeRing) -> None:
    opened = Ring(fake.path)
    reader = opened.reader()
    for i in range(10):
        fake.emit("OP", "x", bytes=i)
    fake.slots()["sequence"][3] = 0  # being written again
    fake.slots()["sequence"][7] = 7 + 1 + 1024  # overwritten since the head was read
    assert reader.read()["bytes"].tolist() == [0, 1, 2, 4, 5, 6, 8, 9]
    assert reader.dropped == 2


def test_record_overwritten_during_the_copy_is_discarded(
    fake: FakeRing, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened = Ring(fake.path)
    reader = opened.reader()
    for i in range(4):
        fake.emit("OP", "x", bytes=i)

    plain = opened.array_at

    class Live:  # the writer strikes between the copy and the second look
        def __init__(self, records: np.ndarray) -> None:
            self.records = records

        def view(self, dtype: type) -> np.ndarray:
            copied = self.records.view(dtype).copy()
            fake.slots()["sequence"][2] = 0
            return copied

        def __getitem__(self, field: str) -> np.ndarray:
            return self.records[field]

        def __len__(self) -> int:
            return len(self.records)

    found = opened.segments()
    monkeypatch.setattr(opened, "array_at", lambda *a: Live(plain(*a)))
    monkeypatch.setattr(opened, "segments", lambda: found)
    assert reader.read()["bytes"].tolist() == [0, 1, 3]
    assert reader.dropped == 1


def test_nothing_torn_reaches_a_reader_while_a_thread_writes(trace_folder: Path) -> None:
    fake = FakeRing(folder=trace_folder, records=4096)
    reader = Ring(fake.path).reader()
    stop, written = threading.Event(), [0]

    def write() -> None:
        block = np.zeros(512, layout.RING_DTYPE)
        while not stop.is_set():
            # Each record says the same number in several places.
            number = np.arange(written[0], written[0] + 512)
            for field in ("begin_ns", "end_ns", "bytes", "copied", "aux64", "correlation"):
                block[field] = number
            fake.emit_array(block)
            written[0] += 512

    writer = threading.Thread(target=write)
    writer.start()
    seen, deadline = [], time.monotonic() + 1.0
    while time.monotonic() < deadline:
        seen.append(reader.read())
    stop.set()
    writer.join()
    seen.append(reader.read())
    records = np.concatenate(seen)
    for field in ("end_ns", "bytes", "copied", "aux64", "correlation"):
        assert np.array_equal(records[field], records["begin_ns"]), field
    assert np.all(np.diff(records["begin_ns"]) > 0)
    assert len(records) + reader.dropped == written[0] and len(records) > 1000


def test_full_segments_are_read_at_once_in_order(trace_folder: Path) -> None:
    fake = FakeRing(folder=trace_folder, records=1 << 18)
    reader = Ring(fake.path).reader()
    block = np.zeros(1 << 18, layout.RING_DTYPE)
    for _ in range(2):
        for segment in range(2):
            block["begin_ns"] = np.arange(len(block)) * 2 + segment
            fake.emit_array(block, segment)
        records = reader.read()
        assert len(records) == 2 << 18 and np.all(np.diff(records["begin_ns"]) == 1)
    assert reader.dropped == 0


def test_status_and_gauges(fake: FakeRing) -> None:
    opened = Ring(fake.path)
    assert opened.gauges() == []
    fake.status(STATUS)
    fake.gauge(0, allocated=1024, reserved=4096, peak=2048, kernels=3, total=1 << 30)
    assert opened.status() == STATUS
    assert opened.gauges() == [
        {"device": 0, "allocated": 1024, "reserved": 4096, "peak": 2048, "busy_ns": 0,
         "kernels": 3, "live_views": 0, "total": 1 << 30}
    ]  # fmt: skip
    assert opened.kernel_id == "11111111-2222-3333-4444-555555555555"
    assert opened.recording and opened.pid == os.getpid()
    fake.header["status_sequence"] += 1  # died while writing
    with pytest.raises(RingError, match="died while it wrote its status"):
        opened.status()


def test_clock_maps_to_wall_time(fake: FakeRing) -> None:
    clock = Ring(fake.path).clock()
    now = clock.realtime_ns + time.monotonic_ns() - clock.monotonic_ns
    assert abs(now - time.time_ns()) < 50e6 and clock.uncertainty_ns == 100


def test_alive_knows_reused_pids(trace_folder: Path) -> None:
    here = FakeRing(folder=trace_folder, kernel_id="here")
    FakeRing(folder=trace_folder, start=5, kernel_id="earlier").close()
    child = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    FakeRing(folder=trace_folder, pid=child.pid, kernel_id="child").close()
    alive = {i.kernel_id: (i.alive, i.pid) for i in ring.find_rings()}
    assert alive == {
        "here": (True, os.getpid()), "earlier": (False, os.getpid()), "child": (True, child.pid)
    }  # fmt: skip
    child.kill()
    deadline = time.monotonic() + 5
    while Ring(here.path.parent / _name(trace_folder, child.pid)).alive():
        assert time.monotonic() < deadline  # a zombie counts as dead
    child.communicate()


def _name(folder: Path, pid: int) -> str:
    return next(folder.glob(f"{pid}-*.trace")).name


def test_a_dead_process_can_still_be_read(trace_folder: Path) -> None:
    code = (
        "import sys; sys.path[:0] = sys.argv[1:3]\n"
        "from fake_ring import FakeRing\n"
        "r = FakeRing(folder=sys.argv[3])\n"
        "r.emit('OP', 'last words', bytes=42)\n"
        "import os; os._exit(9)\n"
    )
    core = Path(ring.__file__).parents[2]
    run = subprocess.run(
        [sys.executable, "-c", code, str(Path(__file__).parent), str(core), str(trace_folder)]
    )
    assert run.returncode == 9
    (info,) = ring.find_rings()
    assert not info.alive
    with Ring(info.path) as opened:
        (record,) = opened.reader("oldest").read()
        assert opened.strings[record["name"]] == "last words" and record["bytes"] == 42


def test_leases_are_taken_renewed_expired_and_given_back(fake: FakeRing) -> None:
    opened = Ring(fake.path)
    now = time.monotonic_ns()
    with opened.lease(5) as first, opened.lease(0.05) as second:
        leases = fake.header["leases"]
        assert leases["owner_pid"][:2].tolist() == [os.getpid()] * 2
        assert 4.9e9 < leases["expiry_ns"][0] - now < 6e9 and first.expiry_ns > second.expiry_ns
        time.sleep(0.06)
        assert leases["expiry_ns"][1] < time.monotonic_ns()  # ran out by itself
        third = opened.lease(1)  # takes the expired slot, not the live one
        assert leases["expiry_ns"][1] == third.expiry_ns
        before = first.expiry_ns
        first.renew(9)
        assert first.expiry_ns - before > 3e9
        third.close()
    assert not fake.header["leases"]["expiry_ns"].any()
    with pytest.raises(RingError, match="closed"):
        first.renew()


def test_a_lease_too_many_is_refused_by_name(fake: FakeRing) -> None:
    opened = Ring(fake.path)
    held = [opened.lease(5) for _ in range(layout.MAX_LEASES)]
    before = len(os.listdir("/proc/self/fd"))
    with pytest.raises(RingError, match="all 16 readers' leases are taken"):
        opened.lease(5)
    assert len(os.listdir("/proc/self/fd")) == before
    held[3].close()
    opened.lease(5).close()


def test_files_of_others_and_damaged_files_are_refused(fake: FakeRing, tmp_path: Path) -> None:
    path = fake.path
    path.chmod(0o644)
    with pytest.raises(RingError, match="open to others"):
        Ring(path)
    assert ring.find_rings() == []
    path.chmod(0o600)
    assert len(ring.find_rings()) == 1
    if os.geteuid() == 0:
        os.chown(path, 12345, -1)
        with pytest.raises(RingError, match="another user"):
            Ring(path)
        assert ring.find_rings() == []
        os.chown(path, 0, -1)
    link = path.with_name("1-1.trace")
    link.symlink_to(path)
    with pytest.raises(OSError, match="symbolic link|Too many levels"):
        Ring(link)
    fake.header["version"] = 2
    with pytest.raises(RingError, match="trace format 2, this reader knows 1"):
        Ring(path)
    fake.header["magic"] = 0
    with pytest.raises(RingError, match="not a trace file"):
        Ring(path)
    short = tmp_path / "short.trace"
    short.write_bytes(b"RALTRACE")
    short.chmod(0o600)
    with pytest.raises(RingError, match="too short"):
        Ring(short)
    assert ring.find_rings() == []


def test_offsets_beyond_the_file_are_an_error_not_a_crash(fake: FakeRing) -> None:
    fake.emit("OP", "x")
    opened = Ring(fake.path)
    fake._directory[0]["offset"] = 1 << 40
    with pytest.raises(RingError, match="damaged"):
        opened.reader("oldest")


def test_shared_folders_are_not_looked_into(fake: FakeRing, trace_folder: Path) -> None:
    trace_folder.chmod(0o777)
    assert ring.find_rings() == []
    trace_folder.chmod(0o700)
    assert [i.path for i in ring.find_rings()] == [fake.path]


def test_stale_files_of_dead_processes_go_after_an_hour(fake: FakeRing, trace_folder: Path) -> None:
    old = FakeRing(folder=trace_folder, start=5)
    fresh = FakeRing(folder=trace_folder, start=6)
    two_hours = time.time() - 7200
    for each in (old, fake):
        each.header["clock_realtime_ns"] = int(two_hours * 1e9)
        os.utime(each.path, (two_hours, two_hours))
    os.utime(fresh.path, (two_hours, two_hours))  # its clock still ran: died lately
    assert ring.remove_stale() == [old.path]
    assert fake.path.exists() and fresh.path.exists() and not old.path.exists()
    assert ring.remove_stale(older_than_s=-1) == [fresh.path]


def test_folders(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_RUNTIME_DIR", "/run/somewhere")
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    uid = os.geteuid()
    assert ring.trace_folders()[:2] == [Path("/run/somewhere/ral"), tmp_path / f"ral-{uid}"]
    monkeypatch.delenv("XDG_RUNTIME_DIR")
    assert ring.trace_folders()[0] == tmp_path / f"ral-{uid}"


def test_torch_is_not_imported() -> None:
    core = Path(ring.__file__).parents[2]
    code = (
        f"import sys; sys.path.insert(0, {str(core)!r}); import torch_fl_core.trace.ring; "
        "assert 'torch' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
