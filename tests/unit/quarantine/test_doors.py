"""Clocks and chance come in by doors: a simulated site runs the service on its own."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

from eraser.protocol.transport.believed import Believed
from quarantine import doors
from quarantine.doors import Doors
from quarantine.service.container import Assembly
from quarantine.service.issue.dispatch import Dispatcher
from quarantine.service.watch.lateness import Lateness

TOP = Path(doors.__file__).parent
ROOMS = ("service", "rules", "cloud", "evidence", "record")
FREE = {
    "record/database/engine.py": "waits for another process's lock on a file",
    "evidence/sheet/files.py": "names a temporary file that nobody looks at",
    "service/issue/heads.py": "names a temporary file that nobody looks at",
    "service/issue/brokeracl.py": "makes passwords, for people alone",
}
ASKED = {
    "time": {"time", "monotonic", "perf_counter", "sleep"},
    "datetime": {"now", "utcnow", "today"},
    "uuid": {"uuid1", "uuid4"},
    "secrets": {"token_hex", "token_bytes", "token_urlsafe", "randbits", "choice"},
    "random": {"random", "uniform", "choice", "shuffle", "randrange"},
}


def calls(path: Path) -> Iterator[str]:
    """Calls of the machine's own clocks and chance; a default of an argument is none."""
    for node in ast.walk(ast.parse(path.read_text())):
        function = getattr(node, "func", None)
        if not isinstance(function, ast.Attribute) or not isinstance(function.value, ast.Name):
            continue
        if function.attr in ASKED.get(function.value.id, ()):
            yield f"{function.value.id}.{function.attr}, line {node.lineno}"


@pytest.mark.parametrize("room", ROOMS)
def test_nothing_asks_the_machine_past_the_doors(room: str) -> None:
    found = {
        name: list(calls(path))
        for path in sorted((TOP / room).rglob("*.py"))
        if (name := str(path.relative_to(TOP))) not in FREE and any(calls(path))
    }
    assert found == {}


def test_the_search_finds_a_call(tmp_path: Path) -> None:
    file = tmp_path / "late.py"
    file.write_text("import time\n\ndef wait(now=time.monotonic):\n    return time.monotonic()\n")
    assert list(calls(file)) == ["time.monotonic, line 4"]


def test_the_assembly_hands_its_doors_on() -> None:
    """One part that looked at the machine's clock would make a run of a site no replay."""

    class Parts(Assembly):
        store = key = order_key = post = policy = None  # type: ignore[assignment]
        believed = Believed((), ())

    own = Doors(monotonic=lambda: 7.0, uuid=lambda: "one", token=lambda size: "f" * size)
    parts = Parts(doors=own)
    dispatcher, lateness = parts.dispatcher, parts.lateness
    assert isinstance(dispatcher, Dispatcher)
    assert (dispatcher.uuid(), dispatcher.token(3), dispatcher.clock) == ("one", "fff", own.now)
    assert isinstance(lateness, Lateness)
    assert lateness._now() == 7.0
