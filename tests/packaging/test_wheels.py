"""The wheels install into a clean environment, without compiler and node on the path, and run the quickstart."""

import json
import os
import pathlib
import shutil
import subprocess
import sys
import zipfile

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUNDLE = "application/vnd.torch-fl.profile+json"

pytestmark = pytest.mark.slow


def run(*command: str | pathlib.Path, **kwargs) -> str:
    """Runs a command; its output, or a failure that shows it."""
    done = subprocess.run(
        [str(c) for c in command], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, **kwargs
    )
    assert done.returncode == 0, f"{command} ended with {done.returncode}:\n{done.stdout[-6000:]}"
    return done.stdout


@pytest.fixture(scope="module")
def wheels() -> dict[str, pathlib.Path]:
    """`make wheel` has run; the two files by distribution."""
    run("make", "wheel", cwd=ROOT, timeout=1800)
    found = {path.name.split("-")[0]: path for path in (ROOT / "dist").glob("*.whl")}
    assert sorted(found) == ["torch_fl", "torch_fl_core"]
    return found


@pytest.fixture(scope="module")
def clean(wheels, tmp_path_factory) -> pathlib.Path:
    """A new environment with torch and both wheels, nothing else of this project."""
    folder = tmp_path_factory.mktemp("clean") / "venv"
    run(sys.executable, "-m", "venv", folder)
    pip = [folder / "bin/python", "-m", "pip", "--disable-pip-version-check", "install", "-q"]
    torch = os.environ.get("TORCH_FL_TEST_TORCH", "torch==2.13.0")
    index = os.environ.get("TORCH_FL_TEST_TORCH_INDEX")
    env = tool_free_environment(folder)
    run(*pip, *(["--extra-index-url", index] if index else []), torch, env=env, timeout=1800)
    run(*pip, *wheels.values(), "scikit-learn", env=env, timeout=1800)
    platforms = (
        subprocess.run([folder / "bin/python", ROOT / "tools/opencl_platforms.py"], check=False).returncode
        == 0
    )
    if not platforms:
        run(*pip, "pocl-binary-distribution", env=env, timeout=600)
    return folder


def tool_free_environment(venv: pathlib.Path) -> dict[str, str]:
    """The environment with only the new venv on the path: no compiler, no make, no node."""
    env = {
        k: v
        for k, v in os.environ.items()
        if not k.startswith(("PYTHON", "VIRTUAL_ENV", "TORCH_FL", "JUPYTER"))
    }
    env["PATH"] = str(venv / "bin")
    for tool in ("g++", "gcc", "cc", "c++", "clang", "make", "node", "npm", "ninja", "cmake"):
        assert shutil.which(tool, path=env["PATH"]) is None
    return env


def test_wheel_contents(wheels):
    core = zipfile.ZipFile(wheels["torch_fl_core"]).namelist()
    assert "torch_fl_core/libral.so" in core
    assert [n for n in core if n.startswith("torch_fl_core/_adapters/torch_") and n.endswith(".so")]
    assert "torch_fl_core/include/ral/plugin.h" in core
    workbench = zipfile.ZipFile(wheels["torch_fl"]).namelist()
    assert "fl_widgets/static/widget.js" in workbench
    assert [n for n in workbench if n.endswith("data/share/jupyter/labextensions/torch-fl-lab/package.json")]
    assert not [
        n
        for n in core + workbench
        if "node_modules" in n or n.endswith((".cpp", ".ts", ".o")) or "/tests/" in n
    ]


def test_baseline_instruction_set(wheels):
    """Everything is compiled for x86-64-v2; wider instructions only where a function is chosen at run time."""
    if os.uname().machine != "x86_64":
        pytest.skip("the baseline is one of x86-64")
    commands = list((ROOT / "core/build").glob("*/compile_commands.json"))
    assert commands, "core/ was built elsewhere"
    for entry in json.loads(commands[0].read_text()):
        assert "-march=x86-64-v2" in entry["command"], entry["file"]
        assert "-march=native" not in entry["command"], entry["file"]


def test_quickstart_runs_from_wheels(clean, tmp_path):
    shutil.copy(ROOT / "notebooks/quickstart.ipynb", tmp_path)
    env = tool_free_environment(clean) | {"HOME": str(tmp_path), "XDG_RUNTIME_DIR": str(tmp_path)}
    convert = [clean / "bin/jupyter", "nbconvert", "--to", "notebook", "--execute", "--output", "done.ipynb"]
    run(*convert, "quickstart.ipynb", cwd=tmp_path, env=env, timeout=1200)
    cells = json.loads((tmp_path / "done.ipynb").read_text())["cells"]
    outputs = [output for cell in cells for output in cell.get("outputs", [])]
    assert not [o for o in outputs if o["output_type"] == "error"]
    text = "\n".join(
        "".join(o.get("text", [])) + "".join(o.get("data", {}).get("text/plain", [])) for o in outputs
    )
    assert "ral:0" in text
    bundles = [o["data"] for o in outputs if BUNDLE in o.get("data", {})]
    assert bundles, "no profile bundle in the executed quickstart"
    for kind in ("text/html", "image/png", "text/plain"):
        assert bundles[-1].get(kind), kind


def test_import_elsewhere_without_source(clean, tmp_path):
    env = tool_free_environment(clean)
    code = "import torch; x = torch.arange(6., device='ral:0'); print((x * 2).sum().item(), x.device)"
    assert run(clean / "bin/python", "-c", code, cwd=tmp_path, env=env).strip().endswith("30.0 ral:0")
    assert "ral:0" in run(clean / "bin/ralctl", "list-devices", cwd=tmp_path, env=env)
