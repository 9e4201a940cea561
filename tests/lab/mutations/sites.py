"""Where a guard or a decision can be spoilt, and the source with it spoilt. Pure."""

from __future__ import annotations

import ast
import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

ROOMS: Final = (
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
"""What decides of drives. The rest carries, stores and shows."""

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

    def __str__(self) -> str:
        return f"{self.path}:{self.line}: {self.what}"


def sites(path: Path, source: str) -> Iterator[Site]:
    """Every place of one file, in order: guards that raise or return, comparisons, ``and``, ``or``,
    ``not``, and decisions that are returned as True or False."""
    text = _Text(source)
    for node in _code(ast.parse(source)):
        for start, end, becomes, what in _spoilt(node, text):
            yield Site(path, text.line(start), start, end, becomes, what)


def spoil(source: str, site: Site) -> str:
    """The source with one place spoilt."""
    raw = source.encode()
    return (raw[: site.start] + site.becomes.encode() + raw[site.end :]).decode()


def choose(top: Path, seed: int, count: int, rooms: Sequence[str] = ROOMS) -> list[Site]:
    """``count`` places below ``top``, drawn by a seed: the same ones for the same source."""
    every = [
        site
        for room in rooms
        for path in sorted((top / room).rglob("*.py"))
        for site in sites(path.relative_to(top), path.read_text(encoding="utf-8"))
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


def _spoilt(node: ast.AST, text: _Text) -> Iterator[tuple[int, int, str, str]]:
    """Each way to spoil one node: from, to, what stands there instead, and what that is."""
    match node:
        case ast.If(test=test) if _guards(node):
            shown = " ".join(text.of(test).split())[:60]
            yield (*text.span(test), "False", f"without the guard of {shown}")
        case ast.Compare(left=left, ops=[op], comparators=[right]) if type(op) in _COMPARED:
            other = _COMPARED[type(op)]
            start, end = text.span(node)
            becomes = f"({text.of(left)}) {other} ({text.of(right)})"
            yield start, end, becomes, f"{' '.join(text.of(node).split())[:60]} with {other}"
        case ast.BoolOp(op=op, values=values):
            other = "or" if isinstance(op, ast.And) else "and"
            becomes = f" {other} ".join(f"({text.of(value)})" for value in values)
            start, end = text.span(node)
            yield start, end, becomes, f"{' '.join(text.of(node).split())[:60]} with {other}"
        case ast.UnaryOp(op=ast.Not(), operand=operand):
            start, end = text.span(node)
            yield start, end, f"({text.of(operand)})", f"{text.of(node)[:60]} without not"
        case ast.Return(value=ast.Constant(value=bool(value))):
            yield (*text.span(node), f"return {not value}", f"return {value} as {not value}")
        case _:
            return


def _guards(node: ast.If) -> bool:
    """A branch of one statement that leaves, and nothing else."""
    return (
        not node.orelse
        and len(node.body) == 1
        and isinstance(node.body[0], ast.Raise | ast.Return | ast.Continue)
    )
