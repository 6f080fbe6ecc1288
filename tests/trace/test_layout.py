"""ring.py's layout against core/include/ral/trace_format.h, by compiling the header."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest

from torch_fl_core.trace import layout

INCLUDE = Path(__file__).resolve().parents[2] / "core" / "include"
STRUCTS = {
    "ral_trace_header": layout.HEADER_DTYPE,
    "ral_trace_lease": layout.LEASE_DTYPE,
    "ral_trace_gauge": layout.GAUGE_DTYPE,
    "ral_trace_segment": layout.SEGMENT_DTYPE,
    "ral_trace_record": layout.RING_DTYPE,
}
CONSTANTS = {
    "RAL_TRACE_MAGIC": layout.MAGIC,
    "RAL_TRACE_VERSION": layout.VERSION,
    "RAL_TRACE_MAX_DEVICES": layout.MAX_DEVICES,
    "RAL_TRACE_MAX_SEGMENTS": layout.MAX_SEGMENTS,
    "RAL_TRACE_MAX_LEASES": layout.MAX_LEASES,
    "RAL_TRACE_HEADER_BYTES": layout.HEADER_BYTES,
    "RAL_TRACE_STATUS_BYTES": layout.STATUS_BYTES,
    "RAL_TRACE_STRING_BYTES": layout.STRING_BYTES,
    "RAL_TRACE_DEFAULT_RECORDS": layout.DEFAULT_RECORDS,
    **{f"RAL_TRACE_{k.name}": int(k) for k in layout.Kind},
    **{f"RAL_TIER_{t.name}": int(t) for t in layout.Tier},
    **{f"RAL_TRACE_{f.name}": int(f) for f in layout.Flag},
}


@pytest.fixture(scope="module")
def c_layout(tmp_path_factory: pytest.TempPathFactory) -> dict[str, int]:
    """What the C compiler makes of the header: {"struct.field.offset": n, ...}."""
    compiler = shutil.which("cc") or shutil.which("gcc") or shutil.which("g++")
    assert compiler, "a C compiler is needed"
    lines = ["#include <stddef.h>", "#include <stdio.h>", '#include "ral/trace_format.h"']
    lines.append("int main(void) {")
    for struct, dtype in STRUCTS.items():
        lines.append(f'printf("{struct}.size %zu\\n", sizeof(struct {struct}));')
        for field in dtype.names:
            member = f"((struct {struct}*)0)->{field}"
            lines.append(f'printf("{struct}.{field}.offset %zu\\n", offsetof(struct {struct}, {field}));')
            lines.append(f'printf("{struct}.{field}.bytes %zu\\n", sizeof({member}));')
            lines.append(f'printf("{struct}.{field}.signed %d\\n", SIGNED({member}));')
    for name in CONSTANTS:
        lines.append(f'printf("{name} %llu\\n", (unsigned long long)({name}));')
    lines.append("return 0; }")
    signed = "_Generic((x), int64_t: 1, int32_t: 1, int16_t: 1, default: 0)"
    lines.insert(3, f"#define SIGNED(x) {signed}")
    folder = tmp_path_factory.mktemp("layout")
    (folder / "layout.c").write_text("\n".join(lines))
    subprocess.run(
        [compiler, "-x", "c", "-std=c11", f"-I{INCLUDE}", "layout.c", "-o", "layout"],
        cwd=folder,
        check=True,
    )
    out = subprocess.run([folder / "layout"], check=True, capture_output=True, text=True).stdout
    return {key: int(value) for key, value in (line.split() for line in out.splitlines())}


@pytest.mark.parametrize("struct", STRUCTS)
def test_offsets_sizes_and_signs(c_layout: dict[str, int], struct: str) -> None:
    dtype = STRUCTS[struct]
    assert c_layout[f"{struct}.size"] == dtype.itemsize
    covered = 0
    for field, (kind, offset, *_) in dtype.fields.items():
        assert c_layout[f"{struct}.{field}.offset"] == offset, field
        assert c_layout[f"{struct}.{field}.bytes"] == kind.itemsize, field
        assert c_layout[f"{struct}.{field}.signed"] == (kind.kind == "i"), field
        covered += kind.itemsize
    assert covered == dtype.itemsize, "a field of the header file is missing in layout.py"


@pytest.mark.parametrize("name", CONSTANTS)
def test_constants(c_layout: dict[str, int], name: str) -> None:
    assert c_layout[name] == CONSTANTS[name]


def test_records_fill_two_cache_lines() -> None:
    assert layout.RING_DTYPE.itemsize == 128
    assert np.dtype(layout.HEADER_DTYPE).itemsize <= layout.HEADER_BYTES
