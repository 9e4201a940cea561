"""How often people were called, by code."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0010"
down_revision = "0009"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Creates ``alarm_counts``, which begins with nothing."""
    op.create_table(
        "alarm_counts",
        sa.Column("code", sa.String(48), nullable=False),
        sa.Column("count", sa.Integer(), nullable=False),
        sa.PrimaryKeyConstraint("code", name="pk_alarm_counts"),
    )
