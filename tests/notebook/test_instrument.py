"""Line marks in a cell's AST: the right lines at every point, and the code means what it meant."""

from __future__ import annotations

import ast
import asyncio
import textwrap
import traceback
from typing import Any

import pytest

from torch_fl import instrument


def run(source: str, core: Any, space: dict[str, Any] | None = None) -> dict[str, Any]:
    """Runs instrumented source whose function here() notes (line, innermost line)."""
    source = textwrap.dedent(source)
    instrument.install(core)
    seen: list[tuple[int, int]] = []

    def here(value: Any = None) -> Any:
        line, inner = core.lines()
        seen.append((int(line.rpartition(":")[2] or 0), int(inner.rpartition(":")[2] or 0)))
        return value

    tree = ast.parse(source)
    tree.body = instrument.instrument(tree.body, lambda line: core.trace_intern(f"cell:{line}"))
    space = {"here": here, "seen": seen} if space is None else space
    exec(compile(tree, "<cell>", "exec"), space)
    return space


def lines(source: str, core: Any) -> list[tuple[int, int]]:
    return run(source, core)["seen"]


def test_statements_at_the_top_and_in_compound_statements(core: Any) -> None:
    source = """\
        here()
        for i in range(2):
            here()
            if i:
                here()
            elif here() is None:
                pass
        try:
            here()
            raise ValueError
        except ValueError:
            here()
        else:
            pass
        finally:
            here()
        with open('/dev/null'):
            here()
        match 1:
            case 1:
                here()
    """
    expected = [1, 3, 6, 3, 5, 9, 12, 16, 18, 21]
    assert lines(source, core) == [(n, n) for n in expected]


def test_a_function_keeps_the_callers_line_and_gives_it_back(core: Any) -> None:
    source = """\
        def inner():
            here()
        def outer():
            '''doc'''
            here()
            inner(); here()
        outer(); here()
    """
    space = run(source, core)
    assert space["seen"] == [(7, 5), (7, 2), (7, 6), (7, 7)]
    assert space["outer"].__doc__ == "doc"
    assert space["outer"].__code__.co_firstlineno == 3


def test_the_callers_line_comes_back_after_an_exception(core: Any) -> None:
    source = """\
        def fail():
            raise KeyError
        def outer():
            try: fail()
            except KeyError: here()
        outer()
        here()
    """
    assert lines(source, core) == [(6, 5), (7, 7)]


def test_a_loops_own_line_counts_for_its_iterator_and_condition(core: Any) -> None:
    source = """\
        def gen():
            yield 1
            yield 2
        def check(n):
            here()
            return n < 3
        for x in map(here, [1, 2, 3]):
            if x == 2:
                continue
            y = x
        n = 0
        while check(n):
            n += 1
    """
    seen = lines(source, core)
    assert seen[:3] == [(7, 7)] * 3
    assert seen[3:] == [(12, 5)] * 4


def test_generators_show_their_line_only_while_they_run(core: Any) -> None:
    source = """\
        def numbers():
            here()
            got = yield 1
            here(got)
            yield from other()
            here()
        def other():
            here()
            yield 2
        g = numbers()
        next(g); here()
        g.send('x'); here()
        list(g)
        here()
    """
    assert lines(source, core) == [
        (11, 2), (11, 11), (12, 4), (12, 8), (12, 12), (13, 6), (14, 14),
    ]  # fmt: skip


def test_tasks_that_interleave_keep_their_own_lines(core: Any) -> None:
    source = """\
        import asyncio
        async def step(k):
            here()
            got = await asyncio.sleep(0.01, k)
            here()
            return got
        async def main():
            return [await asyncio.gather(*[step(k) for k in (1, 2)]), here()]
    """
    space = run(source, core)
    core.trace_line(core.trace_intern("cell:99"))
    assert asyncio.run(space["main"]())[0] == [1, 2]
    assert space["seen"] == [(99, 3), (99, 3), (99, 5), (99, 5), (99, 8)]
    assert core.lines() == ("cell:99", "cell:99")


