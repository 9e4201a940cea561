"""What a migration does to rows that are there already."""

from __future__ import annotations

import base64
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
import sqlalchemy as sa
from alembic import command

from eraser.protocol import codec
from eraser.protocol.identity import Slot
from eraser.protocol.policy import Policy
from quarantine.record.database import migrate, models
from quarantine.record.database.engine import make_engine, make_file_private, writing
from quarantine.record.database.rows import identity_columns
from quarantine.record.pages import CampaignQuery, DriveQuery
from quarantine.record.store import Store
from quarantine.record.words.facts import Initiator, Subject
from tests.unit.quarantine.store_racers import identity

PLACE = Slot("h", "0000:01:00.0")
ALL = DriveQuery()


def test_drives_that_are_known_already_get_the_name_of_their_model(tmp_path: Path) -> None:
    engine = make_engine(f"sqlite:///{tmp_path / 'record.db'}")
    make_file_private(engine.url)
    config = migrate.configuration()
    good = str(identity_columns(identity("S1"))["identity"])
    odd = good.replace('"Model"', '"\\u0000"')
    known = [good, odd, None, "{", "[]", "7", '{"model":7}', '{"serial":"S"}']
    with writing(engine) as db:
        config.attributes["connection"] = db
        command.upgrade(config, "0007")
        old = sa.Table("slots", sa.MetaData(), autoload_with=db)
        for number, text in enumerate(known):
            db.execute(sa.insert(old).values(_row(number, text)))
    with writing(engine) as db:
        migrate.upgrade(db)
        query = sa.select(models.slots.c.model).order_by(models.slots.c.id)
        assert list(db.execute(query).scalars()) == ["Model", "\\x00", *[None] * 6]
    engine.dispose()


DAMAGED = {
    "text that is no UTF-8": "CAST(x'ff' AS TEXT)",
    "such text inside": "CAST(x'7b226d6f64656c223a22ff222c2273657269616c223a2253227d' AS TEXT)",
    "bytes": "x'ff'",
    "no text": "7",
    "very deep": "'" + "[" * 100_000 + "'",
}


@pytest.mark.parametrize("value", DAMAGED.values(), ids=DAMAGED)
@pytest.mark.parametrize(
    ("table", "column"),
    [
        *(("slots", "identity"), ("slots", "host")),
        *(("drives", "identity"), ("drives", "digest"), ("certificates", "token")),
    ],
)
def test_a_damaged_row_keeps_no_other_from_the_upgrade(
    tmp_path: Path, table: str, column: str, value: str
) -> None:
    """It stays as it is."""
    engine = make_engine(f"sqlite:///{tmp_path / 'record.db'}")
    make_file_private(engine.url)
    config = migrate.configuration()
    texts = [str(identity_columns(identity(f"S{n}"))["identity"]) for n in range(3)]
    raw = f"SELECT CAST({column} AS BLOB) FROM {table} WHERE rowid = 2"  # noqa: S608
    with writing(engine) as db:
        config.attributes["connection"] = db
        command.upgrade(config, "0007")
        old = sa.MetaData()
        old.reflect(db)
        db.exec_driver_sql("PRAGMA defer_foreign_keys = ON")
        for number, text in enumerate(texts):
            db.execute(sa.insert(old.tables["slots"]).values(_row(number, text)))
            paper = _paper(number + 1)
            db.execute(sa.insert(old.tables["certificates"]).values(paper))
            drive = {**_drive(f"{number}", text), "certificate": paper["digest"]}
            db.execute(sa.insert(old.tables["drives"]).values(drive))
        db.exec_driver_sql(f"UPDATE {table} SET {column} = {value} WHERE rowid = 2")  # noqa: S608
        was = db.exec_driver_sql(raw).scalar()
    with writing(engine) as db:
        migrate.upgrade(db)
        assert migrate.current(db) == migrate.head()
        assert db.exec_driver_sql(raw).scalar() == was
        for of in (models.slots, models.drives):
            names = sa.select(of.c.model, of.c.serial).where(sa.text("rowid IN (1, 3)"))
            assert [tuple(row) for row in db.execute(names)] == [("Model", "S0"), ("Model", "S2")]
    with writing(engine) as db, pytest.raises(sa.exc.OperationalError, match="decode"):
        db.exec_driver_sql("SELECT CAST(x'ff' AS TEXT)").scalar()
    engine.dispose()


