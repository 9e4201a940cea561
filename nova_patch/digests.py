"""SHA-256 of functions' source text, read from files: nothing of Nova is imported."""

from __future__ import annotations

import ast
import hashlib
from collections.abc import Iterator

ABSENT = "absent"
"""Stands in the table for a function that a release does not have."""


def of_bytes(content: bytes) -> str:
    """SHA-256 in lower case hex digits."""
    return hashlib.sha256(content).hexdigest()


def of_functions(source: bytes, names: list[str]) -> dict[str, str]:
    """The digest of each named function's source lines, decorators included, or :data:`ABSENT`.

    ``names`` are ``function`` or ``Class.method``. Where a name is defined more than once, as with
    a property's setter, all the definitions count. Raises ``SyntaxError``.
    """
    lines = source.splitlines(keepends=True)
    wanted: dict[str, list[bytes]] = {name: [] for name in names}
    for name, node in _functions(ast.parse(source), ""):
        if name in wanted:
            first = min([node.lineno, *(mark.lineno for mark in node.decorator_list)])
            wanted[name].extend(lines[first - 1 : node.end_lineno])
    return {name: of_bytes(b"".join(found)) if found else ABSENT for name, found in wanted.items()}


def _functions(
    node: ast.AST, prefix: str
) -> Iterator[tuple[str, ast.FunctionDef | ast.AsyncFunctionDef]]:
    for child in ast.iter_child_nodes(node):
        if isinstance(child, (ast.FunctionDef, ast.AsyncFunctionDef)):
            yield f"{prefix}{child.name}", child
        elif isinstance(child, ast.ClassDef):
            yield from _functions(child, f"{prefix}{child.name}.")
        elif isinstance(child, (ast.If, ast.Try)):
            yield from _functions(child, prefix)
