"""A made-up profile for looking at the front end: a small CNN trained on two devices, like the mock-ups.

``made_up_bundle(until_us=None, running=False)`` gives the bundle; ``live_messages`` the same cell as
live batches. The numbers mean nothing; the structure is that of docs/profile-format.md.
"""

from __future__ import annotations

import base64
import json
import sys
from collections import defaultdict
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "golden"))
from make_golden import (
    ALLOC,
    BACKWARD,
    COMPILE,
    COPY,
    CPU,
    FREE,
    HOST,
    JIT,
    KERNEL,
    NATIVE,
    OP,
    REFERENCE,
    SYNC,
    USER_RANGE,
    VIEW,
    VIEW_TIER,
    encode_batch,
    records_of,
)

SOURCE = """%%ral_profile
net = nn.Sequential(nn.Conv2d(1, 16, 3, padding=1), nn.BatchNorm2d(16), nn.ReLU(), nn.MaxPool2d(2),
    nn.Conv2d(16, 32, 3, padding=1), nn.GELU(), nn.AdaptiveAvgPool2d(4),
    nn.Flatten(), nn.Linear(512, 10)).to("ral:1")
opt, hist = torch.optim.AdamW(net.parameters(), 2e-3), []
for epoch in range(3):
    with torch.profiler.record_function(f"epoch {epoch}"):
        for x, y in loader:
            x, y = augment(x.to("ral:0")).to("ral:1"), y.to("ral:1")
            loss = F.cross_entropy(net(x), y)
            opt.zero_grad()
            loss.backward()
            opt.step()
        hist.append(F.cross_entropy(net(xv), yv))
        print(f"epoch {epoch}  loss {loss:.3f}  val {hist[-1]:.3f}")"""

NO_INT64, NO_ENTRY, NO_TEMPLATE, NO_REF = (
    "dtype int64 not in supported_dtypes",
    "no manifest entry",
    "no template for this op",
    "no reference kernel",
)
MIB = 1048576
# op: kernel, ms, tier, reasons, output bytes
OPS: dict[str, tuple[str, float, int, dict[str, str], float]] = {
    "convolution": ("conv2d_nchw_f32", 3.1, NATIVE, {}, 3.06 * MIB),
    "native_batch_norm": ("bn_train_f32", 1.25, NATIVE, {}, 3.06 * MIB),
    "relu": ("relu_f32", 0.42, JIT, {"native": NO_ENTRY}, 3.06 * MIB),
    "max_pool2d_with_indices": (
        "maxpool2d_idx_ref",
        5.2,
        REFERENCE,
        {"native": NO_INT64, "jit": NO_TEMPLATE},
        1.53 * MIB,
    ),
    "gelu": ("gelu_f32", 0.62, JIT, {"native": NO_ENTRY}, 1.53 * MIB),
    "addmm": ("gemm_f32_bias", 0.48, NATIVE, {}, 2560),
    "_log_softmax": ("log_softmax_f32", 0.16, NATIVE, {}, 2560),
    "nll_loss_forward": (
        "aten::nll_loss_forward",
        0.9,
        CPU,
        {"native": NO_INT64, "jit": NO_INT64, "reference": NO_REF},
        4,
    ),
    "nll_loss_backward": (
        "aten::nll_loss_backward",
        0.8,
        CPU,
        {"native": NO_INT64, "jit": NO_INT64, "reference": NO_REF},
        2560,
    ),
    "mm": ("gemm_f32", 0.47, NATIVE, {}, 131072),
    "gelu_backward": ("gelu_bwd_f32", 0.71, JIT, {"native": NO_ENTRY}, 1.53 * MIB),
    "convolution_backward": ("conv2d_bwd_f32", 9.2, NATIVE, {}, 4 * MIB),
    "max_pool2d_with_indices_backward": (
        "maxpool2d_bwd_ref",
        6.9,
        REFERENCE,
        {"native": NO_INT64, "jit": NO_TEMPLATE},
        3.06 * MIB,
    ),
    "threshold_backward": ("threshold_bwd_f32", 0.43, JIT, {"native": NO_ENTRY}, 3.06 * MIB),
    "native_batch_norm_backward": ("bn_bwd_f32", 1.9, NATIVE, {}, 3.06 * MIB),
    "lerp_": ("lerp_f32", 0.05, JIT, {"native": NO_ENTRY}, 0),
    "addcmul_": ("addcmul_f32", 0.055, JIT, {"native": NO_ENTRY}, 0),
    "addcdiv_": ("addcdiv_f32", 0.06, JIT, {"native": NO_ENTRY}, 0),
    "flip": ("flip_f32", 0.5, NATIVE, {}, 200704),
    "add": ("add_f32", 0.4, NATIVE, {}, 200704),
}
FORWARD = [
    "convolution",
    "native_batch_norm",
    "relu",
    "max_pool2d_with_indices",
    "convolution",
    "gelu",
    "addmm",
    "_log_softmax",
    "nll_loss_forward",
]
BACKWARDS = [
    "nll_loss_backward",
    "mm",
    "gelu_backward",
    "convolution_backward",
    "max_pool2d_with_indices_backward",
    "threshold_backward",
    "native_batch_norm_backward",
    "convolution_backward",
]
TIER_NAMES = {NATIVE: "native", JIT: "jit", REFERENCE: "reference", CPU: "cpu"}