def test_a_record_of_before_campaigns_has_them_after_the_upgrade(tmp_path: Path) -> None:
    """Slots, drives and certificates as the release of schema 0011 wrote them."""
    url = f"sqlite:///{tmp_path / 'record.db'}"
    engine = make_engine(url)
    make_file_private(engine.url)
    config = migrate.configuration()
    drive, lost = identity("S1"), identity("S2")
    said = base64.urlsafe_b64encode(b'{"drive":{"firmware":"FW1"}}').decode().rstrip("=")
    with writing(engine) as db:
        config.attributes["connection"] = db
        command.upgrade(config, "0011")
        old = sa.MetaData()
        old.reflect(db)
        assert "campaigns" not in old.tables
        columns = identity_columns(drive)
        named = {name: columns[name] for name in columns if name in old.tables["slots"].c}
        row = {**_row(1, None), **named, "state": "available", "certificate": "c" * 64}
        db.execute(sa.insert(old.tables["slots"]).values(row))
        when = sa.func.current_timestamp()
        paper = {**_paper(1, f"x.{said}.y"), "drive": drive.digest}
        db.execute(sa.insert(old.tables["certificates"]).values(paper))
        for each, certificate in ((drive, "c" * 64), (lost, None)):
            text = str(identity_columns(each)["identity"])
            known = _drive(each.digest, text) | {
                "dirty": certificate is None,
                "certificate": certificate,
                "certified_at": when if certificate else None,
            }
            db.execute(sa.insert(old.tables["drives"]).values(known))
        damaged = {**known, "digest": "d" * 64, "identity": "{"}
        db.execute(sa.insert(old.tables["drives"]).values(damaged))
        approved = {
            "kind": "policy",
            "name": "old",
            "version": 1,
            "digest": codec.digest(Policy("old")),
            "content": codec.canonical(Policy("old")).decode(),
            "approved_by": "ada",
            "approved_at": when,
        }
        db.execute(sa.insert(old.tables["documents"]).values(approved))
    engine.dispose()
    store = Store.open(url)
    store.migrate()
    policy = store.policy("old")
    assert policy is not None
    assert (policy.approved_by, policy.reason, policy.project, policy.request) == (
        "ada",
        "",
        "",
        "",
    )
    found = {one.digest: (one.model, one.firmware) for one in store.drive_page(ALL, limit=9)}
    assert found == {
        drive.digest: ("Model", "FW1"),
        lost.digest: ("Model", None),
        "d" * 64: (None, None),
    }
    later = datetime.now(UTC) + timedelta(days=1)
    query = CampaignQuery(firmware="FW1", model="Model", certified_before=later)
    (place,) = store.campaign_places(query)
    assert place[1:4] == (PLACE.host, PLACE.address, drive.digest)
    by = Initiator("ada")
    store.begin_campaign("c", query="{}", reason="r", keep=0.5, by=by, slots=[place[1:4]])
    assert [one.address for one in store.campaign_lines("c", limit=2)] == [PLACE.address]
    word = store.put_maintenance(Subject.of(PLACE), until=later, reason="x", by=by)
    assert store.maintenances("h") == [word]
    store.close()


def _paper(number: int, token: str = "") -> dict[str, object]:
    return {
        "number": number,
        "digest": "abc"[-number] * 64,
        "previous": "" if number == 1 else f"{number}",
        "slot_id": 1,
        "host": "h",
        "address": PLACE.address,
        "generation": number,
        "drive": "d",
        "order_id": "o",
        "token": token,
        "created_at": sa.func.current_timestamp(),
    }


def _drive(digest: str, identity_text: str) -> dict[str, object]:
    return {
        "digest": digest,
        "identity": identity_text,
        "host": "h",
        "address": PLACE.address,
        "dirty": True,
        "retired": False,
        "reason": "",
        "changed_at": sa.func.current_timestamp(),
    }


def _row(number: int, identity_text: str | None) -> dict[str, object]:
    when = sa.func.current_timestamp()
    return {
        "host": "h",
        "address": f"0000:{number:02x}:00.0",
        "provider": "p",
        "resource_class": "c",
        "state": "released",
        "generation": 0,
        "revision": 1,
        "reason": "",
        "profile": "p",
        "policy": "p",
        "identity": identity_text,
        "custody_ready": False,
        "attempts": 0,
        "fraction": 0.0,
        "detail": "",
        "entered_at": when,
        "created_at": when,
    }
