"""Reads the project's #include, import and TypeScript import lines and says which break an arrow.

The house and its arrows are drawn in docs/architecture.md; `LAYERS` is their counterpart in code.
"""

import ast
import dataclasses
import pathlib
import re
from collections.abc import Iterator

TORCH_HEADERS = ("torch/", "ATen/", "c10/", "caffe2/")
PYTHON_HEADERS = ("Python.h", "pybind11/", "nanobind/", "numpy/")
PLUGIN_HEADER = "core/include/ral/plugin.h"
NOTEBOOK_PACKAGES = (
    "IPython", "ipykernel", "ipywidgets", "anywidget", "traitlets", "bokeh",
    "jupyterlab", "jupyter_server", "jupyter_client", "nbformat", "tornado",
)  # fmt: skip


@dataclasses.dataclass(frozen=True)
class Layer:
    """A folder and what its files must not name.

    A name is a header as written, a dotted Python module, a TypeScript package, or, for anything that
    resolves to a file of the project, its path from the root. `but` lists exceptions to `forbidden`;
    `exclude` lists folders inside that are layers of their own.
    """

    folder: str
    forbidden: tuple[str, ...]
    but: tuple[str, ...] = ()
    exclude: tuple[str, ...] = ()


LAYERS = (
    # C++: plugins -> plugin.h only; ral -> nothing; adapter -> ral, PyTorch.
    Layer("core/plugins", (*TORCH_HEADERS, *PYTHON_HEADERS, "core/"), but=(PLUGIN_HEADER, "core/plugins/")),
    Layer("core/ral", (*TORCH_HEADERS, *PYTHON_HEADERS, "core/adapter/", "core/plugins/")),
    Layer("core/include", (*TORCH_HEADERS, *PYTHON_HEADERS, "core/"), but=("core/include/",)),
    Layer("core/adapter", ("core/plugins/", "core/ral/")),
    # Python: torch_fl_core -> adapter; kernel_ext -> torch_fl_core, fl_widgets; fl_widgets -> no torch.
    Layer("core/torch_fl_core", ("torch_fl", "fl_widgets", *NOTEBOOK_PACKAGES), exclude=("core/torch_fl_core/trace",)),
    Layer("core/torch_fl_core/trace", ("torch", "torch_fl", "fl_widgets", *NOTEBOOK_PACKAGES)),
    Layer("kernel_ext/torch_fl", (), exclude=("kernel_ext/torch_fl/server",)),
    Layer(
        "kernel_ext/torch_fl/server",
        ("torch", "torch_fl_core", "fl_widgets", "torch_fl", "IPython", "ipykernel"),
        but=("torch_fl_core.trace", "torch_fl.server"),
    ),
    Layer("fl_widgets", ("torch", "torch_fl_core", "torch_fl", "jupyterlab", "jupyter_server")),
    # TypeScript: the drawing core knows no Jupyter; widget, report and labextension build on the core.
    Layer("fl_widgets/src/core", ("@", "fl_widgets/", "labextension/"), but=("fl_widgets/src/core/",)),
    Layer("fl_widgets/src/widget", ("@jupyterlab/", "@lumino/", "fl_widgets/src/report/", "labextension/")),
    Layer("fl_widgets/src/report", ("@jupyterlab/", "@lumino/", "fl_widgets/src/widget/", "labextension/")),
    Layer("labextension/src", ("fl_widgets/",), but=("fl_widgets/src/core/",)),
)  # fmt: skip

INCLUDE = re.compile(r'^\s*#\s*include\s*(["<])([^">]+)[">]', re.MULTILINE)
TS_IMPORT = re.compile(
    r"""(?:^|[;\n])\s*(?:import|export)\s+(?:[^'";]*?\sfrom\s*)?['"]([^'"]+)['"]|\bimport\(\s*['"]([^'"]+)['"]"""
)
INCLUDE_FOLDERS = ("core/include", "core/ral", "core/adapter")
SKIP = {"node_modules", "__pycache__", "build", "static", "lib", ".yarn"}


def violations(root: pathlib.Path) -> list[str]:
    """Every broken arrow under `root`, as "file: names what, which layer must not"."""
    found = []
    for layer in LAYERS:
        for path in files_of(root, layer):
            name = path.relative_to(root).as_posix()
            for target in named_by(root, path):
                if _matches(target, layer.forbidden) and not _matches(target, layer.but):
                    found.append(f"{name}: names {target}, which {layer.folder} must not")
    return found


def named_by(root: pathlib.Path, path: pathlib.Path) -> set[str]:
    """What one source file includes or imports; files of the project by their path from `root`."""
    text = path.read_text(encoding="utf-8")
    if path.suffix == ".py":
        return set(_python_imports(text, _package_of(root, path)))
    if path.suffix in (".ts", ".tsx"):
        return {_resolve_ts(root, path, a or b) for a, b in TS_IMPORT.findall(text)}
    return {_resolve_include(root, path, name) for _, name in INCLUDE.findall(text)}


def files_of(root: pathlib.Path, layer: Layer) -> Iterator[pathlib.Path]:
    for path in sorted((root / layer.folder).rglob("*")):
        relative = path.relative_to(root)
        if path.suffix not in (".h", ".hpp", ".c", ".cpp", ".inc", ".py", ".ts", ".tsx"):
            continue
        if SKIP & set(relative.parts) or any(relative.is_relative_to(inner) for inner in layer.exclude):
            continue
        yield path


def _matches(name: str, prefixes: tuple[str, ...]) -> bool:
    """Folders and scopes end in '/' (or are '@'); anything else is a header, a file or a module's name."""
    for prefix in prefixes:
        if prefix.endswith(("/", "@")):
            if name.startswith(prefix) or name == prefix.rstrip("/"):
                return True
        elif name == prefix or name.startswith((prefix + ".", prefix + "/")):
            return True
    return False


def _resolve_include(root: pathlib.Path, path: pathlib.Path, name: str) -> str:
    for folder in (path.parent, *(root / f for f in INCLUDE_FOLDERS)):
        candidate = (folder / name).resolve()
        if candidate.is_file() and candidate.is_relative_to(root.resolve()):
            return candidate.relative_to(root.resolve()).as_posix()
    return name


def _resolve_ts(root: pathlib.Path, path: pathlib.Path, name: str) -> str:
    if not name.startswith("."):
        return name
    return (path.parent / name).resolve().relative_to(root.resolve()).as_posix()


def _package_of(root: pathlib.Path, path: pathlib.Path) -> list[str]:
    """Dotted package that a Python file belongs to, as parts, from the outermost __init__.py down."""
    parts: list[str] = []
    folder = path.parent
    while folder != root and (folder / "__init__.py").exists():
        parts.insert(0, folder.name)
        folder = folder.parent
    return parts


def _python_imports(text: str, package: list[str]) -> Iterator[str]:
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = package[: len(package) - node.level + 1] if node.level else []
            module = ".".join([*base, *([node.module] if node.module else [])])
            # `from torch_fl_core import trace` names torch_fl_core.trace, `from torch import nn` torch.nn.
            yield from (f"{module}.{alias.name}" for alias in node.names)
