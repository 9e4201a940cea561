"""Slots, their history, drives, hosts, messages, approved documents, certificates."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import mysql

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None

# Frozen as they were: a migration never follows later changes of quarantine.record.database.models.
ROW_ID = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
DOCUMENT = sa.Text().with_variant(mysql.MEDIUMTEXT(), "mysql", "mariadb")
TIME = sa.DateTime().with_variant(mysql.DATETIME(fsp=6), "mysql", "mariadb")


def upgrade() -> None:
    """Creates every table."""
    op.create_table(
        "documents",
        sa.Column("id", ROW_ID, nullable=False),
        sa.Column("kind", sa.String(16), nullable=False),
        sa.Column("name", sa.String(128), nullable=False),
        sa.Column("version", sa.Integer(), nullable=False),
        sa.Column("digest", sa.String(64), nullable=False),
        sa.Column("content", DOCUMENT, nullable=False),
        sa.Column("approved_by", sa.String(255), nullable=False),
        sa.Column("approved_at", TIME, nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_documents"),
        sa.UniqueConstraint("kind", "name", "version", name="uq_documents_kind_name_version"),
    )
    op.create_table(
        "drives",
        sa.Column("digest", sa.String(64), nullable=False),
        sa.Column("identity", DOCUMENT, nullable=False),
        sa.Column("host", sa.String(253), nullable=False),
        sa.Column("address", sa.String(16), nullable=False),
        sa.Column("dirty", sa.Boolean(), nullable=False),
        sa.Column("retired", sa.Boolean(), nullable=False),
        sa.Column("reason", sa.Text(), nullable=False),
        sa.Column("changed_at", TIME, nullable=False),
        sa.Column("certificate", sa.String(64)),
        sa.Column("certified_host", sa.String(253)),
        sa.Column("certified_address", sa.String(16)),
        sa.Column("certified_at", TIME),
        sa.Column("dirty_host", sa.String(253)),
        sa.Column("dirty_address", sa.String(16)),
        sa.Column("dirty_at", TIME),
        sa.PrimaryKeyConstraint("digest", name="pk_drives"),
    )
    op.create_table(
        "hosts",
        sa.Column("name", sa.String(253), nullable=False),
        sa.Column("thumbprint", sa.String(64), nullable=False),
        sa.Column("jwk", sa.Text(), nullable=False),
        sa.Column("incarnation", sa.String(64), nullable=False),
        sa.Column("sequence", sa.BigInteger(), nullable=False),
        sa.Column("hello", DOCUMENT),
        sa.Column("registered_at", TIME, nullable=False),
        sa.Column("heard_at", TIME),
        sa.PrimaryKeyConstraint("name", name="pk_hosts"),
        sa.UniqueConstraint("thumbprint", name="uq_hosts_thumbprint"),
    )
    op.create_table(
        "nonces",
        sa.Column("nonce", sa.String(64), nullable=False),
        sa.Column("order_id", sa.String(64), nullable=False),
        sa.Column("digest", sa.String(64), nullable=False),
        sa.Column("at", TIME, nullable=False),
        sa.PrimaryKeyConstraint("nonce", name="pk_nonces"),
    )
    op.create_table(
        "refusals",
        sa.Column("id", ROW_ID, nullable=False),
        sa.Column("fingerprint", sa.String(64), nullable=False),
        sa.Column("kind", sa.String(64), nullable=False),
        sa.Column("host", sa.String(253), nullable=False),
        sa.Column("reason", sa.Text(), nullable=False),
        sa.Column("digest", sa.String(64), nullable=False),
        sa.Column("excerpt", sa.Text(), nullable=False),
        sa.Column("count", sa.Integer(), nullable=False),
        sa.Column("first_at", TIME, nullable=False),
        sa.Column("last_at", TIME, nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_refusals"),
        sa.UniqueConstraint("fingerprint", name="uq_refusals_fingerprint"),
    )
    op.create_table(
        "slots",
        sa.Column("id", ROW_ID, nullable=False),
        sa.Column("host", sa.String(253), nullable=False),
        sa.Column("address", sa.String(16), nullable=False),
        sa.Column("provider", sa.String(64), nullable=False),
        sa.Column("resource_class", sa.String(255), nullable=False),
        sa.Column("state", sa.String(16), nullable=False),
        sa.Column("generation", sa.Integer(), nullable=False),
        sa.Column("revision", sa.Integer(), nullable=False),
        sa.Column("reason", sa.Text(), nullable=False),
        sa.Column("profile", sa.String(128), nullable=False),
        sa.Column("policy", sa.String(64), nullable=False),
        sa.Column("identity", DOCUMENT),
        sa.Column("identity_digest", sa.String(64)),
        sa.Column("consumer", sa.String(64)),
        sa.Column("custody", sa.String(64)),
        sa.Column("custody_ready", sa.Boolean(), nullable=False),
        sa.Column("order_id", sa.String(64)),
        sa.Column("nonce", sa.String(64)),
        sa.Column("order_token", DOCUMENT),
        sa.Column("ordered_at", TIME),
        sa.Column("heard_at", TIME),
        sa.Column("attempts", sa.Integer(), nullable=False),
        sa.Column("step", sa.String(16)),
        sa.Column("fraction", sa.Float(), nullable=False),
        sa.Column("detail", sa.Text(), nullable=False),
        sa.Column("certificate", sa.String(64)),
        sa.Column("provider_generation", sa.Integer()),
        sa.Column("read_at", TIME),
        sa.Column("entered_at", TIME, nullable=False),
        sa.Column("created_at", TIME, nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_slots"),
        sa.UniqueConstraint("host", "address", name="uq_slots_host_address"),
    )
    op.create_index("ix_slots_identity_digest", "slots", ["identity_digest"], unique=False)
    op.create_index("ix_slots_provider", "slots", ["provider"], unique=False)
    op.create_index("ix_slots_state", "slots", ["state"], unique=False)
    op.create_table(
        "certificates",
        sa.Column("number", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("digest", sa.String(64), nullable=False),
        sa.Column("previous", sa.String(64), nullable=False),
        sa.Column("slot_id", ROW_ID, nullable=False),
        sa.Column("host", sa.String(253), nullable=False),
        sa.Column("address", sa.String(16), nullable=False),
        sa.Column("generation", sa.Integer(), nullable=False),
        sa.Column("drive", sa.String(64), nullable=False),
        sa.Column("order_id", sa.String(64), nullable=False),
        sa.Column("server", sa.String(64)),
        sa.Column("token", DOCUMENT, nullable=False),
        sa.Column("created_at", TIME, nullable=False),
        sa.ForeignKeyConstraint(["slot_id"], ["slots.id"], name="fk_certificates_slot_id"),
        sa.PrimaryKeyConstraint("number", name="pk_certificates"),
        sa.UniqueConstraint("digest", name="uq_certificates_digest"),
        sa.UniqueConstraint("previous", name="uq_certificates_previous"),
        sa.UniqueConstraint("slot_id", "generation", name="uq_certificates_slot_id_generation"),
    )
    op.create_index("ix_certificates_drive", "certificates", ["drive"], unique=False)
    op.create_index("ix_certificates_server", "certificates", ["server"], unique=False)
    op.create_table(
        "history",
        sa.Column("seq", ROW_ID, nullable=False),
        sa.Column("slot_id", ROW_ID, nullable=False),
        sa.Column("revision", sa.Integer(), nullable=False),
        sa.Column("at", TIME, nullable=False),
        sa.Column("event", sa.String(32)),
        sa.Column("source", sa.String(16)),
        sa.Column("target", sa.String(16), nullable=False),
        sa.Column("generation", sa.Integer(), nullable=False),
        sa.Column("reason", sa.Text(), nullable=False),
        sa.Column("detail", DOCUMENT, nullable=False),
        sa.ForeignKeyConstraint(["slot_id"], ["slots.id"], name="fk_history_slot_id"),
        sa.PrimaryKeyConstraint("seq", name="pk_history"),
        sa.UniqueConstraint("slot_id", "revision", name="uq_history_slot_id_revision"),
        sqlite_autoincrement=True,
    )