class Cell:
    """Plays the cell and writes its records; times in ms inside, microseconds in the records."""

    def __init__(self) -> None:
        self.rows: list[dict[str, Any]] = []
        self.strings: dict[str, int] = {}
        self.host = 0.0
        self.queue = {0: 0.0, 1: 0.0}
        self.compiler = 0.0
        self.ready: dict[str, float] = {}
        self.buffers: list[dict[str, Any]] = []
        self.last = 0
        self.seed = 7

    def jitter(self) -> float:
        self.seed = (self.seed * 1664525 + 1013904223) % 2**32
        return 0.93 + self.seed / 2**32 * 0.16

    def text(self, text: str) -> int:
        return self.strings.setdefault(text, len(self.strings) + 1) if text else 0

    def add(self, kind: int, begin: float, end: float, line: int, name: str, **fields: Any) -> None:
        thread = "42 pt_autograd_1" if fields.get("flags", 0) & BACKWARD else "41 MainThread"
        self.rows.append(
            {
                "kind": kind,
                "begin": begin * 1e3,
                "duration": (end - begin) * 1e3,
                "location": self.text(f"aabbccddeeff:{line}") if line else 0,
                "name": self.text(name),
                "thread": self.text(thread),
                **fields,
            }
        )

    def wait(self, device: int, line: int, flags: int) -> None:
        to = self.queue[device]
        if to > self.host + 0.05:
            self.add(SYNC, self.host, to, line, "wait", device=device, flags=flags)
        self.host = max(self.host, to)

    def copy(self, device: int, ms: float, size: int, name: str, line: int) -> float:
        self.host += 0.04
        begin = max(self.queue[device], self.host)
        self.queue[device] = begin + ms
        self.add(COPY, begin, begin + ms, line, name, device=device, bytes=size)
        return begin + ms

    def op(
        self,
        name: str,
        line: int,
        device: int = 1,
        *,
        backward: bool = False,
        scale: float = 1,
        out: bool = True,
    ) -> float:
        kernel, ms, tier, why, size = OPS[name]
        ms *= scale * self.jitter()
        flags = BACKWARD if backward else 0
        host0 = self.host
        self.host += 0.055
        why = dict(why)
        if tier == JIT:
            key = f"{name}{device}"
            if key not in self.ready:
                begin = max(self.compiler, self.host)
                self.compiler = self.ready[key] = begin + 17 + 17 * (self.jitter() - 0.93) / 0.16
                self.add(COMPILE, begin, self.compiler, line, name, device=device, tier=JIT)
            if max(self.queue[device], self.host) < self.ready[key]:
                tier, ms = REFERENCE, ms * 1.9
                why["jit"] = "compiling (background)"
                kernel = f"{name}_ref"
        reason = json.dumps(
            {**why, "ran": "manifest entry" if tier == NATIVE else f"next in the chain: {TIER_NAMES[tier]}"}
        )
        made = len(self.buffers) + 100
        fields = {
            "tier": tier,
            "device": device,
            "kernel": self.text(kernel),
            "reason": self.text(reason),
            "buffer": made if out and size else 0,
            "parent": self.last,
            "bytes": size * 2 * scale,
            "shapes": self.text("[64, 16, 28, 28] float32"),
            "forward": self.text("aabbccddeeff:10") if backward else 0,
        }
        if tier in (REFERENCE, CPU):
            self.wait(device, line, flags)
            begin = self.host
            if tier == CPU:
                begin = self.host = self.copy(device, 0.22, 2624, "device_to_host", line)
                fields["copied"] = 5248
            self.host += ms
            self.add(KERNEL, begin, self.host, line, name, **{**fields, "flags": flags | HOST})
            end = self.host
        else:
            begin = max(self.queue[device], self.host)
            end = self.queue[device] = begin + ms
            self.add(KERNEL, begin, end, line, name, **{**fields, "flags": flags})
        self.add(OP, host0, self.host, line, name, flags=flags)
        if out and size:
            self.add(ALLOC, begin, begin, line, name, buffer=made, bytes=size * scale, device=device)
            label = f"{name.replace('_with_indices', '')}.0 line {line}"
            self.buffers.append(
                {
                    "id": made,
                    "label": label,
                    "device": f"ral:{device}",
                    "bytes": int(size * scale),
                    "begin_us": begin * 1e3,
                    "end_us": None,
                    "parent": None,
                    "view": False,
                    "line": line,
                    "op": name,
                }
            )
            self.last = made
        return end

    def view(self, line: int) -> None:
        parent = self.buffers[-1]
        self.host += 0.02
        self.add(
            VIEW,
            self.host,
            self.host,
            line,
            "view",
            device=1,
            tier=VIEW_TIER,
            buffer=len(self.buffers) + 100,
            parent=parent["id"],
        )
        self.buffers.append(
            {
                **parent,
                "id": len(self.buffers) + 100,
                "label": f"view.0 line {line}",
                "begin_us": self.host * 1e3,
                "parent": parent["id"],
                "view": True,
                "op": "view",
            }
        )

    def free_from(self, first: int, at: float) -> None:
        span = at - self.buffers[first]["begin_us"] / 1e3
        for i, buffer in enumerate(self.buffers[first:]):
            if buffer["end_us"] is None:
                buffer["end_us"] = max(
                    buffer["begin_us"] + 10, (at - span * 0.6 * i / max(1, len(self.buffers) - first)) * 1e3
                )
                fields = {
                    "buffer": buffer["id"],
                    "bytes": buffer["bytes"],
                    "device": int(buffer["device"][4:]),
                }
                self.add(FREE, buffer["end_us"] / 1e3, buffer["end_us"] / 1e3, 0, "", **fields)


