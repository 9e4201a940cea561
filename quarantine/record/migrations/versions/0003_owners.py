"""Whom the host's gate knew as a drive's last owner, beside whom Placement named."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Adds a column to ``certificates``; for older ones only what Placement named is known."""
    op.add_column("certificates", sa.Column("owner", sa.String(64)))
    op.create_index("ix_certificates_owner", "certificates", ["owner"])
