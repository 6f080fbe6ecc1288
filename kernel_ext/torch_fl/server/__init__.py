"""The Jupyter Server part: tells the panel what a kernel's devices do, also while the kernel is busy.

It reads the kernel's trace file and writes nothing. Imports neither torch nor the kernel's packages.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from jupyter_server.serverapp import ServerApp


def _jupyter_server_extension_points() -> list[dict[str, str]]:
    return [{"module": "torch_fl.server"}]


def _load_jupyter_server_extension(server: ServerApp) -> None:
    """Adds the handlers under the server's base URL."""
    from torch_fl.server.handlers import handlers

    server.web_app.add_handlers(".*$", handlers(server.web_app.settings["base_url"]))
    server.log.info("torch_fl: devices of kernels at torch-fl/devices")
