"""The signed order and the host's signed report, beside the certificate that they bear."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import mysql

revision = "0005"
down_revision = "0004"
branch_labels = None
depends_on = None

DOCUMENT = sa.Text().with_variant(mysql.MEDIUMTEXT(), "mysql", "mariadb")


def upgrade() -> None:
    """Creates ``testimonies``; certificates that were written before have no row in it."""
    op.create_table(
        "testimonies",
        sa.Column("certificate", sa.String(64), nullable=False),
        sa.Column("order_token", DOCUMENT, nullable=False),
        sa.Column("report_token", DOCUMENT, nullable=False),
        sa.Column("host_key", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("certificate", name="pk_testimonies"),
        sa.ForeignKeyConstraint(
            ["certificate"], ["certificates.digest"], name="fk_testimonies_certificate"
        ),
    )
