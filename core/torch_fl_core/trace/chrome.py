"""Writes traces as strict Chrome trace JSON, for Perfetto, chrome://tracing and `ral-trace --report`.

Host threads are threads of the process itself; each device is a process of its own with a lane per
stream, one for copies, and its buffers as async spans (`b`/`e`). Flows (`s`/`f`) lead from an op to
its kernels. Computations have cat "kernel" and the op's name, on the host lane where they ran on the
host. User ranges (torch.profiler.record_function) have cat "kernel" and args.user_range = true.
`ts` counts microseconds from the trace's first moment, which is 1.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from torch_fl_core.trace.lanes import place
from torch_fl_core.trace.layout import TIER_NAMES, Flag, Kind
from torch_fl_core.trace.model import Trace, op_name, parse_reason, split_location

FORMAT = "torch_fl trace"
FORMAT_VERSION = 1
_OWN_IDS = 1 << 30  # ids of lanes and devices lie above every real pid and tid
_DEVICES_EACH = 64
# Fields of a record that become args.
_ARGS = (
    "tier",
    "kernel",
    "reason",
    "location",
    "inner_location",
    "forward_location",
    "shapes",
    "device",
    "flags",
    "bytes",
    "copied",
)
_FLAGS = _ARGS.index("flags")
_USER_RANGE = int(Flag.USER_RANGE)


def safe_text(text: str) -> str:
    """The text with lone surrogates replaced: strict readers refuse them."""
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")


def _json(value: Any) -> str:
    return json.dumps(value, allow_nan=False)


def _event(**fields: Any) -> str:
    return _json(fields)


class _Writer:
    """Turns one trace into event texts. `base_ns` is the moment of ts = 1."""

    def __init__(self, trace: Trace, ordinal: int, base_ns: int, last_ns: int, flows: bool) -> None:
        self.trace = trace
        self.ordinal = ordinal
        self.base_ns = base_ns
        self.last_ns = last_ns
        self.pid = int(trace.meta.get("pid", ordinal + 1))
        self.next_id = _OWN_IDS + ordinal * (1 << 20)
        self.tids: set[int] = set()
        self.named: list[str] = []
        self.texts: dict[int, str] = {}
        self.args: dict[tuple[int, ...], str] = {}
        self.with_flows = flows
        self.flows = 0
        self.ops: dict[int, tuple[int, int, int]] = {}  # correlation -> tid, begin, end

    def events(self) -> Iterator[str]:
        yield from self._host()
        yield from self._devices()
        yield from self._memory()
        yield from self._names()

    # Times, names, ids ------------------------------------------------------------------------

    def ts(self, ns: int) -> str:
        n = max(0, ns - self.base_ns) + 1000
        return f"{n // 1000}.{n % 1000:03d}"

    def text(self, string: int) -> str:
        """JSON text of a string id's text, as an event's name."""
        found = self.texts.get(string)
        if found is None:
            name = op_name(safe_text(self.trace.strings.get(string, "")))
            found = self.texts[string] = _json(name or "(no name)")
        return found

    def own_id(self) -> int:
        self.next_id += 1
        return self.next_id

    def device_pid(self, device: int) -> int:
        return _OWN_IDS - (self.ordinal + 1) * _DEVICES_EACH + device

    def lane_name(self, pid: int, tid: int, name: str, order: int) -> None:
        args = {"name": safe_text(name)}
        self.named.append(_event(ph="M", name="thread_name", pid=pid, tid=tid, args=args))
        order_args = {"sort_index": order}
        self.named.append(_event(ph="M", name="thread_sort_index", pid=pid, tid=tid, args=order_args))

    # Slices -----------------------------------------------------------------------------------

    def _args(self, key: tuple[int, ...]) -> str:
        """JSON text of the args of a record with these _ARGS; equal records share one."""
        found = self.args.get(key)
        if found is None:
            found = self.args[key] = _json(self._args_of(dict(zip(_ARGS, key, strict=True))))
        return found

    def _args_of(self, r: dict[str, int]) -> dict[str, Any]:
        texts = self.trace.strings
        flags = Flag(r["flags"] & 0x3F)
        args: dict[str, Any] = {}
        if r["device"] >= 0:
            args["device"] = f"ral:{int(r['device'])}"
        if r["tier"]:
            args["tier"] = TIER_NAMES[min(int(r["tier"]), len(TIER_NAMES) - 1)]
        for field in ("kernel", "shapes"):
            if r[field]:
                args[field] = safe_text(texts.get(int(r[field]), ""))
        if r["reason"]:
            reason = parse_reason(texts.get(int(r["reason"]), ""))
            args["reason"] = {safe_text(k): safe_text(v) for k, v in reason.items()}
        for field, name in (("location", "line"), ("forward_location", "forward_line")):
            line = split_location(texts.get(int(r[field]), ""))[1]
            if line is not None:
                args[name] = line
        if r["inner_location"]:
            args["inner"] = safe_text(texts.get(int(r["inner_location"]), ""))
        for field, name in (("bytes", "bytes"), ("copied", "copied_bytes")):
            if r[field]:
                args[name] = int(r[field])
        for flag in Flag:
            if flag in flags:
                args[str(flag.name).lower()] = True
        return args

    def _slices(
        self, records: np.ndarray, pid: int, first_tid: int, nest: bool, name: str, order: int
    ) -> Iterator[str]:
        """The records as X events on one lane, or as many as it takes that none overlap."""
        end = np.where(records["end_ns"] > 0, records["end_ns"], self.last_ns)
        end = np.maximum(end, records["begin_ns"])
        rank = np.where(records["kind"] == Kind.OP, 0, 1)
        # Outer slices first: readers nest slices of equal times in the file's order.
        sort = np.lexsort((rank, -end, records["begin_ns"]))
        records, end, rank = records[sort], end[sort], rank[sort]
        lane, written = place(records["begin_ns"], end, rank, nest)
        tids = [first_tid, *(self.own_id() for _ in range(int(lane.max(initial=0))))]
        for number, tid in enumerate(tids):
            self.lane_name(pid, tid, name if number == 0 else f"{name} ({number + 1})", order)
        with_flows = self.with_flows and pid != self.pid
        keys = zip(*(records[f].tolist() for f in _ARGS), strict=True)
        columns = [records[f].tolist() for f in ("kind", "name", "correlation", "queued_ns")]
        times = (records["begin_ns"].tolist(), written.tolist(), lane.tolist())
        for key, kind, op, correlation, queued, begin, until, number in zip(
            keys, *columns, *times, strict=True
        ):
            tid, dur = tids[number], until - begin
            cat = _CATEGORIES[kind]
            if kind == Kind.OP:
                if correlation:
                    self.ops[correlation] = (tid, begin, until)
                if key[_FLAGS] & _USER_RANGE:
                    cat = "kernel"
            yield (
                f'{{"ph":"X","cat":"{cat}","name":{self.text(op)},"pid":{pid},"tid":{tid},'
                f'"ts":{self.ts(begin)},"dur":{dur // 1000}.{dur % 1000:03d},'
                f'"args":{self._args(key)}}}'
            )
            if with_flows and correlation in self.ops:
                yield from self._flow(self.ops[correlation], queued, pid, tid, begin)

    def _flow(self, op: tuple[int, int, int], queued: int, pid: int, tid: int, begin: int) -> Iterator[str]:
        """An arrow from within the op's slice to the beginning of the device's slice."""
        op_tid, op_begin, op_end = op
        at = min(max(queued, op_begin), max(op_begin, op_end - 1), max(begin, op_begin))
        self.flows += 1
        head = f'"cat":"launch","name":"launch","id":{(self.ordinal << 40) + self.flows}'
        yield f'{{"ph":"s",{head},"pid":{self.pid},"tid":{op_tid},"ts":{self.ts(at)}}}'
        yield f'{{"ph":"f","bp":"e",{head},"pid":{pid},"tid":{tid},"ts":{self.ts(begin)}}}'

    def _host(self) -> Iterator[str]:
        records = self.trace.records
        kind, host = records["kind"], (records["flags"] & np.uint32(Flag.HOST)) != 0
        work = np.isin(kind, (Kind.KERNEL, Kind.COPY)) & (host | (records["device"] < 0))
        on_host = records[np.isin(kind, (Kind.OP, Kind.SYNC)) | work]
        for order, thread in enumerate(pd.unique(on_host["thread"]).tolist()):
            number, _, name = self.trace.strings.get(thread, "").partition(" ")
            tid = int(number) if number.isdigit() else self.own_id()
            if tid in self.tids or not 0 < tid < _OWN_IDS // 2:
                tid = self.own_id()  # a later thread of the same number
            self.tids.add(tid)
            mine = on_host[on_host["thread"] == thread]
            yield from self._slices(mine, self.pid, tid, True, name or f"thread {tid}", order)
        compiles = records[kind == Kind.COMPILE]
        open_ = compiles["end_ns"] == 0
        closed = {(int(r["name"]), int(r["device"])) for r in compiles[~open_]}
        known = [(int(r["name"]), int(r["device"])) in closed for r in compiles]
        compiles = compiles[~(open_ & np.array(known, dtype=bool))]
        if len(compiles):
            yield from self._slices(compiles, self.pid, self.own_id(), False, "compiles", 1000)
        for r in records[kind == Kind.MARK]:
            yield (
                f'{{"ph":"i","s":"p","cat":"mark","name":{self.text(int(r["name"]))},'
                f'"pid":{self.pid},"tid":{self.pid},"ts":{self.ts(int(r["begin_ns"]))}}}'
            )

    def _devices(self) -> Iterator[str]:
        records = self.trace.records
        on_device = (records["device"] >= 0) & ((records["flags"] & np.uint32(Flag.HOST)) == 0)
        for device in np.unique(records["device"][on_device]).tolist():
            mine = records[on_device & (records["device"] == device)]
            pid = self.device_pid(device)
            kernels = mine[mine["kind"] == Kind.KERNEL]
            for stream in np.unique(kernels["stream"]).tolist():
                some = kernels[kernels["stream"] == stream]
                lane = f"stream {stream}"
                yield from self._slices(some, pid, self.own_id(), False, lane, 10 + stream)
            copies = mine[mine["kind"] == Kind.COPY]
            if len(copies):
                yield from self._slices(copies, pid, self.own_id(), False, "copies", 5000)

    # Memory -----------------------------------------------------------------------------------

    def _memory(self) -> Iterator[str]:
        memory = self.trace.memory
        memory = memory[memory["begin_us"].notna()]
        changes: list[tuple[int, int, str]] = []
        for row in memory.itertuples(index=False):
            begin = self._ns(row.begin_us)
            alive = pd.isna(row.end_us)
            end = max(begin, self.last_ns if alive else self._ns(row.end_us))
            number = row.device[4:]
            pid = self.device_pid(int(number)) if number else self.pid
            head = (
                f'"cat":"memory","id":"0x{(self.ordinal << 48) | row.id:x}",'
                f'"name":{_json(safe_text(row.label))},"pid":{pid},"tid":{pid}'
            )
            args: dict[str, Any] = {"bytes": row.bytes, "buffer": row.id, "device": row.device}
            args["op"] = safe_text(row.op)
            for name, value in (("line", row.line), ("parent", row.parent)):
                if not pd.isna(value):
                    args[name] = int(value)
            args |= {"view": bool(row.view), "alive_at_end": bool(alive)}
            yield f'{{"ph":"b",{head},"ts":{self.ts(begin)},"args":{_json(args)}}}'
            yield f'{{"ph":"e",{head},"ts":{self.ts(end)}}}'
            if not row.view and row.device:
                changes.append((begin, row.bytes, row.device))
                if not alive:
                    changes.append((end, -row.bytes, row.device))
        now: dict[str, int] = {}
        for ns, change, device in sorted(changes, key=lambda c: c[0]):
            now[device] = now.get(device, 0) + change
            yield _event(
                ph="C", cat="memory", name="allocated", pid=self.device_pid(int(device[4:])),
                ts=float(self.ts(ns)), args={"bytes": now[device]},
            )  # fmt: skip

    def _ns(self, us: float) -> int:
        return self.trace.epoch_ns + round(us * 1000)

    def _names(self) -> Iterator[str]:
        yield from self.named
        name = safe_text(str(self.trace.meta.get("name", "python")))
        yield from self._process(self.pid, name, 0)
        if self.trace.dropped:
            labels = f"{self.trace.dropped} records dropped"
            args = {"labels": labels}
            yield _event(ph="M", name="process_labels", pid=self.pid, tid=self.pid, args=args)
        known = {d.get("index"): d for d in self.trace.status.get("devices", [])}
        used = np.unique(self.trace.records["device"])
        for device in used[used >= 0].tolist():
            title = f"ral:{device} {known.get(device, {}).get('name', '')}".strip()
            yield from self._process(self.device_pid(device), safe_text(title), device + 1)

    def _process(self, pid: int, name: str, order: int) -> Iterator[str]:
        args: dict[str, Any] = {"name": name}
        yield _event(ph="M", name="process_name", pid=pid, tid=pid, args=args)
        args = {"sort_index": self.ordinal * 100 + order}
        yield _event(ph="M", name="process_sort_index", pid=pid, tid=pid, args=args)


_CATEGORIES = {
    int(Kind.OP): "op",
    int(Kind.KERNEL): "kernel",
    int(Kind.COPY): "copy",
    int(Kind.SYNC): "sync",
    int(Kind.COMPILE): "compile",
}


def _bounds(traces: Sequence[Trace]) -> tuple[int, int]:
    """First and last moment of the traces, in nanoseconds; what lived before them does not count."""
    begins, ends = [], []
    for trace in traces:
        fresh = trace.records[(trace.records["flags"] & np.uint32(Flag.SNAPSHOT)) == 0]
        if len(fresh):
            begins.append(int(fresh["begin_ns"].min()))
            ends.append(int(max(fresh["end_ns"].max(), fresh["begin_ns"].max())))
        else:
            begins.append(trace.epoch_ns)
            ends.append(trace.epoch_ns)
    return min(begins, default=0), max(ends, default=0)


def chrome_parts(traces: Sequence[Trace], flows: bool = True) -> Iterator[str]:
    """The text of a Chrome trace of one or several processes, in parts; `flows` adds the arrows."""
    base_ns, last_ns = _bounds(traces)
    processes = [
        {
            "pid": t.meta.get("pid"),
            "kernel_id": t.meta.get("kernel_id", ""),
            "dropped": t.dropped,
            "records": len(t.records),
            "devices": t.status.get("devices", []),
        }
        for t in traces
    ]
    about = {
        "format": FORMAT,
        "version": FORMAT_VERSION,
        "clock": "CLOCK_MONOTONIC",
        "base_ns": base_ns,
        "dropped": sum(t.dropped for t in traces),
        "processes": processes,
    }
    realtime = [t.meta["realtime_offset_ns"] for t in traces if "realtime_offset_ns" in t.meta]
    if realtime:
        about["base_realtime_ns"] = base_ns + realtime[0]
    yield f'{{"displayTimeUnit":"ns","otherData":{_json(_safe(about))},"traceEvents":[\n'
    comma = ""
    for ordinal, trace in enumerate(traces):
        for event in _Writer(trace, ordinal, base_ns, last_ns, flows).events():
            yield comma + event
            comma = ",\n"
    yield "\n]}\n"


def _safe(value: Any) -> Any:
    """The value with every text made safe."""
    if isinstance(value, str):
        return safe_text(value)
    if isinstance(value, dict):
        return {safe_text(str(k)): _safe(v) for k, v in value.items()}
    if isinstance(value, list):
        return [_safe(v) for v in value]
    return value


def write_chrome(path: str | os.PathLike[str], traces: Sequence[Trace]) -> None:
    """Writes the traces of one or several processes into one Chrome trace file."""
    path = Path(path)
    part = path.with_name(f"{path.name}.{os.getpid()}.part")
    try:
        with open(part, "w", encoding="ascii") as file:
            file.writelines(chrome_parts(traces))
        os.replace(part, path)
    finally:
        part.unlink(missing_ok=True)


def read_chrome(path: str | os.PathLike[str]) -> dict[str, Any]:
    """A Chrome trace as {"traceEvents": [...], "otherData": {...}}; ValueError names the fault."""
    try:
        document = json.loads(Path(path).read_text(encoding="utf-8"))
    except ValueError as error:
        raise ValueError(f"{path}: not a Chrome trace: {error}") from error
    if isinstance(document, list):
        document = {"traceEvents": document}
    events = document.get("traceEvents") if isinstance(document, dict) else None
    if not isinstance(events, list) or not all(isinstance(e, dict) for e in events):
        raise ValueError(f"{path}: not a Chrome trace: it has no list of traceEvents")
    return {"otherData": {}, **document}