def play(epochs: int = 3, steps: int = 8) -> Cell:
    """The whole cell."""
    cell = Cell()
    cell.add(OP, 0, 12, 2, "randn")
    cell.host = 18
    cell.copy(1, 1.1, 41000, "host_to_device", 4)
    for epoch in range(epochs):
        began = cell.host
        for _ in range(steps):
            first = len(cell.buffers)
            cell.host += 1.4
            cell.copy(0, 0.3, 200704, "host_to_device", 9)
            for name in ("flip", "add"):
                cell.op(name, 9, 0)
            cell.queue[1] = max(cell.queue[1], cell.queue[0])
            cell.copy(1, 0.45, 200704, "device_to_device", 9)
            for i, name in enumerate(FORWARD):
                cell.op(name, 10, scale=2 if i == 4 else 1)
                if i == 0:
                    cell.view(10)
            cell.host += 0.25
            for name in BACKWARDS:
                cell.op(name, 12, backward=True)
            for _ in range(8):
                for name in ("lerp_", "addcmul_", "addcdiv_"):
                    cell.op(name, 13, out=False)
            cell.free_from(first, max(cell.host, cell.queue[1]))
        for name in FORWARD:
            cell.op(name, 14, scale=0.25)
        cell.wait(1, 15, 0)
        cell.add(OP, began, cell.host, 7, f"epoch {epoch}", flags=USER_RANGE)
    cell.rows.sort(key=lambda r: r["begin"])
    return cell


