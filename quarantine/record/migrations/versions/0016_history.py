"""An index for the history of all slots by what happened."""

from __future__ import annotations

from alembic import op

revision = "0016"
down_revision = "0015"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Adds the index."""
    op.create_index("ix_history_event_seq", "history", ["event", "seq"])
