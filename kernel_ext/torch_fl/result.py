"""ProfileResult: what a profile leaves behind, as pandas frames, files and views."""

from __future__ import annotations

import contextlib
import json
import os
import tempfile
import zipfile
from collections.abc import Iterator
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from torch_fl import history, static
from torch_fl.bundle import MIME
from torch_fl.recorder import Recording
from torch_fl_core.trace import Trace
from torch_fl_core.trace.layout import RING_DTYPE

if TYPE_CHECKING:
    from fl_widgets import ProfileWidget

_FILE_VERSION = 1


class ProfileResult:
    """One finished profile.

    Frames (times in µs, sizes in bytes, as the columns say): `summary`, `kernels`, `memory`,
    `decisions`, `lines`. `bundle` is what the views draw (docs/profile-format.md), `trace` all records.
    """

    def __init__(self, bundle: dict[str, Any], trace: Trace) -> None:
        self.bundle = bundle
        self.trace = trace
        self.sort, self.limit = "time", static.ROWS

    @classmethod
    def of(cls, recording: Recording) -> ProfileResult:
        """The result of a recording that has been stopped."""
        bundle = recording.bundle()
        records = np.concatenate(recording.kept) if recording.kept else np.empty(0, RING_DTYPE)
        recording.kept.clear()
        trace = Trace.from_records(
            records,
            recording.strings.plain(),
            recording.status,
            recording.begin_ns,
            recording.dropped + recording.dropped_from_frames,
            {
                "label": recording.label,
                "source": recording.source,
                "epoch_offset_ns": recording.epoch_ns,
                "not_in_frames": recording.dropped_from_frames,
            },
        )
        return cls(bundle, trace)

    # What it is.

    @property
    def label(self) -> str | None:
        """The user's name for it (`--label`)."""
        return self.bundle.get("label")

    @property
    def source(self) -> str:
        """Text of the profiled cell, "" outside a notebook."""
        return self.bundle.get("source", "")

    @property
    def wall_us(self) -> float:
        """How long the cell ran, in µs."""
        return float(self.bundle["summary"]["wall_us"])

    @property
    def dropped(self) -> int:
        """Events that were overwritten before they were read."""
        return int(self.bundle["summary"]["dropped"])

    # Frames.

    @cached_property
    def summary(self) -> pd.DataFrame:
        """One row a figure: `metric`, `of` (device or tier, "" for the whole), `value`, `unit`."""
        return pd.DataFrame(list(_figures(self.bundle["summary"])), columns=["metric", "of", "value", "unit"])

    @property
    def kernels(self) -> pd.DataFrame:
        """One row a computation: begin_us, dur_us, op, kernel, tier, reason, device, line, ..."""
        return self.trace.kernels

    @property
    def memory(self) -> pd.DataFrame:
        """One row a buffer or view, with its lifetime."""
        return self.trace.memory

    @property
    def decisions(self) -> pd.DataFrame:
        """The fallback chain: op, tier, kernel, reasons, count, time."""
        return self.trace.decisions

    @cached_property
    def lines(self) -> pd.DataFrame:
        """Op time by line of the cell, the most first; line 0 is work that no line called."""
        columns = ["line", "source", "native_us", "jit_us", "reference_us", "cpu_us", "time_us"]
        columns += ["count", "backward_us", "copy_us", "wait_us", "bytes", "alloc_bytes"]
        return pd.DataFrame(self.bundle["tables"]["lines"], columns=columns)

    @cached_property
    def fallback(self) -> pd.DataFrame:
        """Ops that ran on a tier after the first allowed one, by time."""
        rows = [
            {**row, "reason": static.why(row), "chain": row["reason"]}
            for row in self.bundle["tables"]["fallback"]
        ]
        columns = ["op", "tier", "kernel", "reason", "device", "count", "time_us"]
        return pd.DataFrame(rows, columns=[*columns, "copied_bytes", "lines", "chain"])

    def diff(self, other: ProfileResult) -> pd.DataFrame:
        """Op by op, this profile against `other`: count and time of each, difference and ratio.

        `time_us` is this one's, `other_time_us` the other's; `ratio` is other over this, so above 1
        this one is faster. By size of the difference.
        """
        mine, theirs = _by_op(self.kernels), _by_op(other.kernels)
        both = mine.join(theirs.add_prefix("other_"), how="outer").fillna(0.0)
        both["count"], both["other_count"] = (
            both["count"].astype(int),
            both["other_count"].astype(int),
        )
        both["delta_us"] = both["time_us"] - both["other_time_us"]
        both["ratio"] = both["other_time_us"] / both["time_us"].where(both["time_us"] > 0)
        order = both["delta_us"].abs().sort_values(ascending=False, kind="stable").index
        return both.loc[order].reset_index()

    # Files.

    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes everything into one file that `ProfileResult.load` reads."""
        path = Path(path)
        with tempfile.TemporaryDirectory() as folder:
            trace = Path(folder) / "trace"
            self.trace.save(trace)
            part = path.with_name(f"{path.name}.{os.getpid()}.part")
            try:
                with zipfile.ZipFile(part, "w", zipfile.ZIP_STORED) as archive:
                    about = {"version": _FILE_VERSION, "bundle": self.bundle}
                    archive.writestr("profile.json", json.dumps(about))
                    archive.write(trace, "trace")
                os.replace(part, path)
            finally:
                part.unlink(missing_ok=True)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> ProfileResult:
        """Reads a saved profile. Raises ValueError for any other file, naming the fault."""
        try:
            with zipfile.ZipFile(path) as archive, tempfile.TemporaryDirectory() as folder:
                about = json.loads(archive.read("profile.json"))
                trace = Trace.load(archive.extract("trace", folder))
            version, bundle = about["version"], about["bundle"]
        except (zipfile.BadZipFile, KeyError, TypeError, json.JSONDecodeError) as error:
            raise ValueError(f"{path}: not a saved profile ({error})") from error
        if version != _FILE_VERSION:
            raise ValueError(f"{path}: saved by a newer torch_fl (version {version})")
        return cls(bundle, trace)

    def to_chrome(self, path: str | os.PathLike[str]) -> None:
        """Writes Chrome JSON for Perfetto and chrome://tracing."""
        self.trace.to_chrome(path)

    def to_html(self, path: str | os.PathLike[str]) -> None:
        """Writes one HTML file that needs nothing else: interactive where fl_widgets is built."""
        Path(path).write_text(_page(self), encoding="utf-8")

    # Views.

    def widget(self) -> ProfileWidget:
        """The interactive view as a widget, for front ends without the JupyterLab extension."""
        from fl_widgets import ProfileWidget

        widget = ProfileWidget()

        def answer(_: object, content: dict[str, Any], __: object) -> None:
            if content.get("type") == "replay":
                widget.send({"type": "bundle", "bundle": self.bundle})

        widget.on_msg(answer)
        widget.send({"type": "bundle", "bundle": self.bundle})
        return widget

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> dict[str, Any]:
        return static.mimebundle(self.bundle, MIME, self.sort, self.limit)

    def __repr__(self) -> str:
        return static.text(self.bundle, self.sort, self.limit)


