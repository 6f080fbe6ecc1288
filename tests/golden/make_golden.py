"""Writes profile_v1.json: one small bundle and the values that any reader must decode from it.

Follows docs/profile-format.md with nothing but numpy, so that it shares no code with the writer
(kernel_ext/torch_fl/bundle.py) or the reader (fl_widgets/src/core/batch.ts). Run it only when the
format changes: ``python tests/golden/make_golden.py`` rewrites the file in place.
"""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import Any

import numpy as np

GOLDEN = Path(__file__).with_name("profile_v1.json")

HEADER_DTYPE = np.dtype(
    {
        "names": ["magic", "version", "record_bytes", "records", "number", "now", "dropped", "events"],
        "formats": ["<u4", "<u2", "<u2", "<u4", "<u4", "<f8", "<f8", "<f8"],
        "offsets": [0, 4, 6, 8, 12, 16, 24, 32],
        "itemsize": 64,
    }
)

RECORD_DTYPE = np.dtype(
    [
        ("begin", "<f8"),
        ("duration", "<f8"),
        ("bytes", "<f8"),
        ("copied", "<f8"),
        ("name", "<u4"),
        ("kernel", "<u4"),
        ("reason", "<u4"),
        ("location", "<u4"),
        ("inner", "<u4"),
        ("forward", "<u4"),
        ("shapes", "<u4"),
        ("buffer", "<u4"),
        ("parent", "<u4"),
        ("correlation", "<u4"),
        ("thread", "<u4"),
        ("device", "<i2"),
        ("stream", "<u2"),
        ("kind", "u1"),
        ("tier", "u1"),
        ("flags", "<u2"),
        ("count", "<u4"),
    ]
)
assert RECORD_DTYPE.itemsize == 88

MAGIC = 0x424C4152
OP, KERNEL, COPY, ALLOC, FREE, VIEW, SYNC, DECISION, COMPILE, MARK = range(1, 11)
NATIVE, JIT, REFERENCE, CPU, VIEW_TIER = range(1, 6)
BACKWARD, HOST, USER_RANGE = 0x1, 0x2, 0x4


def records_of(rows: list[dict[str, Any]]) -> np.ndarray:
    """Records as a structured array; a row names only the fields that are not zero (device -1, count 1)."""
    out = np.zeros(len(rows), RECORD_DTYPE)
    out["device"] = -1
    out["count"] = 1
    for i, row in enumerate(rows):
        for field, value in row.items():
            out[i][field] = value
    return out


def encode_batch(
    records: np.ndarray, *, number: int, now: float, dropped: float = 0, events: float | None = None
) -> bytes:
    """One batch, version 1. ``now`` is in microseconds since the cell began."""
    header = np.zeros(1, HEADER_DTYPE)
    header[0] = (MAGIC, 1, 88, len(records), number, now, dropped, len(records) if events is None else events)
    return header.tobytes() + records.tobytes()


def decoded(batch: bytes) -> dict[str, Any]:
    """Header and records of a batch as plain numbers, as a reader must see them."""
    header = np.frombuffer(batch[:64], HEADER_DTYPE)[0]
    records = np.frombuffer(batch[64:], RECORD_DTYPE)
    return {
        "header": {name: header[name].item() for name in ("records", "number", "now", "dropped", "events")},
        "records": [{name: r[name].item() for name in RECORD_DTYPE.names} for r in records],
    }


STRINGS = {
    1: "4711 MainThread",
    2: "4712 pt_autograd_0",
    3: "aabbccddeeff:2",
    4: "aabbccddeeff:3",
    5: "convolution",
    6: "conv2d_nchw_f32",
    7: '{"ran": "manifest entry"}',
    8: "max_pool2d_with_indices_backward",
    9: "maxpool2d_bwd_ref",
    10: '{"native": "dtype int64 not in supported_dtypes", "jit": "no template for this op", "ran": "C++ on the host"}',
    11: "host_to_device",
    12: "synchronize",
    13: "gelu",
    14: "epoch 0 \u2013 \u00fcbung",
    15: "view",
    16: "[64, 1, 28, 28] float32, [16, 1, 3, 3] float32",
    17: "112233445566:7",
    18: "nll_loss_forward",
    19: '{"native": "no manifest entry", "jit": "switched off by RAL_JIT=off", "reference": "no reference kernel",'
    ' "ran": "PyTorch on the host"}',
}

