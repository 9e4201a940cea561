"""A private PostgreSQL cluster: its own files, a Unix socket, an unprivileged user, no service."""

from __future__ import annotations

import contextlib
import os
import pwd
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Final, Self

import psycopg
from psycopg import sql

from tests.lab.errors import LabError
from tests.lab.services.process import ServiceProcess, wait_until

_USER: Final = "postgres"
"""Made by Debian's package. PostgreSQL refuses to run as root."""

_ROLE: Final = "quarantine"
_INSTALLED: Final = Path("/usr/lib/postgresql")
_INITDB_SECONDS: Final = 120.0


class Postgresql:
    """``with Postgresql() as server: server.new_database("name")`` gives a URL.

    It lives in a directory of its own in /tmp: the unprivileged user cannot enter a test's private
    one, and a socket's path must stay below 108 bytes.
    """

    def __init__(self) -> None:
        self._bin = _binaries()
        self._as_user = _drop_privileges()
        self._root: Path | None = None
        self._server: ServiceProcess | None = None

    def start(self) -> None:
        """Make the cluster and serve it. Raises ``LabError``."""
        self._root = Path(tempfile.mkdtemp(prefix="nvq-pg-"))
        try:
            if self._as_user:
                shutil.chown(self._root, _USER, pwd.getpwnam(_USER).pw_gid)
            self._make_cluster(self._root)
            self._server = self._serve(self._root)
        except BaseException:
            self.stop()
            raise

    def stop(self) -> None:
        """End the server and remove every file of it."""
        if self._server is not None and _lives(self._server):
            self.down()
        self._server = None
        root, self._root = self._root, None
        if root is not None:
            shutil.rmtree(root)

    def new_database(self, name: str) -> str:
        """An empty database, as a URL for SQLAlchemy."""
        with psycopg.connect(self._dsn("postgres"), autocommit=True) as connection:
            connection.execute(sql.SQL("CREATE DATABASE {}").format(sql.Identifier(name)))
        return f"postgresql://{_ROLE}@/{name}?host={self._root}"

    def reader(self, name: str) -> str:
        """The URL of a role that may read a database's tables and do nothing else."""
        reader = f"reader_of_{name}"
        with psycopg.connect(self._dsn(name), autocommit=True) as connection:
            role = sql.Identifier(reader)
            connection.execute(sql.SQL("CREATE ROLE {} LOGIN").format(role))
            connection.execute(
                sql.SQL("GRANT SELECT ON ALL TABLES IN SCHEMA public TO {}").format(role)
            )
        return f"postgresql://{reader}@/{name}?host={self._root}"

    @contextlib.contextmanager
    def standby_missing(self) -> Iterator[None]:
        """Meanwhile each commit waits for a synchronous standby that there is not."""
        self._set("synchronous_standby_names", "nobody")
        try:
            yield
        finally:
            self._set("synchronous_standby_names", "")

    def _set(self, option: str, value: str) -> None:
        with psycopg.connect(self._dsn("postgres"), autocommit=True) as connection:
            connection.execute(
                sql.SQL("ALTER SYSTEM SET {} = {}").format(
                    sql.Identifier(option), sql.Literal(value)
                )
            )
            connection.execute("SELECT pg_reload_conf()")

        def is_set() -> bool:
            with psycopg.connect(self._dsn("postgres"), autocommit=True) as connection:
                row = connection.execute("SELECT current_setting(%s)", [option]).fetchone()
            return row == (value,)

        wait_until(is_set, f"the PostgreSQL server to have {option} = {value!r}")

    @property
    def pid(self) -> int:
        """The server's process; its connections' are its children. Raises ``LabError``."""
        return self._running().pid

    def down(self) -> None:
        """End the server, its clients cut off; its data stay."""
        server = self._running()
        # SIGINT is PostgreSQL's fast shutdown; SIGTERM would wait for every client to leave.
        os.kill(server.pid, signal.SIGINT)
        wait_until(lambda: not _lives(server), "the PostgreSQL server to end")
        server.stop()

    def up(self) -> None:
        """Serve the same data again."""
        self._running().start()

    def _running(self) -> ServiceProcess:
        if self._server is None:
            raise LabError("expected the PostgreSQL server to run, it was not started")
        return self._server

    def _make_cluster(self, root: Path) -> None:
        argv = [
            *self._as_user,
            str(self._bin / "initdb"),
            *("--pgdata", str(root / "data")),
            *("--username", _ROLE, "--auth", "trust"),
            *("--encoding", "UTF8", "--locale", "C.UTF-8", "--no-sync"),
        ]
        done = subprocess.run(
            argv, capture_output=True, text=True, check=False, cwd=root, timeout=_INITDB_SECONDS
        )
        if done.returncode != 0:
            raise LabError(f"initdb ended with {done.returncode}: {done.stderr.strip()}")

    def _serve(self, root: Path) -> ServiceProcess:
        server = ServiceProcess(
            "postgresql",
            [
                *self._as_user,
                str(self._bin / "postgres"),
                *("-D", str(root / "data"), "-k", str(root)),
                *("-c", "listen_addresses="),
                # Nothing here survives the test anyway.
                *("-c", "fsync=off"),
            ],
            root / "log",
            self._answers,
            env={"PATH": os.environ["PATH"], "LC_ALL": "C.UTF-8"},
        )
        server.start()
        return server

    def _answers(self) -> bool:
        try:
            psycopg.connect(self._dsn("postgres"), connect_timeout=2).close()
        except psycopg.OperationalError:
            return False
        return True

    def _dsn(self, database: str) -> str:
        if self._root is None:
            raise LabError("expected the PostgreSQL server to run, it was not started")
        return f"host={self._root} user={_ROLE} dbname={database}"

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()


def _lives(server: ServiceProcess) -> bool:
    try:
        return server.pid > 0
    except LabError:
        return False


def _binaries() -> Path:
    """The newest installed version's programs."""
    found = [path.parent for path in _INSTALLED.glob("*/bin/initdb")]
    if not found:
        raise LabError(
            f"expected PostgreSQL in {_INSTALLED}, found none: install Debian's package postgresql"
        )
    return max(found, key=lambda path: int(path.parent.name))


def _drop_privileges() -> list[str]:
    if os.geteuid() != 0:
        return []
    try:
        pwd.getpwnam(_USER)
    except KeyError as error:
        raise LabError(
            f"expected a user {_USER}, found none: install Debian's package postgresql"
        ) from error
    # Changing the user clears the wish to die with us, so it is made again afterwards.
    return [
        "setpriv",
        *(f"--reuid={_USER}", f"--regid={_USER}", "--clear-groups", "--pdeathsig", "KILL", "--"),
    ]
