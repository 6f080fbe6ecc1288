"""Source lines: writes calls into a cell's AST that tell the trace which line runs.

Each statement at the cell's top level is preceded by `__ral_line__(id)` (sets the line of the cell
and the innermost line), each statement of a function by `__ral_inner__(id)` (the innermost only).
A function saves the caller's innermost line and restores it when it is left; a coroutine or a
generator also where it is suspended. Calls bear the statement's own position, so tracebacks read as
before. The four functions live in `builtins` and stay there: functions of a profiled cell call them
for as long as they live.
"""

from __future__ import annotations

import ast
import builtins
import hashlib
from collections.abc import Callable
from typing import Any

LINE, INNER, PUSH, POP = "__ral_line__", "__ral_inner__", "__ral_push__", "__ral_pop__"
_SAVED = "__ral_saved__"  # local variable of an instrumented function: its caller's word
# Compilers that read a function's bytecode, or its source, take a function as it was written.
_COMPILERS = ("compile", "jit", "script", "njit", "vmap")
_PLAIN = (ast.Pass, ast.Global, ast.Nonlocal)
_LOOPS = (ast.For, ast.AsyncFor, ast.While)
_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
_SCOPES = (*_FUNCTIONS, ast.Lambda, ast.ClassDef)
_COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)


def source_hash(source: str) -> str:
    """First 12 hex digits of the SHA-1 of a cell's source: names the cell in the trace."""
    return hashlib.sha1(source.encode("utf-8", "surrogatepass")).hexdigest()[:12]


def install(core: Any) -> None:
    """Puts the adapter's functions where instrumented code finds them."""
    builtins.__ral_line__ = core.trace_line  # type: ignore[attr-defined]
    builtins.__ral_inner__ = core.trace_inner  # type: ignore[attr-defined]
    builtins.__ral_push__ = core.trace_push  # type: ignore[attr-defined]
    builtins.__ral_pop__ = core.trace_pop  # type: ignore[attr-defined]


def instrument(body: list[ast.stmt], location: Callable[[int], int]) -> list[ast.stmt]:
    """The statements of a cell with the calls written in.

    Args:
        body: statements at the top level of the cell; they are changed.
        location: gives the trace's id of a line, counted as in `body`.
    """
    return _Block(location, LINE).block(body)


class _Block:
    """Instruments the statements of one scope. `call` is the function that marks a line there."""

    def __init__(self, location: Callable[[int], int], call: str) -> None:
        self._location = location
        self._call = call

    def block(self, body: list[ast.stmt], loop: ast.stmt | None = None) -> list[ast.stmt]:
        """Marks before each statement; before `continue` the line of the loop that it returns to."""
        out: list[ast.stmt] = []
        for statement in body:
            if isinstance(statement, ast.Continue) and loop is not None:
                out.append(self._mark(loop))
            elif not isinstance(statement, _PLAIN) and not _is_future(statement):
                out.append(self._mark(statement))
            self._enter(statement, loop)
            out.append(statement)
        return out

    def _enter(self, node: ast.stmt, loop: ast.stmt | None) -> None:
        if isinstance(node, _FUNCTIONS):
            _function(node, self._location)
        elif isinstance(node, ast.ClassDef):
            node.body = _after_docstring(node.body, self.block)
        elif isinstance(node, _LOOPS):
            node.body = [*self.block(node.body, node), self._mark(node)]
            node.orelse = self.block(node.orelse, loop)
        elif isinstance(node, ast.Match):
            for case in node.cases:
                case.body = self.block(case.body, loop)
        else:
            for field in ("body", "orelse", "finalbody"):
                inner = getattr(node, field, None)
                if inner:
                    setattr(node, field, self.block(inner, loop))
            for handler in getattr(node, "handlers", []):
                handler.body = self.block(handler.body, loop)

    def _mark(self, statement: ast.stmt) -> ast.stmt:
        call = _call(self._call, ast.Constant(self._location(_first_line(statement))))
        return _placed(ast.Expr(call), statement)


