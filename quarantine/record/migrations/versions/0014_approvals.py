"""Why a profile or a policy was approved, and by which request."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0014"
down_revision = "0013"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Adds columns to ``documents``: of what was approved before, nobody can say it any more."""
    op.add_column("documents", sa.Column("reason", sa.Text()))
    for name in ("project", "request"):
        op.add_column("documents", sa.Column(f"by_{name}", sa.String(255)))
