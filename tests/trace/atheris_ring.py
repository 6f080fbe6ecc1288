"""The ring reader under Atheris, which follows the branches that inputs take: `make test-fuzz` (tools/fuzz.sh) runs it.

Inputs are changes of a small real trace file: pairs of a place and a value that is written there. They are judged as in
test_fuzz.py: read, or refused with RingError.
"""

from __future__ import annotations

import contextlib
import sys
import tempfile
from pathlib import Path

import atheris

with atheris.instrument_imports(include=["torch_fl_core.trace"]):
    from torch_fl_core.trace import ring
    from torch_fl_core.trace.ring import RingError

import test_fuzz

MOST_CHANGES = 8


def changed(whole: bytes, data: bytes) -> bytes:
    """`whole` with up to MOST_CHANGES values of 1, 2, 4 or 8 bytes overwritten, and perhaps cut short."""
    given = atheris.FuzzedDataProvider(data)
    out = bytearray(whole)
    for _ in range(given.ConsumeIntInRange(1, MOST_CHANGES)):
        size = (1, 2, 4, 8)[given.ConsumeIntInRange(0, 3)]
        at = given.ConsumeIntInRange(0, len(out) - 8)
        out[at : at + size] = given.ConsumeUInt(size).to_bytes(size, "little")
    if given.ConsumeProbability() < 0.1:
        del out[given.ConsumeIntInRange(0, len(out)) :]
    return bytes(out)


def main() -> None:
    """Runs until the time is over; an input that raises anything else ends it with status 77."""
    ring._TRIES = 2  # of a text that nobody finishes writing
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "input.trace"
        whole = test_fuzz.small_ring(Path(folder))

        def one(data: bytes) -> None:
            path.write_bytes(changed(whole, data))
            path.chmod(0o600)
            with contextlib.suppress(RingError):
                test_fuzz.read_all(path)

        atheris.Setup(sys.argv, one)
        atheris.Fuzz()


if __name__ == "__main__":
    main()
