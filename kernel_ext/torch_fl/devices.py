"""`%ral_devices` and `%ral_memory`: devices, plugins and memory as tables."""

from __future__ import annotations

import json
from html import escape
from typing import Any

import pandas as pd

from torch_fl import words
from torch_fl._core import core

_COLUMNS = ["id", "type", "name", "vendor", "memory", "data types", "plugin", "version", "status"]


class DeviceTable:
    """Devices with what they are, and plugins that are refused or miss something.

    `frame` has one row a device, `memory_bytes` in bytes; `plugins` is the list of torch.ral.plugins().
    """

    def __init__(self, devices: list[dict[str, Any]], plugins: list[dict[str, Any]]) -> None:
        self.devices, self.plugins = devices, plugins

    @classmethod
    def now(cls) -> DeviceTable:
        """The table as of now; looks for devices where that has not happened yet."""
        core()
        import torch

        return cls(list(torch.ral.devices()), list(torch.ral.plugins()))

    @property
    def frame(self) -> pd.DataFrame:
        """One row a device."""
        columns = ["id", "type", "name", "vendor", "memory_bytes", "dtypes", "plugin"]
        rows = [
            {
                "id": d["id"],
                "type": d["kind"],
                "name": d["name"],
                "vendor": d["vendor"],
                "memory_bytes": d["memory_total"],
                "dtypes": list(d["dtypes"]),
                "plugin": d["plugin"],
                "plugin_version": d["plugin_version"],
                "status": d["status"],
            }
            for d in self.devices
        ]
        return pd.DataFrame(rows, columns=[*columns, "plugin_version", "status"])

    @property
    def faults(self) -> list[str]:
        """A sentence for each plugin that is refused or misses something."""
        out = []
        for plugin in self.plugins:
            if plugin["status"] in ("REFUSED", "MISSING_DEPS"):
                missing = ", ".join(plugin.get("missing") or [])
                cause = plugin.get("reason") or (f"missing {missing}" if missing else "no reason given")
                if missing and missing not in cause:
                    cause += f" (missing {missing})"
                where = f" ({plugin['path']})" if plugin.get("path") else ""
                out.append(f"plugin {plugin['name']}{where}: {plugin['status']}, {cause}")
        return out

    def json(self) -> str:
        """Devices and plugins as JSON."""
        return json.dumps({"devices": self.devices, "plugins": self.plugins}, indent=1)

    def _rows(self) -> list[list[str]]:
        return [
            [
                str(d["id"]),
                str(d["kind"]),
                str(d["name"]),
                str(d["vendor"]),
                words.size(d["memory_total"]),
                ", ".join(d["dtypes"]),
                str(d["plugin"]),
                str(d["plugin_version"]),
                str(d["status"]),
            ]
            for d in self.devices
        ]

    def __repr__(self) -> str:
        table = [_COLUMNS, *self._rows()]
        if not self.devices:
            lines = ["no device found"]
        else:
            wide = [max(len(row[i]) for row in table) for i in range(len(_COLUMNS))]
            lines = ["  ".join(c.ljust(w) for c, w in zip(r, wide, strict=True)).rstrip() for r in table]
        return "\n".join(lines + self.faults)

    def _repr_html_(self) -> str:
        left = 'style="text-align:left"'
        head = "".join(f"<th {left}>{name}</th>" for name in _COLUMNS)
        body = "".join(
            "<tr>" + "".join(f"<td {left}>{escape(cell)}</td>" for cell in row) + "</tr>"
            for row in self._rows()
        )
        table = f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"
        notes = "".join(f"<p>{escape(fault)}</p>" for fault in self.faults)
        return (table if self.devices else "<p>no device found</p>") + notes


def memory() -> pd.DataFrame:
    """Memory of each live device now, in bytes."""
    core()
    import torch

    rows = []
    for device in torch.ral.devices():
        name = device["id"]
        if device.get("status") not in ("LOADED", "READY"):
            continue
        rows.append(
            {
                "device": name,
                "allocated_bytes": torch.ral.memory_allocated(name),
                "peak_bytes": torch.ral.max_memory_allocated(name),
                "reserved_bytes": torch.ral.memory_reserved(name),
                "total_bytes": device["memory_total"],
            }
        )
    columns = ["device", "allocated_bytes", "peak_bytes", "reserved_bytes", "total_bytes"]
    return pd.DataFrame(rows, columns=columns)
