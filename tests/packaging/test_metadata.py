"""The two distributions agree on versions, name each other, and ship what they promise."""

import importlib
import importlib.metadata
import importlib.util
import json
import pathlib
import sys
import tomllib

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]


def project(path: str) -> dict:
    return tomllib.loads((ROOT / path).read_text())["project"]


def test_both_distributions_have_one_version():
    root, core = project("pyproject.toml"), project("core/pyproject.toml")
    front = json.loads((ROOT / "labextension/package.json").read_text())
    assert root["version"] == core["version"] == front["version"]
    assert f"torch-fl-core=={core['version']}" in root["dependencies"]
    assert f"## [{root['version']}]" in (ROOT / "CHANGELOG.md").read_text()


def test_torch_is_no_dependency():
    """A dependency on plain torch would replace a CPU or vendor build by PyPI's CUDA build."""
    for path in ("pyproject.toml", "core/pyproject.toml"):
        assert not [
            d for d in project(path)["dependencies"] if d.split("=")[0].split(">")[0].strip() == "torch"
        ]


@pytest.mark.parametrize("distribution", ["torch-fl", "torch-fl-core"])
def test_installed_version_is_that_of_the_source(distribution):
    version = project("pyproject.toml")["version"]
    assert importlib.metadata.version(distribution) == version
    assert importlib.import_module(distribution.replace("-", "_")).__version__ == version


def test_entry_points():
    points = importlib.metadata.distribution("torch-fl-core").entry_points
    assert {(p.group, p.name, p.value) for p in points} >= {
        ("torch.backends", "ral", "torch_fl_core:_autoload"),
        ("console_scripts", "ralctl", "torch_fl_core.cli.ralctl:main"),
        ("console_scripts", "ral-trace", "torch_fl_core.cli.ral_trace:main"),
    }
    for point in points:
        assert callable(point.load()), point


def test_core_ships_libraries_headers_schema_and_plugins():
    spec = importlib.util.find_spec("torch_fl_core")
    folder = pathlib.Path(spec.origin).parent
    for name in (
        "libral.so",
        "include/ral/plugin.h",
        "schema/kernel_manifest.schema.json",
        "plugins/opencl/libopencl_plugin.so",
        "plugins/opencl/kernel_manifest.json",
        "template/template_plugin.c",
        "template/kernel_manifest.json",
        "template/Makefile",
    ):
        assert (folder / name).is_file(), name
    version = importlib.metadata.version("torch").split(".")
    assert list((folder / "_adapters" / f"torch_{version[0]}_{version[1]}").glob("_C*.so"))
    assert not [p for p in folder.rglob("*") if p.suffix in (".cpp", ".o")]


def test_jupyter_parts_are_installed():
    share = pathlib.Path(sys.prefix)
    extension = share / "share/jupyter/labextensions/torch-fl-lab"
    assert json.loads((extension / "package.json").read_text())["name"] == "torch-fl-lab"
    assert json.loads((extension / "install.json").read_text())["packageName"].replace("_", "-") == "torch-fl"
    config = json.loads((share / "etc/jupyter/jupyter_server_config.d/torch_fl.json").read_text())
    assert config["ServerApp"]["jpserver_extensions"] == {"torch_fl.server": True}
    widgets = pathlib.Path(importlib.util.find_spec("fl_widgets").origin).parent
    for name in ("widget.js", "report.js"):
        assert (widgets / "static" / name).stat().st_size > 1000


def test_no_machine_is_named_in_the_sources():
    """Paths and package hosts of one machine must not travel with the project."""
    words = [str(ROOT) + "/", 'resolved "http']
    names = [
        "Makefile",
        "pyproject.toml",
        "core/pyproject.toml",
        "labextension/yarn.lock",
        "labextension/package.json",
    ]
    for name in names:
        text = (ROOT / name).read_text()
        assert not [word for word in words if word in text], name
