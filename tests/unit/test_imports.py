"""What a part may import: the control plane sees the eraser's protocol and nothing else of it."""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

TOP = Path(__file__).resolve().parents[2]

ALLOWED = {
    "quarantine": ("quarantine", "eraser.protocol"),
    "eraser": ("eraser", "qualify"),
    "qualify": ("qualify",),
    "nova_patch": ("nova_patch",),
}
OURS = ("eraser", "quarantine", "qualify", "nova_patch", "tests", "benchmarks", "ansible")

THIRD_PARTIES = {
    "eraser.agent.conf": {"oslo_config"},
    "eraser.agent.watcher": {"pyudev"},
    "eraser.agent.worker": {"celery", "kombu"},
    "eraser.protocol.transport.messaging": {"celery", "kombu", "redis"},
    "eraser.protocol.transport.options": {"oslo_config"},
    "eraser.protocol.transport.signing": {"cryptography"},
}
"""What runs for each case starts in a guest, or beside a hundred other programs: it loads the
standard library only. These modules alone may load more, and just this."""

LOADED_FOR_A_CASE = ("eraser.cli.case", "eraser.cli.erase", "eraser.gate.door", "eraser.gate.hook")
"""What workers and libvirt's hook start for one case or one guest."""


def module_of(path: Path) -> str:
    """The dotted name of a file of ours."""
    parts = path.relative_to(TOP).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def imports(path: Path) -> Iterator[str]:
    """Every module that a file names, wherever in it."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from (name.name for name in node.names)
        elif isinstance(node, ast.ImportFrom) and node.level == 0 and node.module:
            yield from (f"{node.module}.{name.name}" for name in node.names)


def within(module: str, package: str) -> bool:
    return module == package or module.startswith(f"{package}.")


MODULES = {module_of(path): path for path in (TOP / "eraser").rglob("*.py")}


def reached(module: str, seen: set[str]) -> set[str]:
    """What loading a module of the eraser may load of it, itself included; late imports count."""
    while module not in MODULES:
        module = module.rpartition(".")[0]
    if module not in seen:
        seen.add(module)
        for name in imports(MODULES[module]):
            if within(name, "eraser"):
                reached(name, seen)
    return seen


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
        f"{module}: {name}"
        for module, path in MODULES.items()
        for name in imports(path)
        if (top := name.partition(".")[0]) not in sys.stdlib_module_names
        and top not in OURS
        and top not in THIRD_PARTIES.get(module, ())
    ]
    assert wrong == []
    assert THIRD_PARTIES.keys() <= MODULES.keys(), "a module that was moved takes its line along"


@pytest.mark.parametrize("module", LOADED_FOR_A_CASE)
def test_a_case_loads_the_standard_library_only(module: str) -> None:
    assert reached(module, set()) & THIRD_PARTIES.keys() == set()


def test_ansible_is_no_package() -> None:
    """The real ``ansible`` must win on import."""
    assert not (TOP / "ansible" / "__init__.py").exists()
