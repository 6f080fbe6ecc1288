"""`%load_ext torch_fl` and `%unload_ext torch_fl`: what is put into the shell and taken out again."""

from __future__ import annotations

import builtins
import importlib
import os
import re
from typing import TYPE_CHECKING

from torch_fl import live, transform
from torch_fl._core import core
from torch_fl.magics import RalMagics
from torch_fl.session import CellProfiler

if TYPE_CHECKING:
    from IPython.core.interactiveshell import InteractiveShell

_loaded: dict[int, tuple[InteractiveShell, CellProfiler]] = {}


def load(shell: InteractiveShell) -> None:
    """Registers magics, transformers and hooks. Says one line where live views will be missing.

    Raises:
        torch_fl._core.MissingCoreError: the device cannot be had; the text says why.
    """
    if id(shell) in _loaded:
        return
    adapter = core()
    adapter.trace_set_kernel_id(_kernel_id(shell))
    adapter.trace_path()  # makes the trace file, so that the panel sees this kernel
    magics = RalMagics(shell)
    profiler = CellProfiler(shell, magics.parse_profile)
    magics.profiler = profiler
    shell.register_magics(magics)
    shell.input_transformers_cleanup.insert(0, transform.transform)
    shell.ast_transformers.append(profiler)
    shell.events.register("pre_run_cell", profiler.pre_run_cell)
    shell.events.register("post_run_cell", profiler.post_run_cell)
    setattr(builtins, transform.BEGIN, profiler.begin)
    setattr(builtins, transform.NESTED, None)
    magics.add_completers()
    _loaded[id(shell)] = (shell, profiler)
    _tell_missing(shell)


def unload(shell: InteractiveShell) -> None:
    """Takes out what `load` put in. Functions of profiled cells keep working."""
    entry = _loaded.pop(id(shell), None)
    if entry is None:
        return
    profiler = entry[1]
    profiler.close()
    shell.input_transformers_cleanup.remove(transform.transform)
    shell.ast_transformers.remove(profiler)
    shell.events.unregister("pre_run_cell", profiler.pre_run_cell)
    shell.events.unregister("post_run_cell", profiler.post_run_cell)
    if not _loaded:
        delattr(builtins, transform.BEGIN)
        delattr(builtins, transform.NESTED)
    for kind, names in RalMagics.magics.items():
        for name in names:
            shell.magics_manager.magics[kind].pop(name, None)


def _kernel_id(shell: InteractiveShell) -> str:
    """Jupyter's id of this kernel, from its connection file's name; "" outside a kernel."""
    if not hasattr(shell, "kernel"):
        return ""
    app = importlib.import_module("ipykernel.kernelapp").IPKernelApp
    path = app.instance().connection_file if app.initialized() else ""
    match = re.fullmatch(r"(?:kernel-)?(.*)\.json", os.path.basename(path or ""))
    return match[1][:63] if match else ""


def _tell_missing(shell: InteractiveShell) -> None:
    if not hasattr(shell, "kernel"):
        return
    if "__vsc_ipynb_file__" not in shell.user_ns and not live.lab_installed():
        print(
            "torch_fl: the JupyterLab extension torch-fl-lab is not installed here, so profiles show "
            "their plain view in JupyterLab; to get it: pip install torch-fl"
        )
    elif not live.widget_installed():
        print(
            "torch_fl: the widget is not built or anywidget is missing, so profiles do not move outside "
            "JupyterLab; to get it: pip install 'torch-fl' anywidget"
        )