FIRST = [
    {
        "kind": OP,
        "name": 14,
        "begin": 0.5,
        "duration": 9000.25,
        "thread": 1,
        "location": 3,
        "flags": USER_RANGE,
        "correlation": 1,
    },
    {
        "kind": OP,
        "name": 5,
        "begin": 10.0,
        "duration": 40.0,
        "thread": 1,
        "location": 3,
        "inner": 17,
        "correlation": 2,
    },
    {
        "kind": ALLOC,
        "name": 5,
        "begin": 12.125,
        "bytes": 3211264,
        "buffer": 4000000001,
        "device": 0,
        "thread": 1,
        "location": 3,
        "correlation": 2,
    },
    {
        "kind": COPY,
        "name": 11,
        "begin": 15.0,
        "duration": 80.5,
        "bytes": 200704,
        "device": 0,
        "thread": 1,
        "location": 3,
        "buffer": 7,
    },
    {
        "kind": KERNEL,
        "name": 5,
        "kernel": 6,
        "reason": 7,
        "tier": NATIVE,
        "begin": 100.0,
        "duration": 3100.75,
        "bytes": 6422528,
        "device": 0,
        "stream": 65535,
        "thread": 1,
        "location": 3,
        "inner": 17,
        "shapes": 16,
        "buffer": 4000000001,
        "parent": 7,
        "correlation": 2,
    },
    {
        "kind": COMPILE,
        "name": 13,
        "begin": 120.0,
        "duration": 0.0,
        "device": 0,
        "thread": 1,
        "location": 3,
        "tier": JIT,
    },
    {
        "kind": VIEW,
        "name": 15,
        "begin": 130.0,
        "bytes": 3211264,
        "buffer": 9,
        "parent": 4000000001,
        "device": 0,
        "thread": 1,
        "location": 3,
        "tier": VIEW_TIER,
    },
]

SECOND = [
    {
        "kind": SYNC,
        "name": 12,
        "begin": 3300.0,
        "duration": 120.0,
        "device": 0,
        "thread": 2,
        "location": 4,
        "forward": 3,
    },
    {
        "kind": KERNEL,
        "name": 8,
        "kernel": 9,
        "reason": 10,
        "tier": REFERENCE,
        "begin": 3420.0,
        "duration": 6680.0,
        "bytes": 5619712,
        "device": 0,
        "thread": 2,
        "location": 4,
        "forward": 3,
        "buffer": 10,
        "parent": 11,
        "correlation": 3,
        "flags": BACKWARD | HOST,
    },
    {
        "kind": KERNEL,
        "name": 18,
        "kernel": 18,
        "reason": 19,
        "tier": CPU,
        "begin": 10100.0,
        "duration": 900.0,
        "copied": 5248,
        "device": 0,
        "thread": 1,
        "location": 3,
        "flags": HOST,
    },
    {
        "kind": KERNEL,
        "name": 5,
        "kernel": 6,
        "tier": NATIVE,
        "begin": 11000.0,
        "duration": 55.5,
        "device": 1,
        "count": 17,
        "thread": 1,
        "location": 3,
    },
    {
        "kind": COMPILE,
        "name": 13,
        "begin": 120.0,
        "duration": 20500.0,
        "device": 0,
        "thread": 1,
        "location": 3,
        "tier": JIT,
    },
    {
        "kind": FREE,
        "begin": 21000.0,
        "bytes": 3211264,
        "buffer": 4000000001,
        "device": 0,
        "thread": 1,
        "location": 4,
    },
]

SUMMARY = {
    "state": "failed",
    "failed_line": 3,
    "error": "ValueError: made up",
    "wall_us": 22000.0,
    "busy": {"ral:0": 0.145, "ral:1": 0.0025},
    "peak_bytes": {"ral:0": 3211264},
    "memory_bytes": {"ral:0": 0},
    "op_time_us": {"native": 3156.25, "jit": 0.0, "reference": 6680.0, "cpu": 900.0},
    "op_count": {"native": 18, "jit": 0, "reference": 1, "cpu": 1, "view": 1},
    "copy_us": 80.5,
    "copy_bytes": 200704,
    "wait_us": 120.0,
    "events": 29,
    "dropped": 3,
    "overhead": 0.013,
    "line": 3,
    "compiling": None,
    "ops_per_second": 900.0,
    "fell_back_100ms": [2, 20],
}

