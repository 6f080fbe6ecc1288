"""The package's face: what is there, and what importing it does not do."""

from __future__ import annotations

import subprocess
import sys

import torch_fl


def test_names() -> None:
    assert torch_fl.__version__ == "0.1.0"
    for name in (
        "load_ipython_extension",
        "unload_ipython_extension",
        "profile",
        "ProfileResult",
        "last",
        "recording",
    ):
        assert callable(getattr(torch_fl, name)), name
    assert torch_fl._jupyter_labextension_paths() == [{"src": "labextension", "dest": "torch-fl-lab"}]
    assert not hasattr(torch_fl, "nonsense")


def test_importing_is_light() -> None:
    path = [p for p in sys.path if p]
    code = f"""import sys; sys.path[:0] = {path!r}
import torch_fl; print(sorted({{'torch', 'pandas', 'IPython', 'fl_widgets'}} & set(sys.modules)))"""
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert out.stdout.strip() == "[]"


def test_functions_stay_functions_whatever_is_imported() -> None:
    import importlib
    import pkgutil

    for module in pkgutil.iter_modules(torch_fl.__path__):
        if module.name != "server":
            importlib.import_module(f"torch_fl.{module.name}")
    assert callable(torch_fl.recording) and callable(torch_fl.last) and callable(torch_fl.profile)
