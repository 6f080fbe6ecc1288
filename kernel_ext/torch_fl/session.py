"""Profiled cells: from the begin call that the transformer wrote to `post_run_cell`.

The cell itself is run by IPython. This module turns recording on, keeps the output up to date, writes
the line marks into the cell's AST, and gives the result when the cell has ended, however it ended.
"""

from __future__ import annotations

import ast
import logging
import uuid
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from IPython.core.error import UsageError

from torch_fl import history, instrument, live, static
from torch_fl._core import MissingCoreError, core
from torch_fl.bundle import MIME
from torch_fl.recorder import AlreadyRecordingError, Recording
from torch_fl.result import ProfileResult
from torch_fl.transform import BEGIN, NESTED, magic_line

log = logging.getLogger("torch_fl")
_WIDGET_MIME = "application/vnd.jupyter.widget-view+json"


@dataclass
class Options:
    """Options of `%%ral_profile`; the table of them is in options.py."""

    devices: list[str] | None = None
    name: str | None = None
    quiet: bool = False
    limit: int = static.ROWS
    sort: str = "time"
    trace: str | None = None
    report: str | None = None
    stacks: str = "none"
    live: bool = True
    label: str | None = None


@dataclass
class _Cell:
    """The profiled cell that runs now."""

    recording: Recording
    options: Options
    info: Any  # IPython's ExecutionInfo of the cell
    message: str  # id of the request that runs it
    drain: live.Drain | None = None
    sender: live.Sender | None = None
    channels: list[live.Channel] = field(default_factory=list)
    widget: Any = None
    output: Output | None = None
    stacks: Counter[str] = field(default_factory=Counter)


class Output:
    """One output of a cell, brought up to date under a display id. Says nothing without a kernel."""

    def __init__(self, shell: Any, options: Options, profile: str) -> None:
        self._shell, self._options, self._profile = shell, options, profile
        self._shown = False

    def show(self, bundle: dict[str, Any], widget: Any = None) -> None:
        """Shows the bundle in all its forms, in place of what was shown before."""
        bundle = {**bundle, "profile": self._profile}
        data = static.mimebundle(bundle, MIME, self._options.sort, self._options.limit)
        if widget is not None:
            data.update(_view(widget))
        transient = {"display_id": self._profile}
        self._shell.display_pub.publish(data, {}, transient=transient, update=self._shown)
        self._shown = True


def _view(widget: Any) -> dict[str, Any]:
    made = widget._repr_mimebundle_()
    made = made[0] if isinstance(made, tuple) else made
    return {_WIDGET_MIME: made[_WIDGET_MIME]}


