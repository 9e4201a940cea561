"""Where a guard or a decision can be spoilt, and the source with it spoilt. Pure."""

from __future__ import annotations

import ast
import enum
import random
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

FORMER_ROOMS: Final = (
    "eraser/case",
    "eraser/defences",
    "eraser/erase",
    "eraser/gate",
    "eraser/ownership",
    "eraser/proof",
    "nova_patch",
    "quarantine/evidence",
    "quarantine/rules",
    "quarantine/service",
)
"""What decides of drives."""
ROOMS: Final = (
    *FORMER_ROOMS,
    "eraser/controller",
    "eraser/drive",
    "eraser/host",
    "eraser/state",
    "quarantine/record",
)
"""With what they rest on: how a drive and a host are read, and what is kept. The rest carries and
shows."""


class Kind(enum.StrEnum):
    """What is spoilt."""

    DECISIONS = "decisions"
    """A guard that raises or returns, a comparison, ``and``, ``or``, ``not``, True and False."""
    CALLS = "calls"
    """A statement that is nothing but a call: for what it changes, or for what it raises."""
    ELEMENTS = "elements"
    """One element of a tuple that a ``for`` runs over, as of a list of what has to agree."""


FORMER_KINDS: Final = frozenset({Kind.DECISIONS})
KINDS: Final = frozenset(Kind)

_COMPARED: Final[dict[type[ast.cmpop], str]] = {
    ast.Eq: "!=",
    ast.NotEq: "==",
    ast.Lt: "<=",
    ast.LtE: "<",
    ast.Gt: ">=",
    ast.GtE: ">",
    ast.In: "not in",
    ast.NotIn: "in",
    ast.Is: "is not",
    ast.IsNot: "is",
}


@dataclass(frozen=True)
class Site:
    """One piece of source, and what stands there once it is spoilt."""

    path: Path
    """Relative to the checkout."""
    line: int
    start: int
    end: int
    """Bytes of the file."""
    becomes: str
    what: str
    kind: Kind = Kind.DECISIONS

    def __str__(self) -> str:
        return f"{self.path}:{self.line}: {self.what}"


def sites(path: Path, source: str) -> Iterator[Site]:
    """Every place of one file, of each kind, in order."""
    text = _Text(source)
    for node in _code(ast.parse(source)):
        for kind, ways in _WAYS.items():
            for start, end, becomes, what in ways(node, text):
                yield Site(path, text.line(start), start, end, becomes, what, kind)


def spoil(source: str, site: Site) -> str:
    """The source with one place spoilt."""
    raw = source.encode()
    return (raw[: site.start] + site.becomes.encode() + raw[site.end :]).decode()


def choose(
    top: Path,
    seed: int,
    count: int,
    rooms: Sequence[str] = ROOMS,
    kinds: Collection[Kind] = KINDS,
) -> list[Site]:
    """``count`` places below ``top``, drawn by a seed: the same ones for the same source."""
    every = [
        site
        for room in rooms
        for path in sorted((top / room).rglob("*.py"))
        for site in sites(path.relative_to(top), path.read_text(encoding="utf-8"))
        if site.kind in kinds
    ]
    return random.Random(seed).sample(every, min(count, len(every)))


class _Text:
    """Byte offsets of a source, as :mod:`ast` counts them."""

    def __init__(self, source: str) -> None:
        self.raw = source.encode()
        self._starts = [0]
        for line in self.raw.splitlines(keepends=True):
            self._starts.append(self._starts[-1] + len(line))

    def span(self, node: ast.expr | ast.stmt) -> tuple[int, int]:
        """Where a node begins and ends."""
        last = node.end_lineno or node.lineno
        return (
            self._starts[node.lineno - 1] + node.col_offset,
            self._starts[last - 1] + (node.end_col_offset or 0),
        )

    def of(self, node: ast.expr | ast.stmt) -> str:
        """The source of a node."""
        start, end = self.span(node)
        return self.raw[start:end].decode()

    def shown(self, node: ast.expr | ast.stmt) -> str:
        """The same for people, in one line that is not long."""
        return " ".join(self.of(node).split())[:60]

    def line(self, offset: int) -> int:
        """The line, from 1, that an offset is in."""
        return self.raw.count(b"\n", 0, offset) + 1


def _code(tree: ast.AST) -> Iterator[ast.AST]:
    """All nodes but those of annotations and decorators, and of ``if TYPE_CHECKING``."""
    for name, value in ast.iter_fields(tree):
        if name in ("annotation", "returns", "decorator_list"):
            continue
        for node in value if isinstance(value, list) else [value]:
            if isinstance(node, ast.AST):
                yield node
                yield from _code(node)


_Way = tuple[int, int, str, str]
"""To spoil one node: from, to, what stands there instead, and what that is."""


def _decision(node: ast.AST, text: _Text) -> Iterator[_Way]:
    match node:
        case ast.If(test=test) if _guards(node):
            yield (*text.span(test), "False", f"without the guard of {text.shown(test)}")
        case ast.Compare(left=left, ops=[op], comparators=[right]) if type(op) in _COMPARED:
            other = _COMPARED[type(op)]
            becomes = f"({text.of(left)}) {other} ({text.of(right)})"
            yield (*text.span(node), becomes, f"{text.shown(node)} with {other}")
        case ast.BoolOp(op=op, values=values):
            other = "or" if isinstance(op, ast.And) else "and"
            becomes = f" {other} ".join(f"({text.of(value)})" for value in values)
            yield (*text.span(node), becomes, f"{text.shown(node)} with {other}")
        case ast.UnaryOp(op=ast.Not(), operand=operand):
            becomes, what = f"({text.of(operand)})", f"{text.of(node)[:60]} without not"
            yield (*text.span(node), becomes, what)
        case ast.Return(value=ast.Constant(value=bool(value))):
            yield (*text.span(node), f"return {not value}", f"return {value} as {not value}")
        case _:
            return


def _call(node: ast.AST, text: _Text) -> Iterator[_Way]:
    match node:
        # What only goes to a log keeps nobody from anything.
        case ast.Expr(value=ast.Call(func=ast.Attribute(value=ast.Name(id="LOG")))):
            return
        case ast.Expr(value=ast.Call()):
            yield (*text.span(node), "pass", f"without {text.shown(node)}")
        case _:
            return


def _element(node: ast.AST, text: _Text) -> Iterator[_Way]:
    match node:
        case (
            ast.For(iter=ast.Tuple(elts=elements) as whole)
            | ast.comprehension(iter=ast.Tuple(elts=elements) as whole)
        ):
            for number, element in enumerate(elements):
                others = elements[:number] + elements[number + 1 :]
                becomes = f"({''.join(f'{text.of(each)}, ' for each in others)})"
                what = f"without {number + 1} of {len(elements)}, {text.shown(element)}"
                yield (*text.span(whole), becomes, what)
        case _:
            return


_WAYS: Final = {Kind.DECISIONS: _decision, Kind.CALLS: _call, Kind.ELEMENTS: _element}


def _guards(node: ast.If) -> bool:
    """A branch of one statement that leaves, and nothing else."""
    return (
        not node.orelse
        and len(node.body) == 1
        and isinstance(node.body[0], ast.Raise | ast.Return | ast.Continue)
    )
