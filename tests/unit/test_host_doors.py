"""The host's side reaches the machine below it through doors alone: a simulator can be all of it.

:class:`eraser.host.sysfs.Host` has them. This is the measure: what still goes past them stands in
:data:`PAST`, with why, and a line that is of no use any more has to go.
"""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

import eraser
from tests.unit.door_search import kinds

TOP = Path(eraser.__file__).parent
ROOMS = (
    "agent", "case", "gate", "ownership", "proof", "erase", "drive", "media", "controller", "host",
    "state",
)  # fmt: skip
"""All but the command line, ``defences`` (what a person has set up on a host) and what is data."""

DOORS = {
    "agent/bell.py": "files sockets threads: it is the door to the bell",
    "agent/watcher.py": "files sockets: its KernelEvents are the door to the kernel's events",
    "controller/binding.py": "files: the kernel's own, below the host's root",
    "controller/lock.py": "files: the slot's lock, below the lock directory of its host",
    "host/answerer.py": "processes sockets: a child of the door to processes",
    "host/children.py": "clock processes: it is the door to processes",
    "host/command.py": "clock files processes: programs of the door to processes, and their log",
    "host/forked_child.py": "clock files processes trees: a child of the door to processes",
    "host/sysfs.py": "devices: it is the door to devices",
    "host/udev.py": "files: sysfs, where udev is told of a disk that it passed by",
    "media/reader.py": "devices: it is the door to a namespace's blocks",
    "state/case_files.py": "files: it is the door to a case's files",
    "state/journal.py": "files: it is the door to files that outlive a power cut",
}
FOR_GOOD = {
    "agent/bounded_probes.py": "threads: looks that may never come back, in the worker's process",
    "agent/old_reports.py": "files: removes copies that are old",
    "agent/worker.py": "threads: Celery has the main one; a simulator calls the rounds' turns",
    "erase/format.py": "files: the room for a command's result, taken before it is sent",
    "gate/by_person.py": "files: a damaged book gets a second name, without a copy",
    "gate/hook.py": "clock files processes sockets trees: stands alone; libvirt runs it, an entry",
    "gate/hookfile.py": "files: a person puts the hook into libvirt's directory, from beside it",
    "host/daemons.py": "processes: what a person's host-setup tells libvirt",
    "ownership/audit.py": "files: appended to and never replaced, so by no journal's way",
    "ownership/pending.py": "files: makes and empties the directory of tickets that wait",
    "ownership/store.py": "clock files: flock(2) knows no time limit; a simulator's locks are free",
}
"""Files are those that are made or changed. All of them lie below a directory that was handed in:
what a simulator cannot replace is how they are written, not where."""
PAST = DOORS | FOR_GOOD


FALLBACKS = {
    "agent/bell.py": "MACHINE",
    "agent/bounded_probes.py": "monotonic",
    "agent/idle_counters.py": "monotonic",
    "agent/orders.py": "monotonic",
    "agent/tickets.py": "monotonic",
    "host/sysfs.py": "MACHINE",
}
"""Where who forgets a door gets this machine's own: the worker's rounds, and ``Host`` itself."""


def fallen_back_to(path: Path) -> set[str]:
    """Doors that stand as the default of an argument or of a field."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text())):
        defaults: list[ast.expr | None] = []
        if isinstance(node, ast.arguments):
            defaults = [*node.defaults, *node.kw_defaults]
        elif isinstance(node, ast.ClassDef):
            defaults = [each.value for each in node.body if isinstance(each, ast.AnnAssign)]
        for part in (part for each in defaults if each for part in ast.walk(each)):
            name = part.id if isinstance(part, ast.Name) else getattr(part, "attr", "")
            if name in ("MACHINE", "Host", "BlockDevice", "monotonic"):
                found.add(name)
    return found


def test_who_forgets_a_door_makes_a_type_error() -> None:
    """A verification by hand was once timed by another clock than its drive's: a default was."""
    found = {
        str(path.relative_to(TOP)): " ".join(sorted(doors))
        for room in ROOMS
        for path in (TOP / room).rglob("*.py")
        if (doors := fallen_back_to(path))
    }
    assert found == FALLBACKS


@pytest.mark.parametrize("room", ROOMS)
def test_nothing_goes_past_the_doors_but_what_is_named(room: str) -> None:
    found = {
        name: found
        for path in sorted((TOP / room).rglob("*.py"))
        if (found := kinds(path))
        for name in [str(path.relative_to(TOP))]
    }
    named = {
        name: why.partition(":")[0] for name, why in PAST.items() if name.startswith(f"{room}/")
    }
    assert found == named
