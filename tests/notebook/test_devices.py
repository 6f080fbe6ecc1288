"""`%ral_devices`: the table as text, HTML, frame and JSON; faults of plugins."""

from __future__ import annotations

import json

from torch_fl.devices import DeviceTable

DEVICE = {
    "id": "ral:0", "index": 0, "kind": "CPU", "name": "pthread-<AMD>", "vendor": "PoCL", "mark": "Po",
    "driver": "3.1", "memory_total": 32 << 30, "dtypes": ["float32", "int64"], "plugin": "opencl",
    "plugin_version": "0.9", "status": "LOADED", "host_visible": True,
}  # fmt: skip
PLUGINS = [
    {"name": "opencl", "path": "/x/libopencl_plugin.so", "status": "LOADED", "reason": "", "missing": []},
    {"name": "hip", "path": "/x/libhip_plugin.so", "status": "MISSING_DEPS", "missing": ["libamdhip64.so"]},
    {
        "name": "bad",
        "path": "/x/libbad_plugin.so",
        "status": "REFUSED",
        "reason": "manifest: <line 3> is no JSON",
    },
]


def test_text_and_html_say_what_there_is() -> None:
    table = DeviceTable([DEVICE], PLUGINS)
    text = repr(table)
    for part in (
        "ral:0",
        "CPU",
        "pthread-<AMD>",
        "PoCL",
        "32.0 GiB",
        "float32, int64",
        "opencl",
        "0.9",
        "LOADED",
    ):
        assert part in text
    assert "plugin hip (/x/libhip_plugin.so): MISSING_DEPS, missing libamdhip64.so" in text
    assert "plugin bad (/x/libbad_plugin.so): REFUSED, manifest: <line 3> is no JSON" in text
    html = table._repr_html_()
    assert "pthread-&lt;AMD&gt;" in html and "&lt;line 3&gt;" in html and "<line" not in html


def test_frame_and_json() -> None:
    table = DeviceTable([DEVICE], PLUGINS)
    assert table.frame["memory_bytes"].tolist() == [32 << 30]
    assert json.loads(table.json())["plugins"][2]["name"] == "bad"


def test_no_device_is_said() -> None:
    table = DeviceTable([], PLUGINS[1:])
    assert repr(table).startswith("no device found\nplugin hip") and "no device found" in table._repr_html_()
    assert list(table.frame.columns)[:2] == ["id", "type"]