TABLES = {
    "lines": [
        {
            "line": 3,
            "source": "    loss.backward()",
            "native_us": 0.0,
            "jit_us": 0.0,
            "reference_us": 6680.0,
            "cpu_us": 0.0,
            "time_us": 6680.0,
            "count": 1,
            "backward_us": 6680.0,
            "copy_us": 0.0,
            "wait_us": 120.0,
            "bytes": 5619712,
            "alloc_bytes": 0,
        },
        {
            "line": 2,
            "source": "    loss = F.cross_entropy(net(x), y)",
            "native_us": 3156.25,
            "jit_us": 0.0,
            "reference_us": 0.0,
            "cpu_us": 900.0,
            "time_us": 4056.25,
            "count": 19,
            "backward_us": 0.0,
            "copy_us": 80.5,
            "wait_us": 0.0,
            "bytes": 6422528,
            "alloc_bytes": 3211264,
        },
    ],
    "forward_lines": [],
    "fallback": [
        {
            "op": "max_pool2d_with_indices_backward",
            "tier": "reference",
            "kernel": "maxpool2d_bwd_ref",
            "reason": json.loads(STRINGS[10]),
            "device": "ral:0",
            "count": 1,
            "time_us": 6680.0,
            "copied_bytes": 0,
            "lines": [3],
        }
    ],
    "buffers": [
        {
            "id": 4000000001,
            "label": "convolution.0 line 2",
            "device": "ral:0",
            "bytes": 3211264,
            "begin_us": 12.125,
            "end_us": 21000.0,
            "parent": None,
            "view": False,
            "line": 2,
            "op": "convolution",
        },
        {
            "id": 9,
            "label": "view.0 line 2",
            "device": "ral:0",
            "bytes": 3211264,
            "begin_us": 130.0,
            "end_us": None,
            "parent": 4000000001,
            "view": True,
            "line": 2,
            "op": "view",
        },
    ],
    "buffers_total": {"blocks": 1, "views": 1, "shown": 2},
    "memory_curve": {"ral:0": [[12.125, 3211264], [21000.0, 0]]},
    "peak": [{"label": "convolution.0 line 2", "bytes": 3211264, "device": "ral:0"}],
    "leaks": [],
}


def golden() -> dict[str, Any]:
    """The whole content of the golden file."""
    batches = [
        encode_batch(records_of(FIRST), number=0, now=3200.5, events=7),
        encode_batch(records_of(SECOND), number=1, now=22000.0, dropped=3, events=29),
    ]
    return {
        "about": "Made by tests/golden/make_golden.py; every reader of docs/profile-format.md version 1 "
        "must decode `expected` from `bundle`.",
        "bundle": {
            "version": 1,
            "profile": "golden-1",
            "created": "2026-11-30T12:00:00Z",
            "torch_fl": "0.1.0",
            "torch": "2.13.0",
            "label": None,
            "source": "%%ral_profile\n    loss = F.cross_entropy(net(x), y)\n    loss.backward()",
            "devices": [
                {
                    "id": "ral:0",
                    "index": 0,
                    "kind": "CPU",
                    "name": "PoCL CPU",
                    "vendor": "PoCL",
                    "mark": "Po",
                    "driver": "PoCL 6.0",
                    "memory_total": 33285996544,
                    "dtypes": ["float32", "float64"],
                    "plugin": "opencl",
                    "plugin_version": "0.9",
                    "status": "LOADED",
                    "host_visible": True,
                }
            ],
            "summary": SUMMARY,
            "tables": TABLES,
            "strings": {str(k): v for k, v in STRINGS.items()},
            "batches": [base64.b64encode(b).decode("ascii") for b in batches],
            "thinned": False,
        },
        "expected": {"batches": [decoded(b) for b in batches]},
    }


if __name__ == "__main__":
    GOLDEN.write_text(json.dumps(golden(), ensure_ascii=False, indent=1) + "\n", encoding="utf-8")
    print(f"wrote {GOLDEN}")
