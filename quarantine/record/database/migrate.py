"""Bringing a database to the schema of this release, with Alembic."""

from __future__ import annotations

import contextlib
import functools
import logging
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import sqlalchemy as sa
from alembic import command
from alembic.config import Config
from alembic.runtime.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import exc

from quarantine.errors import UnavailableError
from quarantine.record.database import models
from quarantine.record.database.engine import IN_CLUSTER

LOG = logging.getLogger(__name__)

_SCRIPTS = Path(__file__).parents[1] / "migrations"

_STAMP: sa.Select[Any] = sa.select(
    sa.table("alembic_version", sa.column("version_num")).c.version_num
)

_OF_TABLES = ("table_schema", "table_name", "table_collation")

_KEYS_OF_TEXT = (
    "SELECT table_name, constraint_name, column_name, referenced_table_name, referenced_column_name"
    " FROM information_schema.key_column_usage"
    " JOIN information_schema.columns USING (table_schema, table_name, column_name)"
    " WHERE table_schema = DATABASE() AND referenced_table_name IS NOT NULL"
    " AND collation_name IS NOT NULL"
)

_LOCK = 0x6E_76_6D_65  # "nvme"; the databases name a lock by a number or by a text
_LOCK_SECONDS = 60


def configuration() -> Config:
    """Alembic's configuration, made here so that no file has to be found."""
    config = Config()
    # A percent sign in a path would be taken for an interpolation.
    config.set_main_option("script_location", str(_SCRIPTS).replace("%", "%%"))
    config.set_main_option("path_separator", "os")
    return config


@functools.cache
def _revisions() -> tuple[str | None, frozenset[str]]:
    """The newest one, and all. Read once: to read them compiles every migration, and what is
    installed under a process that runs is not what that process is of."""
    scripts = ScriptDirectory.from_config(configuration())
    return scripts.get_current_head(), frozenset(one.revision for one in scripts.walk_revisions())


def head() -> str:
    """The revision that this release works with."""
    found, _all = _revisions()
    if found is None:
        raise UnavailableError(
            f"migrations: expected revisions in {_SCRIPTS}, found none; reinstall nvme-quarantine"
        )
    return found


def current(connection: sa.Connection) -> str | None:
    """The revision that the database is at; None for an empty one.

    Raises :class:`UnavailableError` for one that says several.
    """
    found = MigrationContext.configure(connection).get_current_heads()
    if len(found) > 1:
        raise UnavailableError(
            f"database: expected one schema, found several ({', '.join(map(str, found))}) in "
            "alembic_version; restore a backup, the database was not touched"
        )
    return found[0] if found else None


def is_current(connection: sa.Connection) -> bool:
    """Whether the database is at :func:`head`: one plain question, for every request of the API.
    What else it is, and what is to be done, :func:`require_current` says."""
    try:
        return list(connection.execute(_STAMP).scalars()) == [head()]
    except (exc.ProgrammingError, exc.OperationalError):  # no such table
        return False


def require_known(revision: str | None) -> None:
    """Raises :class:`UnavailableError` for a schema that a newer release has made."""
    _head, known = _revisions()
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
    """Runs what is missing within the caller's transaction, while nobody else does.

    MariaDB ends a transaction at each CREATE TABLE: an upgrade that is cut off there has to be
    repeated on a restored backup, or on an empty database.
    """
    with _alone(connection):
        revision = current(connection)
        require_known(revision)
        if connection.dialect.name in ("mysql", "mariadb"):
            # Each time: a dump of one database forgets it, and what is restored has the server's.
            _compare_exactly(connection)
        config = configuration()
        config.attributes["connection"] = connection
        command.upgrade(config, "head")