def made_up_bundle(cell: Cell, until_us: float | None = None, state: str = "done") -> dict[str, Any]:
    """The bundle of the cell, or of its beginning up to ``until_us`` microseconds."""
    end = max(r["begin"] + r["duration"] for r in cell.rows) + 4000
    now = end if until_us is None else until_us
    rows = [r for r in cell.rows if r["begin"] <= now]
    names = {v: k for k, v in cell.strings.items()}
    tables = _tables(cell, rows, names, now)
    op_time: dict[str, float] = defaultdict(float)
    op_count: dict[str, int] = defaultdict(int)
    busy: dict[str, float] = defaultdict(float)
    for r in rows:
        if r["kind"] == KERNEL:
            op_time[TIER_NAMES[r["tier"]]] += r["duration"]
            op_count[TIER_NAMES[r["tier"]]] += 1
        if r["kind"] in (KERNEL, COPY) and r.get("tier", 0) in (0, NATIVE, JIT):
            busy[f"ral:{r['device']}"] += r["duration"] / now
    peaks = {d: max(p[1] for p in curve) for d, curve in tables["memory_curve"].items() if curve}
    summary = {
        "state": state,
        "failed_line": 12 if state == "failed" else None,
        "error": "ValueError: Expected more than 1 value per channel" if state == "failed" else None,
        "wall_us": now,
        "busy": dict(busy),
        "peak_bytes": peaks,
        "memory_bytes": {d: curve[-1][1] for d, curve in tables["memory_curve"].items() if curve},
        "op_time_us": dict(op_time),
        "op_count": {**op_count, "view": 24},
        "copy_us": 1000.0,
        "copy_bytes": 1e6,
        "wait_us": sum(r["duration"] for r in rows if r["kind"] == SYNC),
        "events": len(rows),
        "dropped": 0,
        "overhead": 0.013,
        "line": 12,
        "compiling": "addcmul_" if state == "running" else None,
        "ops_per_second": 960.0,
        "fell_back_100ms": [55, 92],
    }
    devices = [
        _device(0, "Po", "PoCL CPU", "PoCL 6.0"),
        _device(1, "In", "Intel OpenCL CPU", "Intel OpenCL 2025.2"),
    ]
    batch = encode_batch(records_of(rows), number=0, now=now)
    return {
        "version": 1,
        "profile": "made-up",
        "created": "2026-11-30T12:00:00Z",
        "torch_fl": "0.1.0",
        "torch": "2.13.0",
        "label": None,
        "source": SOURCE,
        "devices": devices,
        "summary": summary,
        "tables": tables,
        "strings": {str(v): k for k, v in cell.strings.items()},
        "batches": [base64.b64encode(batch).decode("ascii")],
        "thinned": False,
    }


def _device(index: int, mark: str, name: str, driver: str) -> dict[str, Any]:
    return {
        "id": f"ral:{index}",
        "index": index,
        "kind": "CPU",
        "name": name,
        "vendor": name.split()[0],
        "mark": mark,
        "driver": driver,
        "memory_total": 31 * 2**30,
        "dtypes": ["float32", "float64", "int32", "int64", "bool"],
        "plugin": "opencl",
        "plugin_version": "0.9",
        "status": "LOADED",
        "host_visible": True,
    }


