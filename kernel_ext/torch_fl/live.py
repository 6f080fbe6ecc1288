"""The live view: a thread that drains the ring five to ten times a second and sends what it finds.

Two ways lead to a page: the JupyterLab extension is reached through a comm that the kernel opens
(target `torch_fl.live`), everyone else through the widget. Neither waits for the page; a page that
does not know the target loses nothing but the motion. Where no page can look on, nothing is sent.
"""

from __future__ import annotations

import contextlib
import contextvars
import logging
import os
import threading
import time
from collections.abc import Callable
from typing import Any

import numpy as np

from torch_fl import batch as batches
from torch_fl.bundle import RUNNING_BUNDLE_BYTES
from torch_fl.recorder import SHOWN_RECORDS, SHOWN_US, Recording

TARGET = "torch_fl.live"
VERSION = 1
PERIOD_S = 0.1
UNSEEN_PERIOD_S = 0.2  # where nothing is sent
_LONGEST_PERIOD_S = 0.19
TABLES_PERIOD_S = 1.0
REFRESH_PERIOD_S = 3.0
_FULL_RECORDS = 20_000  # of one drain: the ring of one thread holds some 131,000
_TABLES_SHARE = 0.02
_SHARE = 0.02  # of the wall that this thread may use
_NICE = 10

log = logging.getLogger("torch_fl")
_lab_answered = False


class Channel:
    """A comm to one kind of page. `send` takes a message and its binary buffers."""

    def __init__(self, send: Callable[..., None], close: Callable[[], None]) -> None:
        self._send, self._close = send, close
        self.open = True
        self.ended = False

    def send(self, content: dict[str, Any], buffers: list[bytes] | None = None) -> None:
        """Sends, or gives this channel up where the transport fails."""
        if not self.open:
            return
        try:
            self._send(content, buffers)
        except Exception:
            self.open = False
            log.exception("the live view stops; the profile goes on")

    def end(self) -> None:
        """Tells the page that this was all. The channel stays open for a page that answers late."""
        self.send({"type": "end"})
        self.ended = True

    def close(self) -> None:
        """Closes the channel."""
        if self.open:
            self.open = False
            self._close()


class Sender:
    """Numbers batches and sends them with the strings that a page has not had yet."""

    def __init__(self, recording: Recording, channels: list[Channel]) -> None:
        self._recording = recording
        self._channels = channels
        self._number = 0
        self._sent: dict[int, str] = {}
        self._tables_due = 0.0

    def send(self, batch: np.ndarray) -> None:
        """Sends one batch, thinned to what a page shows, with summary, and tables where it is time for them."""
        if not any(channel.open for channel in self._channels):
            return
        batch = batches.thin(batch, SHOWN_RECORDS, SHOWN_US / 1000)
        recording = self._recording
        content: dict[str, Any] = {
            "type": "batch",
            "version": VERSION,
            "number": self._number,
            "sent_ms": time.time() * 1e3,
            "strings": self._new_strings(batch),
            "summary": recording.summary(),
        }
        began = time.monotonic()
        if began >= self._tables_due:
            content["tables"] = recording.make_tables()
        events, lost = recording.events, recording.lost()
        data = batches.encode(batch, self._number, recording.now_us, lost, events)
        self._number += 1
        for channel in self._channels:
            channel.send(content, [data])
        if "tables" in content:
            took = time.monotonic() - began
            self._tables_due = began + max(TABLES_PERIOD_S, took / _TABLES_SHARE)

    def _new_strings(self, batch: np.ndarray) -> dict[str, str]:
        texts = {}
        for i in batches.string_ids(batch):
            text = self._recording.strings.get(i, "")
            if self._sent.get(i) != text:
                self._sent[i] = texts[str(i)] = text
        return texts

    def end(self) -> None:
        """Tells the page that this was all."""
        for channel in self._channels:
            channel.end()


