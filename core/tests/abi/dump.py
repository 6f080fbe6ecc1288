"""The layout of ral/plugin.h and ral/trace_format.h: names and types from the text, numbers from the compiler.

python core/tests/abi/dump.py [INCLUDE_FOLDER] > core/tests/abi/baseline-0.9.json

A new baseline is written only for a new ABI version, and beside the old one.
"""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
HEADERS = ("ral/plugin.h", "ral/trace_format.h")
INCLUDE = HERE.parents[1] / "include"
_QUALIFIERS = {"const", "struct", "unsigned", "signed", "volatile"}


def layout(include: Path = INCLUDE) -> dict[str, Any]:
    """The ABI of the headers below `include`.

    {"structs": {name: {"size", "members": [{"name", "type", "offset", "size"}]}}, "constants": {name: value},
    "typedefs": {name: type}, "functions": {name: type}}; sizes and offsets in bytes. Members of nested structs and
    unions have a dotted name. Raises ValueError for a declaration that it cannot read, CalledProcessError where the
    headers do not compile.
    """
    texts = [_without_comments((include / name).read_text()) for name in HEADERS]
    structs = {tag: list(_members(body)) for text in texts for tag, body in _structs(text)}
    constants = [name for text in texts for name in _constants(text)]
    typedefs = {name: kind for text in texts for name, kind in _typedefs(text)}
    functions = {name: kind for text in texts for name, kind in _functions(text)}
    numbers = _compiled(
        include, structs, constants, typedefs | {s: "" for s in structs if _is_typedef(s, texts)}
    )
    sized = {
        tag: {
            "size": numbers["structs"][tag]["size"],
            "members": [
                {"name": name, "type": kind, "offset": offset, "size": size}
                for (name, kind), (_, offset, size) in zip(
                    members, numbers["structs"][tag]["members"], strict=True
                )
            ],
        }
        for tag, members in structs.items()
    }
    return {
        "structs": sized,
        "constants": numbers["constants"],
        "typedefs": typedefs,
        "functions": functions,
    }


# ---- Text ------------------------------------------------------------------------------------------


def _without_comments(text: str) -> str:
    text = re.sub(r"/\*.*?\*/", " ", text, flags=re.DOTALL)
    text = re.sub(r"//[^\n]*", " ", text)
    return text.replace("\\\n", " ")


def _declarations(text: str) -> str:
    """Without preprocessor lines and the C++ brackets."""
    text = re.sub(r"#ifdef __cplusplus.*?#endif", " ", text, flags=re.DOTALL)
    return re.sub(r"^\s*#[^\n]*", " ", text, flags=re.MULTILINE)


def _block(text: str, start: int) -> int:
    """Index after the brace that closes the one at `start`."""
    depth = 0
    for i in range(start, len(text)):
        depth += {"{": 1, "}": -1}.get(text[i], 0)
        if depth == 0:
            return i + 1
    raise ValueError("a brace is not closed")


def _structs(text: str) -> Iterator[tuple[str, str]]:
    text = _declarations(text)
    at = 0
    while found := re.compile(r"\b(?:typedef\s+)?struct\s+(\w+)\s*\{").search(text, at):
        at = _block(text, found.end() - 1)
        yield found[1], text[found.end() : at - 1]


def _is_typedef(tag: str, texts: list[str]) -> bool:
    return any(re.search(rf"\btypedef\s+struct\s+{tag}\s*\{{", text) for text in texts)


def _members(body: str, prefix: str = "") -> Iterator[tuple[str, str]]:
    """(name, type) of each member, in order; those of a nested struct or union after it."""
    at = 0
    while at < len(body):
        nested = re.compile(r"\s*(struct|union)\s*\{").match(body, at)
        if nested:
            end = _block(body, nested.end() - 1)
            name = re.compile(r"\s*(\w+)\s*;").match(body, end)
            if not name:
                raise ValueError(f"a nested {nested[1]} without a name: {body[at:end]!r}")
            yield prefix + name[1], nested[1]
            yield from _members(body[nested.end() : end - 1], f"{prefix}{name[1]}.")
            at = name.end()
            continue
        end = body.find(";", at)
        if end < 0:
            if body[at:].strip():
                raise ValueError(f"cannot read the member {body[at:].strip()!r}")
            return
        for name, kind in _declared(body[at:end]):
            yield prefix + name, kind
        at = end + 1


