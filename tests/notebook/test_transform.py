"""The input transformer: line numbers stay, inner magics and help work, nothing has side effects."""

from __future__ import annotations

import pytest

from torch_fl import transform


def changed(source: str) -> list[str]:
    return transform.transform(source.splitlines(keepends=True))


def test_the_magic_becomes_a_call_on_its_own_line() -> None:
    out = changed("%%ral_profile -o p\nx = 1\ny = 2\n")
    assert out == ["__ral_begin__('-o p')\n", "x = 1\n", "y = 2\n"]


def test_blank_lines_above_keep_their_number() -> None:
    out = changed("\n\n%%ral_profile\nx = 1\n")
    assert len(out) == 4
    assert out[2] == "__ral_begin__('')\n"
    assert all(line.strip() for line in out[:2])  # IPython would drop blank ones


@pytest.mark.parametrize(
    "source",
    [
        "x = 1\n%%ral_profile\n",
        "%%time\nx\n",
        "%%ral_profiler\nx\n",
        "%%ral_profile?",
        "",
        "\n\n",
        "%ral_profile on",
    ],
)
def test_other_cells_are_left_alone(source: str) -> None:
    assert changed(source) == source.splitlines(keepends=True)


@pytest.mark.parametrize("flag", ["--help", "-h", "-o p --help"])
def test_help_runs_nothing(flag: str) -> None:
    assert changed(f"%%ral_profile {flag}\nraise SystemExit\n") == [
        "get_ipython().run_line_magic('ral_profile', '--help')\n"
    ]


def test_an_inner_magic_gets_the_rest_as_its_body() -> None:
    out = changed("%%ral_profile\n\n%%time -n 1\nx = 1\ny\n")
    assert out[:2] == ["__ral_begin__('')\n", "\n"]
    # The body's first statement stands for the lines above, so that x is at line 4.
    assert out[2] == "get_ipython().run_cell_magic('time', '-n 1', '__ral_cell__\\n\\n\\nx = 1\\ny\\n')\n"
    assert len(out) == 3


def test_a_body_that_is_no_python_is_passed_on_unchanged() -> None:
    out = changed("%%ral_profile\n%%bash\necho hi\n")
    assert out[1] == "get_ipython().run_cell_magic('bash', '', 'echo hi\\n')\n"


def test_a_second_call_changes_nothing() -> None:
    once = changed("%%ral_profile\nx\n")
    assert transform.transform(list(once)) == once


@pytest.mark.parametrize(
    ("source", "line"),
    [("%%ral_profile\nx", 1), ("\n\n%%ral_profile -q\n", 3), ("%%time\n%%ral_profile\n", 2), ("x", 1)],
)
def test_the_magics_line_is_found(source: str, line: int) -> None:
    assert transform.magic_line(source) == line
