"""Maintenance of hosts and slots."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import mysql

revision = "0012"
down_revision = "0011"
branch_labels = None
depends_on = None

ROW_ID = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
MOMENT = sa.DateTime().with_variant(mysql.DATETIME(fsp=6), "mysql", "mariadb")


def upgrade() -> None:
    """Creates ``maintenances``, which begins with nothing."""
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
