"""Profiled cells in a plain IPython shell: begin, end, errors, inner magics, `%ral_profile on`."""

from __future__ import annotations

from typing import Any

import pytest

import torch_fl
from torch_fl import history

HASH_LINE = "%%ral_profile -o p"


def run(shell: Any, source: str, *, ok: bool = True) -> Any:
    result = shell.run_cell(source, store_history=True)
    error = result.error_before_exec or result.error_in_exec
    assert result.success is ok, f"{error!r}"
    return result


def table(result: Any) -> dict[int, int]:
    """Ops counted on each line."""
    return {row["line"]: row["count"] for row in result.bundle["tables"]["lines"] if row["count"]}


def test_work_is_put_on_the_right_lines(shell: Any, core: Any) -> None:
    source = """%%ral_profile -o p
def heavy(n):
    core.op("mm")      # line 3
def light():
    core.op("add")     # line 5
for _ in range(5):
    heavy(300)         # line 7
    light()            # line 8
core.op("relu")
"""
    run(shell, source)
    p = shell.user_ns["p"]
    assert table(p) == {7: 5, 8: 5, 9: 1}
    kernels = p.kernels
    inner = kernels.groupby("op")["inner"].unique()
    assert [i.rpartition(":")[2] for i in inner["mm"]] == ["3"]
    assert [i.rpartition(":")[2] for i in inner["add"]] == ["5"]
    first = inner["mm"][0]

    run(shell, "\n" + source)  # a blank line at the top: everything is one lower
    p = shell.user_ns["p"]
    assert table(p) == {8: 5, 9: 5, 10: 1}
    assert p.bundle["tables"]["lines"][0]["source"].startswith(("heavy(300)", "light()"))

    run(shell, source)
    run(shell, "%%ral_profile -o q\n\nheavy(1)")
    q = shell.user_ns["q"]
    assert table(q) == {3: 1}
    assert list(q.kernels["inner"]) == [first]  # still names the cell that defined it


def test_names_values_and_display_are_as_without(shell: Any, capsys: Any) -> None:
    source = """%%ral_profile -q
from math import pi as my_pi
n = globals().get("n", 0) + 1
for k in range(3):
    pass
(n, k)"""
    result = run(shell, source)
    assert result.result == (1, 2)
    assert shell.user_ns["my_pi"] > 3
    assert "(1, 2)" in capsys.readouterr().out
    assert run(shell, "%%ral_profile -q\nz = 1").result is None
    assert run(shell, "%%ral_profile -q\n5;").result is None or "5" not in capsys.readouterr().out
    assert not [name for name in shell.user_ns if "__ral" in name]


def test_a_cell_may_await(shell: Any) -> None:
    source = """%%ral_profile -o p
import asyncio
async def step(k):
    core.op("mm")
    await asyncio.sleep(0.02)
    return k
got = await asyncio.gather(*[step(k) for k in (1, 2, 3)])
got"""
    assert run(shell, source).result == [1, 2, 3]
    assert table(shell.user_ns["p"]) == {7: 3}


def test_an_error_is_the_cells_own_and_the_profile_is_kept(shell: Any, core: Any, capsys: Any) -> None:
    source = '%%ral_profile -o p\ncore.op("add")\n\nopen("/no/such/file")\ncore.op("never")'
    result = run(shell, source, ok=False)
    assert isinstance(result.error_in_exec, FileNotFoundError)
    out = capsys.readouterr().out
    assert _plain(out).count("FileNotFoundError: ") == 2  # the traceback's and the profile's
    assert out.count("Traceback (most recent call last)") == 1
    assert "----> 4 open(" in _plain(out)
    summary = shell.user_ns["p"].bundle["summary"]
    assert summary["state"] == "failed" and summary["failed_line"] == 4
    assert summary["error"].startswith("FileNotFoundError")
    assert not torch_fl.recording() and core.acquired == 0
    assert list(shell.user_ns["p"].kernels["op"]) == ["add"]


def _plain(text: str) -> str:
    import re

    return re.sub(r"\x1b\[[0-9;]*m", "", text)


