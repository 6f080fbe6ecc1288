"""`Trace`: the records of one process as pandas frames, and its files.

Columns bear their units: `*_us` are microseconds since `Trace.epoch_ns`, `bytes` are bytes.
A missing number is <NA> (lines) or NaN (times); a missing text is "".
"""

from __future__ import annotations

import io
import json
import os
import zipfile
from collections.abc import Mapping
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from torch_fl_core.trace import layout
from torch_fl_core.trace.layout import RING_DTYPE, TIER_NAMES, Flag, Kind

FILE_VERSION = 1
REASON_COLUMNS = ("native", "jit", "reference", "cpu", "ran")


def op_name(name: str) -> str:
    """An operator's name as shown: without PyTorch's namespace ("aten::add" reads "add")."""
    return name.removeprefix("aten::")


def buffer_label(op: str, output: int, line: int | None) -> str:
    """A buffer's label: op, output index, cell line, such as "convolution.0 line 10"."""
    label = f"{op_name(op).replace('_with_indices', '') or 'buffer'}.{output}"
    return label if line is None else f"{label} line {line}"


def split_location(text: str) -> tuple[str, int | None]:
    """("<source hash>", line) of a location string; ("", None) for anything else."""
    source, _, line = text.rpartition(":")
    return (source, int(line)) if source and line.isdigit() else ("", None)


def parse_reason(text: str) -> dict[str, str]:
    """A reason's JSON as {tier or "ran": words}; plain words are taken for why the tier ran."""
    try:
        reason = json.loads(text) if text else {}
    except ValueError:
        return {"ran": text}
    if not isinstance(reason, dict):
        return {"ran": text}
    return {str(k): str(v) for k, v in reason.items()}


