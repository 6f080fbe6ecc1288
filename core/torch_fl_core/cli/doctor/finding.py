"""One thing that the doctor found, and who is asking."""

from __future__ import annotations

import dataclasses
import grp
import os
import pwd
from dataclasses import dataclass
from typing import Literal

Level = Literal["ok", "note", "problem"]


@dataclass(frozen=True)
class Finding:
    """A level, what was found and the cure ("" where there is nothing to do)."""

    level: Level
    found: str
    cure: str = ""
    topic: str = ""

    def under(self, topic: str) -> Finding:
        """The same finding, filed under a topic."""
        return self if self.topic else dataclasses.replace(self, topic=topic)

    def as_dict(self) -> dict[str, str]:
        return dataclasses.asdict(self)


@dataclass(frozen=True)
class User:
    """The user that permissions are looked up for."""

    name: str
    uid: int
    groups: frozenset[int]

    @classmethod
    def current(cls) -> User:
        uid = os.geteuid()
        try:
            name = pwd.getpwuid(uid).pw_name
        except KeyError:
            name = str(uid)
        return cls(name, uid, frozenset([os.getegid(), *os.getgroups()]))


def group_name(gid: int) -> str:
    """A group's name, or its number as text."""
    try:
        return grp.getgrgid(gid).gr_name
    except KeyError:
        return str(gid)


def group_members(gid: int) -> list[str]:
    """Names that the group file lists; a member since the last log-in is among them."""
    try:
        return grp.getgrgid(gid).gr_mem
    except KeyError:
        return []
