"""Programs that tests send into guests are strings: no type checker sees what they import."""

from __future__ import annotations

import ast
import importlib
import textwrap
from collections.abc import Iterator
from pathlib import Path

TOP = Path(__file__).resolve().parents[2]
OURS = ("eraser", "quarantine")
FORMER = "tests/lab/releases"
"""What is there speaks to former releases, by their names."""


def programs(tree: ast.AST) -> Iterator[ast.Module]:
    """Each string below ``tree`` that is a program with imports."""
    for node in ast.walk(tree):
        if (
            isinstance(node, ast.Constant)
            and isinstance(node.value, str)
            and "import " in node.value
        ):
            try:
                yield ast.parse(textwrap.dedent(node.value))
            except SyntaxError:
                continue


def imported(program: ast.Module) -> Iterator[tuple[str, str]]:
    """Each module of ours that it imports from, and the name that it takes there."""
    for node in ast.walk(program):
        if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] in OURS:
            yield from ((node.module or "", alias.name) for alias in node.names)
        if isinstance(node, ast.Import):
            yield from ((a.name, "") for a in node.names if a.name.split(".")[0] in OURS)


def exists(module: str, name: str) -> bool:
    """Whether ``from module import name`` would find it."""
    try:
        if hasattr(importlib.import_module(module), name or "__name__"):
            return True
        importlib.import_module(f"{module}.{name}")
    except ModuleNotFoundError:
        return False
    return True


def missing(source: str) -> list[str]:
    """What the programs in a file import of ours that does not exist."""
    return [
        f"from {module} import {name}"
        for program in programs(ast.parse(source))
        for module, name in imported(program)
        if not exists(module, name)
    ]


def test_what_programs_import_of_ours_exists() -> None:
    found = {
        str(path.relative_to(TOP)): gone
        for folder in ("tests", "benchmarks")
        for path in sorted((TOP / folder).rglob("*.py"))
        if FORMER not in path.as_posix() and path != Path(__file__).resolve()
        if (gone := missing(path.read_text()))
    }
    assert found == {}


def test_a_name_that_moved_is_seen() -> None:
    program = (
        'ONE = """\nfrom eraser.media.reader import BlockDevice, Device\nimport eraser.none\n"""'
    )
    assert missing(program) == [
        "from eraser.media.reader import Device",
        "from eraser.none import ",
    ]
