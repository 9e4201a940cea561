"""The one door to the database: how connections are made, begun and what their failures mean."""

from __future__ import annotations

import contextlib
import errno
import logging
import math
import os
import socket
import sqlite3
import threading
import time
import urllib.parse
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import sqlalchemy as sa
from sqlalchemy import exc

from quarantine.errors import (
    BadInputError,
    ConflictError,
    UnavailableError,
    UnfinishedError,
    UnreadableError,
)

LOG = logging.getLogger(__name__)

BUSY_SECONDS = 30.0
"""How long a writer waits for another one. Transactions here last milliseconds."""

ANSWER_SECONDS = 60.0
"""For a server that lives and does not answer: it may wait for a standby, for another node or for
room on its disk. Longer than :data:`BUSY_SECONDS`, of whose end it tells by itself. Of MariaDB and
MySQL that is each answer; of PostgreSQL, whose driver reads without a limit, a commit's alone."""

CONNECT_SECONDS = 10
"""For a database server that does not answer; the loop comes again by itself."""

SILENT_SECONDS = 30
"""After which a server's machine that acknowledges nothing any more is given up. By the kernel's
own times a look would stand for a quarter of an hour where data is on its way, else for hours."""

IN_CLUSTER = "SHOW SESSION VARIABLES LIKE 'wsrep_on'"
"""ON at a node of Galera; MariaDB without a cluster says OFF, and MySQL has no such row."""

_DRIVERS = {
    "sqlite": "sqlite",
    "postgresql": "postgresql+psycopg",
    "mysql": "mysql+pymysql",
    "mariadb": "mariadb+pymysql",
}


def parse_url(text: str | sa.URL) -> sa.URL:
    """A database URL with a driver that we know. Raises :class:`BadInputError`.

    The message never shows the URL: it holds a password.
    """
    try:
        url = sa.make_url(text)
    except exc.ArgumentError as error:
        raise BadInputError(
            "database URL: expected a form such as sqlite:////var/lib/nvme-quarantine/record.db, "
            "found something else; correct [database]url"
        ) from error
    backend = url.get_backend_name()
    if backend not in _DRIVERS:
        raise BadInputError(
            f"database URL: expected one of {', '.join(_DRIVERS)}, found {backend!r}; "
            "correct [database]url"
        )
    if backend == "sqlite" and url.database in (None, "", ":memory:"):
        # Every process and thread would have its own, and all would forget.
        raise BadInputError(
            "database URL: expected a file, found SQLite in memory; correct [database]url"
        )
    if backend in ("mysql", "mariadb"):
        # Its "utf8" has no character of four bytes: what a host says may have.
        url = url.update_query_dict({"charset": "utf8mb4"})
    return url if "+" in url.drivername else url.set(drivername=_DRIVERS[backend])


def make_engine(text: str | sa.URL, *, unhurried: bool = False) -> sa.Engine:
    """An engine that does not connect yet. Raises :class:`BadInputError`, also for no driver.

    ``unhurried``: for what takes its time, as :func:`upgrading` does.
    """
    url = parse_url(text)
    if url.get_backend_name() == "sqlite":
        engine = sa.create_engine(url, creator=lambda: _connect_sqlite(url))
        sa.event.listen(engine, "connect", _prepare_sqlite)
        sa.event.listen(engine, "begin", _begin_sqlite)
        return engine
    options: dict[str, float] = {"connect_timeout": CONNECT_SECONDS}
    if url.get_backend_name() != "postgresql" and not unhurried:
        # PyMySQL: the line is closed then, and what was not committed is undone. A commit that is
        # cut off so is one of which nobody knows.
        options["read_timeout"] = ANSWER_SECONDS
    try:
        # Asked before each use: a connection that is kept does not know that its server was
        # restarted, and the first look after that would fail.
        engine = sa.create_engine(url, pool_pre_ping=True, connect_args=options)
    except ImportError as error:
        raise BadInputError(
            f"database URL: expected the driver of {url.drivername} to be installed ({error}); "
            "install nvme-quarantine with the extra of your database"
        ) from error
    sa.event.listen(
        engine,
        "connect",
        lambda connection, _record: _prepare_server(connection, unhurried=unhurried),
    )
    return engine