def test_async_generators_and_comprehensions_run(core: Any) -> None:
    source = """\
        async def agen():
            for i in range(3):
                yield i
        async def main():
            return [x async for x in agen()] + [await f(x) for x in (1, 2)]
        async def f(x):
            return x * 10
    """
    assert asyncio.run(run(source, core)["main"]()) == [0, 1, 2, 10, 20]


def test_classes_scopes_and_declarations_mean_what_they_meant(core: Any) -> None:
    source = """\
        from __future__ import annotations
        import dataclasses, enum
        total = 0
        @dataclasses.dataclass
        class Point:
            '''A point.'''
            x: int
            y: int = 2
            def __post_init__(self):
                self.__secret = self.x
            def secret(self):
                return self.__secret
        class Colour(enum.Enum):
            RED = 1
            BLUE = 2
        class Child(Point):
            def secret(self):
                return super().secret() + 1
        def count():
            global total
            total += 1
            seen_here = 5
            def deep():
                nonlocal seen_here
                seen_here += 1
                return lambda: seen_here + [i for i in (1,)][0]
            return deep()()
        result = count()
        def outer():
            def inner(a, /, b=3, *args, c, **kw): return (a, b, args, c, kw)
            return inner
        many = outer()(1, 2, 3, c=4, d=5)
        def empty(): '''only a docstring'''
        def dots(): ...
    """
    space = run(source, core)
    assert space["result"] == 7 and space["total"] == 1
    assert space["Child"](3).secret() == 4
    assert space["Point"].__doc__ == "A point." and space["Point"].__annotations__["x"] == "int"
    assert [c.name for c in space["Colour"]] == ["RED", "BLUE"]
    assert space["many"] == (1, 2, (3,), 4, {"d": 5})
    assert space["empty"]() is None and space["empty"].__doc__ == "only a docstring"
    assert space["dots"]() is None


def test_decorated_functions_are_marked_at_the_decorator(core: Any) -> None:
    source = """\
        def deco(f):
            here()
            return f
        @deco
        def g():
            here()
        g()
    """
    assert lines(source, core) == [(4, 2), (7, 6)]


def test_functions_for_compilers_are_left_as_written(core: Any) -> None:
    source = """\
        def jit(*a, **k): return lambda f: f
        class torch:
            compile = staticmethod(jit)
        @torch.compile(dynamic=True)
        def f():
            return 1
        @jit()
        def g():
            return 2
    """
    space = run(source, core)
    assert "__ral_inner__" not in space["f"].__code__.co_names
    assert "__ral_inner__" not in space["g"].__code__.co_names


@pytest.mark.parametrize(
    "source",
    [
        "def f(n):\n    x = 1\n    return (n +\n            1 / 0)\nf(2)\n",
        "def g():\n    yield 1\n    yield (\n        1 / 0)\nlist(g())\n",
        "for i in range(3):\n    if i == 2: raise ValueError(i)\n",
        "class A:\n    def m(self):\n        '''d'''\n        return self.nope\nA().m()\n",
    ],
)
def test_tracebacks_are_unchanged(source: str, core: Any) -> None:
    def frames(instrumented: bool) -> list[tuple[Any, ...]]:
        tree = ast.parse(source)
        if instrumented:
            instrument.install(core)
            tree.body = instrument.instrument(tree.body, lambda line: line)
        try:
            exec(compile(tree, "<cell>", "exec"), {})
        except Exception as error:
            found = traceback.TracebackException.from_exception(error).stack
            return [
                (f.name, f.lineno, f.end_lineno, f.colno, f.end_colno)
                for f in found
                if f.filename == "<cell>"
            ]
        raise AssertionError("nothing was raised")

    assert frames(True) == frames(False)


def test_marked_code_runs_on_without_the_extension(core: Any) -> None:
    space = run("def f(n):\n    return n + 1\n", core)
    assert space["f"](1) == 2
    core.trace_line(0)
    assert space["f"](2) == 3


def test_the_names_do_not_show_in_the_namespace(core: Any) -> None:
    space = run("x = 1\ndef f():\n    return sorted(globals())\nnames = f()\n", core)
    assert not [n for n in space["names"] if "ral" in n]
