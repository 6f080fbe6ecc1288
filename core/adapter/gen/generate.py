"""Reads the operator list of the PyTorch being built against and writes the adapter's operator table.

For every in-place and out= overload: its functional overload (manifests name only those), and for every
operator whether PyTorch wants all its tensors on one device (`device_check` of native_functions.yaml).
Run by CMake: generate.py --torch <torch folder> --output <folder>; writes generated_ops.inc there.
"""

from __future__ import annotations

import argparse
import re
from dataclasses import dataclass, field
from pathlib import Path

FUNC = re.compile(r"^- func: (?P<name>[\w]+)(\.(?P<overload>\w+))?\((?P<args>.*)\) -> (?P<returns>.*)$")


@dataclass
class Operator:
    """One schema line: its name, its arguments without defaults, and its device check."""

    name: str
    overload: str
    args: list[str]
    out_args: int
    inplace: bool
    strict: bool
    autogen: list[str] = field(default_factory=list)  # forms that PyTorch makes out of this one

    @property
    def full_name(self) -> str:
        return f"{self.name}.{self.overload}" if self.overload else self.name

    @property
    def group(self) -> tuple[str, tuple[str, ...]]:
        """Equal for the functional, in-place and out= forms of one operator."""
        return (self.name[:-1] if self.inplace else self.name, tuple(self.args))


def split_args(text: str) -> list[str]:
    """Splits an argument list at its top-level commas."""
    parts, depth, begin = [], 0, 0
    for position, char in enumerate(text):
        depth += char in "[("
        depth -= char in ")]"
        if char == "," and depth == 0:
            parts.append(text[begin:position].strip())
            begin = position + 1
    tail = text[begin:].strip()
    return parts + [tail] if tail else parts


def plain(argument: str) -> str:
    """`Tensor(a!) self` and `Tensor self=None` both become `Tensor self`."""
    return re.sub(r"\([a-z!|> *-]+\)", "", argument).split("=")[0].strip()


def parse(text: str) -> list[Operator]:
    """All operators of native_functions.yaml.

    Raises ValueError when fewer than 1000 were understood: the file's form has then changed.
    """
    operators: list[Operator] = []
    for line in text.splitlines():
        found = FUNC.match(line)
        if found:
            args = [a for a in split_args(found["args"]) if a != "*"]
            written = [
                i for i, a in enumerate(args) if re.match(r"Tensor(\[\])?\([a-z]!\)|Tensor\([a-z]!\)\[\]", a)
            ]
            inplace = found["name"].endswith("_") and not found["name"].endswith("__") and bool(written)
            outs = [] if inplace else written
            kept = [plain(a) for i, a in enumerate(args) if i not in outs]
            operators.append(
                Operator(found["name"], found["overload"] or "", kept, len(outs), inplace, strict=True)
            )
        elif operators and line.startswith("  device_check: NoCheck"):
            operators[-1].strict = False
        elif operators and line.startswith("  autogen: "):
            operators[-1].autogen = [name.strip() for name in line.removeprefix("  autogen: ").split(",")]
    if len(operators) < 1000:
        raise ValueError(
            f"only {len(operators)} operators found in native_functions.yaml; its form has changed"
        )
    return operators


def rows(operators: list[Operator]) -> list[str]:
    """Lines of the C++ table, sorted by name for binary search."""
    functional = {op.group: op.full_name for op in operators if not op.inplace and op.out_args == 0}
    table: dict[str, tuple[str, bool]] = {}
    for op in operators:
        made = [name for name in op.autogen if "out" not in name.partition(".")[2]]
        base = functional.get(op.group) or (made[0] if made else "")
        table[op.full_name] = (base, op.strict)
        table |= {name: (base, op.strict) for name in op.autogen}
    return [
        f'{{"{name}", "{base}", {str(strict).lower()}}},' for name, (base, strict) in sorted(table.items())
    ]


def main() -> None:
    """Command line: see the module's first lines."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--torch", type=Path, required=True, help="folder of the installed torch package")
    parser.add_argument("--output", type=Path, required=True, help="folder to write generated_ops.inc into")
    options = parser.parse_args()
    source = options.torch.parent / "torchgen/packaged/ATen/native/native_functions.yaml"
    text = "// Made by core/adapter/gen/generate.py; {overload, functional overload, one device only}\n"
    text += "\n".join(rows(parse(source.read_text(encoding="utf-8")))) + "\n"
    options.output.mkdir(parents=True, exist_ok=True)
    target = options.output / "generated_ops.inc"
    if not target.exists() or target.read_text(encoding="utf-8") != text:
        target.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
