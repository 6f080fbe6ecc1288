"""kernel_manifest.json is what its generator writes, fits the schema, and every entry resolves."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path

import pytest
from abi import UNSUPPORTED, Kernel, Plugin, PluginError

CORE = Path(__file__).resolve().parents[2]
FOLDER = CORE / "plugins" / "opencl"


def test_generated() -> None:
    """The committed file is current."""
    spec = importlib.util.spec_from_file_location("generate_manifest", FOLDER / "generate_manifest.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    assert (FOLDER / "kernel_manifest.json").read_text() == module.manifest()


def test_schema() -> None:
    """The manifests of this plugin and of the template are valid, with no operator twice."""
    jsonschema = pytest.importorskip("jsonschema")
    schema = json.loads((CORE / "schema" / "kernel_manifest.schema.json").read_text())
    for folder in (FOLDER, CORE / "plugins" / "template"):
        manifest = json.loads((folder / "kernel_manifest.json").read_text())
        jsonschema.validate(manifest, schema)
        names = [entry["op_name"] for entry in manifest["kernels"]]
        assert len(names) == len(set(names))


def test_operators_exist() -> None:
    """Every op_name is an overload that PyTorch has."""
    torch = pytest.importorskip("torch")
    for entry in json.loads((FOLDER / "kernel_manifest.json").read_text())["kernels"]:
        packet, _, overload = entry["op_name"].removeprefix("aten::").partition(".")
        assert (overload or "default") in getattr(torch.ops.aten, packet).overloads(), entry["op_name"]


def test_every_entry_resolves(plugin: Plugin, entries: dict[str, dict[str, object]]) -> None:
    """Known symbols resolve; unknown symbols, files and dialects are UNSUPPORTED, with a text."""
    for entry in entries.values():
        assert Kernel(plugin, 0, entry).handle
    good = entries["exp"]
    for change in ({"symbol": "absent"}, {"kernel_path": "kernels/absent.cl"}, {"dialect": "cuda-c"}):
        with pytest.raises(PluginError) as caught:
            Kernel(plugin, 0, {**good, **change})
        assert caught.value.status == UNSUPPORTED
        assert next(iter(change.values())).rpartition("/")[2] in str(caught.value)
