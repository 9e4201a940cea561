"""What a migration does to rows that are there already."""

from __future__ import annotations

from pathlib import Path

import sqlalchemy as sa
from alembic import command

from quarantine.record import migrate, models
from quarantine.record.engine import make_engine, make_file_private, writing
from quarantine.record.rows import identity_columns
from tests.unit.quarantine.store_racers import identity


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