class Trace:
    """A recorded span of one process: pandas frames, and files to keep, view or send.

    Frames: `ops` (operators and user ranges on the host), `kernels` (computations, host-run ones
    too), `copies`, `memory` (one row a buffer or view), `decisions` (the fallback chain, grouped),
    `syncs` (the host waited), `compiles`, `marks`.
    """

    def __init__(self) -> None:
        self.fill(np.empty(0, RING_DTYPE), {}, {}, 0, 0, {})

    def fill(
        self,
        records: np.ndarray,
        strings: Mapping[int, str],
        status: dict[str, Any],
        epoch_ns: int | None,
        dropped: int,
        meta: dict[str, Any],
    ) -> None:
        """Replaces everything in it; the arguments are those of `from_records`."""
        for frame in _FRAMES:
            self.__dict__.pop(frame, None)
        self.records = _mended(records)
        ids = [np.unique(self.records[f]) for f in layout.STRING_FIELDS]
        self.strings = {int(i): strings.get(int(i), "") for i in np.unique(np.concatenate(ids)) if i}
        self.status = status
        self.epoch_ns = _first_begin(self.records) if epoch_ns is None else epoch_ns
        self.dropped = dropped
        self.meta = meta

    @classmethod
    def from_records(
        cls,
        records: np.ndarray,
        strings: Mapping[int, str],
        status: dict[str, Any],
        epoch_ns: int | None = None,
        dropped: int = 0,
        meta: dict[str, Any] | None = None,
    ) -> Trace:
        """A trace of records (RING_DTYPE) as a Reader gives them.

        `epoch_ns` is the CLOCK_MONOTONIC time that counts as zero, by default that of the first
        record; `dropped` how many records were lost; `meta` is kept as it is (JSON values).
        """
        trace = cls()
        trace.fill(records, strings, status, epoch_ns, dropped, dict(meta or {}))
        return trace

    # Frames -----------------------------------------------------------------------------------

    def _texts(self, ids: np.ndarray) -> np.ndarray:
        """Texts of ids, as an object array."""
        unique, inverse = np.unique(ids, return_inverse=True)
        table = np.array([self.strings.get(int(i), "") for i in unique], dtype=object)
        return table[inverse] if len(unique) else np.empty(0, dtype=object)

    def _locations(self, ids: np.ndarray) -> tuple[np.ndarray, pd.arrays.IntegerArray]:
        """Source hashes and lines (with <NA>) of location ids."""
        unique, inverse = np.unique(ids, return_inverse=True)
        parts = [split_location(self.strings.get(int(i), "")) for i in unique]
        sources = np.array([p[0] for p in parts] or [""], dtype=object)
        lines = np.array([p[1] or 0 for p in parts] or [0], dtype=np.int64)
        absent = np.array([p[1] is None for p in parts] or [True], dtype=bool)
        if not len(unique):
            return sources[:0], pd.arrays.IntegerArray(lines[:0], absent[:0])
        return sources[inverse], pd.arrays.IntegerArray(lines[inverse], absent[inverse])

    def _common(self, records: np.ndarray) -> pd.DataFrame:
        """The columns that every frame of events begins with."""
        source, line = self._locations(records["location"])
        _, forward = self._locations(records["forward_location"])
        names, inverse = np.unique(records["name"], return_inverse=True)
        ops = np.array([op_name(self.strings.get(int(i), "")) for i in names] or [""], dtype=object)
        return pd.DataFrame(
            {
                "begin_us": (records["begin_ns"] - self.epoch_ns) / 1e3,
                "dur_us": (records["end_ns"] - records["begin_ns"]) / 1e3,
                "op": ops[inverse] if len(names) else ops[:0],
                "device": _devices(records["device"]),
                "stream": records["stream"].astype(np.int64),
                "thread": self._texts(records["thread"]),
                "line": line,
                "source": source,
                "inner": self._texts(records["inner_location"]),
                "forward_line": forward,
                "backward": _has(records, Flag.BACKWARD),
                "failed": _has(records, Flag.FAILED),
                "correlation": records["correlation"].astype(np.int64),
            }
        )

    def _of(self, kind: Kind) -> np.ndarray:
        return self.records[self.records["kind"] == kind]

    @cached_property
    def ops(self) -> pd.DataFrame:
        """Operators and user ranges on the host; `correlation` is the op's own id."""
        records = self._of(Kind.OP)
        frame = self._common(records)
        frame["user_range"] = _has(records, Flag.USER_RANGE)
        frame["sequence_number"] = records["sequence_number"]
        frame["shapes"] = self._texts(records["shapes"])
        return frame

    @cached_property
    def kernels(self) -> pd.DataFrame:
        """Computations. `host` marks those that ran on the host (tiers reference and cpu)."""
        records = self._of(Kind.KERNEL)
        frame = self._common(records)
        tiers = np.array(TIER_NAMES, dtype=object)
        frame["tier"] = tiers[np.minimum(records["tier"], len(tiers) - 1)]
        frame["kernel"] = self._texts(records["kernel"])
        frame["reason"] = self._texts(records["reason"])
        frame["bytes"] = records["bytes"].astype(np.int64)
        frame["copied_bytes"] = records["copied"].astype(np.int64)
        frame["queued_us"] = np.where(
            records["queued_ns"] > 0, (records["queued_ns"] - self.epoch_ns) / 1e3, np.nan
        )
        frame["host"] = _has(records, Flag.HOST)
        frame["device_time"] = ~_has(records, Flag.NO_DEVICE_TIME)
        frame["shapes"] = self._texts(records["shapes"])
        frame["buffer"] = records["buffer"].astype(np.int64)
        return frame

    @cached_property
    def copies(self) -> pd.DataFrame:
        """Copies; `op` is the direction: host_to_device, device_to_host, on_device, device_to_device."""
        records = self._of(Kind.COPY)
        frame = self._common(records)
        frame["bytes"] = records["bytes"].astype(np.int64)
        frame["host"] = _has(records, Flag.HOST)
        return frame

    @cached_property
    def syncs(self) -> pd.DataFrame:
        """Times in which the host waited; `why` says for what."""
        return self._common(self._of(Kind.SYNC)).rename(columns={"op": "why"})

    @cached_property
    def marks(self) -> pd.DataFrame:
        """Marks such as begin and end of a cell; `text` is the mark."""
        return self._common(self._of(Kind.MARK)).rename(columns={"op": "text"})

    @cached_property
    def compiles(self) -> pd.DataFrame:
        """Kernel builds, one row each; `dur_us` is NaN for one that did not end within the trace."""
        records = self._of(Kind.COMPILE)
        done = records["end_ns"] != 0
        ended: dict[tuple[int, int], list[int]] = {}
        for r in records[done]:
            ended.setdefault((int(r["name"]), int(r["device"])), []).append(int(r["end_ns"]))
        keep = done.copy()
        for i in np.flatnonzero(~done):
            ends = ended.get((int(records[i]["name"]), int(records[i]["device"])), [])
            keep[i] = not any(end >= records[i]["begin_ns"] for end in ends)
        frame = self._common(records[keep]).rename(columns={"op": "kernel"})
        frame.loc[~done[keep], "dur_us"] = np.nan
        return frame

    @cached_property
    def decisions(self) -> pd.DataFrame:
        """The fallback chain's decisions, equal ones in one row, most time first.

        `native jit reference cpu` say why a tier was passed over ("" for the one that ran and those
        not asked), `ran` why it ran. A plan that no kernel of this trace used has `count` 0.
        """
        kernels = self.kernels
        plans = self._planned()
        columns = ["op", "device", "tier", "kernel", "reason"]
        runs = kernels[columns].assign(
            count=1, dur_us=kernels["dur_us"], copied_bytes=kernels["copied_bytes"]
        )
        both = pd.concat([runs, plans], ignore_index=True)
        grouped = both.groupby(columns, sort=False, as_index=False).sum()
        reasons = [parse_reason(text) for text in grouped.pop("reason")]
        for column in REASON_COLUMNS:
            grouped[column] = [r.get(column, "") for r in reasons]
        order = ["op", "device", "tier", "kernel", *REASON_COLUMNS, "count", "dur_us", "copied_bytes"]
        return grouped[order].sort_values("dur_us", ascending=False, ignore_index=True, kind="stable")

    def _planned(self) -> pd.DataFrame:
        records = self._of(Kind.DECISION)
        tiers = np.array(TIER_NAMES, dtype=object)
        return pd.DataFrame(
            {
                "op": [op_name(t) for t in self._texts(records["name"])],
                "device": _devices(records["device"]),
                "tier": tiers[np.minimum(records["tier"], len(tiers) - 1)],
                "kernel": self._texts(records["kernel"]),
                "reason": self._texts(records["reason"]),
                "count": np.zeros(len(records), np.int64),
                "dur_us": np.zeros(len(records)),
                "copied_bytes": np.zeros(len(records), np.int64),
            }
        ).astype({"op": object})

    @cached_property
    def memory(self) -> pd.DataFrame:
        """One row a buffer or view: id, parent, bytes, begin_us, end_us (NaN: alive), op, line, label.

        `begin_us` is NaN where the birth was lost; `snapshot` marks what lived before the recording.
        """
        births = self.records[np.isin(self.records["kind"], (Kind.ALLOC, Kind.VIEW))]
        _, first = np.unique(births["buffer"], return_index=True)
        births = births[np.sort(first)]  # a second snapshot repeats what is known
        frees = self._of(Kind.FREE)
        lost = frees[~np.isin(frees["buffer"], births["buffer"])]
        rows = np.concatenate([births, lost])
        frame = self._common(rows)
        view = rows["kind"] == Kind.VIEW
        unborn = np.arange(len(rows)) >= len(births)
        ends = dict(zip(frees["buffer"].tolist(), frees["begin_ns"].tolist(), strict=True))
        end = np.array([ends.get(int(b), np.nan) for b in rows["buffer"]], dtype=np.float64)
        outputs = pd.Series(rows["correlation"]).groupby([rows["correlation"], view]).cumcount()
        outputs = outputs.where(rows["correlation"] != 0, 0)
        lines = [None if pd.isna(x) else int(x) for x in frame["line"]]
        out = pd.DataFrame(
            {
                "id": rows["buffer"].astype(np.int64),
                "parent": pd.arrays.IntegerArray(rows["aux64"].astype(np.int64), ~view),
                "label": [
                    buffer_label(o, n, ln) for o, n, ln in zip(frame["op"], outputs, lines, strict=True)
                ],
                "bytes": rows["bytes"].astype(np.int64),
                "begin_us": np.where(unborn, np.nan, frame["begin_us"]),
                "end_us": (end - self.epoch_ns) / 1e3,
                "op": frame["op"],
                "line": frame["line"],
                "device": frame["device"],
                "view": view,
                "snapshot": _has(rows, Flag.SNAPSHOT),
                "thread": frame["thread"],
            }
        )
        return out.astype({"label": object})

    # Files ------------------------------------------------------------------------------------

    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes everything into one file (a zip of records.npy and trace.json)."""
        about = {
            "version": FILE_VERSION,
            "epoch_ns": self.epoch_ns,
            "dropped": self.dropped,
            "status": self.status,
            "meta": self.meta,
            "strings": {str(k): v for k, v in self.strings.items()},
        }
        data = io.BytesIO()
        np.save(data, self.records, allow_pickle=False)
        path = Path(path)
        part = path.with_name(f"{path.name}.{os.getpid()}.part")
        try:
            with zipfile.ZipFile(part, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive:
                archive.writestr("records.npy", data.getbuffer())
                archive.writestr("trace.json", json.dumps(about))
            os.replace(part, path)
        finally:
            part.unlink(missing_ok=True)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Trace:
        """Reads a file that `save` wrote. Raises ValueError for anything else, naming the fault."""
        try:
            with zipfile.ZipFile(path) as archive:
                about = json.loads(archive.read("trace.json"))
                data = archive.read("records.npy")
            version = about["version"]
        except (zipfile.BadZipFile, KeyError, TypeError, json.JSONDecodeError) as error:
            raise ValueError(f"{path}: not a saved trace ({error})") from error
        if version != FILE_VERSION:
            raise ValueError(f"{path}: saved by a newer torch-fl-core (version {version})")
        records = np.load(io.BytesIO(data), allow_pickle=False)
        if records.dtype != RING_DTYPE:
            raise ValueError(f"{path}: its records have another layout")
        strings = {int(k): v for k, v in about["strings"].items()}
        return cls.from_records(
            records, strings, about["status"], about["epoch_ns"], about["dropped"], about["meta"]
        )

    def to_chrome(self, path: str | os.PathLike[str]) -> None:
        """Writes a Chrome trace (JSON) for Perfetto, chrome://tracing and `ral-trace --report`."""
        from torch_fl_core.trace.chrome import write_chrome

        write_chrome(path, [self])

    def to_html(self, path: str | os.PathLike[str]) -> None:
        """Writes one self-contained HTML page: a strip of each device, and tables."""
        from torch_fl_core.trace.report import report_of, write_html

        write_html(path, report_of([self]))

    def __repr__(self) -> str:
        return (
            f"<Trace: {len(self.ops)} ops, {len(self.kernels)} kernels, {len(self.copies)} copies, "
            f"{len(self.memory)} buffers and views, {self.dropped} dropped>"
        )


