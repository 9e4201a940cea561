"""Bringing a database to the schema of this release, with Alembic."""

from __future__ import annotations

from pathlib import Path

import sqlalchemy as sa
from alembic import command
from alembic.config import Config
from alembic.runtime.migration import MigrationContext
from alembic.script import ScriptDirectory

from quarantine.errors import UnavailableError

_SCRIPTS = Path(__file__).with_name("migrations")


def configuration() -> Config:
    """Alembic's configuration, made here so that no file has to be found."""
    config = Config()
    # A percent sign in a path would be taken for an interpolation.
    config.set_main_option("script_location", str(_SCRIPTS).replace("%", "%%"))
    config.set_main_option("path_separator", "os")
    return config


def head() -> str:
    """The revision that this release works with."""
    found = ScriptDirectory.from_config(configuration()).get_current_head()
    if found is None:
        raise UnavailableError(
            f"migrations: expected revisions in {_SCRIPTS}, found none; reinstall nvme-quarantine"
        )
    return found


def current(connection: sa.Connection) -> str | None:
    """The revision that the database is at; None for an empty one."""
    return MigrationContext.configure(connection).get_current_revision()


def require_known(revision: str | None) -> None:
    """Raises :class:`UnavailableError` for a schema that a newer release has made."""
    known = {
        step.revision for step in ScriptDirectory.from_config(configuration()).walk_revisions()
    }
    if revision is not None and revision not in known:
        raise UnavailableError(
            f"database: expected schema {head()} or an older one, found {revision} of a newer "
            "release; upgrade nvme-quarantine, the database was not touched"
        )


def require_current(revision: str | None) -> None:
    """Raises :class:`UnavailableError` unless the database is at :func:`head`."""
    require_known(revision)
    if revision != head():
        raise UnavailableError(
            f"database: expected schema {head()}, found {revision or 'none'}; "
            "run 'nvme-quarantine db upgrade'"
        )


def upgrade(connection: sa.Connection) -> None:
    """Runs what is missing within the caller's transaction."""
    require_known(current(connection))
    config = configuration()
    config.attributes["connection"] = connection
    command.upgrade(config, "head")