def _connect_sqlite(url: sa.URL) -> sqlite3.Connection:
    """Opens a file that is there: whoever only looks must not make one, which would be theirs."""
    path = urllib.parse.quote(os.path.abspath(str(url.database)))
    return sqlite3.connect(
        f"file:{path}?mode=rw", timeout=BUSY_SECONDS, check_same_thread=False, uri=True
    )


def make_file_private(url: sa.URL) -> None:
    """Creates a missing SQLite file readable by its owner alone; its side files inherit that.

    One that is there is not opened: closing it again would give up the locks of every connection
    that this process has to it (https://www.sqlite.org/howtocorrupt.html, 2.2). Another process
    would then delete the log with commits in it.
    """
    if url.get_backend_name() != "sqlite":
        return
    path = Path(str(url.database)).resolve()  # O_EXCL follows no link
    why = ""
    try:
        os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))
    except FileExistsError:
        why = "" if os.access(path, os.R_OK | os.W_OK) else os.strerror(errno.EACCES)
    except OSError as error:
        why = os.strerror(error.errno or 0)
    if why:
        raise UnavailableError(
            f"database: expected a file to read and write at {path} ({why}); "
            "create its directory or correct [database]url"
        )


@contextlib.contextmanager
def reading(engine: sa.Engine) -> Iterator[sa.Connection]:
    """One look, all of it at one moment. Raises :class:`UnavailableError`."""
    with _translated(), _of_one_moment(engine).begin() as connection:
        yield connection


def _of_one_moment(engine: sa.Engine) -> sa.Engine:
    """PostgreSQL looks anew for each statement, unless it is told otherwise: what moves between two
    of them would be counted twice, or not at all. The others look once (:func:`_prepare_server`).
    """
    if engine.dialect.name != "postgresql":
        return engine
    return engine.execution_options(isolation_level="REPEATABLE READ")


@contextlib.contextmanager
def writing(engine: sa.Engine) -> Iterator[sa.Connection]:
    """One transaction that writes: all of it, or nothing.

    Raises :class:`ConflictError` where a unique constraint was broken by somebody quicker,
    :class:`UnavailableError` where the database does not answer, and of that
    :class:`UnfinishedError` where it did not answer to the commit: it may have made it.
    """
    with _transaction(engine, limited=engine.dialect.name == "postgresql") as connection:
        yield connection


@contextlib.contextmanager
def _transaction(engine: sa.Engine, *, limited: bool) -> Iterator[sa.Connection]:
    asked = engine.execution_options(writes=True)
    with (
        _translated() as doing,
        asked.connect() as connection,
        _CommitLimit(connection) as limit,
        connection.begin(),
    ):
        yield connection
        # What fails from here on is the commit itself.
        doing.commits = True
        if limited:
            limit.begin()


@contextlib.contextmanager
def upgrading(engine: sa.Engine) -> Iterator[sa.Connection]:
    """As :func:`writing`, on a connection of its own that waits as long as others have a table, and
    for an answer as long as it takes: on MariaDB a change of tables that is cut off stays half."""
    if engine.dialect.name == "sqlite":
        with writing(engine) as connection:
            yield connection
        return
    own = make_engine(engine.url, unhurried=True)
    try:
        with _transaction(own, limited=False) as connection:
            yield connection
    finally:
        own.dispose()


class _CommitLimit:
    """PostgreSQL: a commit waits for a synchronous standby without end, and no timeout of the
    server's counts in a COMMIT (``finish_xact_command`` takes ``statement_timeout`` off first; the
    wait is ``SyncRepWaitForLSN``). A cancel ends the wait: the commit stands on this server, which
    says so with a warning, and is lost if it fails before the standby comes back. What the record
    forgets so is what one that was restored forgets.

    A cancel names a connection and no statement, and may arrive late: a connection that had one is
    not used again, else the next transaction on it would be ended."""

    def __init__(self, connection: sa.Connection) -> None:
        self._connection = connection
        self._over = threading.Event()
        self._turn = threading.Lock()
        self._cancels = False

    def __enter__(self) -> _CommitLimit:
        return self

    def begin(self) -> None:
        """Once the commit is all that is left to do."""
        its = (self._connection.connection.dbapi_connection,)
        try:
            threading.Thread(target=self._watch, args=its, name="commit", daemon=True).start()
        except RuntimeError as error:  # as many threads as the process may have
            LOG.warning("database: expected to limit a commit's time, found %s: it has none", error)

    def _watch(self, driver: Any) -> None:
        while not self._over.wait(ANSWER_SECONDS):
            with self._turn:
                if self._over.is_set():
                    return
                self._cancels = True
            with contextlib.suppress(Exception):  # it ended just now, or the server is away
                driver.cancel()

    def __exit__(self, *_how: object) -> None:
        with self._turn:
            self._over.set()
        if self._cancels:
            self._connection.invalidate()


