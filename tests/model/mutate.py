"""Guards turned around, one at a time: a module of the product with one condition inverted."""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from types import ModuleType


@dataclass(frozen=True)
class Guard:
    """One condition in a module's source."""

    module: str
    function: str
    number: int
    """Counts the guards of the function, in the order of the source."""
    line: int
    text: str

    def __str__(self) -> str:
        return f"{self.module}:{self.function}#{self.number} ({self.text})"

    @property
    def key(self) -> str:
        """Names the guard wherever its line moves to."""
        return f"{self.function}: {self.text}"


def _source(module: ModuleType) -> str:
    assert module.__file__ is not None
    with open(module.__file__, encoding="utf-8") as handle:
        return handle.read()


class _Inverter(ast.NodeTransformer):
    """Visits every condition; inverts the one whose position is asked for."""

    def __init__(self, wanted: int | None = None) -> None:
        self.found: list[tuple[str, int, str]] = []
        self._wanted = wanted
        self._functions: list[str] = []

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.AST:
        self._functions.append(node.name)
        self.generic_visit(node)
        self._functions.pop()
        return node

    def _condition(self, test: ast.expr) -> ast.expr:
        """The parts of ``and`` and ``or`` are guards of their own."""
        if isinstance(test, ast.BoolOp):
            test.values = [self._condition(value) for value in test.values]
            return test
        return self._one(test)

    def _one(self, test: ast.expr) -> ast.expr:
        place = len(self.found)
        name = self._functions[-1] if self._functions else ""
        self.found.append((name, test.lineno, ast.unparse(test)))
        if place != self._wanted:
            return test
        return ast.copy_location(ast.UnaryOp(ast.Not(), test), test)

    def visit_If(self, node: ast.If) -> ast.AST:
        node.test = self._condition(node.test)
        self.generic_visit(node)
        return node

    def visit_IfExp(self, node: ast.IfExp) -> ast.AST:
        node.test = self._condition(node.test)
        self.generic_visit(node)
        return node

    def visit_Return(self, node: ast.Return) -> ast.AST:
        if isinstance(node.value, ast.BoolOp | ast.Compare):
            node.value = self._condition(node.value)
        self.generic_visit(node)
        return node


def guards(module: ModuleType) -> Iterator[Guard]:
    """Every condition of the module's functions: ``if``, conditional expressions, returned ones."""
    visitor = _Inverter()
    visitor.visit(ast.parse(_source(module)))
    counts: dict[str, int] = {}
    for function, line, text in visitor.found:
        if function:
            number = counts[function] = counts.get(function, 0) + 1
            yield Guard(module.__name__, function, number, line, text)


def inverted(module: ModuleType, guard: Guard) -> ModuleType:
    """A copy of the module in which that one guard says the opposite."""
    every = list(guards(module))
    tree = ast.parse(_source(module))
    finder = _Inverter()
    finder.visit(ast.parse(_source(module)))
    inside = [place for place, (function, _l, _t) in enumerate(finder.found) if function]
    ast.fix_missing_locations(_Inverter(inside[every.index(guard)]).visit(tree))
    return _executed(module, tree)


def copied(module: ModuleType) -> ModuleType:
    """The module once more, so that what it calls can be replaced for one caller alone."""
    return _executed(module, ast.parse(_source(module)))


def _executed(module: ModuleType, tree: ast.Module) -> ModuleType:
    copy = ModuleType(f"{module.__name__}_copy")
    copy.__file__ = module.__file__
    # Dataclasses and their annotations look their module up by name.
    sys.modules[copy.__name__] = copy
    try:
        exec(compile(tree, str(module.__file__), "exec"), copy.__dict__)  # noqa: S102 - our own source
    finally:
        del sys.modules[copy.__name__]
    return copy