def test_after_failures_the_next_profile_starts_clean(shell: Any) -> None:
    for _ in range(5):
        run(shell, '%%ral_profile -q\ncore.op("add")\nraise RuntimeError', ok=False)
    run(shell, '%%ral_profile -o p\ncore.op("mul")')
    assert list(shell.user_ns["p"].kernels["op"]) == ["mul"]


def test_interrupt_shows_the_profile_so_far(shell: Any, core: Any) -> None:
    run(shell, '%%ral_profile -o p\ncore.op("add")\nraise KeyboardInterrupt', ok=False)
    assert shell.user_ns["p"].bundle["summary"]["state"] == "failed"
    assert shell.user_ns["p"].bundle["summary"]["failed_line"] == 3
    assert core.acquired == 0


def test_a_syntax_error_shows_once_and_begins_nothing(shell: Any, core: Any, capsys: Any) -> None:
    result = run(shell, "%%ral_profile\nx = (1\ny = ]", ok=False)
    assert isinstance(result.error_before_exec, SyntaxError)
    assert capsys.readouterr().out.count("SyntaxError") == 1
    assert not history.entries() and core.acquired == 0


def test_unknown_options_fail_the_cell_before_it_runs(shell: Any, core: Any, capsys: Any) -> None:
    run(shell, "%%ral_profile --nonsense\nran = 1", ok=False)
    assert "--nonsense" in capsys.readouterr().err
    assert "ran" not in shell.user_ns and core.acquired == 0
    run(shell, "%%ral_profile -d cuda:0\nran = 1", ok=False)
    assert "takes a device such as ral:0" in capsys.readouterr().err


def test_help_prints_and_runs_nothing(shell: Any, capsys: Any) -> None:
    run(shell, "%%ral_profile --help\nran = 1")
    out = capsys.readouterr().out
    assert "--no-live" in out and "--label" in out
    assert "ran" not in shell.user_ns


@pytest.mark.parametrize("inner", ["%%time", "%%timeit -n 1 -r 1", "%%prun -q", "%%capture got"])
def test_inner_magics_work_and_keep_lines(shell: Any, inner: str, capsys: Any) -> None:
    run(shell, f'%%ral_profile -o p\n{inner}\nx = 1\ncore.op("add")')
    expected = {4: 1} if inner != "%%prun -q" else None  # prun compiles without AST transformers
    p = shell.user_ns["p"]
    assert list(p.kernels["op"]) == ["add"]
    if expected:
        assert table(p) == expected
    if inner == "%%time":
        assert "Wall time" in capsys.readouterr().out and shell.user_ns["x"] == 1


def test_time_may_be_outside(shell: Any, capsys: Any) -> None:
    run(shell, '%%time\n%%ral_profile -o p\n\ncore.op("add")')
    assert table(shell.user_ns["p"]) == {4: 1}
    assert "Wall time" in capsys.readouterr().out


def test_every_cell_is_profiled_while_on(shell: Any, core: Any) -> None:
    run(shell, "%ral_profile on --label all")
    run(shell, 'a = 1\ncore.op("add")')
    assert table(history.last()) == {2: 1}
    assert history.last().label == "all"
    run(shell, 'core.op("mul")')
    assert table(history.last()) == {1: 1}
    run(shell, "%ral_profile off")
    run(shell, 'core.op("mul")')
    assert len(history.entries()) == 2 and core.acquired == 0


def test_only_the_cells_own_time_counts(shell: Any, core: Any) -> None:
    import time

    late: list[int] = []

    def before() -> None:  # work of an earlier cell whose times come in late
        core._emit("KERNEL", "old", device=0, tier="native", begin_ns=time.monotonic_ns() - 10**9, dur_ns=5)

    shell.user_ns["before"] = before
    run(shell, '%%ral_profile -o p\nbefore()\ncore.op("mine")')
    assert list(shell.user_ns["p"].kernels["op"]) == ["mine"]
    assert not late


def test_device_filter(shell: Any) -> None:
    run(shell, '%%ral_profile -o p -d ral:1\ncore.op("a", device=0)\ncore.op("b", device=1)')
    assert list(shell.user_ns["p"].kernels["op"]) == ["b"]


