"""Finds and loads the adapter extension for the PyTorch at hand, and registers the device with it."""

from __future__ import annotations

import atexit
import importlib.machinery
import importlib.util
import os
import sys
import threading
import time
import warnings
from pathlib import Path
from types import ModuleType

from . import _pocl
from ._errors import RalError

DEVICE = "ral"
#: The adapter extension once the device is claimed.
extension: ModuleType | None = None
_lock = threading.Lock()
_folder = Path(__file__).parent


def adapter_versions() -> list[str]:
    """PyTorch versions ("2.13") that this installation has an adapter for."""
    names = (p.name for p in (_folder / "_adapters").glob("torch_*_*") if p.is_dir())
    return sorted(n.removeprefix("torch_").replace("_", ".") for n in names)


def adapter_path(torch_version: str) -> Path:
    """The adapter library for a PyTorch version; `TORCH_FL_ADAPTER_PATH` names another one.

    Raises RuntimeError naming what was asked, what there is and the cure.
    """
    override = os.environ.get("TORCH_FL_ADAPTER_PATH")
    if override:
        path = Path(override)
        if not path.is_file():
            raise RuntimeError(
                f"TORCH_FL_ADAPTER_PATH={override} is not a file. Unset it to use the adapter of the installed package."
            )
        return path
    short = ".".join(torch_version.split("+")[0].split(".")[:2])
    folder = _folder / "_adapters" / f"torch_{short.replace('.', '_')}"
    for suffix in importlib.machinery.EXTENSION_SUFFIXES:
        if (folder / f"_C{suffix}").is_file():
            return folder / f"_C{suffix}"
    have = ", ".join(adapter_versions()) or "none"
    raise RuntimeError(
        f"torch_fl_core {_version()} has no adapter for torch {torch_version} on Python "
        f"{sys.version_info.major}.{sys.version_info.minor} (it has: torch {have}). Install one of these torch versions, "
        f"or build the adapter for yours: pip install --no-build-isolation torch-fl-core's source folder `core`."
    )


def load() -> ModuleType:
    """Claim the device; see `torch_fl_core.load`."""
    global extension
    if extension is not None:
        return extension
    if sys.platform == "linux":
        import torch  # noqa: F401  outside the lock: the import itself calls autoload(), which takes the lock
    with _lock:
        if extension is None:
            extension = _claim()
    return extension


def autoload() -> None:
    """What `import torch` does: claims the device where that disturbs nobody, and warns instead of raising."""
    wanted = os.environ.get("RAL_AUTOLOAD", "").strip()
    if wanted == "0":
        return
    try:
        if wanted != "1" and _other_accelerator():
            return
        load()
    except Exception as error:  # `import torch` must go on, whatever is wrong here
        warnings.warn(f"device 'ral' is not available: {error}", RuntimeWarning, stacklevel=2)


def _version() -> str:
    from . import __version__

    return __version__


def _other_accelerator() -> bool:
    """Is there a CUDA or XPU device? Beside one, claiming PrivateUse1 changes torch.accelerator, so we wait to be asked."""
    import torch

    if (
        torch.version.cuda is None
        and torch.version.hip is None
        and getattr(torch.version, "xpu", None) is None
    ):
        return False
    return torch.cuda.is_available() or (hasattr(torch, "xpu") and torch.xpu.is_available())


def _claim() -> ModuleType:
    if sys.platform != "linux":
        raise RuntimeError(f"torch_fl runs on Linux and WSL2 only; this is {sys.platform}.")
    import torch

    taken = torch._C._get_privateuse1_backend_name()
    if taken not in ("privateuseone", DEVICE):
        raise RuntimeError(
            f"another package has taken PyTorch's one slot for out-of-tree devices, as device '{taken}'. "
            f"Uninstall it, or start without it (TORCH_DEVICE_BACKEND_AUTOLOAD=0), to use device 'ral'."
        )
    loaded = _load_extension(adapter_path(torch.__version__))
    loaded.set_ral_error_type(RalError)
    _pocl.name_to_plugin()
    loaded.set_own_plugin_folder(str(_folder / "plugins"))
    loaded.set_thread_budget(torch.get_num_threads())
    loaded.register_router()
    torch.utils.rename_privateuse1_backend(DEVICE)
    from . import ral

    ral.install(loaded)
    atexit.register(loaded.stop_preparing)
    atexit.register(_settle_autograd)
    os.register_at_fork(after_in_child=loaded.mark_forked)
    return loaded


def _settle_autograd(limit_s: float = 0.25) -> None:
    """Let autograd's device threads finish what a backward pass left them before the interpreter goes.

    They drop Python objects of the last graph after `backward()` has returned; one that waits for the GIL while the
    interpreter ends would abort the process. Sleeping gives them the GIL; idle threads show no more CPU time.
    """
    before = None
    deadline = time.monotonic() + limit_s
    while time.monotonic() < deadline:
        now = _autograd_cpu_times()
        if not now or (now == before and all(state == "S" for _, state, _ in now)):
            return
        before = now
        time.sleep(0.002)


def _autograd_cpu_times() -> list[tuple[str, str, str]]:
    """(thread id, state, CPU ticks and switches) of PyTorch's autograd threads."""
    found = []
    for task in Path("/proc/self/task").iterdir():
        try:
            name = (task / "comm").read_text()
            if not name.startswith("pt_autograd"):
                continue
            status = (task / "status").read_text()
        except OSError:  # the thread ended meanwhile
            continue
        lines = status.splitlines()
        state = next(line.split()[1] for line in lines if line.startswith("State:"))
        switches = " ".join(line for line in lines if "ctxt_switches" in line)
        found.append((task.name, state, switches))
    return found


def _load_extension(path: Path) -> ModuleType:
    name = "torch_fl_core._C"
    loader = importlib.machinery.ExtensionFileLoader(name, str(path))
    spec = importlib.util.spec_from_file_location(name, path, loader=loader)
    assert spec is not None
    try:
        module = importlib.util.module_from_spec(spec)
        loader.exec_module(module)
    except ImportError as error:
        raise RuntimeError(f"the adapter {path} could not be loaded: {error}") from error
    sys.modules[name] = module
    return module
