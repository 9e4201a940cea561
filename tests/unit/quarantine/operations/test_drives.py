"""A drive's life across hosts and slots: found by what people know of it, and shown as it was."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path

import pytest
import sqlalchemy as sa
from alembic import command

from eraser.protocol.identity import Slot
from quarantine.cli.commands.drives import DriveShow
from quarantine.errors import UnknownError
from quarantine.operations import drives
from quarantine.operations.drives import CertificateLine, DriveQuery
from quarantine.operations.plane import Plane
from quarantine.record.database import engine as door
from quarantine.record.database import migrate, models
from quarantine.record.database.rows import identity_columns
from quarantine.record.store import Store
from quarantine.record.words.facts import SlotChanges
from quarantine.record.words.reasons import HoldCode
from quarantine.record.words.states import Event
from quarantine.rules import holds
from tests.lab.record import migrated_file
from tests.unit.quarantine.record.test_migrations import _row
from tests.unit.quarantine.store_suite import DRIVE, enrol, erasing, next_certificate

ONE, TWO = Slot("cmp1", "0000:01:00.0"), Slot("cmp2", "0000:02:00.0")
SAMPLES = Path(__file__).parents[1] / "samples"


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store.open(migrated_file(tmp_path / "record.db"))


@pytest.fixture
def plane(tmp_path: Path, store: Store) -> Plane:
    file = tmp_path / "nvme-quarantine.conf"
    file.write_text(
        f"[database]\nurl = sqlite:///{tmp_path}/record.db\n"
        f"[evidence]\nsigning_key = {tmp_path}/controller.pem\n"
        f"certificates_dir = {tmp_path}\nheads_dir = {tmp_path}\n[placement]\ncloud = none\n"
    )
    return Plane([file])


def certify(store: Store, slot: Slot, text: str, server: str, firmware: str = "FW1") -> None:
    record = erasing(store, slot)
    paper = replace(next_certificate(store, text), server=server, firmware=firmware)
    store.transition(record, Event.CERTIFIED, certificate=paper)


def test_a_life_across_hosts(plane: Plane, store: Store) -> None:
    certify(store, ONE, "one", "server-1")
    old = store.slot(ONE)
    assert old is not None
    store.amend(old, SlotChanges(identity=None))
    certify(store, TWO, "two", "server-2", "FW2")
    found = drives.show(plane, DRIVE.digest)
    assert (found.identity, found.firmware, found.dirty) == (DRIVE, "FW2", False)
    assert [(one.host, one.state) for one in found.slots] == [("cmp2", "certified")]
    assert [(one.host, one.server) for one in found.cases] == [
        ("cmp2", "server-2"),
        ("cmp1", "server-1"),
    ]
    assert (found.certified_in, found.certificate) == (TWO, found.cases[0].digest)


def test_a_held_case_tells_the_firmware_too(store: Store) -> None:
    """It is what a campaign looks for: a drive that lied is held."""
    record = erasing(store, ONE)
    paper = replace(next_certificate(store), firmware="F\0" + "W" * 99)
    store.hold(record, holds.because(HoldCode.HEALTH, "worn"), certificate=paper)
    drive = store.drive(DRIVE.digest)
    assert drive is not None
    assert drive.firmware is not None
    assert drive.firmware.startswith("F\\x00W")
    assert len(drive.firmware) == 64


@pytest.mark.parametrize("digest", ["0" * 64, "", "\ud800", "x" * 300, "'; --"])
def test_one_that_nobody_saw(plane: Plane, digest: str) -> None:
    with pytest.raises(UnknownError):
        drives.show(plane, digest)


def many(store: Store) -> list[str]:
    for number in range(6):
        who = replace(DRIVE, serial=f"S{number % 4}", model=f"M{number % 2}", subnqn=f"n{number}")
        slot = Slot("cmp1", f"0000:0{number}:00.0")
        store.amend(enrol(store, slot), SlotChanges(identity=who))
    with door.writing(store._engine) as db:
        db.execute(
            sa.update(models.drives).where(models.drives.c.model == "M1").values(firmware="F")
        )
    return sorted(one.digest for one in store.drives())


@pytest.mark.parametrize("limit", [1, 2, 6])
def test_pages_hold_each_once(store: Store, limit: int) -> None:
    every, found = many(store), list[str]()
    while page := store.drive_page(DriveQuery(), limit=limit, after=found[-1] if found else ""):
        assert len(page) <= limit
        found += [one.digest for one in page]
    assert found == every


@pytest.mark.parametrize(
    ("query", "count"),
    [
        (DriveQuery(model="M0"), 3),
        (DriveQuery(serial="S1"), 2),
        (DriveQuery(firmware="F"), 3),
        (DriveQuery(model="M1", serial="S1", firmware="F"), 2),
        (DriveQuery(model="M0", firmware="F"), 0),
        (DriveQuery(model="M%"), 0),
        (DriveQuery(serial="\ud800"), 0),
    ],
)
def test_filters(store: Store, query: DriveQuery, count: int) -> None:
    many(store)
    assert len(store.drive_page(query, limit=10)) == count


@pytest.mark.parametrize(
    "query", [DriveQuery(model="m"), DriveQuery(serial="s"), DriveQuery(firmware="f")]
)
def test_each_filter_has_an_index_in_the_lists_order(store: Store, query: DriveQuery) -> None:
    asked: list[tuple[str, tuple[object, ...]]] = []

    def note(_c: object, _cursor: object, text: str, words: tuple[object, ...], *_: object) -> None:
        asked.append((text, words))

    sa.event.listen(store._engine, "before_cursor_execute", note)
    store.drive_page(query, limit=10, after="0")
    sa.event.remove(store._engine, "before_cursor_execute", note)
    (text, words) = next(each for each in asked if "FROM drives" in each[0])
    with store._engine.connect() as db:
        plan = [str(row[3]) for row in db.exec_driver_sql(f"EXPLAIN QUERY PLAN {text}", words)]
    assert len(plan) == 1, plan
    assert re.search(
        r"SEARCH drives USING INDEX ix_drives_\w+_digest \(\w+=\? AND digest>\?\)", plan[0]
    )


def test_drives_of_an_older_record_are_named(tmp_path: Path) -> None:
    engine = door.make_engine(f"sqlite:///{tmp_path / 'record.db'}")
    door.make_file_private(engine.url)
    config = migrate.configuration()
    paper = json.loads((SAMPLES / "certificate-first-form-2.json").read_text())["jws"]
    good = str(identity_columns(DRIVE)["identity"])
    rows = [(good, paper), (good, None), ("{", "odd"), ("[]", "a.b.c"), ('{"model":7}', "a.e30.c")]
    with door.writing(engine) as db:
        config.attributes["connection"] = db
        command.upgrade(config, "0011")
        old = sa.MetaData()
        old.reflect(db)
        db.exec_driver_sql("PRAGMA defer_foreign_keys = ON")
        db.execute(sa.insert(old.tables["slots"]).values(_slot()))
        for number, (identity, token) in enumerate(rows):
            db.execute(sa.insert(old.tables["drives"]).values(_drive(number, identity)))
            if token is not None:
                db.execute(sa.insert(old.tables["certificates"]).values(_paper(number, token)))
    with door.writing(engine) as db:
        migrate.upgrade(db)
        table = models.drives
        query = sa.select(table.c.model, table.c.serial, table.c.firmware).order_by(table.c.digest)
        named = [tuple(row) for row in db.execute(query)]
    nobody = (None, None, None)
    known = (DRIVE.model, DRIVE.serial)
    assert named == [(*known, "VDV10131"), (*known, None), nobody, nobody, nobody]
    engine.dispose()


def _drive(number: int, identity: str) -> dict[str, object]:
    return {
        "digest": f"{number}",
        "identity": identity,
        "host": "h",
        "address": "a",
        "dirty": True,
        "retired": False,
        "reason": "",
        "changed_at": sa.func.current_timestamp(),
        "certificate": f"paper {number}",
    }


def _paper(number: int, token: str) -> dict[str, object]:
    return {
        "number": number + 1,
        "digest": f"paper {number}",
        "previous": f"paper {number - 1}",
        "slot_id": 1,
        "host": "h",
        "address": "a",
        "generation": number,
        "drive": f"{number}",
        "order_id": "o",
        "token": token,
        "created_at": sa.func.current_timestamp(),
    }


def _slot() -> dict[str, object]:
    return {"id": 1, **_row(0, None)}


def test_a_case_whose_row_is_damaged_is_shown() -> None:
    """A time that cannot be read was the end of the command."""
    case = CertificateLine(
        1, "d" * 64, "cmp1", ONE.address, 1, "e", None, None, None, ("created_at",)
    )
    (line,) = object.__new__(DriveShow).human("cases", (case,))
    assert line.startswith("unknown cmp1/0000:01:00.0 after nobody known: d")


@pytest.mark.parametrize(("server", "owner", "said"), [
    ("s", None, "after s: d"), ("s", "o", "after s: d"),
    (None, "o", "after o by the host's word: d"),
])  # fmt: skip
def test_a_hosts_word_for_who_had_a_drive_is_called_so(
    server: str | None, owner: str | None, said: str
) -> None:
    case = CertificateLine(1, "d" * 64, "cmp1", ONE.address, 1, "e", server, owner, None)
    (line,) = object.__new__(DriveShow).human("cases", (case,))
    assert said in line