class CellProfiler:
    """What `%load_ext torch_fl` puts into a shell besides the magics."""

    def __init__(self, shell: Any, parse: Callable[[str], Options]) -> None:
        self.shell = shell
        self.every: Options | None = None  # set by `%ral_profile on`
        self.cell: _Cell | None = None
        self._parse = parse
        self._infos: list[Any] = []
        self._budget: Callable[[Any, ProfileResult], None] | None = None
        self._idle_channels: list[live.Channel] = []

    # Hooks.

    def pre_run_cell(self, info: Any) -> None:
        """A cell is about to run. One that never ended is ended now."""
        if self.cell is not None and self._message() not in ("", self.cell.message):
            self._finish(None, "cut")
            self._infos.clear()
        self._infos.append(info)
        if self.every is not None and self.cell is None and not _is_ours(info.raw_cell):
            self._start(self.every)

    def post_run_cell(self, result: Any) -> None:
        """A cell has ended, well or not."""
        info = getattr(result, "info", None)
        if any(known is info for known in self._infos):
            while self._infos and self._infos.pop() is not info:
                pass
        if self.cell is None or (info is not None and self.cell.info is not info):
            return
        error = result.error_before_exec or result.error_in_exec
        finished = self._finish(error, "failed" if error else "done")
        budget, self._budget = self._budget, None
        if budget is not None and finished is not None and error is None:
            budget(result, finished)

    # The begin call.

    def begin(self, line: str) -> None:
        """Called in place of the magic's line, from within the cell."""
        self._start(self._parse(self.shell.var_expand(line, depth=1)))

    def guard(self, check: Callable[[Any, ProfileResult], None], options: Options) -> None:
        """Profiles the running cell and hands its result to `check` at the end (`%ral_budget`)."""
        if self.cell is None:
            self._start(options)
        self._budget = check

    def _start(self, options: Options) -> None:
        self._close_idle()
        info = self._infos[-1] if self._infos else None
        source = getattr(info, "raw_cell", "") or ""
        try:
            adapter = core()
            recording = Recording(adapter, source, options.devices, options.label)
            recording.start()
        except (MissingCoreError, AlreadyRecordingError, ValueError) as error:
            raise UsageError(str(error)) from None
        cell = self.cell = _Cell(recording, options, info, self._message())
        try:
            self._show_first(cell)
        except Exception:
            recording.abandon()
            self.cell = None
            raise
        cell.drain = live.Drain(
            recording,
            cell.sender,
            self._refresh(cell),
            self._pin_thread,
            _sampler(cell.stacks) if options.stacks == "python" else None,
        )
        cell.drain.start()

    def _show_first(self, cell: _Cell) -> None:
        options, recording = cell.options, cell.recording
        if options.quiet or not hasattr(self.shell, "kernel"):
            return
        profile = uuid.uuid4().hex
        cell.output = Output(self.shell, options, profile)
        parent = self._parent()
        moving = options.live and live.page_possible(parent)
        if moving and live.wants_widget(self.shell, parent):
            channel, cell.widget = live.widget_channel(recording.bundle)
            cell.channels.append(channel)
        cell.output.show(recording.bundle(), cell.widget)
        if moving:
            channel = live.lab_channel(profile, recording.bundle)
            if channel is not None:
                cell.channels.append(channel)
            cell.sender = live.Sender(recording, cell.channels)

    def _refresh(self, cell: _Cell) -> Callable[[dict[str, Any]], None] | None:
        if cell.output is None:
            return None
        output, widget = cell.output, cell.widget
        return lambda bundle: output.show(bundle, widget)

    def _parent(self) -> dict[str, Any]:
        get = getattr(self.shell, "get_parent", None)
        return (get() if get is not None else None) or {}

    def _message(self) -> str:
        """Id of the request that is being served; "" outside a kernel and in a subshell."""
        header = self._parent().get("header") or {}
        return "" if header.get("subshell_id") else str(header.get("msg_id", ""))

    def _pin_thread(self) -> None:
        publisher = self.shell.display_pub
        if hasattr(publisher, "set_thread_parent"):
            publisher.set_thread_parent(publisher.parent_header)

    # The end.

    def _finish(self, error: BaseException | None, state: str) -> ProfileResult | None:
        cell, self.cell = self.cell, None
        if cell is None:
            return None
        recording = cell.recording
        try:
            recording.end_ns = recording.now_ns
            if cell.drain is not None:
                cell.drain.finish()
            recording.stop(
                state=state,
                error=error,
                failed_line=self._failed_line(error),
                namespace=self.shell.user_ns,
            )
            core().trace_line(0)
            result = ProfileResult.of(recording)
        except BaseException:
            recording.abandon()
            for channel in cell.channels:
                channel.close()
            raise
        result.sort, result.limit = cell.options.sort, cell.options.limit
        if cell.stacks:
            result.stacks = dict(cell.stacks)
        self._show_last(cell, result)
        self._keep(cell.options, result)
        return result

    def _show_last(self, cell: _Cell, result: ProfileResult) -> None:
        if cell.output is not None:
            cell.output.show(result.bundle)
        elif not cell.options.quiet:
            print(repr(result))
        if cell.sender is not None:
            cell.sender.end()
        # An answer of the page's may still be on its way to this comm, so it is closed later.
        self._idle_channels = cell.channels

    def _keep(self, options: Options, result: ProfileResult) -> None:
        if options.name:
            self.shell.user_ns[options.name] = result
        history.add(result, named=options.name is not None)
        for path, write in ((options.trace, result.to_chrome), (options.report, result.to_html)):
            if path:
                write(path)

    def _close_idle(self) -> None:
        for channel in self._idle_channels:
            channel.close()
        self._idle_channels = []

    def _failed_line(self, error: BaseException | None) -> int | None:
        """Line of the cell that was running: the outermost frame of the user's, or the syntax error's."""
        if error is None:
            return None
        if isinstance(error, SyntaxError) and error.__traceback__ is None:
            return error.lineno
        trace = error.__traceback__
        while trace is not None:
            frame = trace.tb_frame
            own = frame.f_globals is self.shell.user_ns and frame.f_code.co_filename.startswith(
                ("<ipython-input", "/")
            )
            if own and frame.f_code.co_name.startswith(("<module>", "<cell line")):
                return trace.tb_lineno
            trace = trace.tb_next
        return None

    def finish(self, error: BaseException | None) -> ProfileResult | None:
        """Ends the cell's profile before the cell's end."""
        return self._finish(error, "failed" if error else "done")

    def close(self) -> None:
        """Ends what runs, without showing it: the extension is being unloaded."""
        if self.cell is not None:
            self._finish(None, "cut")
        self._close_idle()

    # The cell's AST.

    def visit(self, tree: ast.AST) -> ast.AST:
        """AST transformer of the shell: writes line marks into cells that are profiled."""
        body = getattr(tree, "body", None)
        if not isinstance(body, list) or not body:
            return tree
        begins, nested = _calls(body[0], BEGIN), _is_name(body[0], NESTED)
        every = self.every is not None and self.cell is not None and self.cell.info is self._top()
        if begins or nested or every:
            source = getattr(self._top(), "raw_cell", "") or ""
            if nested and self.cell is not None:  # a body that an inner magic runs
                source = self.cell.recording.source
            shift = magic_line(source) - body[0].lineno if begins else 0
            instrument.install(core())
            marked = instrument.instrument(body[1:] if begins or nested else body, _locator(source, shift))
            tree.body = body[:1] + marked if begins else marked  # type: ignore[attr-defined]
        return tree

    def _top(self) -> Any:
        return self._infos[-1] if self._infos else None


