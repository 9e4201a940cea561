"""Maintenance of hosts and slots; what drives are looked for by; holds at the next release;
campaigns."""

from __future__ import annotations

import base64
import json
from typing import Any

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import mysql

revision = "0012"
down_revision = "0011"
branch_labels = None
depends_on = None

ROW_ID = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
NAME_LENGTH = 64
DOCUMENT = sa.Text().with_variant(mysql.MEDIUMTEXT(), "mysql", "mariadb")
CHUNK = 1000
MOMENT = sa.DateTime().with_variant(mysql.DATETIME(fsp=6), "mysql", "mariadb")


def upgrade() -> None:
    """Creates ``maintenances``, which begins with nothing; and copies names out of the identities
    of drives, and firmware out of their last certificates."""
    op.create_table(
        "maintenances",
        sa.Column("id", ROW_ID, nullable=False),
        sa.Column("host", sa.String(253), nullable=False),
        sa.Column("address", sa.String(16), nullable=False),
        sa.Column("version", sa.Integer(), nullable=False),
        sa.Column("at", MOMENT, nullable=False),
        sa.Column("until", MOMENT),
        sa.Column("reason", sa.Text(), nullable=False),
        sa.Column("by_user", sa.String(255), nullable=False),
        sa.Column("by_project", sa.String(255), nullable=False),
        sa.Column("by_request", sa.String(255), nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_maintenances"),
        sa.UniqueConstraint(
            "host", "address", "version", name="uq_maintenances_host_address_version"
        ),
    )
    op.create_index(
        "ix_maintenances_until_host_address_version",
        "maintenances",
        ["until", "host", "address", "version"],
    )
    _campaigns()
    _acts()
    op.add_column("slots", sa.Column("next_hold", sa.Text()))
    for name in ("user", "project", "request"):
        op.add_column("slots", sa.Column(f"next_hold_{name}", sa.String(255)))
    for name in ("model", "serial", "firmware"):
        op.add_column("drives", sa.Column(name, sa.String(NAME_LENGTH)))
        op.create_index(f"ix_drives_{name}_digest", "drives", [name, "digest"])
    _name_drives(op.get_bind())


def _campaigns() -> None:
    op.create_table(
        "campaigns",
        sa.Column("id", sa.String(64), nullable=False),
        sa.Column("version", sa.Integer(), nullable=False),
        sa.Column("state", sa.String(16), nullable=False),
        sa.Column("query", DOCUMENT, nullable=False),
        sa.Column("reason", sa.Text(), nullable=False),
        sa.Column("keep", sa.Float(), nullable=False),
        sa.Column("by_user", sa.String(255), nullable=False),
        sa.Column("by_project", sa.String(255), nullable=False),
        sa.Column("by_request", sa.String(255), nullable=False),
        sa.Column("created_at", MOMENT, nullable=False),
        sa.Column("changed_at", MOMENT, nullable=False),
        sa.Column("leased_until", MOMENT),
        sa.PrimaryKeyConstraint("id", name="pk_campaigns"),
    )
    op.create_index("ix_campaigns_state", "campaigns", ["state"])
    op.create_table(
        "campaign_slots",
        sa.Column("campaign", sa.String(64), nullable=False),
        sa.Column("host", sa.String(253), nullable=False),
        sa.Column("address", sa.String(16), nullable=False),
        sa.Column("step", sa.String(16), nullable=False),
        sa.Column("drive", sa.String(64)),
        sa.Column("generation", sa.Integer(), nullable=False),
        sa.Column("was_free", sa.Boolean(), nullable=False),
        sa.Column("result", sa.Text(), nullable=False),
        sa.Column("certificate", sa.String(64)),
        sa.Column("changed_at", MOMENT, nullable=False),
        sa.PrimaryKeyConstraint("campaign", "host", "address", name="pk_campaign_slots"),
        sa.ForeignKeyConstraint(["campaign"], ["campaigns.id"], name="fk_campaign_slots_campaign"),
    )
    op.create_index(
        "ix_campaign_slots_campaign_step_host_address",
        "campaign_slots",
        ["campaign", "step", "host", "address"],
    )


def _acts() -> None:
    op.create_table(
        "campaign_acts",
        sa.Column("campaign", sa.String(64), nullable=False),
        sa.Column("version", sa.Integer(), nullable=False, autoincrement=False),
        sa.Column("at", MOMENT, nullable=False),
        sa.Column("state", sa.String(16), nullable=False),
        sa.Column("reason", sa.Text(), nullable=False),
        sa.Column("by_user", sa.String(255)),
        sa.Column("by_project", sa.String(255)),
        sa.Column("by_request", sa.String(255)),
        sa.PrimaryKeyConstraint("campaign", "version", name="pk_campaign_acts"),
        sa.ForeignKeyConstraint(["campaign"], ["campaigns.id"], name="fk_campaign_acts_campaign"),
    )


def _name_drives(db: sa.Connection) -> None:
    drives = sa.table("drives", *map(sa.column, ("digest", "identity", "certificate")))
    papers = sa.table("certificates", *map(sa.column, ("digest", "token")))
    named = sa.table("drives", *map(sa.column, ("digest", "model", "serial", "firmware")))
    update = (
        sa.update(named)
        .where(named.c.digest == sa.bindparam("row"))
        .values({name: sa.bindparam(f"its_{name}") for name in ("model", "serial", "firmware")})
    )
    query = sa.select(drives.c.digest, drives.c.identity, papers.c.token).select_from(
        drives.join(papers, papers.c.digest == drives.c.certificate, isouter=True)
    )
    done = 0
    while True:
        # Counted: a digest that is damaged is no place to go on behind.
        behind = query.order_by(drives.c.digest).limit(CHUNK).offset(done)
        found = db.execute(behind).all()
        if not found:
            return
        done += len(found)
        db.execute(update, [_names(*row) for row in found])


def _names(digest: str, identity: str, token: str | None) -> dict[str, Any]:
    who, medium = _object(identity), _object(_payload(token)).get("drive")
    medium = medium if isinstance(medium, dict) else {}
    return {
        "row": digest,
        "its_model": _storable(who.get("model")),
        "its_serial": _storable(who.get("serial")),
        "its_firmware": _storable(medium.get("firmware")),
    }


def _object(text: str) -> dict[str, Any]:
    try:
        found = json.loads(text)
    except (TypeError, ValueError, RecursionError):
        return {}  # the row is damaged, or there is no certificate
    return found if isinstance(found, dict) else {}


def _payload(token: str | None) -> str:
    try:
        words = (token or "").split(".")[1]
        return base64.urlsafe_b64decode(words + "=" * (-len(words) % 4)).decode()
    except (AttributeError, IndexError, TypeError, ValueError):
        return ""


def _storable(text: object) -> str | None:
    # As quarantine.record.words.texts.storable is today: a migration does not change with it.
    if not isinstance(text, str):
        return None
    clean = text.encode("utf-8", "backslashreplace").decode("utf-8").replace("\0", "\\x00")
    return clean if len(clean) <= NAME_LENGTH else clean[: NAME_LENGTH - 3] + "..."
