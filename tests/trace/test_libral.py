"""The reader against the real writer: a program of ours that links the built libral.

Skipped where no libral is built (a checkout without `make build`).
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

import torch_fl_core.trace
from torch_fl_core.trace.layout import Kind
from torch_fl_core.trace.ring import Ring, find_rings

PACKAGE = Path(torch_fl_core.trace.__file__).resolve().parents[1]
PLACES = [Path(torch_fl_core.__path__[0]), PACKAGE, *(Path(p) / "torch_fl_core" for p in sys.path)]
LIBRARY = next((p / "libral.so" for p in PLACES if (p / "libral.so").exists()), None)
INCLUDE = Path(__file__).resolve().parents[2] / "core" / "include"

pytestmark = pytest.mark.skipif(LIBRARY is None, reason="libral is not built (make build)")

# Writes `count` records on each of `threads` threads per line of input; each says one number in many places.
SOURCE = r"""
#include <cstdio>
#include <string>
#include <thread>
#include <vector>

#include "ral/trace.h"

int main() {
  namespace trace = ral::trace;
  trace::set_kernel_id("kernel of the test");
  trace::set_status("{\"torch_fl\": \"0.1.0\", \"devices\": [], \"plugins\": []}");
  std::printf("%s\n", trace::path().c_str());
  std::fflush(stdout);
  char order[64];
  int threads = 0, count = 0;
  while (std::scanf("%63s %d %d", order, &threads, &count) == 3) {
    if (order[0] == 'a') trace::acquire();
    std::vector<std::thread> all;
    for (int t = 0; t < threads; ++t)
      all.emplace_back([t, count] {
        for (int i = 0; i < count; ++i) {
          ral_trace_record r = trace::make(RAL_TRACE_KERNEL);
          r.bytes = r.copied = r.aux64 = r.correlation = r.buffer = i;
          r.stream = t;
          r.name = trace::intern("op " + std::to_string(i % 100));
          trace::emit(r);
        }
      });
    for (std::thread& one : all) one.join();
    if (order[0] == 'a') trace::release();
    std::printf("done %d\n", trace::enabled() ? 1 : 0);
    std::fflush(stdout);
  }
}
"""


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("libral")
    (folder / "writer.cpp").write_text(SOURCE)
    compiler = shutil.which("g++") or shutil.which("c++")
    assert compiler, "a C++ compiler is needed"
    where = LIBRARY.resolve().parent
    subprocess.run(
        [compiler, "-std=c++17", "-O1", f"-I{INCLUDE}", "writer.cpp", str(LIBRARY.resolve()),
         f"-Wl,-rpath,{where}", "-pthread", "-o", "writer"],
        cwd=folder, check=True,
    )  # fmt: skip
    return folder / "writer"


class Writer:
    """The running program."""

    def __init__(self, program: Path, records: int = 4096) -> None:
        environment = {**os.environ, "RAL_TRACE_RECORDS": str(records)}
        self.process = subprocess.Popen(
            [program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment
        )
        self.path = Path(self.process.stdout.readline().strip())

    def order(self, how: str, threads: int, count: int, wait: bool = True) -> bool:
        """Sends an order; with `wait`, returns whether recording was on at its end."""
        self.process.stdin.write(f"{how} {threads} {count}\n")
        self.process.stdin.flush()
        return self.answer() if wait else False

    def answer(self) -> bool:
        return self.process.stdout.readline() == "done 1\n"

    def end(self) -> None:
        self.process.stdin.close()
        self.process.wait(20)


@pytest.fixture
def writer(program: Path, trace_folder: Path) -> Iterator[Writer]:
    running = Writer(program)
    yield running
    if running.process.poll() is None:
        running.end()


def test_file_header_status(writer: Writer, trace_folder: Path) -> None:
    assert writer.path.parent == trace_folder and writer.path.stat().st_mode & 0o777 == 0o600
    (info,) = find_rings()
    assert info.pid == writer.process.pid and info.alive
    assert info.kernel_id == "kernel of the test"
    with Ring(info.path) as ring:
        assert ring.status()["torch_fl"] == "0.1.0" and not ring.recording
        clock = ring.clock()
        assert abs(clock.realtime_ns + time.monotonic_ns() - clock.monotonic_ns - time.time_ns()) < 50e6
    writer.end()
    assert [i.alive for i in find_rings()] == [False]


def test_records_of_many_threads(writer: Writer) -> None:
    with Ring(writer.path) as ring:
        reader = ring.reader()
        assert writer.order("acquired", 3, 1000) is False  # released at its end
        records = reader.read()
        assert len(records) == 3000 and reader.dropped == 0
        for stream in range(3):
            mine = np.sort(records["bytes"][records["stream"] == stream])
            assert np.array_equal(mine, np.arange(1000))
        assert np.all(np.diff(records["begin_ns"]) >= 0) and set(records["kind"]) == {Kind.KERNEL}
        named = [ring.strings[i] for i in records["name"]]
        assert named == [f"op {n % 100}" for n in records["bytes"]]
        threads = {ring.strings[i] for i in records["thread"]}
        assert 1 <= len(threads) <= 3 and all(t.split(" ")[0].isdigit() for t in threads)


def test_nothing_torn_under_full_load(writer: Writer) -> None:
    with Ring(writer.path) as ring:
        reader = ring.reader()
        writer.order("acquired", 2, 400_000, wait=False)
        parts = []
        deadline = time.monotonic() + 30
        while not ring.recording:
            assert time.monotonic() < deadline
        while ring.recording:
            parts.append(reader.read())
        parts.append(reader.read())
        writer.answer()
        records = np.concatenate(parts)
        assert len(records) + reader.dropped == 800_000 and len(records) > 8192
        for field in ("copied", "aux64", "correlation", "buffer"):
            assert np.array_equal(records[field], records["bytes"]), field
        for stream in range(2):
            assert np.all(np.diff(records["bytes"][records["stream"] == stream].astype(int)) > 0)


def test_a_lease_turns_recording_on_and_runs_out(writer: Writer) -> None:
    with Ring(writer.path) as ring:
        assert writer.order("plain", 1, 10) is False
        reader = ring.reader("oldest")
        with ring.lease(5):
            wait_until(lambda: ring.recording)
            assert writer.order("plain", 1, 10) is True
        wait_until(lambda: not ring.recording)
        assert writer.order("plain", 1, 10) is False
        assert len(reader.read()) == 10


def test_a_killed_readers_lease_does_not_last(writer: Writer, trace_folder: Path) -> None:
    code = (
        "import sys, time; sys.path.insert(0, sys.argv[1])\n"
        "from torch_fl_core.trace.ring import Ring\n"
        "lease = Ring(sys.argv[2]).lease(1.0)\n"
        "print('held', flush=True); time.sleep(60)\n"
    )
    child = subprocess.Popen(
        [sys.executable, "-c", code, str(PACKAGE.parent), str(writer.path)], stdout=subprocess.PIPE
    )
    assert child.stdout.readline() == b"held\n"
    with Ring(writer.path) as ring:
        wait_until(lambda: ring.recording)
        child.send_signal(signal.SIGKILL)
        child.communicate()
        wait_until(lambda: not ring.recording)


def test_what_a_killed_process_wrote_stays(writer: Writer) -> None:
    writer.order("acquired", 1, 50)
    writer.process.send_signal(signal.SIGKILL)
    writer.process.wait(20)
    with Ring(writer.path) as ring:
        assert not ring.alive()
        assert ring.reader("oldest").read()["bytes"].tolist() == list(range(50))


def wait_until(true: object, seconds: float = 5) -> None:
    deadline = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < deadline, "it did not happen"
        time.sleep(0.005)
