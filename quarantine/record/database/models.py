"""The tables. Migrations make them; this module only describes them to SQLAlchemy.

Text that a drive or a host chose is stored as text and nothing else: never a key, never a file
name. Keys are numbers of ours and SHA-256 digests.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import sqlalchemy as sa
from sqlalchemy.dialects import mysql

from quarantine.record.words.reasons import CODE_LENGTH
from quarantine.record.words.texts import NAME_LENGTH, SUBJECT_LENGTH

NAMING = {
    "ix": "ix_%(table_name)s_%(column_0_N_name)s",
    "uq": "uq_%(table_name)s_%(column_0_N_name)s",
    "fk": "fk_%(table_name)s_%(column_0_name)s",
    "pk": "pk_%(table_name)s",
}
"""Every constraint has a name, else a later migration could not alter it everywhere."""


class UtcDateTime(sa.types.TypeDecorator[datetime]):
    """Aware UTC in Python, naive UTC with microseconds in the database."""

    # MariaDB drops the fraction of a second unless it is asked not to.
    impl = sa.DateTime().with_variant(mysql.DATETIME(fsp=6), "mysql", "mariadb")
    cache_ok = True

    def process_bind_param(self, value: datetime | None, dialect: sa.Dialect) -> datetime | None:
        if value is None:
            return None
        if value.tzinfo is None:
            raise ValueError(f"expected a time with a zone, found {value.isoformat()}")
        return value.astimezone(UTC).replace(tzinfo=None)

    def process_result_value(self, value: Any, dialect: sa.Dialect) -> datetime | None:
        return None if value is None else value.replace(tzinfo=UTC)


ROW_ID = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
"""SQLite counts up by itself only in an INTEGER primary key."""

DOCUMENT = sa.Text().with_variant(mysql.MEDIUMTEXT(), "mysql", "mariadb")
"""JSON and JWS. MariaDB's plain TEXT ends at 64 KiB, a report does not."""

DIGEST = sa.String(64)
HOST = sa.String(253)
ADDRESS = sa.String(16)
UUID = sa.String(64)
INITIATOR = 255
"""Characters of each of who, in which project, by which request."""

metadata = sa.MetaData(naming_convention=NAMING)

