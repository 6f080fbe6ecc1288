"""Turns the plain comments of the public headers into documentation comments, for doxygen (docs/Doxyfile).

usage: doc_comments.py header   prints it; every line keeps its number

- A comment on lines of its own, directly above a declaration, describes the declaration.
- A comment behind a member, function or macro describes that one; lines below it in the same column go on with it.
- The first comment of a file describes the file, and so does a later one of several lines with no declaration below.
- Every other comment stays as it is. Lines that are indented further than their comment are shown as they stand.
"""

import itertools
import pathlib
import re
import sys
from dataclasses import dataclass

TOKEN = re.compile(
    r"""(?P<comment>//[^\n]*|/\*.*?\*/)|"(?:\\.|[^"\\\n])*"|'(?:\\.|[^'\\\n])+'|.""", re.DOTALL
)
BANNER = re.compile(r"-{4,} *(.*?) *-{4,}[ *]*")
SPECIAL = re.compile(r"[\\@<>#]")  # what doxygen or Markdown would take for a command or a tag


@dataclass
class Comment:
    """A comment that ends its line: where it begins, its lines as written, and what they say."""

    line: int
    column: int
    raw: list[str]
    body: list[str]

    @property
    def below(self) -> int:
        """The number of the line after it."""
        return self.line + len(self.raw)


def read(text: str) -> tuple[list[str], list[Comment]]:
    """The lines without their comments, and the comments; one in the middle of a line counts as code."""
    code, comments = [""], []
    for match in TOKEN.finditer(text):
        token = match.group()
        if match.lastgroup == "comment" and text[match.end() : match.end() + 1] in ("\n", ""):
            _add(comments, Comment(len(code) - 1, len(code[-1]), token.split("\n"), _body(token)), code[-1])
            code += [""] * token.count("\n")
        else:
            first, *more = token.split("\n")
            code[-1] += first
            code += more
    return code, comments


def _body(token: str) -> list[str]:
    if token.startswith("//"):
        return [token[2:].removeprefix(" ").rstrip()]
    first, *more = token[2:-2].split("\n")
    lines = [
        re.sub(r"^\s*\* ?", "", line) if line.lstrip().startswith("*") else line.strip() for line in more
    ]
    return [line.rstrip() for line in [first.removeprefix(" "), *lines]]


def _add(comments: list[Comment], new: Comment, code: str) -> None:
    """Joins `//` lines that stand under each other."""
    last = comments[-1] if comments else None
    goes_on = last and last.raw[-1].startswith("//") and new.raw[0].startswith("//") and not code.strip()
    if goes_on and (last.below, last.column) == (new.line, new.column):
        last.raw += new.raw
        last.body += new.body
    else:
        comments.append(new)


def subject(code: list[str], comment: Comment, is_first: bool, in_brackets: bool) -> str:
    """What a comment describes: the declaration "above" or "behind" which it stands, the "@file", or "" nothing."""
    here = code[comment.line].strip()
    if here:
        other = here.endswith("{") or here.startswith("}") or re.match(r"#(?!\s*define)", here)
        return "" if other or in_brackets else "behind"
    if is_first:
        return "@file"
    below = code[comment.below].strip() if comment.below < len(code) else ""
    if below and not re.match(r'\}|#(?!\s*define)|extern "C"|\w+:$', below):
        return "" if BANNER.fullmatch(comment.body[0]) else "above"
    return "@file" if len(comment.body) > 1 else ""


def _escaped(text: str) -> str:
    pieces = re.split(r"(`[^`]*`)", text)
    return "".join(p if p.startswith("`") else SPECIAL.sub(r"\\\g<0>", p) for p in pieces)


def rendered(body: list[str]) -> list[str]:
    """The comment's text with doxygen's commands kept out, and blocks of indented lines marked as such."""
    out: list[str] = []
    in_list = is_block = False
    for text in body:
        indented = text.startswith("  ")
        in_list = text.lstrip().startswith("- ") or (in_list and indented)
        begins, ends = indented and not in_list and not is_block, is_block and not indented
        if (begins or ends) and out:
            out[-1] += " @verbatim" if begins else " @endverbatim"
        is_block = indented and not in_list
        text = text.replace("*/", "* /")  # it would end the comment
        out.append(text if is_block else _escaped(text))
    if is_block:
        out[-1] += " @endverbatim"
    if banner := BANNER.fullmatch(body[0]):
        out[0] = f"@par {banner[1]}"
    return out


def converted(text: str) -> str:
    """The header's text with documentation comments."""
    code, comments = read(text)
    depths = list(itertools.accumulate(line.count("(") - line.count(")") for line in code))
    out = list(code)
    for number, comment in enumerate(comments):
        kind = subject(code, comment, number == 0, depths[comment.line] > 0)
        lines = rendered(comment.body) if kind else comment.raw
        if kind == "@file":
            lines[0] = lines[0] if number == 0 or lines[0].startswith("@") else f"@details {lines[0]}"
            lines[-1] += " @file"
        if kind:
            lines[0] = ("/**< " if kind == "behind" else "/** ") + lines[0]
            lines[-1] += " */"
        for offset, line in enumerate(lines):
            at = comment.line + offset
            out[at] = (out[at].ljust(comment.column) if kind else out[at]) + line.rstrip()
    return "\n".join(out)


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    sys.stdout.write(converted(pathlib.Path(sys.argv[1]).read_text()))
