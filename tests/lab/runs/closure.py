"""All files that some modules are made of: what they import, and what that imports.

Imports within functions count, and those for types alone: too many files only make a digest change
too often. A package brings its ``__init__`` and the files beside its modules that are no Python.
What is imported by a computed name is not seen; tests/unit/lab/test_run_searched.py compares what
is loaded in fact.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from pathlib import Path


def closure(top: Path, start: Iterable[Path]) -> frozenset[Path]:
    """The files below ``top`` that the modules in ``start`` need, with themselves; relative."""
    found: set[Path] = set()
    waiting = [path.relative_to(top) for path in start]
    while waiting:
        path = waiting.pop()
        if path in found:
            continue
        found.add(path)
        waiting += imports(top, path)
    folders = {path.parent for path in found}
    return frozenset(found | {each for folder in folders for each in _data(top, folder)})


def imports(top: Path, path: Path) -> frozenset[Path]:
    """The files below ``top`` that one file names in imports, and the packages that it is in."""
    tree = ast.parse((top / path).read_bytes())
    names = (_package(path), *_imported(tree, path))
    return frozenset(file for name in names for file in _files(top, name))


def _package(path: Path) -> str:
    """The package that a file is in."""
    return ".".join(path.parent.parts)


def _imported(tree: ast.Module, path: Path) -> Iterator[str]:
    """Every name that may be a module. ``from a import b``: whether b is one, the files tell."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            parents = path.parent.parts
            above = parents[: len(parents) - node.level + 1] if node.level else ()
            module = ".".join([*above, *(node.module or "").split(".")]).rstrip(".")
            yield module
            yield from (f"{module}.{alias.name}" for alias in node.names)


def _files(top: Path, name: str) -> list[Path]:
    """A module's file with those of the packages around it; nothing for what is not ours."""
    parts = name.split(".") if name else []
    found = []
    for depth in range(1, len(parts) + 1):
        place = Path(*parts[:depth])
        found += [
            each
            for each in (place / "__init__.py", place.with_suffix(".py"))
            if (top / each).is_file()
        ]
    return found


def _data(top: Path, folder: Path) -> Iterator[Path]:
    """Files beside modules that a module may read."""
    for each in (top / folder).iterdir():
        if each.is_file() and each.suffix not in (".py", ".pyc"):
            yield each.relative_to(top)