@contextlib.contextmanager
def _alone(connection: sa.Connection) -> Iterator[None]:
    match connection.dialect.name:
        case "postgresql":
            # Ends with the transaction.
            connection.execute(sa.select(sa.func.pg_advisory_xact_lock(_LOCK)))
            yield
        case "mysql" | "mariadb" if _in_cluster(connection):
            # Galera has no such lock: it is one node's alone, and some releases refuse to take it
            # (MariaDB 10.6.13, 10.11.3; Percona's). What makes tables is in one order on all nodes.
            LOG.warning("the database is a cluster, which keeps no other upgrade away: begin one")
            yield
            connection.exec_driver_sql("COMMIT")
        case "mysql" | "mariadb":
            got = connection.scalar(sa.select(sa.func.get_lock(str(_LOCK), _LOCK_SECONDS)))
            if got != 1:
                raise UnavailableError(
                    "database: expected to upgrade it alone, found another upgrade that still runs "
                    f"after {_LOCK_SECONDS} s; wait for its end, then repeat"
                )
            try:
                yield
                # What CREATE and ALTER did is committed by now, and the revision has to be before
                # the next one looks: it would repeat the last step.
                connection.exec_driver_sql("COMMIT")
            finally:
                connection.execute(sa.select(sa.func.release_lock(str(_LOCK))))
        case _:
            # SQLite: the transaction holds the whole file.
            with _any_text(connection):
                yield


def _in_cluster(connection: sa.Connection) -> bool:
    row = connection.exec_driver_sql(IN_CLUSTER).first()
    return row is not None and row[1] == "ON"


@contextlib.contextmanager
def _any_text(connection: sa.Connection) -> Iterator[None]:
    """SQLite keeps text that is no UTF-8 too. A row with some is damaged, and stays as it is: it
    must not keep all others from the upgrade. Other databases take none."""
    driver: Any = connection.connection.dbapi_connection
    driver.text_factory = lambda text: text.decode("utf-8", "backslashreplace")
    try:
        yield
    finally:
        driver.text_factory = str


def _compare_exactly(connection: sa.Connection) -> None:
    """Makes tables compare text byte by byte, as every other database does, and take any text.

    By default they would take Compute-1 for compute-1, and "x " for "x". Tables that were made so
    are converted: their texts stay, and none that were unlike become alike.
    """
    is_mariadb = getattr(connection.dialect, "is_mariadb", False)
    exact = "utf8mb4_nopad_bin" if is_mariadb else "utf8mb4_0900_bin"
    connection.exec_driver_sql(f"ALTER DATABASE CHARACTER SET utf8mb4 COLLATE {exact}")
    tables = sa.table("tables", *map(sa.column, _OF_TABLES), schema="information_schema")
    here, table, collation = (tables.c[name] for name in _OF_TABLES)
    others = sa.select(table).where(here == sa.func.database(), collation != exact)
    ours = others.where(table.in_(models.metadata.tables)).order_by(table)
    if names := connection.execute(ours).scalars().all():
        with _without_keys_of_text(connection):
            for name in names:
                LOG.warning("the database's table %s has other texts: it is converted", name)
                connection.exec_driver_sql(
                    f"ALTER TABLE `{name}` CONVERT TO CHARACTER SET utf8mb4 COLLATE {exact}"
                )


@contextlib.contextmanager
def _without_keys_of_text(connection: sa.Connection) -> Iterator[None]:
    """Both ends of a foreign key that is a text (``campaigns.id``) have one collation, and only one
    end is converted at a time. MariaDB refuses that, also where such keys are not checked (1833);
    MySQL wants both ends converted before it checks them again. So there is no such key meanwhile.
    """
    keys = connection.exec_driver_sql(_KEYS_OF_TEXT).all()
    for table, key, *_ends in keys:
        connection.exec_driver_sql(f"ALTER TABLE `{table}` DROP FOREIGN KEY `{key}`")
    yield
    for table, key, column, other, its in keys:
        connection.exec_driver_sql(
            f"ALTER TABLE `{table}` ADD CONSTRAINT `{key}`"
            f" FOREIGN KEY (`{column}`) REFERENCES `{other}` (`{its}`)"
        )
