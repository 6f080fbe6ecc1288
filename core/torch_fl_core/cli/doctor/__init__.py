"""`ralctl doctor`: looks at what a device needs, from driver to cache, and names a cure for what it finds.

Each topic is a module with a function that returns findings; it reads the file system below a root and an environment
that are handed to it. Needs neither PyTorch nor a GPU.
"""

from __future__ import annotations

import argparse
import os
from pathlib import Path

from ..output import add_json, show
from . import caches, conflicts, driver, plugins, variables, versions
from .finding import Finding, User

_TITLES = {
    "driver": "Drivers",
    "versions": "Versions",
    "conflicts": "Conflicts",
    "caches": "Caches",
    "plugins": "Plugins",
}
_MARKS = {"ok": "ok", "note": "note", "problem": "PROBLEM"}


class Doctor:
    """drivers, versions, conflicts, caches and plugins: what is wrong, and the cure; exit status 1 for a problem"""

    name = "doctor"
    examples = ("ralctl doctor", "ralctl doctor --json")

    @staticmethod
    def add_options(parser: argparse.ArgumentParser) -> None:
        add_json(parser)

    @staticmethod
    def run(args: argparse.Namespace) -> int:
        found = examine()
        show(args.json, [f.as_dict() for f in found], report(found))
        return int(any(f.level == "problem" for f in found))


def examine() -> list[Finding]:
    """All findings on this machine, for this user and environment."""
    root, environ, user = Path("/"), os.environ, User.current()
    topics = (
        ("driver", lambda: driver.findings(root, environ, user)),
        ("versions", lambda: versions.findings(root)),
        ("conflicts", lambda: [*conflicts.findings(root, environ), *variables.findings(environ)]),
        ("caches", lambda: caches.findings(environ, user)),
        ("plugins", lambda: plugins.findings(root, environ)),
    )
    found: list[Finding] = []
    for topic, look in topics:
        try:
            found += [f.under(topic) for f in look()]
        except (OSError, RuntimeError, ValueError) as error:  # the other topics still help
            found.append(Finding("problem", f"could not be examined: {error}", "report this text", topic))
    return found


def report(found: list[Finding]) -> str:
    """The findings as text, one paragraph a topic."""
    lines: list[str] = []
    for topic, title in _TITLES.items():
        lines += ["", title]
        for f in (f for f in found if f.topic == topic):
            lines.append(f"  {_MARKS[f.level]:<8} {f.found}")
            lines += [f"  {'':<8} -> {f.cure}"] if f.cure else []
    problems = sum(f.level == "problem" for f in found)
    end = "No problems found." if not problems else f"{problems} problem{'s' * (problems > 1)} found."
    return "\n".join([*lines[1:], "", end])
