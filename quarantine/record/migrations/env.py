"""Alembic's way in: always on the connection, and in the transaction, that the caller holds."""

from __future__ import annotations

from alembic import context

from quarantine.record.database.models import metadata

context.configure(
    connection=context.config.attributes["connection"],
    target_metadata=metadata,
    # SQLite can roll back CREATE TABLE, since we begin the transaction ourselves.
    transactional_ddl=True,
    # SQLite cannot alter a column in place.
    render_as_batch=True,
)
with context.begin_transaction():
    context.run_migrations()
