"""Tickets for the hosts' last gate, and the alarm that stands on a slot."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import mysql

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None

DOCUMENT = sa.Text().with_variant(mysql.MEDIUMTEXT(), "mysql", "mariadb")
TIME = sa.DateTime().with_variant(mysql.DATETIME(fsp=6), "mysql", "mariadb")


def upgrade() -> None:
    """Adds columns to ``slots``; a slot that is on offer by now has no ticket."""
    for column in (
        sa.Column("ticket_token", DOCUMENT),
        sa.Column("ticket_incarnation", sa.String(64)),
        sa.Column("ticket_at", TIME),
        sa.Column("ticket_ready", sa.Boolean(), nullable=False, server_default=sa.false()),
        sa.Column("alarm", sa.String(1000), nullable=False, server_default=""),
    ):
        op.add_column("slots", column)
