"""A record with this release's schema and nothing in it, without its migrations for each test."""

from __future__ import annotations

import functools
import os
import tempfile
from pathlib import Path

from quarantine.record.database import engine as door
from quarantine.record.database import models
from quarantine.record.store import Store


def migrated_file(path: Path) -> str:
    """Makes an SQLite record at ``path``, a copy of one that was migrated; returns its URL."""
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
        file.write(_migrated())
    return f"sqlite:///{path}"


@functools.cache
def _migrated() -> bytes:
    """Migrations take longer than most tests: they run once in each process of tests."""
    with tempfile.TemporaryDirectory(prefix="nvme-record-") as directory:
        path = Path(directory, "record.db")
        store = Store.open(f"sqlite:///{path}")
        store.migrate()
        store.close()
        return path.read_bytes()


def empty(url: str) -> None:
    """Takes every row out of a migrated record on a database server. Ids go on.

    TRUNCATE would cost MariaDB several times that. Waits for what a test left open, as any writer.
    """
    engine = door.make_engine(url)
    try:
        with door.writing(engine) as db:
            for table in reversed(models.metadata.sorted_tables):
                db.execute(table.delete())
    finally:
        engine.dispose()