def _declared(text: str) -> list[tuple[str, str]]:
    """(name, type) of what one declaration declares."""
    text = _tidy(text)
    pointer = re.fullmatch(r"(.+?)\(\*\s*(\w+)\)\s*\((.*)\)", text)
    if pointer:
        return [(pointer[2], f"{_tidy(pointer[1])} (*)({_parameters(pointer[3])})")]
    first, *more = text.split(",")
    found = re.fullmatch(r"(.+?)\s*(\w+)(\[.*\])?", first)
    if not found:
        raise ValueError(f"cannot read the declaration {text!r}")
    kind = _tidy(found[1])
    others = [re.fullmatch(r"\s*(\w+)\s*", word) for word in more]
    if not all(others):
        raise ValueError(f"cannot read the declaration {text!r}")
    return [(found[2], kind + (found[3] or "")), *((word[1], kind) for word in others if word)]


def _parameters(text: str) -> str:
    return ", ".join(_without_name(_tidy(word)) for word in text.split(","))


def _without_name(parameter: str) -> str:
    """A parameter's type: renaming a parameter changes no ABI."""
    found = re.fullmatch(r"(.*[\s*])(\w+)(\[.*\])?", parameter)
    if not found or not set(re.findall(r"\w+", found[1])) - _QUALIFIERS:
        return parameter
    return _tidy(found[1]) + (found[3] or "")


def _tidy(text: str) -> str:
    return re.sub(r"\s*\*\s*", "* ", " ".join(text.split())).replace("* *", "**").strip()


def _constants(text: str) -> list[str]:
    enumerators = [
        name
        for body in re.findall(r"\benum\s*\w*\s*\{(.*?)\}", text, flags=re.DOTALL)
        for name in re.findall(r"(\w+)\s*(?:=[^,]*)?(?:,|$)", body.strip())
    ]
    macros = re.findall(r"^\s*#define[ \t]+(RAL_\w+)[ \t]+(?!__attribute__)\S", text, flags=re.MULTILINE)
    return [*macros, *enumerators]


def _typedefs(text: str) -> Iterator[tuple[str, str]]:
    for body in re.findall(r"\btypedef\s+([^{};]+);", _declarations(text)):
        yield _declared(body)[0]


def _functions(text: str) -> Iterator[tuple[str, str]]:
    for result, name, parameters in re.findall(r"RAL_PLUGIN_EXPORT\s+([^;()]+?)(\w+)\(([^;()]*)\);", text):
        yield name, f"{_tidy(result)} ({_parameters(parameters)})"


# ---- Numbers ---------------------------------------------------------------------------------------


def _compiled(
    include: Path, structs: dict[str, list[tuple[str, str]]], constants: list[str], typedefs: dict[str, str]
) -> dict[str, Any]:
    """What abi_layout.c prints for these names."""
    lines = []
    for tag, members in structs.items():
        kind = tag if tag in typedefs else f"struct {tag}"
        lines += [f'STRUCT_BEGIN({kind}, "{tag}")', *(f"MEMBER({kind}, {name})" for name, _ in members)]
        lines.append("STRUCT_END")
    lines += [f"CONSTANT({name})" for name in constants]
    compiler = shutil.which("cc") or shutil.which("gcc") or "cc"
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "abi_names.inc").write_text("\n".join(lines) + "\n")
        program = Path(folder) / "abi_layout"
        command = [compiler, "-std=gnu11", "-I", str(include), "-I", folder]
        subprocess.run(
            [*command, str(HERE / "abi_layout.c"), "-o", str(program)],
            check=True,
            capture_output=True,
            text=True,
        )
        return json.loads(subprocess.run([program], check=True, capture_output=True, text=True).stdout)


def text_of(found: dict[str, Any]) -> str:
    """A layout as committed: one line a member and constant, so that a difference reads well."""
    out = ['{\n"structs": {']
    for tag, struct in found["structs"].items():
        out.append(f'"{tag}": {{"size": {struct["size"]}, "members": [')
        out.append(",\n".join("  " + json.dumps(member) for member in struct["members"]))
        out.append("]},")
    out[-1] = "]}\n},"
    for section in ("constants", "typedefs", "functions"):
        lines = [f"  {json.dumps(name)}: {json.dumps(value)}" for name, value in found[section].items()]
        out.append(f'"{section}": {{\n' + ",\n".join(lines) + "\n}" + ("" if section == "functions" else ","))
    return "\n".join(out) + "\n}\n"


if __name__ == "__main__":
    print(text_of(layout(Path(sys.argv[1]) if len(sys.argv) > 1 else INCLUDE)), end="")
