"""ProfileResult: frames with units, files, diff, views."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

import torch_fl
from torch_fl.bundle import MIME


@pytest.fixture
def result(core: Any) -> Any:
    with torch_fl.profile(label="first") as made:
        core.op("mm", us=300)
        core.op("mm", us=100)
        core.op("pool", us=50, tier="cpu", copied=64)
        core.alloc(4096)
    return made


def test_frames(result: Any) -> None:
    for name in ("summary", "kernels", "memory", "decisions", "lines"):
        assert isinstance(getattr(result, name), pd.DataFrame), name
    figures = result.summary.set_index(["metric", "of"])
    assert figures.loc[("op_time", "native"), "value"] == 400
    assert figures.loc[("ops", "cpu"), "value"] == 1 and figures.loc[("op_time", "cpu"), "unit"] == "us"
    assert figures.loc[("peak_memory", "ral:0"), "value"] == 4096
    assert result.kernels["dur_us"].tolist() == [300, 100, 50]
    assert result.lines["time_us"].sum() == 450
    assert result.fallback["reason"].tolist() == ["no manifest entry"]


def test_save_and_load(result: Any, tmp_path: Path) -> None:
    path = tmp_path / "p.ralprofile"
    result.save(path)
    again = torch_fl.ProfileResult.load(path)
    assert again.bundle == result.bundle and again.label == "first"
    pd.testing.assert_frame_equal(again.kernels, result.kernels)
    with pytest.raises(ValueError, match="not a saved profile"):
        torch_fl.ProfileResult.load(__file__)


def test_diff(result: Any, core: Any) -> None:
    with torch_fl.profile() as other:
        core.op("mm", us=200)
        core.op("relu", us=10)
    frame = result.diff(other).set_index("op")
    assert frame.loc["mm", "time_us"] == 400 and frame.loc["mm", "other_time_us"] == 200
    assert frame.loc["mm", "ratio"] == 0.5 and frame.loc["mm", "count"] == 2
    assert frame.loc["pool", "other_count"] == 0 and frame.loc["relu", "count"] == 0
    assert frame.index[0] == "mm"


def test_chrome(result: Any, tmp_path: Path) -> None:
    result.to_chrome(tmp_path / "t.json")
    data = json.loads((tmp_path / "t.json").read_text())
    events = data["traceEvents"] if isinstance(data, dict) else data
    assert sum(e.get("cat") == "kernel" and e["name"] == "mm" for e in events) == 2


def test_html_holds_the_bundle_or_the_plain_view(result: Any, tmp_path: Path) -> None:
    result.bundle["source"] = "</script><b>x"
    result.to_html(tmp_path / "r.html")
    page = (tmp_path / "r.html").read_text(encoding="utf-8")
    assert "</script><b>x" not in page and "pool" in page and "no manifest entry" in page


def test_all_forms(result: Any) -> None:
    data = result._repr_mimebundle_()
    assert set(data) == {MIME, "text/html", "image/png", "text/plain"}
    assert data[MIME]["version"] == 1 and "pool" in data["text/plain"]
    json.dumps(data)


def test_one_at_a_time(core: Any) -> None:
    from torch_fl.recorder import AlreadyRecordingError

    with torch_fl.profile(), pytest.raises(AlreadyRecordingError, match="being taken already"):
        with torch_fl.profile():
            raise AssertionError("two recordings at once")
    assert core.acquired == 0


def test_surrogates_and_odd_names_stay_text(core: Any, tmp_path: Path) -> None:
    names = ['quote " here', "ctrl \x01 \n end", "</script><b>x", "lone \ud800 half", "n" * 5000]
    with torch_fl.profile() as result:
        for name in names:
            core._emit("OP", name, flags=0x4, dur_ns=1000)
            core.op("add")
    json.dumps(result.bundle).encode()
    result.to_chrome(tmp_path / "t.json")
    events = json.loads((tmp_path / "t.json").read_bytes().decode("utf-8"))["traceEvents"]
    assert any("</script><b>x" in e.get("name", "") for e in events)
    result.to_html(tmp_path / "r.html")
    assert "</script><b>x" not in (tmp_path / "r.html").read_text(encoding="utf-8")