slots = sa.Table(
    "slots",
    metadata,
    sa.Column("id", ROW_ID, primary_key=True),
    sa.Column("host", HOST, nullable=False),
    sa.Column("address", ADDRESS, nullable=False),
    sa.Column("provider", UUID, nullable=False, index=True),
    sa.Column("resource_class", sa.String(255), nullable=False),
    sa.Column("state", sa.String(16), nullable=False),
    sa.Column("generation", sa.Integer, nullable=False),
    sa.Column("revision", sa.Integer, nullable=False),
    sa.Column("reason", sa.Text, nullable=False),
    sa.Column("hold_code", sa.String(CODE_LENGTH)),
    sa.Column("profile", sa.String(128), nullable=False),
    sa.Column("policy", sa.String(64), nullable=False),
    sa.Column("identity", DOCUMENT),
    sa.Column("identity_digest", DIGEST, index=True),
    # Copies from the identity, for counts and lists: these read no document.
    sa.Column("model", sa.String(NAME_LENGTH)),
    sa.Column("serial", sa.String(NAME_LENGTH), index=True),
    sa.Column("consumer", UUID),
    sa.Column("custody", UUID),
    sa.Column("custody_ready", sa.Boolean, nullable=False),
    sa.Column("order_id", sa.String(64)),
    sa.Column("nonce", sa.String(64)),
    sa.Column("order_token", DOCUMENT),
    sa.Column("ordered_at", UtcDateTime),
    sa.Column("heard_at", UtcDateTime),
    sa.Column("attempts", sa.Integer, nullable=False),
    sa.Column("step", sa.String(16)),
    sa.Column("fraction", sa.Float, nullable=False),
    sa.Column("detail", sa.Text, nullable=False),
    sa.Column("certificate", DIGEST),
    sa.Column("ticket_token", DOCUMENT),
    sa.Column("ticket_incarnation", sa.String(64)),
    sa.Column("ticket_at", UtcDateTime),
    # Constants for the rows that a migration finds: a ticket that nobody asked for is not ready.
    sa.Column("ticket_ready", sa.Boolean, nullable=False, server_default=sa.false()),
    sa.Column("alarm", sa.String(1000), nullable=False, server_default=""),
    sa.Column("provider_generation", sa.Integer),
    sa.Column("offered_as", sa.String(64)),
    sa.Column("read_at", UtcDateTime),
    sa.Column("entered_at", UtcDateTime, nullable=False),
    sa.Column("created_at", UtcDateTime, nullable=False),
    # Why, and by whose word, the slot is to be held when its server lets go of the drive.
    sa.Column("next_hold", sa.Text),
    sa.Column("next_hold_user", sa.String(INITIATOR)),
    sa.Column("next_hold_project", sa.String(INITIATOR)),
    sa.Column("next_hold_request", sa.String(INITIATOR)),
    sa.UniqueConstraint("host", "address"),
    # One for each filter of a list, in the list's order: a page reads what is on it.
    sa.Index(None, "state", "host", "address"),
    sa.Index(None, "state", "entered_at", "id"),
    sa.Index(None, "entered_at", "id"),
    sa.Index(None, "model", "host", "address"),
    sa.Index(None, "model", "entered_at", "id"),
    sa.Index(None, "hold_code", "host", "address"),
    sa.Index(None, "hold_code", "entered_at", "id"),
    sa.Index(None, "consumer", "host", "address"),
)

history = sa.Table(
    "history",
    metadata,
    sa.Column("seq", ROW_ID, primary_key=True),
    sa.Column("slot_id", ROW_ID, sa.ForeignKey("slots.id"), nullable=False),
    sa.Column("revision", sa.Integer, nullable=False),
    sa.Column("at", UtcDateTime, nullable=False),
    sa.Column("event", sa.String(32)),
    sa.Column("source", sa.String(16)),
    sa.Column("target", sa.String(16), nullable=False),
    sa.Column("generation", sa.Integer, nullable=False),
    sa.Column("reason", sa.Text, nullable=False),
    sa.Column("hold_code", sa.String(CODE_LENGTH)),
    sa.Column("detail", DOCUMENT, nullable=False),
    # Who decided, where a person did and the way it came in tells.
    sa.Column("by_user", sa.String(INITIATOR)),
    sa.Column("by_project", sa.String(INITIATOR)),
    sa.Column("by_request", sa.String(INITIATOR)),
    # One write to a slot, at most one line: a doubled line is a bug that must not be stored.
    sa.UniqueConstraint("slot_id", "revision"),
    sa.Index(None, "event", "seq"),
    sqlite_autoincrement=True,
)

hosts = sa.Table(
    "hosts",
    metadata,
    sa.Column("name", HOST, primary_key=True),
    # Two hosts with one key could speak for each other.
    sa.Column("thumbprint", sa.String(64), nullable=False, unique=True),
    sa.Column("jwk", sa.Text, nullable=False),
    sa.Column("incarnation", sa.String(64), nullable=False),
    sa.Column("sequence", sa.BigInteger, nullable=False),
    sa.Column("hello", DOCUMENT),
    sa.Column("registered_at", UtcDateTime, nullable=False),
    sa.Column("heard_at", UtcDateTime),
)

