"""Models of drives beside their identities, for counts and lists."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import sqlalchemy as sa
from alembic import op

revision = "0008"
down_revision = "0007"
branch_labels = None
depends_on = None

NAME_LENGTH = 64
CHUNK = 1000


def upgrade() -> None:
    """Adds a column to ``slots`` and fills it."""
    op.add_column("slots", sa.Column("model", sa.String(NAME_LENGTH)))
    db = op.get_bind()
    slots = sa.table(
        "slots",
        sa.column("id", sa.BigInteger),
        sa.column("identity", sa.Text),
        sa.column("model", sa.String),
    )
    update = (
        sa.update(slots)
        .where(slots.c.id == sa.bindparam("row"))
        .values(model=sa.bindparam("its_model"))
    )
    last = 0
    while True:
        query = sa.select(slots.c.id, slots.c.identity).where(slots.c.id > last)
        found = db.execute(query.order_by(slots.c.id).limit(CHUNK)).all()
        if not found:
            return
        last = found[-1][0]
        named = list(_named(found))
        if named:
            db.execute(update, named)


def _named(found: Any) -> Iterator[dict[str, Any]]:
    for row, identity in found:
        try:
            model = _storable(json.loads(identity)["model"])
        except (TypeError, ValueError, KeyError, AttributeError, RecursionError):
            continue  # no drive is known, or the row is damaged: then nobody can read it
        yield {"row": row, "its_model": model}


def _storable(text: str) -> str:
    # As quarantine.record.words.texts.storable is today: a migration does not change with it.
    clean = text.encode("utf-8", "backslashreplace").decode("utf-8").replace("\0", "\\x00")
    return clean if len(clean) <= NAME_LENGTH else clean[: NAME_LENGTH - 3] + "..."