_FRAMES = ("ops", "kernels", "copies", "memory", "decisions", "syncs", "compiles", "marks")


def _has(records: np.ndarray, flag: Flag) -> np.ndarray:
    return (records["flags"] & np.uint32(flag)) != 0


def _devices(index: np.ndarray) -> np.ndarray:
    """Device names: "ral:N", "" for none."""
    unique, inverse = np.unique(index, return_inverse=True)
    names = np.array([f"ral:{i}" if i >= 0 else "" for i in unique] or [""], dtype=object)
    return names[inverse] if len(unique) else names[:0]


def _first_begin(records: np.ndarray) -> int:
    begins = records["begin_ns"][~_has(records, Flag.SNAPSHOT)]
    return int(begins.min()) if len(begins) else 0


def _mended(records: np.ndarray) -> np.ndarray:
    """Device work mapped by an uncertain clock to before its enqueue begins at the enqueue."""
    records = records.copy()
    queued = (records["queued_ns"] > 0) & np.isin(records["kind"], (Kind.KERNEL, Kind.COPY))
    early = queued & (records["begin_ns"] < records["queued_ns"])
    if early.any():
        records["begin_ns"][early] = records["queued_ns"][early]
    unfinished = (records["kind"] == Kind.COMPILE) & (records["end_ns"] == 0)
    backward = ~unfinished & (records["end_ns"] < records["begin_ns"])
    if backward.any():
        records["end_ns"][backward] = records["begin_ns"][backward]
    return records
