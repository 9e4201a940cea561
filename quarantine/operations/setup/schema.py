"""The record's schema."""

from __future__ import annotations

from dataclasses import dataclass

from quarantine.operations.plane import Plane
from quarantine.record.store import Store


@dataclass(frozen=True)
class SchemaRevision:
    """Where the schema is now."""

    revision: str


def upgrade(plane: Plane) -> SchemaRevision:
    """Brings the schema to this release's. Raises ``UnavailableError`` for a newer one."""
    with plane.parts() as parts:
        # Not the parts' own store: it refuses a schema that is not this release's.
        store = Store.open(parts.conf.database.url)
        try:
            return SchemaRevision(store.migrate())
        finally:
            store.close()
