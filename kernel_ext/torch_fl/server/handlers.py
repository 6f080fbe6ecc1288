"""GET <base>/torch-fl/devices?kernel=<id>: authenticated, same origin, read only."""

from __future__ import annotations

import asyncio
import json
from typing import Any

from jupyter_server.auth.decorator import authorized
from jupyter_server.base.handlers import APIHandler
from jupyter_server.utils import ensure_async, url_path_join
from tornado import web

from torch_fl.server.rings import NOT_LOADED, describe


class DevicesHandler(APIHandler):
    """What the devices of one of this server's kernels are and do, as JSON."""

    auth_resource = "kernels"

    @web.authenticated
    @authorized
    async def get(self) -> None:
        """{"loaded", "devices", "plugins", "gauges", "pid", "recording"} of ?kernel=<id>."""
        kernel_id = self.get_query_argument("kernel", "")
        if not kernel_id:
            raise web.HTTPError(400, "the query names no kernel: torch-fl/devices?kernel=<id>")
        answer = NOT_LOADED
        if kernel_id in self.kernel_manager:  # no look at kernels of other servers
            pid = await self._kernel_pid(kernel_id)
            answer = await asyncio.to_thread(describe, kernel_id, pid)
        self.set_header("Content-Type", "application/json")
        self.finish(json.dumps(answer))

    async def _kernel_pid(self, kernel_id: str) -> int | None:
        """Process id of a kernel on this machine; None where it is not known."""
        manager: Any = await ensure_async(self.kernel_manager.get_kernel(kernel_id))
        return getattr(getattr(manager, "provisioner", None), "pid", None)


def handlers(base_url: str) -> list[tuple[str, type[APIHandler]]]:
    """The handlers with their paths under the server's base URL."""
    return [(url_path_join(base_url, "torch-fl", "devices"), DevicesHandler)]
