"""Which signing key follows which, and after which certificate."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0006"
down_revision = "0005"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Creates ``rotations``; a key that was replaced before has no row in it."""
    op.create_table(
        "rotations",
        sa.Column("number", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("new_key", sa.String(64), nullable=False),
        sa.Column("document", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("number", name="pk_rotations"),
    )