class Drain:
    """The thread. `refresh` is called every few seconds to bring the saved output up to date.

    Without a sender it only keeps the ring from running over: nobody looks on, so sums are made at the end.
    """

    def __init__(
        self,
        recording: Recording,
        sender: Sender | None = None,
        refresh: Callable[[dict[str, Any]], None] | None = None,
        prepare: Callable[[], None] | None = None,
        sample: Callable[[], None] | None = None,
    ) -> None:
        self._recording, self._sender, self._refresh = recording, sender, refresh
        self._prepare, self._sample = prepare, sample
        self._stop = threading.Event()
        # A copy of the context keeps messages of this thread with the cell that began it.
        context = contextvars.copy_context()
        self._thread = threading.Thread(
            target=context.run, args=(self._run,), name="torch_fl drain", daemon=True
        )

    def start(self) -> None:
        """Starts draining."""
        self._thread.start()

    def finish(self) -> None:
        """Stops the thread and waits for it."""
        self._stop.set()
        if self._thread.is_alive():
            self._thread.join()

    def _run(self) -> None:
        if self._prepare is not None:
            self._prepare()
        _be_modest()
        started = time.monotonic()
        refresh_due = started + REFRESH_PERIOD_S
        least = period = PERIOD_S if self._sender is not None else UNSEEN_PERIOD_S
        pause = period
        while not self._wait(pause):
            turn = time.monotonic()
            try:
                if self._sender is not None:
                    self._sender.send(self._recording.drain())
                else:
                    self._recording.collect()
                if self._refresh is not None and time.monotonic() >= refresh_due:
                    began = time.monotonic()
                    self._refresh(self._recording.bundle(RUNNING_BUNDLE_BYTES))
                    took = time.monotonic() - began
                    refresh_due = began + max(REFRESH_PERIOD_S, took / _SHARE * 2)
            except Exception:
                log.exception("the live view stops; the profile goes on")
                self._sender = self._refresh = None
            used = time.thread_time()
            self._recording.drain_cpu_s = used
            # Above its share of the time the thread slows down, to some 5 batches a second, but not where
            # the ring might then overflow.
            over = used / max(time.monotonic() - started, 1e-3) > _SHARE
            over &= self._recording.last_read < _FULL_RECORDS
            period = min(max(least, _LONGEST_PERIOD_S), period + 0.02) if over else max(least, period - 0.02)
            pause = max(period / 4, turn + period - time.monotonic())

    def _wait(self, pause: float) -> bool:
        """Waits for the next turn, taking samples meanwhile where asked for; True at the end."""
        if self._sample is None:
            return self._stop.wait(pause)
        until = time.monotonic() + pause
        while time.monotonic() < until:
            if self._stop.wait(0.01):
                return True
            self._sample()
        return False


def _be_modest() -> None:
    """Lets this thread run where the cell's own threads leave room: one that waits for a core holds all of them up
    where an operator runs on several."""
    with contextlib.suppress(OSError):  # not allowed in some containers
        os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), _NICE)


def lab_channel(profile: str, replay: Callable[[], dict[str, Any]]) -> Channel | None:
    """A comm to the JupyterLab extension; None where there is no kernel."""
    import comm

    try:
        opened = comm.create_comm(target_name=TARGET, data={"profile": profile, "version": VERSION})
    except RuntimeError:  # no comm package of a kernel is in use
        return None

    channel = Channel(lambda content, buffers: opened.send(content, buffers=buffers), opened.close)

    def answer(message: dict[str, Any]) -> None:
        global _lab_answered
        _lab_answered = True
        if message["content"]["data"].get("type") == "replay":
            opened.send({"type": "bundle", "bundle": replay()})
        elif channel.ended:
            channel.close()

    opened.on_msg(answer)
    return channel


def widget_channel(replay: Callable[[], dict[str, Any]]) -> tuple[Channel, Any]:
    """A widget and the channel to its views."""
    from fl_widgets import ProfileWidget

    widget = ProfileWidget()

    def answer(_: object, content: dict[str, Any], __: object) -> None:
        if content.get("type") == "replay":
            widget.send({"type": "bundle", "bundle": replay()})

    widget.on_msg(answer)
    return Channel(lambda content, buffers: widget.send(content, buffers=buffers), widget.close), widget


def lab_installed() -> bool:
    """Is the labextension in one of Jupyter's folders of this environment?"""
    try:
        from jupyter_core.paths import jupyter_path
    except ImportError:
        return False
    folders = jupyter_path("labextensions")
    return any(os.path.isfile(os.path.join(f, "torch-fl-lab", "package.json")) for f in folders)


def widget_installed() -> bool:
    """Can the widget be made here: fl_widgets with its built script, and anywidget?"""
    import importlib.util

    if not all(importlib.util.find_spec(name) for name in ("fl_widgets", "anywidget")):
        return False
    import fl_widgets

    return os.path.isfile(os.path.join(os.path.dirname(fl_widgets.__file__), "static", "widget.js"))


def page_possible(parent: dict[str, Any]) -> bool:
    """Can a page look on? nbclient, papermill and consoles send no id of the cell, and no server started the kernel."""
    return _sent_by_page(parent) or _from_server()


def wants_widget(shell: Any, parent: dict[str, Any]) -> bool:
    """Must this cell's live view come from the widget?

    True where a page looks on that is not JupyterLab with our extension: VS Code, or a server without it.
    """
    if not _sent_by_page(parent) or not widget_installed():
        return False
    if "__vsc_ipynb_file__" in shell.user_ns:
        return True
    return not (_lab_answered or (_from_server() and lab_installed()))


def _sent_by_page(parent: dict[str, Any]) -> bool:
    return "cellId" in parent.get("metadata", {})


def _from_server() -> bool:
    return "JPY_SESSION_NAME" in os.environ  # a Jupyter Server sets it
