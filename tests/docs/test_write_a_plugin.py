"""docs/write-a-plugin.md does what it says: its commands are run and its code is pasted, in order, in an empty folder.

Fenced blocks take part by their info string: `sh test` is run; each line of `text test` must be in the output of the last one;
`c patch replace=NAME` and `c patch before=NAME` change the plugin's source at a definition (`move=NAME` takes that one away first);
`json patch` is added to the manifest's kernels; `python file=NAME` is saved.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

import pytest

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs/write-a-plugin.md"


# Step 5: the add's times are the plugin's own, and in order.
DEVICE_TIMES = """
import torch, torch_fl_core.trace as t
device = next(d["id"] for d in torch.ral.devices() if d["plugin"] == "mychip")
x = torch.ones(1000, device=device)
with torch.ral.fallback_policy("native", strict=True), t.record() as trace:
    x * x
(kernel,) = [r for r in trace.records if r["kind"] == t.Kind.KERNEL]
print(not kernel["flags"] & t.Flag.NO_DEVICE_TIME, kernel["queued_ns"] <= kernel["begin_ns"] < kernel["end_ns"])
"""


class Block(NamedTuple):
    """A fenced block: words of its info string, text, and the line where it begins."""

    info: list[str]
    text: str
    line: int


def blocks(page: str) -> list[Block]:
    found = re.finditer(r"^```([^\n]*)\n(.*?)^```$", page, flags=re.MULTILINE | re.DOTALL)
    return [Block(m[1].split(), m[2], page.count("\n", 0, m.start()) + 1) for m in found]


def definition(source: str, name: str) -> tuple[int, int]:
    """Where a file-level definition begins (its comment not included) and ends."""
    starts = [
        m.start() for m in re.finditer(rf"^static [^;{{=]*\b{name}\b(\(|\[\]| =)", source, flags=re.MULTILINE)
    ]
    assert len(starts) == 1, f"{name} is defined {len(starts)} times"
    end = re.compile(r"^\};?\n|^static [^\n]*;\n", flags=re.MULTILINE).search(source, starts[0])
    assert end, name
    return starts[0], end.end()


def patched(source: str, options: dict[str, str], text: str) -> str:
    """The plugin's source after a `c patch` block."""
    gone = options.get("replace") or options.get("move")
    place = None
    if gone:
        start, end = definition(source, gone)
        source = source[:start] + source[end:]
        place = start
    if "before" in options:
        place, _ = definition(source, options["before"])
        text += "\n"
    assert place is not None
    return source[:place] + text + source[place:]


class Reader:
    """Follows the page in a folder."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.output = folder, ""
        commands = folder.parent / "bin"
        commands.mkdir()
        for name, arguments in (("python", ""), ("ralctl", " -m torch_fl_core.cli.ralctl")):
            (commands / name).write_text(f'#!/bin/sh\nexec "{sys.executable}"{arguments} "$@"\n')
            (commands / name).chmod(0o755)
        self.env = {k: v for k, v in os.environ.items() if not k.startswith("RAL_")}
        self.env |= {"HOME": str(folder), "PATH": f"{commands}:{os.environ['PATH']}"}
        self.env |= {"CFLAGS": "-O2 -Wall -Wextra -Werror"}

    def follow(self, block: Block) -> None:
        kind, *words = block.info
        options = dict(word.split("=", 1) for word in words if "=" in word)
        source, manifest = self.folder / "mychip/mychip_plugin.c", self.folder / "mychip/kernel_manifest.json"
        if block.info == ["sh", "test"]:
            self.output = self.run(block)
        elif block.info == ["text", "test"]:
            shown = [" ".join(line.split()) for line in self.output.splitlines()]
            for line in block.text.splitlines():
                wanted = " ".join(line.split())
                assert any(wanted in each for each in shown), (
                    f"line {block.line}: {wanted!r} not in\n{self.output}"
                )
        elif block.info[:2] == ["c", "patch"]:
            source.write_text(patched(source.read_text(), options, block.text))
        elif block.info == ["json", "patch"]:
            document = json.loads(manifest.read_text())
            document["kernels"].append(json.loads(block.text))
            manifest.write_text(json.dumps(document, indent=2))
        elif "file" in options:
            (self.folder / options["file"]).write_text(block.text)
        else:
            pytest.fail(f"line {block.line}: a block that the test does not know: {' '.join(block.info)}")

    def run(self, block: Block) -> str:
        done = subprocess.run(
            ["sh", "-eu", "-c", block.text],
            cwd=self.folder,
            env=self.env,
            capture_output=True,
            text=True,
            timeout=300,
        )
        assert done.returncode == 0, f"line {block.line}:\n{block.text}\n{done.stdout}\n{done.stderr}"
        return done.stdout


@pytest.mark.skipif(not (shutil.which("cc") and shutil.which("make")), reason="needs cc and make")
def test_the_page_works_as_written(tmp_path: Path) -> None:
    (tmp_path / "work").mkdir()
    reader = Reader(tmp_path / "work")
    page = blocks(PAGE.read_text())
    assert len([b for b in page if b.info == ["sh", "test"]]) >= 6
    for block in page:
        reader.follow(block)
    assert "mul on tier native" in reader.run(Block([], "RAL_PLUGIN_PATH=$PWD python check.py", 0))
    assert reader.run(Block([], f"RAL_PLUGIN_PATH=$PWD python -c '{DEVICE_TIMES}'", 0)).split() == [
        "True",
        "True",
    ]
    assert not (reader.folder / ".local/share/ral/plugins/mychip").exists()


def test_the_trace_says_native(tmp_path: Path) -> None:
    """The page's check is no empty one: without the manifest entry of step 4 `mul` is not on tier native."""
    page = blocks(PAGE.read_text())
    reader_folder = tmp_path / "work"
    reader_folder.mkdir()
    reader = Reader(reader_folder)
    reader.follow(page[0])
    for block in page:
        if "file=check.py" in block.info:
            reader.follow(block)
    assert (
        reader.run(Block([], "RAL_PLUGIN_PATH=$PWD python check.py", 0)).splitlines()
        == ["mul on tier cpu"] * 2
    )


def test_the_reasons_are_the_loader_s() -> None:
    """Each text of the table "When it is refused" is one that the sources can say."""
    table = PAGE.read_text().partition("## When it is refused")[2].partition("\n## ")[0]
    reasons = re.findall(r"^\| `([^`]+)` \|", table, flags=re.MULTILINE)
    sources = "\n".join(p.read_text() for p in sorted((ROOT / "core/ral").glob("*.cpp")))
    assert len(reasons) >= 10
    assert [reason for reason in reasons if reason not in sources] == []


def test_the_page_is_found() -> None:
    for name, target in (
        ("README.md", "docs/write-a-plugin.md"),
        ("docs/architecture.md", "write-a-plugin.md"),
    ):
        assert f"]({target})" in (ROOT / name).read_text(), name
    headings = re.findall(r"^#+ (.*)$", PAGE.read_text(), flags=re.MULTILINE)
    anchors = {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}
    assert set(re.findall(r"\]\(#([^)]+)\)", PAGE.read_text())) <= anchors
