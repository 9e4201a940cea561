"""Guards turned around, one at a time: modules of the product with every condition on a switch.

All guards of a module go through one switch, so that one copy of it serves for all of them: the
switch says which one is inverted now, and notes which were asked. What was found without asking a
guard is what would be found with it inverted, and need not be found again.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Callable, Hashable, Iterator
from dataclasses import dataclass, field
from types import FunctionType, ModuleType
from typing import Any, Generic, TypeVar

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")

_SWITCH = "_guard_asked"
"""The name of the switch in a copied module."""


@dataclass(frozen=True)
class Guard:
    """One condition in a module's source."""

    module: str
    function: str
    number: int
    """Counts the guards of the function that read the same, in the order of the source."""
    line: int
    text: str

    def __str__(self) -> str:
        """Names the guard wherever its line moves to, and whichever guards come before it."""
        again = f" [{self.number}]" if self.number > 1 else ""
        return f"{self.module.rpartition('.')[2]}.{self.function}: {self.text}{again}"


def _source(module: ModuleType) -> str:
    assert module.__file__ is not None
    with open(module.__file__, encoding="utf-8") as handle:
        return handle.read()


class _Wiring(ast.NodeTransformer):
    """Visits every condition; leads those within functions through the switch where it has bits."""

    def __init__(self, bits: Iterator[int] | None = None) -> None:
        self.found: list[tuple[str, int, str]] = []
        self._bits = bits
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
        if not self._functions:
            return test
        self.found.append((self._functions[-1], test.lineno, ast.unparse(test)))
        if self._bits is None:
            return test
        asked = [ast.Constant(next(self._bits)), test]
        return ast.copy_location(ast.Call(ast.Name(_SWITCH, ast.Load()), asked, []), test)

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
    visitor = _Wiring()
    visitor.visit(ast.parse(_source(module)))
    counts: dict[tuple[str, str], int] = {}
    for function, line, text in visitor.found:
        number = counts[function, text] = counts.get((function, text), 0) + 1
        yield Guard(module.__name__, function, number, line, text)


@dataclass
class Switch:
    """Which guard is inverted now, and which guards were asked. Sets of guards are bits."""

    asked: int = 0
    turned: int = 0
    """One bit, or none: the code as it is."""

    def __call__(self, bit: int, value: Any) -> Any:
        self.asked |= bit
        return not value if self.turned & bit else value


class Memo(Generic[K, V]):
    """Answers of a function by its arguments: those of the code as it is serve for every guard that
    was not asked on the way, the others until another guard is turned."""

    def __init__(self, switch: Switch) -> None:
        self._switch = switch
        self._plain: dict[K, tuple[V, int]] = {}
        self._other: dict[K, tuple[V, int]] = {}
        self._turned = 0

    def __call__(self, key: K, answer: Callable[[], V]) -> V:
        """What ``answer`` says, asked once."""
        switch = self._switch
        found = self._plain.get(key)
        if found is None or found[1] & switch.turned:
            if self._turned != switch.turned:
                self._other, self._turned = {}, switch.turned
            found = self._other.get(key)
        if found is None:
            before, switch.asked = switch.asked, 0
            try:
                value = answer()
            finally:
                asked, switch.asked = switch.asked, switch.asked | before
            found = (value, asked)
            if asked & switch.turned:
                self._other[key] = found
            else:
                self._plain[key] = found
        switch.asked |= found[1]
        return found[0]

    def asked(self, key: K) -> int:
        """The guards that the answer of the code as it is depends on, as bits."""
        found = self._plain.get(key)
        return 0 if found is None else found[1]


@dataclass
class Wired:
    """Copies of modules, with all their guards on one switch, that call each other's copies."""

    modules: tuple[ModuleType, ...]
    switch: Switch = field(default_factory=Switch)
    guards: dict[Guard, int] = field(init=False)
    """Each guard's bit."""
    copies: dict[str, ModuleType] = field(init=False)
    """By the name of the original."""

    def __post_init__(self) -> None:
        every = [guard for module in self.modules for guard in guards(module)]
        self.guards = {guard: 1 << number for number, guard in enumerate(every)}
        bits = iter(self.guards.values())
        self.copies = {}
        for module in self.modules:
            tree = ast.fix_missing_locations(_Wiring(bits).visit(ast.parse(_source(module))))
            self.copies[module.__name__] = _executed(module, tree)
        for copy in self.copies.values():
            vars(copy)[_SWITCH] = self.switch
            for name, value in list(vars(copy).items()):
                if isinstance(value, FunctionType) and value.__module__ in self.copies:
                    vars(copy)[name] = vars(self.copies[value.__module__])[value.__name__]

    def turn(self, guard: Guard | None) -> None:
        """Inverts that guard and no other; None: the code as it is."""
        self.switch.turned = 0 if guard is None else self.guards[guard]


def turn_in_place(module: ModuleType, guard: Guard) -> None:
    """Inverts a guard in the module itself, for whoever imports from it later."""
    every = {each: 1 << number for number, each in enumerate(guards(module))}
    tree = _Wiring(iter(every.values())).visit(ast.parse(_source(module)))
    vars(module)[_SWITCH] = Switch(turned=every[guard])
    code = compile(ast.fix_missing_locations(tree), str(module.__file__), "exec")
    exec(code, vars(module))  # noqa: S102 - our own source


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
