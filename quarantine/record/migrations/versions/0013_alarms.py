"""What people were called for."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import mysql

revision = "0013"
down_revision = "0012"
branch_labels = None
depends_on = None

ROW_ID = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
MOMENT = sa.DateTime().with_variant(mysql.DATETIME(fsp=6), "mysql", "mariadb")


def upgrade() -> None:
    """Creates ``alarms``, which begins with nothing: what was called before is in the log."""
    op.create_table(
        "alarms",
        sa.Column("id", ROW_ID, nullable=False),
        sa.Column("code", sa.String(48), nullable=False),
        sa.Column("subject", sa.String(300), nullable=False),
        sa.Column("text", sa.Text(), nullable=False),
        sa.Column("count", sa.Integer(), nullable=False),
        sa.Column("first_at", MOMENT, nullable=False),
        sa.Column("last_at", MOMENT, nullable=False),
        sa.Column("over_at", MOMENT),
        sa.PrimaryKeyConstraint("id", name="pk_alarms"),
        sa.UniqueConstraint("subject", "code", name="uq_alarms_subject_code"),
    )
    op.create_index("ix_alarms_last_at", "alarms", ["last_at"])
    op.create_index("ix_alarms_code_id", "alarms", ["code", "id"])
