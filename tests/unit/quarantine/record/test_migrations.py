"""What a migration does to rows that are there already."""

from __future__ import annotations

import base64
from datetime import UTC, datetime, timedelta
from pathlib import Path

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
        paper = {
            "number": 1,
            "digest": "c" * 64,
            "previous": "",
            "slot_id": 1,
            "host": "h",
            "address": PLACE.address,
            "generation": 1,
            "drive": drive.digest,
            "order_id": "o",
            "token": f"x.{said}.y",
            "created_at": when,
        }
        db.execute(sa.insert(old.tables["certificates"]).values(paper))
        for each, certificate in ((drive, "c" * 64), (lost, None)):
            known = {
                "digest": each.digest,
                "identity": identity_columns(each)["identity"],
                "host": "h",
                "address": PLACE.address,
                "dirty": certificate is None,
                "retired": False,
                "reason": "",
                "changed_at": when,
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
