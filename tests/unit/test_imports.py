"""The import rule between the parts: ``quarantine`` sees ``eraser.wire`` and nothing else of it."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

TOP = Path(__file__).resolve().parents[2]

ALLOWED = {
    "quarantine": ("quarantine", "eraser.wire"),
    "eraser": ("eraser", "qualify"),
    "qualify": ("qualify",),
    "nova_patch": ("nova_patch",),
}
OURS = ("eraser", "quarantine", "qualify", "nova_patch", "tests", "benchmarks", "ansible")

HOST_SIDE_LIBRARIES = {
    "celery": {"worker.py", "messaging.py"},
    "kombu": {"worker.py", "messaging.py"},
    "redis": {"messaging.py"},
    "cryptography": {"signing.py"},
    "pyudev": {"watcher.py"},
    "oslo_config": {"workerconf.py", "options.py"},
}
"""What runs for each case starts in a guest, or beside a hundred other programs: it loads the
standard library only. These modules alone may load more."""


def imports(path: Path) -> Iterator[str]:
    """Every module that a file names, wherever in it."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from (name.name for name in node.names)
        elif isinstance(node, ast.ImportFrom) and node.level == 0 and node.module:
            yield from (f"{node.module}.{name.name}" for name in node.names)


def within(module: str, package: str) -> bool:
    return module == package or module.startswith(f"{package}.")


@pytest.mark.parametrize("package", ALLOWED)
def test_a_part_imports_only_what_its_border_allows(package: str) -> None:
    files = list((TOP / package).rglob("*.py"))
    assert files
    wrong = [
        f"{path.relative_to(TOP)}: {module}"
        for path in files
        for module in imports(path)
        if any(within(module, ours) for ours in OURS)
        and not any(within(module, allowed) for allowed in ALLOWED[package])
    ]
    assert wrong == []


def test_the_host_side_loads_third_party_libraries_in_named_modules_only() -> None:
    wrong = [
        f"{path.name}: {module}"
        for path in (TOP / "eraser").rglob("*.py")
        for module in imports(path)
        for library, places in HOST_SIDE_LIBRARIES.items()
        if within(module, library) and path.name not in places
    ]
    assert wrong == []


def test_ansible_is_no_package() -> None:
    """The real ``ansible`` must win on import."""
    assert not (TOP / "ansible" / "__init__.py").exists()
