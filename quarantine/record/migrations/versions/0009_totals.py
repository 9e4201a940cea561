"""How long cases took, and what counting over all slots and hosts reads."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0009"
down_revision = "0008"
branch_labels = None
depends_on = None

INDEXES = {
    "durations": (("model", "number"),),
    "slots": (
        ("state", "hold_code", "model", "entered_at"),
        ("state", "resource_class", "host"),
    ),
    "hosts": (("heard_at", "registered_at", "name"),),
}


def upgrade() -> None:
    """Adds ``durations``, which has no row of a case that ended before, and indexes that have all
    that a count needs."""
    op.create_table(
        "durations",
        sa.Column("number", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("model", sa.String(64), nullable=False),
        sa.Column("erase_seconds", sa.Double(), nullable=False),
        sa.Column("verify_seconds", sa.Double(), nullable=False),
        sa.PrimaryKeyConstraint("number", name="pk_durations"),
    )
    for table, indexes in INDEXES.items():
        for columns in indexes:
            op.create_index(f"ix_{table}_{'_'.join(columns)}", table, list(columns))