def _figures(summary: dict[str, Any]) -> Iterator[tuple[str, str, float, str]]:
    yield "wall", "", summary["wall_us"], "us"
    for device, share in summary["busy"].items():
        yield "busy", device, share, "share"
    for device, size in summary["peak_bytes"].items():
        yield "peak_memory", device, size, "bytes"
    for device, size in summary["memory_bytes"].items():
        yield "memory_at_end", device, size, "bytes"
    for tier, time in summary["op_time_us"].items():
        yield "op_time", tier, time, "us"
    for tier, count in summary["op_count"].items():
        yield "ops", tier, count, "count"
    yield "copy_time", "", summary["copy_us"], "us"
    yield "copied", "", summary["copy_bytes"], "bytes"
    yield "wait_time", "", summary["wait_us"], "us"
    yield "events", "", summary["events"], "count"
    yield "dropped", "", summary["dropped"], "count"
    yield "overhead", "", summary["overhead"], "share"


def _by_op(kernels: pd.DataFrame) -> pd.DataFrame:
    grouped = kernels.groupby(["op", "tier"])["dur_us"]
    return grouped.agg(count="count", time_us="sum")


def _report_script() -> str | None:
    """The drawing core for a page; None where fl_widgets is not installed or not built."""
    try:
        import fl_widgets

        return fl_widgets.report_script()
    except (ImportError, RuntimeError):
        return None


def _page(result: ProfileResult) -> str:
    """One HTML page: the bundle and the drawing core, else the static view."""
    script = _report_script()
    body = static.html(result.bundle, result.sort, 100)
    head = '<!doctype html><html lang="en"><head><meta charset="utf-8"><title>torch_fl profile</title>'
    if script is None:
        return f"{head}</head><body>{body}</body></html>"
    data = json.dumps(result.bundle).replace("<", "\\u003c")
    return (
        f'{head}</head><body><div id="torch-fl"></div><noscript>{body}</noscript>'
        f'<script type="application/json" id="torch-fl-bundle">{data}</script>'
        f"<script>{script}</script></body></html>"
    )


class _Pending(ProfileResult):
    """The result that `profile()` hands out before there is one: asking it anything says so."""

    def __init__(self) -> None:
        self.sort, self.limit = "time", static.ROWS

    def __getattr__(self, name: str) -> Any:
        if name in ("bundle", "trace"):
            raise RuntimeError("the profile is still being taken; its result is there after the block")
        raise AttributeError(name)


@contextlib.contextmanager
def profile(devices: list[str] | None = None, label: str | None = None) -> Iterator[ProfileResult]:
    """Profiles a block of code, in a notebook or without one.

        with torch_fl.profile() as result:
            train()
        result.lines

    Args:
        devices: names such as "ral:0" to record; None records all.
        label: a name for the profile.

    Raises:
        torch_fl.recorder.AlreadyRecordingError: another profile is being taken.
    """
    from torch_fl._core import core
    from torch_fl.live import Drain

    recording = Recording(core(), devices=devices, label=label)
    pending: ProfileResult = _Pending()
    recording.start()
    drain = Drain(recording)
    drain.start()
    error: BaseException | None = None
    try:
        yield pending
    except BaseException as raised:
        error = raised
        raise
    finally:
        recording.end_ns = recording.now_ns
        drain.finish()
        recording.stop(state="failed" if error else "done", error=error)
        result = ProfileResult.of(recording)
        pending.__class__ = ProfileResult
        pending.bundle, pending.trace = result.bundle, result.trace
        history.add(pending, named=False)
