"""Plugins: does each one found load, and is there a device at all?"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from ..libraries import cures_of
from ..places import search_path
from ..probe import ProbeError, plugin_statuses
from .finding import Finding

Ask = Callable[[Mapping[str, str]], list[dict[str, Any]]]


def findings(root: Path, environ: Mapping[str, str], ask: Ask = plugin_statuses) -> list[Finding]:
    """Findings on the plugins, which are loaded in a process of their own."""
    try:
        found = ask(environ)
    except ProbeError as error:
        if error.crashed:
            cure = "move plugins away one by one (folders: see `ralctl plugin-status --help`), or run with RAL_LOG=debug"
            return [Finding("problem", str(error), cure)]
        return [
            Finding("problem", f"plugins cannot be asked: {error}", "mend what stands under Versions first")
        ]
    has_device = any(plugin.get("device_count") for plugin in found)
    result = [_finding(plugin, has_device) for plugin in found]
    if not has_device:
        result.append(_no_device(root, environ))
    return result


def _no_device(root: Path, environ: Mapping[str, str]) -> Finding:
    wanted = environ.get("RAL_VISIBLE_DEVICES")
    if wanted is not None:
        return Finding(
            "problem", f"no device with RAL_VISIBLE_DEVICES={wanted}", "unset it to see what there is"
        )
    places = ", ".join(map(str, search_path(environ, root)))
    cure = "`ralctl install opencl` brings PoCL (OpenCL on the CPU); other chips need their vendor's plugin"
    return Finding("problem", f"no device: no plugin in {places} offers one", cure)


def _finding(plugin: dict[str, Any], has_device: bool) -> Finding:
    name, status, reason = (str(plugin.get(k) or "") for k in ("name", "status", "reason"))
    text = f"{name} {plugin.get('version') or ''}".strip() + f" is {status}"
    if status in ("LOADED", "READY"):
        count = plugin.get("device_count") or 0
        text += f" with {count} device{'s' * (count != 1)}"
        return Finding("note", f"{text}; {reason}", "see the reason") if reason else Finding("ok", text)
    text += f": {reason}" if reason else ""
    if status == "MISSING_DEPS":
        cure = "; ".join(f"{c['library']}: {c['cure']}" for c in cures_of(plugin))
        return Finding("note" if has_device else "problem", text, cure)
    return Finding(
        "problem", f"{text} ({plugin.get('path')})", "the reason names the cure; or remove that folder"
    )
