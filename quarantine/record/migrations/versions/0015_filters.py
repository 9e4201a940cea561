"""An index for each filter of a list, also where it is sorted by time."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0015"
down_revision = "0014"
branch_labels = None
depends_on = None

INDEXES = (
    ("alarms", ("code", "last_at", "id")),
    ("alarms", ("host", "id")),
    ("alarms", ("over_at", "id")),
    ("alarms", ("over_at", "last_at", "id")),
    ("slots", ("model", "entered_at", "id")),
    ("slots", ("hold_code", "entered_at", "id")),
    ("drives", ("certified_at", "digest")),
)


def upgrade() -> None:
    """Adds ``alarms.host``, which is empty in rows that are there, and the indexes."""
    op.add_column("alarms", sa.Column("host", sa.String(253)))
    for table, columns in INDEXES:
        op.create_index(f"ix_{table}_{'_'.join(columns)}", table, list(columns))
