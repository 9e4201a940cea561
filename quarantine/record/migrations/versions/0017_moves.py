"""Whose each migration is that held a drive."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import mysql

revision = "0017"
down_revision = "0016"
branch_labels = None
depends_on = None

TIME = sa.DateTime().with_variant(mysql.DATETIME(fsp=6), "mysql", "mariadb")


def upgrade() -> None:
    """Adds a table. What held a drive before counts as its own user, until Nova says otherwise."""
    op.create_table(
        "moves",
        sa.Column("migration", sa.String(64), primary_key=True),
        sa.Column("server", sa.String(64), nullable=False),
        sa.Column("noted_at", TIME, nullable=False),
    )
    op.create_index("ix_moves_server", "moves", ["server"])
