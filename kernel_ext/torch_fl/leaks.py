"""Leaks: allocations of one line that outlive the cell though no name, parameter or gradient holds them.

At least three allocations of one line must be alive. Reachable means held directly by a Python object
that a name of the user's namespace leads to; what only an autograd graph holds is a leak, and where the
graph of a reachable tensor holds the bytes its name is told ("kept by hist").
"""

from __future__ import annotations

import gc
import types
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

import numpy as np

LEAST = 3
_MOST_OBJECTS = 400_000
_MOST_NODES = 50_000
_OPAQUE = (types.ModuleType, type, types.CodeType, types.FrameType, str, bytes, int, float, np.ndarray)


def find(
    live: np.ndarray,
    line_of: Callable[[int, int], int | None],
    label: Callable[[np.void, int], str],
    namespace: Mapping[str, Any],
    buffer_id: Callable[[Any], int] | None,
) -> list[dict[str, Any]]:
    """Rows of the `leaks` table.

    Args:
        live: buffers alive at the end (`Buffers.live`).
        line_of: line of the cell of a (location, inner location) pair.
        label: a buffer's name in the views.
        namespace: the user's names.
        buffer_id: gives a tensor's buffer id; None where the adapter cannot tell, then no leak is named.
    """
    if buffer_id is None:
        return []
    by_line: dict[int, list[np.void]] = defaultdict(list)
    for row in live[~live["view"] & ~live["snapshot"]]:
        line = line_of(int(row["location"]), int(row["inner"]))
        if line:
            by_line[line].append(row)
    by_line = {line: rows for line, rows in by_line.items() if len(rows) >= LEAST}
    if not by_line:
        return []
    held: set[int] = set()
    graphs: list[tuple[str, Any]] = []
    for name, tensor in _tensors(namespace):
        held.add(buffer_id(tensor))
        if tensor.grad_fn is not None:
            graphs.append((name, tensor.grad_fn))
    kept = {}
    found = []
    for line, rows in by_line.items():
        lost = [row for row in rows if int(row["id"]) not in held]
        if len(lost) < LEAST:
            continue
        kept = kept or _kept_by(graphs, buffer_id)
        holders = {kept.get(int(row["id"])) for row in lost}
        found.append(
            {
                "line": line,
                "count": len(lost),
                "bytes": int(sum(row["bytes"] for row in lost)),
                "label": label(max(lost, key=lambda row: row["bytes"]), line),
                "kept_by": holders.pop() if len(holders) == 1 else None,
            }
        )
    return sorted(found, key=lambda row: -row["bytes"])


def _tensors(namespace: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    """Tensors on `ral` that names lead to, each with the name found first; gradients too."""
    import torch

    seen: set[int] = set()
    visited = 0
    names = [(n, v) for n, v in list(namespace.items()) if not n.startswith("_")]
    names += [(n, v) for n, v in list(namespace.items()) if n.startswith("_")]
    for name, value in names:
        todo = [value]
        while todo and visited < _MOST_OBJECTS:
            item = todo.pop()
            if isinstance(item, _OPAQUE) or id(item) in seen or item is namespace:
                continue
            seen.add(id(item))
            visited += 1
            if isinstance(item, torch.Tensor):
                if item.device.type == "ral":
                    yield name, item
                # .grad of a tensor that is no leaf warns; its gradient is not kept unless asked for
                if item.is_leaf and item.grad is not None:
                    todo.append(item.grad)
            todo.extend(_referents(item))


def _referents(item: Any) -> Iterable[Any]:
    if isinstance(item, types.FunctionType):  # not its globals: they are the namespace
        cells = [c.cell_contents for c in item.__closure__ or () if _filled(c)]
        return [*cells, *(item.__defaults__ or ()), *(item.__kwdefaults__ or {}).values()]
    return gc.get_referents(item)


def _filled(cell: types.CellType) -> bool:
    try:
        cell.cell_contents  # noqa: B018  an empty cell raises
    except ValueError:
        return False
    return True


def _kept_by(graphs: list[tuple[str, Any]], buffer_id: Callable[[Any], int]) -> dict[int, str]:
    """Buffer ids that autograd graphs hold, each with the name of a tensor whose graph it is."""
    import torch

    kept: dict[int, str] = {}
    seen: set[Any] = set()
    for name, root in graphs:
        todo = [root]
        while todo and len(seen) < _MOST_NODES:
            node = todo.pop()
            if node is None or node in seen:
                continue
            seen.add(node)
            for attribute in dir(node):
                if not attribute.startswith("_saved_"):
                    continue
                try:
                    saved = getattr(node, attribute)
                except RuntimeError:  # freed by backward
                    continue
                for tensor in saved if isinstance(saved, (list, tuple)) else (saved,):
                    if isinstance(tensor, torch.Tensor) and tensor.device.type == "ral":
                        kept.setdefault(buffer_id(tensor), name)
            todo.extend(following for following, _ in node.next_functions)
    return kept
