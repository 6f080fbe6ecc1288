"""`%%ral_profile` as an input transformer: its line becomes a begin call on the same line.

The transformer has no side effects (IPython calls it to test whether a cell is complete, too) and
the cell is run by IPython as any other: await, the last expression's display, single errors and
line numbers stay as they are without the magic.
"""

from __future__ import annotations

import re

BEGIN = "__ral_begin__"  # called with the magic's options, in place of its line
NESTED = "__ral_cell__"  # first statement of a body that an inner cell magic runs

_MAGIC = re.compile(r"(?P<indent>[ \t]*)%%ral_profile(?=\s|$)(?P<line>.*)")
_INNER = re.compile(r"[ \t]*%%(?P<name>[^\W\d][\w.]*)[ \t]*(?P<line>.*)")
_HELP = re.compile(r"(?<!\S)(--help|-h)(?!\S)")
# Inner magics whose body is Python that goes through the shell's AST transformers.
_PYTHON_MAGICS = {"time", "timeit", "prun", "capture"}


def transform(lines: list[str]) -> list[str]:
    """The cell's lines (with line ends) for IPython; unchanged where the cell is not profiled.

    Leading blank lines become comments, because IPython would drop them and shift every line.
    """
    first = next((i for i, line in enumerate(lines) if line.strip()), len(lines))
    match = _MAGIC.match(lines[first]) if first < len(lines) else None
    if match is None or match["line"].rstrip().endswith("?"):
        return lines
    indent, options = match["indent"], match["line"].strip()
    if _HELP.search(options):
        return [f"{indent}get_ipython().run_line_magic('ral_profile', '--help')\n"]
    head = [f"{indent}#\n"] * first + [f"{indent}{BEGIN}({options!r})\n"]
    return head + _inner_magic(lines[first + 1 :], first + 1)


def _inner_magic(rest: list[str], before: int) -> list[str]:
    """A cell magic on the first line after ours: called as IPython would. `before`: lines above."""
    at = next((i for i, line in enumerate(rest) if line.strip()), None)
    match = _INNER.match(rest[at]) if at is not None else None
    if at is None or match is None or match["line"].rstrip().endswith("?"):
        return rest
    body = "".join(rest[at + 1 :])
    if match["name"] in _PYTHON_MAGICS:
        body = NESTED + "\n" * (before + at + 1) + body
    name, line = match["name"], match["line"].rstrip()
    return rest[:at] + [f"get_ipython().run_cell_magic({name!r}, {line!r}, {body!r})\n"]


def magic_line(source: str) -> int:
    """Number of the `%%ral_profile` line in a cell's source, from 1; 1 where there is none."""
    for number, line in enumerate(source.splitlines(), 1):
        if _MAGIC.match(line):
            return number
    return 1