def _warned(notice: Any) -> None:
    """What PostgreSQL remarks on a statement or commit that succeeded."""
    if notice.severity_nonlocalized == "WARNING":
        LOG.warning("database: %s: %s", notice.message_primary, notice.message_detail or "")


@dataclass
class _Doing:
    """How far a transaction is."""

    commits: bool = False


@contextlib.contextmanager
def _translated() -> Iterator[_Doing]:
    doing = _Doing()
    try:
        yield doing
    except exc.IntegrityError as error:
        raise ConflictError(
            f"database: expected to be the first, found another writer's row ({_line(error)}); "
            "re-read and decide again"
        ) from error
    except exc.DataError as error:
        raise BadInputError(
            f"database: expected values that fit their columns, found {_line(error)}"
        ) from error
    except (exc.DatabaseError, exc.InterfaceError, exc.TimeoutError) as error:
        # SQLite's driver has no class of its own for text that is no UTF-8.
        if "decode" in _line(error):
            # Of a row, and of no other moment: whoever tried again would try for ever.
            raise UnreadableError(f"database: a damaged row ({_line(error)})") from error
        if _lost_to_another(error):
            raise ConflictError(
                f"database: expected to write alone, found another writer ({_line(error)}); "
                "re-read and decide again"
            ) from error
        if _lacks_rights(error):
            raise UnavailableError(
                f"database: expected the right to read and write its tables, found {_line(error)}; "
                "grant it to the user of [database]url; this changed nothing"
            ) from error
        if _lacks_schema(error):
            raise UnavailableError(
                f"database: expected the schema of this release, found {_line(error)}; "
                "run 'nvme-quarantine db upgrade'"
            ) from error
        if "unable to open database file" in _line(error):
            raise UnavailableError(
                "database: expected a record, found no file to read and write at [database]url; "
                "make it by 'nvme-quarantine db upgrade' as the service's user, or correct the URL"
            ) from error
        if doing.commits:
            raise UnfinishedError(
                f"database: expected an answer to a commit, found {_line(error)}; whether it was "
                "made is not known: look again first"
            ) from error
        raise UnavailableError(
            f"database: expected an answer, found {_line(error)}; this changed nothing"
        ) from error


def _lost_to_another(error: exc.SQLAlchemyError) -> bool:
    """Whether the server rolled this transaction back in favour of another.

    PostgreSQL: serialization failure, deadlock. MariaDB: record changed since it was read (1020),
    lock wait timeout, of a row, a table or the whole server (1205), deadlock, which is also what
    Galera says at a commit (1213).
    """
    state, number = _told(error)
    return state in ("40001", "40P01") or number in (1020, 1205, 1213)


def _lacks_rights(error: exc.SQLAlchemyError) -> bool:
    """PostgreSQL: insufficient privilege. MariaDB: access denied to a database (1044), to a command
    on a table (1142) or on a column (1143)."""
    state, number = _told(error)
    return state == "42501" or number in (1044, 1142, 1143)


def _lacks_schema(error: exc.SQLAlchemyError) -> bool:
    """A table or column is not there. MariaDB's driver calls an unknown column (1054)
    operational."""
    _state, number = _told(error)
    missing = isinstance(error, exc.ProgrammingError) or "no such" in _line(error)
    return missing or number == 1054


def _told(error: exc.SQLAlchemyError) -> tuple[str | None, object]:
    """The server's SQLSTATE (PostgreSQL), and the number of its error (MariaDB)."""
    cause = getattr(error, "orig", None)
    number = cause.args[0] if cause is not None and cause.args else None
    return getattr(cause, "sqlstate", None), number