drives = sa.Table(
    "drives",
    metadata,
    sa.Column("digest", DIGEST, primary_key=True),
    sa.Column("identity", DOCUMENT, nullable=False),
    sa.Column("host", HOST, nullable=False),
    sa.Column("address", ADDRESS, nullable=False),
    sa.Column("dirty", sa.Boolean, nullable=False),
    sa.Column("retired", sa.Boolean, nullable=False),
    sa.Column("reason", sa.Text, nullable=False),
    sa.Column("changed_at", UtcDateTime, nullable=False),
    sa.Column("certificate", DIGEST),
    sa.Column("certified_host", HOST),
    sa.Column("certified_address", ADDRESS),
    sa.Column("certified_at", UtcDateTime),
    sa.Column("dirty_host", HOST),
    sa.Column("dirty_address", ADDRESS),
    sa.Column("dirty_at", UtcDateTime),
    # Copies from the identity and from its last certificate, for lists.
    sa.Column("model", sa.String(NAME_LENGTH)),
    sa.Column("serial", sa.String(NAME_LENGTH)),
    sa.Column("firmware", sa.String(NAME_LENGTH)),
    sa.Index(None, "model", "digest"),
    sa.Index(None, "serial", "digest"),
    sa.Index(None, "firmware", "digest"),
    sa.Index(None, "certified_at", "digest"),
)

nonces = sa.Table(
    "nonces",
    metadata,
    sa.Column("nonce", sa.String(64), primary_key=True),
    sa.Column("order_id", sa.String(64), nullable=False),
    sa.Column("digest", sa.String(64), nullable=False),
    sa.Column("at", UtcDateTime, nullable=False),
)

refusals = sa.Table(
    "refusals",
    metadata,
    sa.Column("id", ROW_ID, primary_key=True),
    # Digest of kind, host, reason and message digest: the same refusal is one row with a count.
    sa.Column("fingerprint", DIGEST, nullable=False, unique=True),
    sa.Column("kind", sa.String(64), nullable=False),
    sa.Column("host", HOST, nullable=False),
    sa.Column("reason", sa.Text, nullable=False),
    sa.Column("digest", DIGEST, nullable=False),
    sa.Column("excerpt", sa.Text, nullable=False),
    sa.Column("count", sa.Integer, nullable=False),
    sa.Column("first_at", UtcDateTime, nullable=False),
    sa.Column("last_at", UtcDateTime, nullable=False),
    sa.Index(None, "host", "id"),
)

documents = sa.Table(
    "documents",
    metadata,
    sa.Column("id", ROW_ID, primary_key=True),
    sa.Column("kind", sa.String(16), nullable=False),
    sa.Column("name", sa.String(128), nullable=False),
    sa.Column("version", sa.Integer, nullable=False),
    sa.Column("digest", DIGEST, nullable=False),
    sa.Column("content", DOCUMENT, nullable=False),
    sa.Column("approved_by", sa.String(255), nullable=False),
    sa.Column("approved_at", UtcDateTime, nullable=False),
    # None of what an earlier release wrote.
    sa.Column("reason", sa.Text),
    sa.Column("by_project", sa.String(INITIATOR)),
    sa.Column("by_request", sa.String(INITIATOR)),
    sa.UniqueConstraint("kind", "name", "version"),
)

certificates = sa.Table(
    "certificates",
    metadata,
    sa.Column("number", sa.BigInteger, primary_key=True, autoincrement=False),
    sa.Column("digest", DIGEST, nullable=False, unique=True),
    # One successor per link: two writers cannot fork the chain.
    sa.Column("previous", DIGEST, nullable=False, unique=True),
    sa.Column("slot_id", ROW_ID, sa.ForeignKey("slots.id"), nullable=False),
    sa.Column("host", HOST, nullable=False),
    sa.Column("address", ADDRESS, nullable=False),
    sa.Column("generation", sa.Integer, nullable=False),
    sa.Column("drive", DIGEST, nullable=False, index=True),
    sa.Column("order_id", sa.String(64), nullable=False),
    sa.Column("server", UUID, index=True),
    sa.Column("owner", UUID, index=True),
    sa.Column("token", DOCUMENT, nullable=False),
    sa.Column("created_at", UtcDateTime, nullable=False, index=True),
    # One certificate per case.
    sa.UniqueConstraint("slot_id", "generation"),
)