def test_files_are_written(shell: Any, tmp_path: Any) -> None:
    trace, page = tmp_path / "t.json", tmp_path / "r.html"
    run(shell, f'%%ral_profile -q -D {trace} -T "{page}"\ncore.op("add", us=50)')
    assert "traceEvents" in trace.read_text()
    assert "torch_fl" in page.read_text()


def test_the_line_magic_is_there_and_completes(shell: Any) -> None:
    assert shell.find_cell_magic("ral_profile") and shell.find_line_magic("ral_profile")
    _, matches = shell.complete("--no", "%%ral_profile --no")
    assert "--no-live" in matches
    assert any("ral_profile" in m for m in shell.complete("%%ral_p", "%%ral_p")[1])


def test_another_program_may_call_the_cell_magic(shell: Any) -> None:
    shell.run_cell_magic("ral_profile", "-o p", 'core.op("add")\nw = 3\n')
    assert shell.user_ns["w"] == 3 and list(shell.user_ns["p"].kernels["op"]) == ["add"]


def test_unload_leaves_functions_working(shell: Any) -> None:
    run(shell, "%%ral_profile -q\ndef f(x):\n    return x + 1")
    from torch_fl import extension

    extension.unload(shell)
    assert run(shell, "f(1)").result == 2
    run(shell, "%%ral_profile\nf(1)", ok=False)
    assert not shell.find_cell_magic("ral_profile")
    extension.load(shell)
    assert run(shell, "%%ral_profile -q\nf(2)").result == 3


def test_a_named_result_is_freed_with_its_name(shell: Any) -> None:
    run(shell, '%%ral_profile -o p\ncore.op("add")')
    assert torch_fl.last() is shell.user_ns["p"]
    run(shell, "del p")
    import gc

    gc.collect()
    assert torch_fl.last() is None and len(history.entries()) == 1


def test_budget_fails_its_cell(shell: Any, capsys: Any) -> None:
    result = run(shell, "%ral_budget --wall 1ms\nimport time; time.sleep(0.02)", ok=False)
    assert "over budget: wall" in str(result.error_in_exec)
    assert capsys.readouterr().out.count("BudgetError") == 1
    run(shell, "%ral_budget --wall 10s --peak 1MiB\ncore.alloc(1000)")
    result = run(shell, "%ral_budget --peak 1KiB\nb = core.alloc(5000)", ok=False)
    assert "peak 4.88 KiB on ral:0" in str(result.error_in_exec)


def test_history_and_fallback_magics(shell: Any, capsys: Any) -> None:
    run(shell, '%%ral_profile -q --label one\ncore.op("pool", tier="cpu")\ncore.op("add")')
    frame = run(shell, "%ral_history").result
    assert list(frame["label"]) == ["one"] and frame["op_time_us"][0] == pytest.approx(20, rel=0.01)
    fallback = run(shell, "%ral_fallback").result
    assert list(fallback["op"]) == ["pool"] and list(fallback["reason"]) == ["no manifest entry"]
    capsys.readouterr()
    run(shell, "%ral_fallback --why pool")
    out = capsys.readouterr().out
    assert "native: passed over, no manifest entry" in out and "cpu: ran (pool_f32)" in out
    run(shell, "%ral_fallback --why add")
    assert "add ran on the first tier allowed: native" in capsys.readouterr().out


def test_python_stacks_are_sampled(shell: Any) -> None:
    run(shell, "%%ral_profile -o p --stacks python\nimport time\ndef nap():\n    time.sleep(0.5)\nnap()")
    assert any(stack.endswith("nap") for stack in shell.user_ns["p"].stacks)


def test_context_manager_gives_the_same(core: Any) -> None:
    with torch_fl.profile(label="x") as result:
        assert torch_fl.recording()
        with pytest.raises(RuntimeError, match="still being taken"):
            result.bundle  # noqa: B018
        core.op("add", us=100)
    assert not torch_fl.recording() and core.flushes[-1] is True
    assert list(result.kernels["op"]) == ["add"] and result.label == "x"
    assert result.bundle["summary"]["state"] == "done"
    with pytest.raises(ZeroDivisionError), torch_fl.profile() as failed:
        1 / 0  # noqa: B018
    assert failed.bundle["summary"]["state"] == "failed"