def _line(error: exc.SQLAlchemyError) -> str:
    cause = getattr(error, "orig", None) or error
    return " ".join(str(cause).split())[:200]


def _prepare_sqlite(connection: sqlite3.Connection, _record: Any) -> None:
    # The driver would begin transactions on its own ideas of SQL; we say BEGIN ourselves.
    connection.isolation_level = None
    cursor = connection.cursor()
    try:
        cursor.execute(f"PRAGMA busy_timeout = {int(BUSY_SECONDS * 1000)}")
        _switch_to_wal(cursor)
        # WAL with less than FULL can lose the last commits at a power cut: an order already sent.
        cursor.execute("PRAGMA synchronous = FULL")
        cursor.execute("PRAGMA foreign_keys = ON")
    finally:
        cursor.close()


def _prepare_server(connection: Any, *, unhurried: bool) -> None:
    """Nobody waits for ever for a row that a transaction of others has, which may stand still
    (PostgreSQL has no limit, MariaDB 50 s), for a table or server that others locked for a backup
    (MariaDB: a day, MySQL: a year; 1205 too, and a commit is undone), or for a machine that lost
    its power.

    A PostgreSQL that stands still itself (a stopped process, a disk that hangs) is waited for while
    its machine's kernel acknowledges what we send."""
    is_postgresql = hasattr(connection, "pgconn")
    if is_postgresql:
        # Said for an upgrade too: the server may have a limit of its own for our user.
        settings = [f"SET lock_timeout TO '{0 if unhurried else BUSY_SECONDS:g}s'"]
        descriptor = connection.fileno()
        connection.add_notice_handler(_warned)
    else:
        settings = [
            f"SET SESSION innodb_lock_wait_timeout = {math.ceil(BUSY_SECONDS)}",
            # MariaDB's own default; a server for OpenStack may have been given another one.
            "SET SESSION TRANSACTION ISOLATION LEVEL REPEATABLE READ",
        ]
        if not unhurried:
            settings.append(f"SET SESSION lock_wait_timeout = {math.ceil(BUSY_SECONDS)}")
        descriptor = connection._sock.fileno()  # PyMySQL has no option for it
    with connection.cursor() as cursor:
        for setting in settings:
            cursor.execute(setting)
        if not is_postgresql:
            cursor.execute(IN_CLUSTER)
            if (row := cursor.fetchone()) is not None and row[1] == "ON":
                # What one node of Galera committed another shows a moment later, unless it is told
                # to wait. The safety pass would find a slot on offer that is being given back, and
                # not the line that says so: an honest drive would be reserved, with an alarm.
                cursor.execute("SET SESSION wsrep_sync_wait = 1")
    connection.commit()
    # A copy of the descriptor: the end of this block must not close the connection.
    with socket.socket(fileno=os.dup(descriptor)) as line:
        if line.family in (socket.AF_INET, socket.AF_INET6):
            # An idle line: two probes after a third of the time each, and it is given up. One with
            # data on its way is not probed by Linux; TCP_USER_TIMEOUT is for that.
            line.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
            line.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, SILENT_SECONDS // 3)
            line.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, SILENT_SECONDS // 3)
            line.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPCNT, 2)
            line.setsockopt(
                socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, round(SILENT_SECONDS * 1000)
            )


def _switch_to_wal(cursor: sqlite3.Cursor) -> None:
    # The very first switch needs the file alone and does not wait for others by itself.
    deadline = time.monotonic() + BUSY_SECONDS
    while True:
        try:
            cursor.execute("PRAGMA journal_mode = WAL")
            return
        except sqlite3.OperationalError as error:
            if "locked" not in str(error) or time.monotonic() > deadline:
                raise
            time.sleep(0.02)


def _begin_sqlite(connection: sa.Connection) -> None:
    # IMMEDIATE takes the write lock before the first read: a transaction that reads first and
    # writes later would fail with "database is locked" at once, whatever the timeout.
    writes = connection.get_execution_options().get("writes", False)
    connection.exec_driver_sql("BEGIN IMMEDIATE" if writes else "BEGIN")