def _locator(source: str, shift: int) -> Callable[[int], int]:
    """Ids of lines of a cell, each asked for once."""
    known: dict[int, int] = {}
    cell = instrument.source_hash(source)
    intern = core().trace_intern

    def location(line: int) -> int:
        if line not in known:
            known[line] = intern(f"{cell}:{line + shift}")
        return known[line]

    return location


def _is_ours(source: str) -> bool:
    """Is this the cell that turns recording off, or one that begins its own profile?"""
    return any(
        line.lstrip().startswith(("%ral_profile", "%%ral_profile", "%unload_ext", "%reload_ext"))
        for line in source.splitlines()
    )


def _calls(node: ast.stmt, name: str) -> bool:
    call = node.value if isinstance(node, ast.Expr) else None
    return isinstance(call, ast.Call) and isinstance(call.func, ast.Name) and call.func.id == name


def _is_name(node: ast.stmt, name: str) -> bool:
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Name) and node.value.id == name


def _sampler(stacks: Counter[str]) -> Callable[[], None]:
    """Counts the main thread's Python stack, outermost function first, `;` between."""
    import sys
    import threading

    main = threading.main_thread().ident

    def sample() -> None:
        frame = sys._current_frames().get(main or 0)
        names = []
        while frame is not None:
            code = frame.f_code
            names.append(f"{code.co_qualname if hasattr(code, 'co_qualname') else code.co_name}")
            frame = frame.f_back
        stacks[";".join(reversed(names))] += 1

    return sample
