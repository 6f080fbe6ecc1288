"""ral-trace: what it prints and writes, and its exit status."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import pytest
from chrome_check import check
from fake_ring import FakeRing
from trace_sample import STATUS

from torch_fl_core.cli import ral_trace


class Busy(threading.Thread):
    """Writes a kernel every millisecond while a lease is held, as libral would."""

    def __init__(self, ring: FakeRing) -> None:
        super().__init__(daemon=True)
        self.ring, self.stop = ring, threading.Event()
        self.lease_seen = 0

    def run(self) -> None:
        while not self.stop.wait(0.001):
            until = int(self.ring.header["leases"]["expiry_ns"].max())
            self.ring.header["enabled"] = until > time.monotonic_ns()
            if self.ring.header["enabled"]:
                self.lease_seen += 1
                self.ring.emit("KERNEL", "add", device=0, dur_ns=1000)


@pytest.fixture
def busy(fake: FakeRing):
    fake.header["enabled"] = 0
    fake.status(STATUS)
    thread = Busy(fake)
    thread.start()
    yield thread
    thread.stop.set()
    thread.join()


def test_records_running_processes(busy: Busy, tmp_path: Path, capsys: Any) -> None:
    out = tmp_path / "trace.json"
    assert ral_trace.main(["--duration", "300ms", "--output", str(out), "--json"]) == 0
    result = json.loads(capsys.readouterr().out)
    (process,) = result["processes"]
    assert process["pid"] == os.getpid() and process["dropped"] == 0
    assert process["records"] == check(out)["add"] > 30
    assert 0.25 < result["seconds"] < 2
    time.sleep(0.05)
    assert not busy.ring.header["leases"]["expiry_ns"].any() and not busy.ring.header["enabled"]


def test_makes_a_page_of_a_recording(busy: Busy, tmp_path: Path, capsys: Any) -> None:
    out, page = tmp_path / "trace.json", tmp_path / "report.html"
    pid = str(os.getpid())
    assert ral_trace.main(["--duration", "0.1s", "--output", str(out), "--pid", pid]) == 0
    assert f"process {pid}: " in capsys.readouterr().out
    assert ral_trace.main(["--report", str(out), "--html", str(page)]) == 0
    text = page.read_text(encoding="utf-8")
    assert "<td>add</td><td>ral:0</td>" in text and "PoCL &lt;b&gt;" in text
    assert "<script" not in text and "http" not in text.replace("http://www.w3.org", "")


def test_failures_are_told_in_one_line(trace_folder: Path, tmp_path: Path, capsys: Any) -> None:
    out = str(tmp_path / "t.json")
    assert ral_trace.main(["--duration", "1s", "--output", out]) == 1
    assert "no running process of yours has used torch_fl" in capsys.readouterr().err
    assert ral_trace.main(["--duration", "1s", "--output", out, "--pid", "1"]) == 1
    assert "no running process 1 of yours" in capsys.readouterr().err
    assert ral_trace.main(["--duration", "1s", "--output", str(tmp_path / "no" / "t.json")]) == 1
    assert "no such folder" in capsys.readouterr().err
    assert ral_trace.main(["--report", out, "--html", str(tmp_path / "r.html")]) == 1
    assert "No such file" in capsys.readouterr().err
    (tmp_path / "bad.json").write_text("{")
    bad = str(tmp_path / "bad.json")
    assert ral_trace.main(["--report", bad, "--html", str(tmp_path / "r.html")]) == 1
    assert "not a Chrome trace" in capsys.readouterr().err
    assert not (tmp_path / "t.json").exists() and not (tmp_path / "r.html").exists()


@pytest.mark.parametrize(
    "argv",
    [
        [],
        ["--output", "x"],
        ["--duration", "1s"],
        ["--duration", "soon", "--output", "x"],
        ["--duration", "0s", "--output", "x"],
        ["--report", "x"],
        ["--report", "x", "--output", "y", "--html", "z", "--duration", "1s"],
        ["--nonsense"],
    ],
)
def test_wrong_usage_is_status_2(argv: list[str], capsys: Any) -> None:
    assert ral_trace.main(argv) == 2
    assert "usage: ral-trace" in capsys.readouterr().err


def test_durations() -> None:
    texts = ("10s", "500ms", "2m", "1h", "3", "1.5s")
    assert [ral_trace.duration(t) for t in texts] == [10, 0.5, 120, 3600, 3, 1.5]


def test_help_is_status_0(capsys: Any) -> None:
    assert ral_trace.main(["--help"]) == 0
    assert "--duration" in capsys.readouterr().out


def test_interrupt_writes_what_is_there(busy: Busy, tmp_path: Path, trace_folder: Path) -> None:
    code = (
        "import sys; sys.path[:0] = [sys.argv[1]]\n"
        "from pathlib import Path\n"
        "from torch_fl_core.trace import ring\n"
        "ring.trace_folders = lambda: [Path(sys.argv[2])]\n"
        "from torch_fl_core.cli.ral_trace import main\n"
        "sys.exit(main(['--duration', '60s', '--output', sys.argv[3]]))\n"
    )
    core = Path(ral_trace.__file__).parents[2]
    out = tmp_path / "t.json"
    child = subprocess.Popen(
        [sys.executable, "-c", code, str(core), str(trace_folder), str(out)],
        stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    deadline = time.monotonic() + 20
    while busy.lease_seen < 200 and time.monotonic() < deadline:
        time.sleep(0.01)
    child.send_signal(2)
    _, errors = child.communicate(timeout=20)
    assert child.returncode == 0 and "interrupted; writing what is there" in errors
    assert check(out)["add"] > 50
