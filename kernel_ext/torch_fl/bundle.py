"""The bundle of docs/profile-format.md: made to fit a number of bytes, however long the cell was."""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping
from typing import Any

import numpy as np

from torch_fl import batch as batches

MIME = "application/vnd.torch-fl.profile+json"
BUNDLE_BYTES = 1 << 20
RUNNING_BUNDLE_BYTES = 1 << 18


def fit(
    head: dict[str, Any],
    store: np.ndarray,
    strings: Mapping[int, str],
    limit: int,
    now_us: float,
    dropped: int,
    events: int,
    thinned: bool,
) -> dict[str, Any]:
    """Adds strings and one batch of `store` to a bundle's head, thinned until it has `limit` bytes."""
    tables = head["tables"]
    for shown in (400, 100, 20):  # a very large cell: the tables themselves may need room
        size = len(json.dumps(head))
        if size < limit * 0.6 or shown == 20:
            break
        tables["buffers"] = tables["buffers"][: shown // 4]
        tables["buffers_total"]["shown"] = len(tables["buffers"])
        tables["fallback"] = tables["fallback"][:shown]
    room = limit - size - 1024
    count = max(0, room // 130)
    while True:
        batch = store
        if len(store) > count:
            batch, thinned = batches.thin(store, count, now_us / (8 * max(count, 1))), True
        texts = {str(i): strings.get(i, "") for i in sorted(batches.string_ids(batch))}
        encoded = base64.b64encode(batches.encode(batch, 0, now_us, dropped, events)).decode()
        if len(encoded) + len(json.dumps(texts)) <= room or not count:
            break
        count = count * 3 // 4 if count > 16 else 0
    return head | {"strings": texts, "batches": [encoded], "thinned": thinned}