def _tables(cell: Cell, rows: list[dict[str, Any]], names: dict[int, str], now: float) -> dict[str, Any]:
    lines: dict[int, dict[str, Any]] = {}
    chains: dict[tuple[str, str, int], dict[str, Any]] = {}
    source = SOURCE.split("\n")
    for r in rows:
        line = int(names[r["location"]].split(":")[1]) if r["location"] else 0
        row = lines.setdefault(
            line,
            {
                "line": line,
                "source": source[line - 1],
                "time_us": 0.0,
                "count": 0,
                "copy_us": 0.0,
                "wait_us": 0.0,
                "alloc_bytes": 0,
            }
            | {f"{t}_us": 0.0 for t in TIER_NAMES.values()},
        )
        if r["kind"] == KERNEL:
            tier = TIER_NAMES[r["tier"]]
            row[f"{tier}_us"] += r["duration"]
            row["time_us"] += r["duration"]
            row["count"] += 1
            chain = chains.setdefault(
                (names[r["name"]], tier, r["device"]),
                {
                    "op": names[r["name"]],
                    "tier": tier,
                    "kernel": names[r["kernel"]],
                    "reason": json.loads(names[r["reason"]]),
                    "device": f"ral:{r['device']}",
                    "count": 0,
                    "time_us": 0.0,
                    "copied_bytes": 0,
                    "lines": [],
                },
            )
            chain["count"] += 1
            chain["time_us"] += r["duration"]
            chain["copied_bytes"] += r.get("copied", 0)
            if line not in chain["lines"]:
                chain["lines"].append(line)
        elif r["kind"] == COPY:
            row["copy_us"] += r["duration"]
        elif r["kind"] == SYNC:
            row["wait_us"] += r["duration"]
        elif r["kind"] == ALLOC:
            row["alloc_bytes"] += int(r["bytes"])
    buffers = [
        b | {"end_us": b["end_us"] if b["end_us"] is not None and b["end_us"] < now else None}
        for b in cell.buffers
        if b["begin_us"] <= now
    ]
    curve = {
        d: _curve([b for b in buffers if b["device"] == d and not b["view"]]) for d in ("ral:0", "ral:1")
    }
    peak_at = max(curve["ral:1"], key=lambda p: p[1])[0] if curve["ral:1"] else 0
    alive = [b for b in buffers if not b["view"] and b["begin_us"] <= peak_at < (b["end_us"] or 1e18)]
    kept = [b for b in buffers if b["line"] == 14]
    ranked = sorted((row for row in lines.values() if row["line"]), key=lambda row: -row["time_us"])
    return {
        "lines": ranked,
        "forward_lines": ranked,
        "fallback": sorted(
            (c for c in chains.values() if c["tier"] != "native"), key=lambda c: -c["time_us"]
        ),
        "buffers": buffers[-400:],
        "buffers_total": {"blocks": len(buffers), "views": 24, "shown": min(400, len(buffers))},
        "memory_curve": curve,
        "peak": [
            {"label": b["label"], "bytes": b["bytes"], "device": b["device"]}
            for b in sorted(alive, key=lambda b: -b["bytes"])
        ],
        "leaks": [
            {
                "line": 14,
                "count": len(kept),
                "bytes": sum(b["bytes"] for b in kept),
                "label": kept[0]["label"],
                "kept_by": "hist",
            }
        ]
        if kept
        else [],
    }


def _curve(buffers: list[dict[str, Any]]) -> list[list[float]]:
    steps = [(b["begin_us"], b["bytes"]) for b in buffers] + [
        (b["end_us"], -b["bytes"]) for b in buffers if b["end_us"] is not None
    ]
    level = 0
    out = []
    for t, change in sorted(steps):
        level += change
        out.append([t, level])
    return out


def live_messages(
    cell: Cell, until_us: float, every_us: float = 100_000
) -> list[tuple[dict[str, Any], bytes]]:
    """The beginning of the cell as live messages: content and binary buffer."""
    out = []
    known: set[str] = set()
    at = 0.0
    number = 0
    while at < until_us:
        to = min(until_us, at + every_us)
        rows = [r for r in cell.rows if at < r["begin"] <= to]
        bundle = made_up_bundle(cell, to, "running")
        fresh = {k: v for k, v in bundle["strings"].items() if k not in known}
        known |= fresh.keys()
        content = {
            "type": "batch",
            "version": 1,
            "number": number,
            "sent_ms": 0.0,
            "strings": fresh,
            "summary": bundle["summary"],
            "tables": bundle["tables"],
            "devices": bundle["devices"],
            "source": SOURCE,
        }
        out.append((content, encode_batch(records_of(rows), number=number, now=to)))
        at, number = to, number + 1
    return out