# What cases of a model take is summed up over all of them; a certificate is kilobytes long.
durations = sa.Table(
    "durations",
    metadata,
    # The certificate's.
    sa.Column("number", sa.BigInteger, primary_key=True, autoincrement=False),
    sa.Column("model", sa.String(NAME_LENGTH), nullable=False),
    sa.Column("erase_seconds", sa.Double, nullable=False),
    sa.Column("verify_seconds", sa.Double, nullable=False),
    sa.Index(None, "model", "number"),
)

alarm_counts = sa.Table(
    "alarm_counts",
    metadata,
    sa.Column("code", sa.String(CODE_LENGTH), primary_key=True),
    sa.Column("count", sa.Integer, nullable=False),
)

# What people were called for: one row for a subject and a code, however often.
alarms = sa.Table(
    "alarms",
    metadata,
    sa.Column("id", ROW_ID, primary_key=True),
    sa.Column("code", sa.String(CODE_LENGTH), nullable=False),
    # A slot, a host, or a part of the service.
    sa.Column("subject", sa.String(SUBJECT_LENGTH), nullable=False),
    sa.Column("text", sa.Text, nullable=False),
    sa.Column("count", sa.Integer, nullable=False),
    sa.Column("first_at", UtcDateTime, nullable=False),
    sa.Column("last_at", UtcDateTime, nullable=False, index=True),
    # NULL: nobody said that it is over.
    sa.Column("over_at", UtcDateTime),
    # Of a subject that is a host, or on one. NULL of what an earlier release wrote.
    sa.Column("host", HOST),
    sa.UniqueConstraint("subject", "code"),
    sa.Index(None, "code", "id"),
    sa.Index(None, "code", "last_at", "id"),
    sa.Index(None, "host", "id"),
    sa.Index(None, "over_at", "id"),
    sa.Index(None, "over_at", "last_at", "id"),
)

# Each has all that a count of quarantine.record.totals needs: a row of these tables is kilobytes
# long, and is not read.
sa.Index(None, slots.c.state, slots.c.hold_code, slots.c.model, slots.c.entered_at)
sa.Index(None, slots.c.state, slots.c.resource_class, slots.c.host)
sa.Index(None, hosts.c.heard_at, hosts.c.registered_at, hosts.c.name)

# Apart from the certificates: these are read one by one and are ten times as long.
rotations = sa.Table(
    "rotations",
    metadata,
    sa.Column("number", sa.BigInteger, primary_key=True, autoincrement=False),
    sa.Column("new_key", sa.String(64), nullable=False),
    sa.Column("document", sa.Text, nullable=False),
)

testimonies = sa.Table(
    "testimonies",
    metadata,
    sa.Column("certificate", DIGEST, sa.ForeignKey("certificates.digest"), primary_key=True),
    sa.Column("order_token", DOCUMENT, nullable=False),
    sa.Column("report_token", DOCUMENT, nullable=False),
    sa.Column("host_key", sa.Text, nullable=False),
)

# Whose each server is that was seen with a drive, by its allocation.
servers = sa.Table(
    "servers",
    metadata,
    sa.Column("uuid", UUID, primary_key=True),
    sa.Column("project", sa.String(INITIATOR), nullable=False),
    sa.Column("user", sa.String(INITIATOR), nullable=False),
    sa.Column("seen_at", UtcDateTime, nullable=False),
    sa.Index(None, "project", "uuid"),
)

# Whose each migration is that held a drive, by Nova's word: its consumer in Placement is no server.
moves = sa.Table(
    "moves",
    metadata,
    sa.Column("migration", UUID, primary_key=True),
    sa.Column("server", UUID, nullable=False, index=True),
    sa.Column("noted_at", UtcDateTime, nullable=False),
)

