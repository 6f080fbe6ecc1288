"""Starts a real JupyterLab on this machine and drives it with Debian's Chromium. Used by test_lab.py."""

import contextlib
import dataclasses
import json
import os
import pathlib
import secrets
import shutil
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator

# Quiet, offline and without a GPU; --no-sandbox because CI runs as root.
CHROMIUM_FLAGS = (
    "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
    "--disable-component-update", "--disable-sync",
)  # fmt: skip
START_TIMEOUT_S = 120
CELL = ".jp-NotebookPanel:not(.lm-mod-hidden) .jp-Notebook .jp-Cell"
# The indicator in the page says "idle" before there is a kernel, and a cell that is run then is cleared and no more.
KERNEL_READY = """() => {
  const session = globalThis.jupyterapp?.shell.currentWidget?.sessionContext?.session;
  return session?.kernel?.connectionStatus === 'connected' && session.kernel.status === 'idle';
}"""


def chromium() -> str | None:
    """Path of an installed Chromium or Chrome, or None."""
    for name in ("chromium", "chromium-browser", "google-chrome"):
        if path := shutil.which(name):
            return path
    return None


@dataclasses.dataclass(frozen=True)
class Lab:
    """A running server: its address, token and the folder that it serves."""

    base: str
    token: str
    folder: pathlib.Path

    def url(self, notebook: str) -> str:
        return f"{self.base}/lab/tree/{notebook}?reset&token={self.token}"


@contextlib.contextmanager
def serve(folder: pathlib.Path, state: pathlib.Path, *options: str) -> Iterator[Lab]:
    """Serves `folder` on a free port of 127.0.0.1; `state` holds every file that Jupyter keeps."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    env = dict(os.environ)
    for name in ("CONFIG_DIR", "DATA_DIR", "RUNTIME_DIR"):
        env[f"JUPYTER_{name}"] = str(state / name.lower())
    env["JUPYTERLAB_SETTINGS_DIR"] = str(state / "settings")
    env["JUPYTERLAB_WORKSPACES_DIR"] = str(state / "workspaces")
    # No question about news may lie over the pictures.
    quiet = state / "settings/@jupyterlab/apputils-extension/notification.jupyterlab-settings"
    quiet.parent.mkdir(parents=True, exist_ok=True)
    quiet.write_text('{"fetchNews": "false", "checkForUpdates": false}')
    token = secrets.token_hex(16)
    command = [
        sys.executable, "-m", "jupyterlab", "--no-browser", "--allow-root", f"--ServerApp.port={port}",
        "--ServerApp.port_retries=0", "--ServerApp.ip=127.0.0.1", f"--IdentityProvider.token={token}",
        f"--ServerApp.root_dir={folder}", "--LabApp.news_url=None", "--LabApp.check_for_updates_class="
        "jupyterlab.NeverCheckForUpdate", "--LabApp.expose_app_in_browser=True", *options,
    ]  # fmt: skip
    with open(state / "server.log", "ab") as log:
        server = subprocess.Popen(command, stdout=log, stderr=log, env=env, cwd=folder)
    base = f"http://127.0.0.1:{port}"
    try:
        _wait_until_up(f"{base}/api/status?token={token}", server, state / "server.log")
        yield Lab(base, token, folder)
    finally:
        server.terminate()
        try:
            server.wait(20)
        except subprocess.TimeoutExpired:
            server.kill()
            server.wait()


def _wait_until_up(address: str, server: subprocess.Popen, log: pathlib.Path) -> None:
    end = time.monotonic() + START_TIMEOUT_S
    while time.monotonic() < end:
        if server.poll() is not None:
            break
        try:
            urllib.request.urlopen(address, timeout=2).close()
            return
        except (urllib.error.URLError, OSError):
            time.sleep(0.1)
    raise RuntimeError(f"JupyterLab did not come up:\n{log.read_text()[-3000:]}")


@contextlib.contextmanager
def browser_page(executable: str):
    """A page of a headless browser."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=executable, headless=True, args=list(CHROMIUM_FLAGS)
        )
        try:
            yield browser.new_context(viewport={"width": 1500, "height": 1100}).new_page()
        finally:
            browser.close()


def open_notebook(page, lab: Lab, name: str, kernel: bool = True) -> None:
    """Opens a notebook and waits until all its cells and, with `kernel`, its kernel are ready."""
    page.goto(lab.url(name))
    count = len(json.loads((lab.folder / name).read_text())["cells"])
    page.wait_for_selector(CELL, timeout=90_000)
    if kernel:
        page.wait_for_function(KERNEL_READY, timeout=90_000)
    else:
        dialog = page.locator(".jp-Dialog")
        dialog.get_by_role("combobox").select_option(label="No Kernel", timeout=30_000)
        dialog.locator("button.jp-mod-accept").click()
    # JupyterLab attaches cells outside the window when the page is idle.
    page.wait_for_function(
        "([selector, count]) => document.querySelectorAll(selector).length === count",
        arg=[CELL, count],
        timeout=60_000,
    )


def cell(page, index: int):
    """The cell at `index`."""
    return page.locator(CELL).nth(index)


def run_cell(page, index: int) -> None:
    """Selects a cell and runs it; does not wait."""
    cell(page, index).locator(".jp-InputPrompt").first.click()
    page.keyboard.press("Shift+Enter")


def prompt(page, index: int) -> str:
    """What stands before a cell: "[*]:" while it runs, "[3]:" after its run."""
    return cell(page, index).locator(".jp-InputPrompt").first.inner_text().strip()


def wait_until_run(page, index: int, count: int, timeout_s: float) -> None:
    """Waits until the cell shows its execution count.

    Asks five times a second: asking at each frame, as Playwright does by itself, would keep the page painting.
    """
    page.wait_for_function(
        """([selector, index, count]) =>
             document.querySelectorAll(selector)[index]
               ?.querySelector('.jp-InputPrompt')?.innerText.trim() === `[${count}]:`""",
        arg=[CELL, index, count],
        timeout=timeout_s * 1000,
        polling=200,
    )
