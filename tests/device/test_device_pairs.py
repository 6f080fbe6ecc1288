"""Two devices on every machine: the two halves of a CPU device, with shared virtual memory and without."""

from __future__ import annotations

import os
import pathlib
import subprocess
import sys

import pytest

FOLDER = pathlib.Path(__file__).parent
RUSTICL = pathlib.Path("/etc/OpenCL/vendors/rusticl.icd")


def _run(*arguments: str, **variables: str) -> str:
    done = subprocess.run(
        [
            sys.executable,
            "-P",
            "-m",
            "pytest",
            "-q",
            "-x",
            "-p",
            "no:cacheprovider",
            "-p",
            "no:randomly",
            *arguments,
        ],
        env=dict(os.environ, **variables),
        cwd=FOLDER,
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-6000:] + done.stderr[-2000:]
    return done.stdout


@pytest.mark.parametrize("svm", ["1", "0"], ids=["svm", "no svm"])
def test_two_halves_of_a_cpu_device(svm: str) -> None:
    out = _run("two_devices.py", RAL_OPENCL_SUBDEVICES="2", RAL_OPENCL_SVM=svm, RAL_VISIBLE_DEVICES="part")
    assert " passed" in out
    assert "skipped" not in out


@pytest.mark.skipif(not RUSTICL.exists(), reason="Mesa's rusticl is not installed (Debian: mesa-opencl-icd)")
def test_two_drivers_at_once() -> None:
    """PoCL and Mesa's rusticl, which has no shared virtual memory, in one process."""
    out = _run("two_devices.py", RUSTICL_ENABLE="llvmpipe", RAL_VISIBLE_DEVICES="pocl,mesa")
    assert " passed" in out
    assert "skipped" not in out


def test_device_memory_that_the_host_does_not_see() -> None:
    """Tensors, memory, errors and loading once more with shared virtual memory switched off."""
    files = [f"test_device_{name}.py" for name in ("tensors", "memory", "errors", "loading", "rng")]
    assert " passed" in _run(*files, RAL_OPENCL_SVM="0")


def test_devices_are_chosen_and_ordered_by_name(python: object) -> None:
    code = "import torch; print([d['name'][-13:] for d in torch.ral.devices()])"
    shown = python(code, RAL_OPENCL_SUBDEVICES="2", RAL_VISIBLE_DEVICES="part 2,PART 1").stdout  # type: ignore[operator]
    assert "part 2 of 2" in shown
    assert shown.index("part 2 of 2") < shown.index("part 1 of 2")
    one = python(code, RAL_OPENCL_SUBDEVICES="2", RAL_VISIBLE_DEVICES="1").stdout  # type: ignore[operator]
    assert "part 2 of 2" in one
    assert "part 1 of 2" not in one


def test_parts_that_cannot_be_made_are_said(python: object) -> None:
    code = "import torch; print(torch.ral.device_count())"
    for wanted, said in (("64", "is not split into 64"), ("zero", "no number from 1 to 64")):
        done = python(code, RAL_OPENCL_SUBDEVICES=wanted)  # type: ignore[operator]
        assert done.returncode == 0
        assert int(done.stdout) >= 1
        assert said in done.stderr
