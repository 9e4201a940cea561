"""A private MariaDB server: its own files, a Unix socket, an unprivileged user, no service."""

from __future__ import annotations

import os
import pwd
import shutil
import signal
import subprocess
import tempfile
from pathlib import Path
from typing import Final, Self

import pymysql

from tests.lab.errors import LabError
from tests.lab.services.process import ServiceProcess, wait_until

_USER: Final = "mysql"
"""Made by Debian's package. MariaDB refuses to run as root unless it is told to."""

_ACCOUNT: Final = "quarantine"
_READER: Final = "reader"
_SERVER: Final = Path("/usr/sbin/mariadbd")
_INSTALL_SECONDS: Final = 120.0


class Mariadb:
    """``with Mariadb() as server: server.new_database("name")`` gives a URL.

    Databases get the character set and collation that Debian's server has by default, as an
    operator's would. The account may do in them what ``GRANT ALL`` gives it, and nothing else.
    """

    def __init__(self) -> None:
        if not _SERVER.exists():
            raise LabError(
                f"expected {_SERVER}, found none: install Debian's package mariadb-server"
            )
        self._root: Path | None = None
        self._server: ServiceProcess | None = None

    def start(self) -> None:
        """Make the data directory and serve it. Raises ``LabError``."""
        self._root = Path(tempfile.mkdtemp(prefix="nvq-maria-"))
        try:
            if os.geteuid() == 0:
                user = _user()
                os.chown(self._root, user.pw_uid, user.pw_gid)
            self._make_data(self._root)
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
        with self._connect() as connection, connection.cursor() as cursor:
            cursor.execute(f"CREATE DATABASE `{name}`")
            cursor.execute(f"CREATE USER IF NOT EXISTS '{_ACCOUNT}'@'localhost'")
            cursor.execute(f"GRANT ALL ON `{name}`.* TO '{_ACCOUNT}'@'localhost'")
        return f"mariadb://{_ACCOUNT}@localhost/{name}?unix_socket={self._socket()}"

    def reader(self, name: str) -> str:
        """The URL of an account that may read a database's tables and do nothing else."""
        with self._connect() as connection, connection.cursor() as cursor:
            cursor.execute(f"CREATE USER IF NOT EXISTS '{_READER}'@'localhost'")
            cursor.execute(f"GRANT SELECT ON `{name}`.* TO '{_READER}'@'localhost'")
        return f"mariadb://{_READER}@localhost/{name}?unix_socket={self._socket()}"

    @property
    def pid(self) -> int:
        """The server's process. Raises ``LabError``."""
        return self._running().pid

    def down(self) -> None:
        """End the server, its clients cut off; its data stay."""
        server = self._running()
        os.kill(server.pid, signal.SIGTERM)
        wait_until(lambda: not _lives(server), "the MariaDB server to end")
        server.stop()

    def up(self) -> None:
        """Serve the same data again."""
        self._running().start()

    def _running(self) -> ServiceProcess:
        if self._server is None:
            raise LabError("expected the MariaDB server to run, it was not started")
        return self._server

    def _make_data(self, root: Path) -> None:
        argv = [
            "mariadb-install-db",
            "--no-defaults",
            f"--datadir={root / 'data'}",
            "--auth-root-authentication-method=normal",
            "--skip-test-db",
            *_as_user(),
        ]
        done = subprocess.run(
            argv, capture_output=True, text=True, check=False, cwd=root, timeout=_INSTALL_SECONDS
        )
        if done.returncode != 0:
            raise LabError(f"mariadb-install-db ended with {done.returncode}: {done.stdout[-500:]}")

    def _serve(self, root: Path) -> ServiceProcess:
        server = ServiceProcess(
            "mariadb",
            [
                str(_SERVER),
                "--no-defaults",
                f"--datadir={root / 'data'}",
                f"--socket={self._socket()}",
                f"--pid-file={root / 'pid'}",
                "--skip-networking",
                # As Debian's own configuration has it.
                "--character-set-server=utf8mb4",
                "--collation-server=utf8mb4_general_ci",
                # As those for OpenStack often have it: not MariaDB's own default.
                "--transaction-isolation=READ-COMMITTED",
                # Nothing here survives the test anyway.
                "--innodb-flush-log-at-trx-commit=0",
                "--innodb-buffer-pool-size=16M",
                *_as_user(),
            ],
            root / "log",
            self._answers,
        )
        server.start()
        return server

    def _answers(self) -> bool:
        try:
            self._connect().close()
        except pymysql.MySQLError:
            return False
        return True

    def _connect(self) -> pymysql.Connection:
        return pymysql.connect(user="root", unix_socket=self._socket(), connect_timeout=2)

    def _socket(self) -> str:
        if self._root is None:
            raise LabError("expected the MariaDB server to run, it was not started")
        return str(self._root / "socket")

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


def _user() -> pwd.struct_passwd:
    try:
        return pwd.getpwnam(_USER)
    except KeyError as error:
        raise LabError(
            f"expected a user {_USER}, found none: install Debian's package mariadb-server"
        ) from error


def _as_user() -> list[str]:
    return [f"--user={_user().pw_name}"] if os.geteuid() == 0 else []
