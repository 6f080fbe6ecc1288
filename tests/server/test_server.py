"""The Jupyter Server part in a real server on 127.0.0.1, with real kernels."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from fake_ring import FakeRing
from jupyter_server.serverapp import ServerApp
from tornado.httpclient import HTTPClient, HTTPRequest, HTTPResponse
from tornado.httpserver import HTTPServer
from tornado.netutil import bind_sockets
from traitlets.config import Config

from torch_fl.server import rings
from torch_fl_core.trace import ring

TOKEN = "secret-of-the-test"
STATUS = {
    "torch_fl": "0.1.0",
    "devices": [{"id": "ral:0", "index": 0, "name": "Größe", "status": "LOADED"}],
    "plugins": [{"name": "opencl", "status": "LOADED"}],
}


class _App(ServerApp):
    """A server that runs beside pytest: it leaves the process's signals alone."""

    def init_signal(self) -> None:
        return


class Server:
    """A jupyter_server in a thread of its own, under a prefix."""

    def __init__(self, root: Path) -> None:
        self._ready = threading.Event()
        self._root = root
        self._failure: BaseException | None = None
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()
        assert self._ready.wait(60), "the server did not start"
        if self._failure:
            raise self._failure

    def _run(self) -> None:
        try:
            asyncio.run(self._serve())
        except BaseException as error:
            self._failure = error
            self._ready.set()

    async def _serve(self) -> None:
        self.loop, self._stop = asyncio.get_running_loop(), asyncio.Event()
        app = self.app = _App(
            ip="127.0.0.1", port=0, base_url="/user/ann/lab1/", open_browser=False,
            root_dir=str(self._root), runtime_dir=str(self._root / "runtime"), allow_root=True,
            jpserver_extensions={"torch_fl.server": True},
            config=Config(IdentityProvider={"token": TOKEN}),
        )  # fmt: skip
        app.initialize(argv=[], find_extensions=False, new_httpserver=False)
        (sock,) = bind_sockets(0, "127.0.0.1")
        web = HTTPServer(app.web_app)
        web.add_socket(sock)
        self.url = f"http://127.0.0.1:{sock.getsockname()[1]}/user/ann/lab1/"
        self._ready.set()
        await self._stop.wait()
        await app.kernel_manager.shutdown_all()
        web.stop()

    def call(self, work: Any) -> Any:
        """Runs a coroutine in the server's loop."""
        return asyncio.run_coroutine_threadsafe(work, self.loop).result(60)

    def stop(self) -> None:
        self.loop.call_soon_threadsafe(self._stop.set)
        self._thread.join(30)

    def get(self, path: str, token: str | None = TOKEN, **options: Any) -> HTTPResponse:
        headers = options.pop("headers", {})
        if token:
            headers["Authorization"] = f"token {token}"
        client = HTTPClient()
        request = HTTPRequest(self.url + path, headers=headers, follow_redirects=False, **options)
        try:
            return client.fetch(request, raise_error=False)
        finally:
            client.close()


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("JUPYTER_NO_CONFIG", "1")  # the user's own settings stay out
        server = Server(tmp_path_factory.mktemp("server"))
        yield server
        server.stop()


@pytest.fixture(scope="module")
def kernel(server: Server) -> tuple[str, int]:
    """A running kernel: its id and process id."""
    kernel_id = server.call(server.app.kernel_manager.start_kernel(kernel_name="python3"))
    pid = server.app.kernel_manager.get_kernel(kernel_id).provisioner.pid
    return kernel_id, pid


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    path = tmp_path / "ral"
    path.mkdir(mode=0o700)
    monkeypatch.setattr(ring, "trace_folders", lambda: [path])
    return path


def answer(response: HTTPResponse) -> dict[str, Any]:
    assert response.code == 200, response.body
    assert response.headers["Content-Type"].startswith("application/json")
    return json.loads(response.body)


def test_a_kernel_with_a_ring_is_described(server: Server, kernel: tuple[str, int], folder: Path) -> None:
    fake = FakeRing(folder=folder, pid=kernel[1], kernel_id=kernel[0])
    fake.status(STATUS)
    fake.gauge(0, allocated=1024, reserved=4096, total=1 << 30)
    before = fake.path.read_bytes()
    got = answer(server.get(f"torch-fl/devices?kernel={kernel[0]}"))
    assert got == {
        "loaded": True,
        "devices": STATUS["devices"],
        "plugins": STATUS["plugins"],
        "gauges": [{"device": 0, "allocated": 1024, "reserved": 4096, "peak": 0, "busy_ns": 0,
                    "kernels": 0, "live_views": 0, "total": 1 << 30}],
        "pid": kernel[1],
        "recording": True,
    }  # fmt: skip
    fake.gauge(0, allocated=2048)
    fake.header["enabled"] = 0
    got = answer(server.get(f"torch-fl/devices?kernel={kernel[0]}"))
    assert got["gauges"][0]["allocated"] == 2048 and got["recording"] is False
    fake.gauge(0, allocated=1024)
    fake.header["enabled"] = 1
    assert fake.path.read_bytes() == before  # reading wrote nothing


def test_it_is_found_by_the_kernels_process(server: Server, kernel: tuple[str, int], folder: Path) -> None:
    FakeRing(folder=folder, pid=kernel[1]).status(STATUS)
    got = answer(server.get(f"torch-fl/devices?kernel={kernel[0]}"))
    assert got["loaded"] and got["pid"] == kernel[1] and got["devices"] == STATUS["devices"]