# When each pass of the service last went well, for those who ask from outside its process.
passes = sa.Table(
    "passes",
    metadata,
    sa.Column("name", sa.String(32), primary_key=True),
    sa.Column("at", UtcDateTime, nullable=False),
    sa.Column("within", sa.Float, nullable=False),
)

# Each act of beginning, changing or ending one is a row: the last of a subject counts, while its
# time is not over.
maintenances = sa.Table(
    "maintenances",
    metadata,
    sa.Column("id", ROW_ID, primary_key=True),
    sa.Column("host", HOST, nullable=False),
    # Empty: the whole host.
    sa.Column("address", ADDRESS, nullable=False),
    sa.Column("version", sa.Integer, nullable=False),
    sa.Column("at", UtcDateTime, nullable=False),
    # Null: ended.
    sa.Column("until", UtcDateTime),
    sa.Column("reason", sa.Text, nullable=False),
    sa.Column("by_user", sa.String(INITIATOR), nullable=False),
    sa.Column("by_project", sa.String(INITIATOR), nullable=False),
    sa.Column("by_request", sa.String(INITIATOR), nullable=False),
    # Two that decide at once: one of them is told to look again.
    sa.UniqueConstraint("host", "address", "version"),
    sa.Index(None, "until", "host", "address", "version"),
)

# Many slots, erased again by one person's word; each has a line below with what became of it.
campaigns = sa.Table(
    "campaigns",
    metadata,
    sa.Column("id", sa.String(64), primary_key=True),
    sa.Column("version", sa.Integer, nullable=False),
    sa.Column("state", sa.String(16), nullable=False, index=True),
    # As it was asked for, in canonical JSON: the same again is the same campaign.
    sa.Column("query", DOCUMENT, nullable=False),
    sa.Column("reason", sa.Text, nullable=False),
    sa.Column("keep", sa.Float, nullable=False),
    sa.Column("by_user", sa.String(INITIATOR), nullable=False),
    sa.Column("by_project", sa.String(INITIATOR), nullable=False),
    sa.Column("by_request", sa.String(INITIATOR), nullable=False),
    sa.Column("created_at", UtcDateTime, nullable=False),
    sa.Column("changed_at", UtcDateTime, nullable=False),
    # Until when one process works on it; another one waits so long, and goes on if that one died.
    sa.Column("leased_until", UtcDateTime),
)

campaign_slots = sa.Table(
    "campaign_slots",
    metadata,
    sa.Column("campaign", sa.String(64), sa.ForeignKey("campaigns.id"), primary_key=True),
    sa.Column("host", HOST, primary_key=True),
    sa.Column("address", ADDRESS, primary_key=True),
    sa.Column("step", sa.String(16), nullable=False),
    sa.Column("drive", DIGEST),
    # Certificates of this case, and of later ones, are of an erase that the campaign wanted.
    sa.Column("generation", sa.Integer, nullable=False),
    # It was on offer when it was taken: so many drives the pool lacks.
    sa.Column("was_free", sa.Boolean, nullable=False),
    sa.Column("result", sa.Text, nullable=False),
    sa.Column("certificate", DIGEST),
    sa.Column("changed_at", UtcDateTime, nullable=False),
    sa.Index(None, "campaign", "step", "host", "address"),
)

# Who decided what of a campaign: each of its versions has a line.
campaign_acts = sa.Table(
    "campaign_acts",
    metadata,
    sa.Column("campaign", sa.String(64), sa.ForeignKey("campaigns.id"), primary_key=True),
    sa.Column("version", sa.Integer, primary_key=True, autoincrement=False),
    sa.Column("at", UtcDateTime, nullable=False),
    sa.Column("state", sa.String(16), nullable=False),
    sa.Column("reason", sa.Text, nullable=False),
    sa.Column("by_user", sa.String(INITIATOR)),
    sa.Column("by_project", sa.String(INITIATOR)),
    sa.Column("by_request", sa.String(INITIATOR)),
)
