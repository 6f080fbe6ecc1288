"""Byte layout of the trace file as numpy types: the Python side of core/include/ral/trace_format.h.

A test compiles the C header and compares every offset with this file.
"""

from __future__ import annotations

import enum

import numpy as np

MAGIC = 0x45434152544C4152  # "RALTRACE"
VERSION = 1
MAX_DEVICES = 16
MAX_SEGMENTS = 64
MAX_LEASES = 16
HEADER_BYTES = 4096
STATUS_BYTES = 65536
STRING_BYTES = 4 << 20
DEFAULT_RECORDS = 131072

LEASE_DTYPE = np.dtype([("owner_pid", "<u4"), ("flags", "<u4"), ("expiry_ns", "<i8")])

HEADER_DTYPE = np.dtype(
    [
        ("magic", "<u8"),
        ("version", "<u4"),
        ("record_bytes", "<u4"),
        ("pid", "<u4"),
        ("enabled", "<u4"),
        ("process_start", "<u8"),
        ("kernel_id", "S64"),
        ("created_ns", "<i8"),
        ("clock_sequence", "<u4"),
        ("clock_uncertainty_ns", "<u4"),
        ("clock_monotonic_ns", "<i8"),
        ("clock_realtime_ns", "<i8"),
        ("status_offset", "<u4"),
        ("status_sequence", "<u4"),
        ("status_length", "<u4"),
        ("gauge_offset", "<u4"),
        ("directory_offset", "<u4"),
        ("segment_count", "<u4"),
        ("string_offset", "<u4"),
        ("string_capacity", "<u4"),
        ("string_used", "<u8"),
        ("string_count", "<u4"),
        ("strings_dropped", "<u4"),
        ("records_dropped", "<u8"),
        ("leases", LEASE_DTYPE, (MAX_LEASES,)),
    ]
)

GAUGE_DTYPE = np.dtype(
    [
        ("allocated", "<u8"),
        ("reserved", "<u8"),
        ("peak", "<u8"),
        ("busy_ns", "<u8"),
        ("kernels", "<u8"),
        ("live_views", "<u8"),
        ("total", "<u8"),
        ("spare", "<u8"),
    ]
)

SEGMENT_DTYPE = np.dtype(
    [
        ("offset", "<u8"),
        ("capacity", "<u4"),
        ("state", "<u4"),
        ("head", "<u8"),
        ("spare", "<u8"),
    ]
)

RING_DTYPE = np.dtype(
    [
        ("sequence", "<u8"),
        ("begin_ns", "<i8"),
        ("end_ns", "<i8"),
        ("queued_ns", "<i8"),
        ("bytes", "<u8"),
        ("copied", "<u8"),
        ("buffer", "<u8"),
        ("aux64", "<u8"),
        ("correlation", "<u8"),
        ("sequence_number", "<i8"),
        ("name", "<u4"),
        ("kernel", "<u4"),
        ("reason", "<u4"),
        ("thread", "<u4"),
        ("location", "<u4"),
        ("inner_location", "<u4"),
        ("forward_location", "<u4"),
        ("stream", "<u4"),
        ("device", "<i2"),
        ("kind", "u1"),
        ("tier", "u1"),
        ("flags", "<u4"),
        ("shapes", "<u4"),
        ("spare", "<u4"),
    ]
)

# Fields of a record that hold string ids.
STRING_FIELDS = (
    "name",
    "kernel",
    "reason",
    "thread",
    "location",
    "inner_location",
    "forward_location",
    "shapes",
)


class Kind(enum.IntEnum):
    """Kinds of records (RAL_TRACE_*)."""

    OP = 1
    KERNEL = 2
    COPY = 3
    ALLOC = 4
    FREE = 5
    VIEW = 6
    SYNC = 7
    DECISION = 8
    COMPILE = 9
    MARK = 10


class Tier(enum.IntEnum):
    """Tiers of the fallback chain (RAL_TIER_*)."""

    NONE = 0
    NATIVE = 1
    JIT = 2
    REFERENCE = 3
    CPU = 4
    VIEW = 5


class Flag(enum.IntFlag):
    """Bits of `flags` (RAL_TRACE_*)."""

    BACKWARD = 0x1
    HOST = 0x2
    USER_RANGE = 0x4
    SNAPSHOT = 0x8
    FAILED = 0x10
    NO_DEVICE_TIME = 0x20


TIER_NAMES = ("", "native", "jit", "reference", "cpu", "view")
