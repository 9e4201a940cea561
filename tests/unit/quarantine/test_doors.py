"""Clocks, chance, files, sockets and processes come in by doors: a simulated site runs the service
on its own."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path
from types import FunctionType, ModuleType

import pytest

from eraser.protocol.transport.signing import PrivateKey
from quarantine import doors
from quarantine.doors import MACHINE, Doors
from quarantine.record.store import Store
from quarantine.service.assembly import Assembly
from tests.lab.services.placement import CLOUD, write_clouds_yaml
from tests.unit.door_search import kinds

TOP = Path(doors.__file__).parent
ROOMS = ("service", "rules", "cloud", "evidence", "record", "operations", "metrics", "upgrade")

DOORS = {
    "cloud/sdk.py": "sockets: it is the door to a cloud; Placement and Compute take what it made",
    "doors.py": "chance clock: it is the door to clocks and chance",
    "outputfile.py": "chance files: it is the door to files that are written",
    "record/database/engine.py": "clock files sockets threads: it is the door to the database, and "
    "a commit that a PostgreSQL holds up is cut short from beside it; simulated sites have SQLite",
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
    "stderr.py": "threads: one waits for whoever reads the log, so that no other does",
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


OWN = Doors(
    monotonic=lambda: 7.0,
    now=lambda: datetime(2026, 1, 1, tzinfo=UTC),
    uuid=lambda: "one",
    token=lambda size: "f" * size,
)
MADE = (
    "dispatcher", "tickets", "reconciler", "safety", "leftovers_of_worker", "heads", "delay_meter",
    "inbox",
)  # fmt: skip
"""All that the assembly makes which has a door."""


def machines_in(part: object, way: str, seen: set[int]) -> Iterator[str]:
    """Where the machine's own doors are within reach of a part: ways of members to them."""
    if any(part is door for door in vars(MACHINE).values()):
        yield way
    if id(part) in seen:
        return
    seen.add(id(part))
    held = getattr(part, "__self__", None)
    if isinstance(part, FunctionType):
        cells = [*(part.__closure__ or ()), *(part.__defaults__ or ())]
        within: list[object] = [getattr(cell, "cell_contents", cell) for cell in cells]
        below = [(f"{way}({number})", each) for number, each in enumerate(within)]
    elif held is not None and not isinstance(held, ModuleType):
        below = [(way, held)]
    elif isinstance(part, Mapping):
        below = [(f"{way}[{name!r}]", each) for name, each in part.items()]
    elif isinstance(part, (list, tuple, set, frozenset)):
        below = [(f"{way}[]", each) for each in part]
    elif type(part).__module__.startswith("quarantine."):
        names = [*getattr(part, "__dict__", {}), *getattr(type(part), "__slots__", ())]
        below = [(f"{way}.{name}", getattr(part, name, None)) for name in names]
    else:
        return
    for longer, each in below:
        yield from machines_in(each, longer, seen)


@pytest.fixture
def assembly(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Assembly]:
    """The real one, on a record of its own; it reaches no cloud and no broker."""
    clouds = write_clouds_yaml(tmp_path / "clouds.yaml", "http://127.0.0.1:9", "http://127.0.0.1:9")
    monkeypatch.setenv("OS_CLIENT_CONFIG_FILE", str(clouds))
    file = tmp_path / "nvme-quarantine.conf"
    file.write_text(
        f"[database]\nurl = sqlite:///{tmp_path}/record.db\n"
        f"[evidence]\nsigning_key = {tmp_path}/controller.pem\n"
        f"certificates_dir = {tmp_path}/certificates\nheads_dir = {tmp_path}/heads\n"
        "[broker]\nurl = redis://127.0.0.1:1/0\n"
        f"[placement]\ncloud = {CLOUD}\n[metrics]\nlisten = 127.0.0.1:9736\n"
    )
    (tmp_path / "controller.pem").write_bytes(PrivateKey.generate().pem())
    with contextlib.closing(Store.open(f"sqlite:///{tmp_path}/record.db", clock=OWN.now)) as store:
        store.migrate()
    made = Assembly([file], OWN)
    yield made
    made.close()


def test_no_part_of_the_assembly_falls_back_to_the_machines_doors(assembly: Assembly) -> None:
    """Most have a default, for who tries one by hand; one part that looked at the machine's clock
    would make a run of a site no replay."""
    parts = {name: getattr(assembly, name) for name in MADE}
    assert all(part is not None for part in parts.values())
    assert sorted(machines_in(parts, "", set())) == []


def test_a_forgotten_door_is_found(assembly: Assembly) -> None:
    assembly.dispatcher.uuid = MACHINE.uuid
    parts = {"dispatcher": assembly.dispatcher}
    assert list(machines_in(parts, "", set())) == ["['dispatcher'].uuid"]
