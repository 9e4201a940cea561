"""What Placement said of a slot as it went on offer."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Adds a column to ``slots``; a slot that is on offer by now gets it with its next look."""
    op.add_column("slots", sa.Column("offered_as", sa.String(64)))
