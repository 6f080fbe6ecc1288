"""The results of this session: the last one and a short account of each. Kept in memory only."""

from __future__ import annotations

import datetime
import weakref
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from torch_fl.result import ProfileResult

_KEEP = 200


@dataclass
class Entry:
    """What stays of a profile after its records are gone."""

    number: int
    when: datetime.datetime
    label: str | None
    source: str
    summary: dict[str, Any]
    result: weakref.ref[ProfileResult]


_entries: list[Entry] = []
_last: ProfileResult | weakref.ref[ProfileResult] | None = None


def add(result: ProfileResult, *, named: bool) -> None:
    """Notes a result. One that the user has a name for is not held here, so `del` frees its memory."""
    global _last
    number = _entries[-1].number + 1 if _entries else 1
    when = datetime.datetime.now().astimezone()
    entry = Entry(
        number, when, result.label, result.source, dict(result.bundle["summary"]), weakref.ref(result)
    )
    _entries.append(entry)
    del _entries[:-_KEEP]
    _last = weakref.ref(result) if named else result


def last() -> ProfileResult | None:
    """The result taken last, if it is still there."""
    return _last() if isinstance(_last, weakref.ref) else _last


def entries() -> list[Entry]:
    """Accounts of this session's profiles, oldest first."""
    return list(_entries)


def clear() -> None:
    """Forgets everything, the last result too."""
    global _last
    _entries.clear()
    _last = None
