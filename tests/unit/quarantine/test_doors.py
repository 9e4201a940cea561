"""Clocks, chance, files, sockets and processes come in by doors: a simulated site runs the service
on its own."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import pytest

from eraser.protocol.transport.believed import Believed
from quarantine import doors
from quarantine.doors import Doors
from quarantine.service.assembly import Assembly
from quarantine.service.issue.dispatch import Dispatcher
from quarantine.service.watch.lateness import Lateness
from tests.unit.door_search import kinds

TOP = Path(doors.__file__).parent
ROOMS = ("service", "rules", "cloud", "evidence", "record", "operations", "metrics", "upgrade")

DOORS = {
    "cloud/sdk.py": "sockets: it is the door to a cloud; Placement and Compute take what it made",
    "doors.py": "chance clock: it is the door to clocks and chance",
    "outputfile.py": "chance files: it is the door to files that are written",
    "record/database/engine.py": "clock files sockets: it is the door to the database",
    "service/issue/celery_app.py": "sockets: it is the door to the hosts' queues",
    "service/issue/tsa.py": "sockets threads: it is the door to a time stamping authority",
}
FOR_GOOD = {
    "logs.py": "files trees: where an entry point's logs go, and the account of what people did",
    "metrics/alarmcount.py": "threads: counts beside the loop, which never waits for a number",
    "metrics/collector.py": "clock threads: real seconds for a scrape whose asker may hang",
    "metrics/serving.py": "threads: a server of its own in the service's process",
    "operations/overview/health.py": "threads: one look for all who ask, which may hang",
    "operations/papers/keys.py": "files: a key's owner is set before its first byte is written",
    "operations/papers/ledger.py": "files: written line by line, it is longer than the memory",
    "service/issue/brokeracl.py": "chance: makes passwords, for people alone",
    "users.py": "trees: names that the machine knows, for people alone",
}
PAST = DOORS | FOR_GOOD
"""What goes past the doors: its kinds, and why. Files are those that are made or changed; Redis'
lists are asked by the connection of ``celery_app``, and processes are started by no room of these.
"""


def found_in(paths: Iterable[Path]) -> dict[str, str]:
    return {str(path.relative_to(TOP)): found for path in paths if (found := kinds(path))}


def named(room: str) -> dict[str, str]:
    return {
        name: why.partition(":")[0]
        for name, why in PAST.items()
        if name.rpartition("/")[0].partition("/")[0] == room
    }


@pytest.mark.parametrize("room", ROOMS)
def test_nothing_goes_past_the_doors_but_what_is_named(room: str) -> None:
    assert found_in(sorted((TOP / room).rglob("*.py"))) == named(room)


def test_so_it_is_with_what_stands_beside_the_rooms() -> None:
    assert found_in(sorted(TOP.glob("*.py"))) == named("")


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
