"""The set-up scripts say in one line what is missing, and agree with the project files."""

import os
import pathlib
import shutil
import subprocess
import sys

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]


def check_host(folder: pathlib.Path, python: str = sys.executable) -> subprocess.CompletedProcess:
    """Runs tools/check_host.sh with only `folder` on the path."""
    env = {"PATH": str(folder)}
    command = [shutil.which("sh"), str(ROOT / "tools/check_host.sh"), python]
    return subprocess.run(command, env=env, capture_output=True, text=True, timeout=60)


@pytest.fixture
def tools(tmp_path):
    """A folder with what check_host.sh itself needs, and stand-ins that answer with the wanted versions."""
    for name in ("uname", "sed", "cut"):
        (tmp_path / name).symlink_to(shutil.which(name))
    answers = {"g++": "12", "node": "v20.1.0"}
    for name, answer in answers.items():
        (tmp_path / name).write_text(f"#!{shutil.which('sh')}\necho {answer}\n")
        (tmp_path / name).chmod(0o755)
    return tmp_path


def test_a_complete_host_passes_in_silence(tools):
    done = check_host(tools)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


@pytest.mark.parametrize(
    ("tool", "answer", "says"),
    [
        ("g++", None, "g++ 12 or newer; 'g++' is not there"),
        ("g++", "11", "needs g++ 12 or newer, found 11"),
        ("node", None, "Node.js 20 or newer, 'node' is not there"),
        ("node", "v18.19.0", "needs Node.js 20 or newer, found v18.19.0"),
    ],
)
def test_one_line_says_what_is_missing(tools, tool, answer, says):
    (tools / tool).unlink()
    if answer:
        (tools / tool).write_text(f"#!{shutil.which('sh')}\necho {answer}\n")
        (tools / tool).chmod(0o755)
    done = check_host(tools)
    assert done.returncode == 1
    assert len(done.stderr.splitlines()) == 1
    assert says in done.stderr


def test_missing_python(tools):
    done = check_host(tools, "python-that-is-not-there")
    assert done.returncode == 1
    assert done.stderr.startswith(
        "torch_fl: needs Python 3.11 or newer, 'python-that-is-not-there' is not there"
    )


def test_requirements_leave_out_what_the_makefile_builds():
    script = [
        sys.executable,
        str(ROOT / "tools/requirements.py"),
        "build-system",
        "build",
        "notebooks",
        "dev",
    ]
    lines = subprocess.run(script, capture_output=True, text=True, check=True).stdout.splitlines()
    names = [line.split(">")[0].split("=")[0].split("[")[0] for line in lines]
    assert {"jupyterlab", "hatchling", "scikit-build-core", "pytest", "scikit-learn", "numpy"} <= set(names)
    assert not {"torch", "torch-fl-core", "torch-fl"} & set(names)
    assert len(lines) == len(set(lines))


def test_a_quiet_command_shows_its_output_only_where_it_fails(tmp_path):
    quiet = ["sh", str(ROOT / "tools/quiet.sh"), "sh", "-c"]
    env = dict(os.environ, TMPDIR=str(tmp_path))
    good = subprocess.run([*quiet, "echo fine"], capture_output=True, text=True, env=env)
    assert (good.returncode, good.stdout, good.stderr) == (0, "", "")
    bad = subprocess.run([*quiet, "echo why; exit 3"], capture_output=True, text=True, env=env)
    assert (bad.returncode, bad.stdout, bad.stderr) == (3, "", "why\n")
    assert list(tmp_path.iterdir()) == []