def test_a_kernel_without_a_ring_is_not_loaded(server: Server, kernel: tuple[str, int], folder: Path) -> None:
    FakeRing(folder=folder, kernel_id="another")  # this process is no kernel
    FakeRing(folder=folder, pid=kernel[1], start=1, kernel_id=kernel[0])  # died before a restart
    got = answer(server.get(f"torch-fl/devices?kernel={kernel[0]}"))
    assert got == {
        "loaded": False, "devices": [], "plugins": [], "gauges": [], "pid": None,
        "recording": False,
    }  # fmt: skip


def test_kernels_of_other_servers_are_not_looked_at(server: Server, folder: Path) -> None:
    FakeRing(folder=folder, kernel_id="elsewhere").status(STATUS)
    assert answer(server.get("torch-fl/devices?kernel=elsewhere"))["loaded"] is False


def test_a_damaged_ring_is_no_server_error(server: Server, kernel: tuple[str, int], folder: Path) -> None:
    fake = FakeRing(folder=folder, pid=kernel[1], kernel_id=kernel[0])
    fake.header["status_offset"] = 1 << 31
    fake.header["status_length"] = 100
    assert answer(server.get(f"torch-fl/devices?kernel={kernel[0]}"))["loaded"] is False


def test_only_with_the_token(server: Server, kernel: tuple[str, int], folder: Path) -> None:
    FakeRing(folder=folder, pid=kernel[1], kernel_id=kernel[0]).status(STATUS)
    for token in (None, "wrong"):
        response = server.get(f"torch-fl/devices?kernel={kernel[0]}", token=token)
        assert response.code == 403 and b"opencl" not in response.body


def test_not_from_another_origin(server: Server, kernel: tuple[str, int], folder: Path) -> None:
    FakeRing(folder=folder, pid=kernel[1], kernel_id=kernel[0]).status(STATUS)
    path = f"torch-fl/devices?kernel={kernel[0]}"
    # With a token in its header a request is a program's; a page of another site has a cookie only.
    cookie = login(server)
    host = server.url.split("/user")[0]
    mine = server.get(path, token=None, headers={"Cookie": cookie, "Origin": host})
    assert answer(mine)["loaded"] is True
    other = {"Cookie": cookie, "Origin": "http://evil.example"}
    response = server.get(path, token=None, headers=other)
    assert response.code in (403, 404) and b"opencl" not in response.body


def login(server: Server) -> str:
    """The cookie of a browser that is logged in."""
    response = server.get(f"api/status?token={TOKEN}", token=None)
    return "; ".join(c.split(";")[0] for c in response.headers.get_list("Set-Cookie"))


def test_it_is_read_only(server: Server, kernel: tuple[str, int]) -> None:
    for method in ("POST", "PUT", "PATCH"):
        path = f"torch-fl/devices?kernel={kernel[0]}"
        assert server.get(path, method=method, body=b"{}").code == 405
    assert server.get(f"torch-fl/devices?kernel={kernel[0]}", method="DELETE").code == 405


def test_it_lies_under_the_prefix_only(server: Server, kernel: tuple[str, int]) -> None:
    root = server.url.split("/user")[0]
    client = HTTPClient()
    headers = {"Authorization": f"token {TOKEN}"}
    response = client.fetch(
        f"{root}/torch-fl/devices?kernel={kernel[0]}", headers=headers, raise_error=False,
        follow_redirects=False,
    )  # fmt: skip
    client.close()
    assert response.code == 404


def test_no_kernel_named_is_a_clear_error(server: Server) -> None:
    response = server.get("torch-fl/devices")
    assert response.code == 400 and b"names no kernel" in response.body


def test_children_of_the_kernels_launcher_count(folder: Path) -> None:
    child = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    try:
        FakeRing(folder=folder, pid=child.pid)
        found = rings.find_ring("some-id", os.getpid())
        assert found is not None and found.pid == child.pid
        FakeRing(folder=folder)  # the kernel's own process goes first
        own = rings.find_ring("some-id", os.getpid())
        assert own is not None and own.pid == os.getpid()
        assert rings.find_ring("some-id", child.pid).pid == child.pid
        assert rings.find_ring("some-id", None) is None
        assert not rings.is_descendant(os.getpid(), child.pid)
    finally:
        child.communicate()


def test_a_ring_of_another_kernel_is_not_taken_for_a_child(folder: Path) -> None:
    FakeRing(folder=folder, kernel_id="another kernel, started from this one")
    assert rings.find_ring("some-id", os.getpid()) is None


def test_a_ring_is_found_among_many(folder: Path) -> None:
    for number in range(30):
        FakeRing(folder=folder, start=number + 1)
    mine = FakeRing(folder=folder, kernel_id="mine")
    mine.status(STATUS)
    assert rings.describe("mine", None)["devices"] == STATUS["devices"]


def test_the_server_part_imports_no_torch() -> None:
    code = (
        "import sys; sys.path[:0] = sys.argv[1:3]; import torch_fl.server.handlers\n"
        "bad = {'torch', 'pandas', 'IPython', 'fl_widgets'} & set(sys.modules)\n"
        "assert not bad, bad"
    )
    core = Path(ring.__file__).parents[2]
    ext = Path(rings.__file__).parents[2]
    subprocess.run([sys.executable, "-c", code, str(core), str(ext)], check=True)
