"""What lists are filtered and sorted by, who acted, whose servers are, when passes went well."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import mysql

revision = "0011"
down_revision = "0010"
branch_labels = None
depends_on = None

MOMENT = sa.DateTime().with_variant(mysql.DATETIME(fsp=6), "mysql", "mariadb")
NAME_LENGTH = 64
CHUNK = 1000
INDEXES = {
    "slots": (
        ("state", "host", "address"),
        ("state", "entered_at", "id"),
        ("entered_at", "id"),
        ("model", "host", "address"),
        ("serial",),
        ("hold_code", "host", "address"),
        ("consumer", "host", "address"),
    ),
    "certificates": (("created_at",),),
    "refusals": (("host", "id"),),
}


def upgrade() -> None:
    """Adds columns and indexes, and two tables; of older lines of history nobody knows who acted,
    and of a server its project is learned when it is next seen with another drive."""
    op.add_column("slots", sa.Column("serial", sa.String(NAME_LENGTH)))
    for name in ("by_user", "by_project", "by_request"):
        op.add_column("history", sa.Column(name, sa.String(255)))
    op.create_table(
        "servers",
        sa.Column("uuid", sa.String(64), nullable=False),
        sa.Column("project", sa.String(255), nullable=False),
        sa.Column("user", sa.String(255), nullable=False),
        sa.Column("seen_at", MOMENT, nullable=False),
        sa.PrimaryKeyConstraint("uuid", name="pk_servers"),
    )
    op.create_index("ix_servers_project_uuid", "servers", ["project", "uuid"])
    op.create_table(
        "passes",
        sa.Column("name", sa.String(32), nullable=False),
        sa.Column("at", MOMENT, nullable=False),
        sa.Column("within", sa.Float(), nullable=False),
        sa.PrimaryKeyConstraint("name", name="pk_passes"),
    )
    # Those that begin with the state do all that it did.
    op.drop_index("ix_slots_state", "slots")
    for table, indexes in INDEXES.items():
        for columns in indexes:
            op.create_index(f"ix_{table}_{'_'.join(columns)}", table, list(columns))
    _name_drives(op.get_bind())


def _name_drives(db: sa.Connection) -> None:
    """Copies serials out of the identities of the drives."""
    slots = sa.table(
        "slots",
        sa.column("id", sa.BigInteger),
        sa.column("identity", sa.Text),
        sa.column("serial", sa.String),
    )
    update = (
        sa.update(slots)
        .where(slots.c.id == sa.bindparam("row"))
        .values(serial=sa.bindparam("its_serial"))
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
            serial = _storable(json.loads(identity)["serial"])
        except (TypeError, ValueError, KeyError, AttributeError, RecursionError):
            continue  # no drive is known, or the row is damaged: then nobody can read it
        yield {"row": row, "its_serial": serial}


def _storable(text: str) -> str:
    # As quarantine.record.words.texts.storable is today: a migration does not change with it.
    clean = text.encode("utf-8", "backslashreplace").decode("utf-8").replace("\0", "\\x00")
    return clean if len(clean) <= NAME_LENGTH else clean[: NAME_LENGTH - 3] + "..."
