"""Why slots are held, as codes beside the texts."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0007"
down_revision = "0006"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Adds a column to ``slots`` and ``history``; what was held before keeps its text alone."""
    op.add_column("slots", sa.Column("hold_code", sa.String(48)))
    op.add_column("history", sa.Column("hold_code", sa.String(48)))
