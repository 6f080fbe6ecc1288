"""`ralctl list-devices` and `ralctl plugin-status`: what there is, and what keeps a plugin from being used."""

from __future__ import annotations

import argparse
from types import ModuleType
from typing import Any

from .libraries import cures_of
from .output import add_json, show, table_text


def torch_ral() -> ModuleType:
    """torch.ral, after claiming the device."""
    import torch_fl_core

    torch_fl_core.load()
    import torch

    return torch.ral


class ListDevices:
    """the devices of all plugins"""

    name = "list-devices"
    examples = ("ralctl list-devices", "ralctl list-devices --json")
    _columns = ("ID", "TYPE", "NAME", "VENDOR", "STATUS")

    @staticmethod
    def add_options(parser: argparse.ArgumentParser) -> None:
        add_json(parser)

    @classmethod
    def run(cls, args: argparse.Namespace) -> int:
        found = torch_ral().devices()
        fields = ("id", "kind", "name", "vendor", "status")
        rows = [[str(device.get(f) or "") for f in fields] for device in found]
        empty = "No devices. `ralctl doctor` says why."
        show(args.json, found, table_text(cls._columns, rows) if rows else empty)
        return 0


class PluginStatus:
    """every plugin found, its state, what it lacks and how to get it"""

    name = "plugin-status"
    examples = ("ralctl plugin-status", "RAL_PLUGIN_PATH=$HOME/work ralctl plugin-status --json")
    _columns = ("NAME", "VERSION", "STATUS", "DEPENDENCIES")

    @staticmethod
    def add_options(parser: argparse.ArgumentParser) -> None:
        add_json(parser)

    @classmethod
    def run(cls, args: argparse.Namespace) -> int:
        found = [{**plugin, "cures": cures_of(plugin)} for plugin in torch_ral().plugins()]
        show(args.json, found, cls._text(found))
        return 0

    @classmethod
    def _text(cls, found: list[dict[str, Any]]) -> str:
        if not found:
            return "No plugins."
        table = table_text(cls._columns, [_plugin_row(plugin) for plugin in found])
        return "\n".join([table, *(line for plugin in found for line in advice(plugin))])


def _plugin_row(plugin: dict[str, Any]) -> list[str]:
    missing = ", ".join(map(str, plugin.get("missing") or []))
    needs = missing or str(plugin.get("reason") or "")
    return [str(plugin.get(f) or "") for f in ("name", "version", "status")] + [needs]


def advice(plugin: dict[str, Any]) -> list[str]:
    """Lines below the table for a plugin that lacks libraries: why, and how to get each."""
    cures = cures_of(plugin)
    if not cures:
        return []
    reason = str(plugin.get("reason") or "").removeprefix("missing:").strip()
    title = f"{plugin.get('name')} is {plugin.get('status')}"
    return ["", f"{title}: {reason}" if reason else title, *(f"  {c['library']}: {c['cure']}" for c in cures)]
