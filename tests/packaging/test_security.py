"""docs/security.md: every test that its tables name exists, and no row is without one."""

from __future__ import annotations

import pathlib
import re

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
ROWS = [
    [cell.strip() for cell in line.strip("|").split("|")]
    for line in (ROOT / "docs/security.md").read_text().splitlines()
    if line.startswith("| ") and not line.startswith(("| Attack", "| ---"))
]
NAMED = re.compile(r"`([\w/.]+)::(\w+)`")


def exists(file: str, name: str) -> bool:
    """Is there such a test: TEST(name) in C++, def name( in Python?"""
    path = ROOT / file
    if not path.is_file():
        return False
    pattern = rf"^TEST\({name}\)" if path.suffix == ".cpp" else rf"^def {name}\("
    return re.search(pattern, path.read_text(), re.MULTILINE) is not None


@pytest.mark.parametrize("row", ROWS, ids=[row[0][:50] for row in ROWS])
def test_each_attack_has_tests_that_exist(row: list[str]) -> None:
    assert len(row) == 3 and all(row), row
    named = NAMED.findall(row[2])
    assert len(named) == row[2].count("`") // 2 > 0, row[2]
    assert [f"{file}::{name}" for file, name in named if not exists(file, name)] == []


def test_the_table_covers_each_subject() -> None:
    text = (ROOT / "docs/security.md").read_text()
    subjects = re.findall(r"^## (.*)\n(?:[^#|]*)\n\| Attack", text, re.MULTILINE)
    assert subjects == [
        "Plugin files",
        "Manifests",
        "Device nodes",
        "Descriptors and pointers",
        "Trace files, caches and the server",
    ]
    assert len(ROWS) >= 20


def test_a_missing_test_is_noticed() -> None:
    assert exists("core/tests/test_loader.cpp", "allow_list")
    assert not exists("core/tests/test_loader.cpp", "allow_lis")
    assert not exists("core/tests/absent.cpp", "allow_list")
    assert not exists("tests/packaging/test_security.py", "exist")


def test_no_source_opens_a_socket() -> None:
    opens = re.compile(r"sys/socket\.h|\bAF_UNIX\b|\bimport socket|\bsocketserver\b|\bsocket\(")
    folders = ["core/ral", "core/adapter", "core/plugins", "core/torch_fl_core", "fl_widgets", "kernel_ext"]
    sources = [
        path
        for folder in folders
        for path in (ROOT / folder).rglob("*")
        if path.suffix in (".py", ".cpp", ".c", ".h") and "node_modules" not in path.parts
    ]
    assert len(sources) > 80
    assert [str(path) for path in sources if opens.search(path.read_text())] == []