def _first_line(statement: ast.stmt) -> int:
    decorators = getattr(statement, "decorator_list", None)
    return decorators[0].lineno if decorators else statement.lineno


def _is_future(node: ast.stmt) -> bool:
    return isinstance(node, ast.ImportFrom) and node.module == "__future__"


def _call(name: str, *args: ast.expr) -> ast.Call:
    return ast.Call(ast.Name(name, ast.Load()), list(args), [])


def _placed(node: Any, at: ast.AST) -> Any:
    """Gives new nodes the position of an old one."""
    for part in ast.walk(node):
        if "lineno" in part._attributes and not hasattr(part, "lineno"):
            ast.copy_location(part, at)
    return node


def _after_docstring(
    body: list[ast.stmt], change: Callable[[list[ast.stmt]], list[ast.stmt]]
) -> list[ast.stmt]:
    first = body[0]
    documented = isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant)
    skip = 1 if documented and isinstance(first.value.value, str) else 0
    return body[:skip] + change(body[skip:])


def _function(node: Any, location: Callable[[int], int]) -> None:
    if any(_is_compiler(decorator) for decorator in node.decorator_list):
        return
    if isinstance(node, ast.AsyncFunctionDef) or _yields(node.body):
        suspends = _Suspends(location)
        node.body = [suspends.visit(statement) for statement in node.body]
    block = _Block(location, INNER)

    def wrap(body: list[ast.stmt]) -> list[ast.stmt]:
        if not body:
            return body
        save = ast.Assign([ast.Name(_SAVED, ast.Store())], _call(PUSH))
        restore = ast.Expr(_call(POP, ast.Name(_SAVED, ast.Load())))
        at = body[0]
        guarded = ast.Try(block.block(body), [], [], [_placed(restore, at)])
        return [_placed(save, at), _placed(guarded, at)]

    node.body = _after_docstring(node.body, wrap)


def _is_compiler(decorator: ast.expr) -> bool:
    node = decorator.func if isinstance(decorator, ast.Call) else decorator
    if isinstance(node, ast.Call):
        return _is_compiler(node)
    name = node.attr if isinstance(node, ast.Attribute) else getattr(node, "id", "")
    return name in _COMPILERS


def _yields(body: list[ast.stmt]) -> bool:
    todo: list[ast.AST] = list(body)
    while todo:
        node = todo.pop()
        if isinstance(node, (ast.Yield, ast.YieldFrom)):
            return True
        if not isinstance(node, _SCOPES):
            todo.extend(ast.iter_child_nodes(node))
    return False


class _Suspends(ast.NodeTransformer):
    """Writes around each await and yield of one function: caller's line before, ours after it.

    `yield x` becomes `((yield (x, pop(saved))[0]), saved := push(), inner(id))[0]`. Those in nested
    functions and comprehensions are left alone: they are right, their lines only less fine.
    """

    def __init__(self, location: Callable[[int], int]) -> None:
        self._location = location
        self._line = 0

    def visit(self, node: ast.AST) -> Any:
        if isinstance(node, (*_SCOPES, *_COMPREHENSIONS)):
            return node
        if isinstance(node, ast.stmt):
            outer, self._line = self._line, node.lineno
            changed = self.generic_visit(node)
            self._line = outer
            return changed
        return super().visit(node)

    def _around(self, node: Any) -> ast.expr:
        self.generic_visit(node)
        value = node.value if node.value is not None else ast.Constant(None)
        pop = _call(POP, ast.Name(_SAVED, ast.Load()))
        node.value = _placed(_first_of(value, pop), node)
        push = ast.NamedExpr(ast.Name(_SAVED, ast.Store()), _call(PUSH))
        again = _call(INNER, ast.Constant(self._location(self._line)))
        return _placed(_first_of(node, push, again), node)

    visit_Yield = visit_YieldFrom = visit_Await = _around


def _first_of(*parts: ast.expr) -> ast.expr:
    return ast.Subscript(ast.Tuple(list(parts), ast.Load()), ast.Constant(0), ast.Load())
