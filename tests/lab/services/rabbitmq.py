"""A real RabbitMQ on loopback, of Debian's packages unpacked into the cache: nothing is installed.

Its own port mapper (epmd), cookie and database, so that it meets no other Erlang of the machine.
"""

from __future__ import annotations

import contextlib
import os
import platform
import shutil
import socket
import subprocess
from pathlib import Path
from typing import Final

from tests.lab.errors import LabError
from tests.lab.guest.cache import Cache, digest
from tests.lab.services.process import ServiceProcess, free_port

PACKAGES: Final = (
    "rabbitmq-server",
    "erlang-asn1",
    "erlang-base",
    "erlang-crypto",
    "erlang-eldap",
    "erlang-inets",
    "erlang-mnesia",
    "erlang-os-mon",
    "erlang-parsetools",
    "erlang-public-key",
    "erlang-runtime-tools",
    "erlang-ssl",
    "erlang-syntax-tools",
    "erlang-tools",
    "erlang-xmerl",
)
"""The server and what it loads at run time; the libraries of C are those of any Debian 12."""

_COOKIE: Final = "lab"
_STARTED: Final = "Server startup complete"


def unpacked(cache: Cache | None = None) -> Path:
    """The root directory of the packages, downloaded with apt once. Raises ``LabError``."""
    release = platform.freedesktop_os_release().get("VERSION_CODENAME", "")
    return (cache or Cache()).entry("rabbitmq", digest((*PACKAGES, release)), _build)


def _build(part: Path) -> None:
    debs = part / "debs"
    debs.mkdir()
    fetch = ["apt-get", "download", "-qq", *PACKAGES]
    done = subprocess.run(fetch, cwd=debs, capture_output=True, text=True)
    if done.returncode:
        subprocess.run(["apt-get", "update", "-qq"], capture_output=True)
        done = subprocess.run(fetch, cwd=debs, capture_output=True, text=True)
    if done.returncode:
        raise LabError(f"expected apt-get to fetch RabbitMQ's packages: {done.stderr.strip()}")
    for deb in debs.iterdir():
        subprocess.run(["dpkg", "-x", deb, part], check=True)
    shutil.rmtree(debs)


class _Mapper(ServiceProcess):
    """Erlang's port mapper: names of nodes to ports; in the foreground, so that it ends with us."""

    def __init__(self, programs: Path, port: int, directory: Path) -> None:
        super().__init__(
            "epmd",
            [str(programs / "epmd"), "-port", str(port), "-address", "127.0.0.1"],
            directory / "epmd.log",
            lambda: _listens(port),
        )


class RabbitServer(ServiceProcess):
    """``url`` (for oslo.messaging) and what is on disk stay the same over restarts.

    What Nova queues is not durable by default: a restart of the server forgets it, as in a cloud.
    """

    def __init__(self, directory: Path) -> None:
        root = unpacked()
        directory.mkdir(parents=True, exist_ok=True)
        cookie = directory / ".erlang.cookie"
        cookie.write_text(_COOKIE)
        cookie.chmod(0o400)
        (directory / "plugins").write_text("[].\n")
        (directory / "rabbitmq.conf").write_text("loopback_users = none\n")
        self.port = free_port()
        self.url = f"rabbit://guest:guest@127.0.0.1:{self.port}/"
        erlang = root / "usr/lib/erlang"
        programs = next(erlang.glob("erts-*/bin"))
        home = next((root / "usr/lib/rabbitmq/lib").glob("rabbitmq_server-*"))
        mapper = free_port()
        self._mapper = _Mapper(programs, mapper, directory)
        env = {
            "PATH": os.environ["PATH"],
            "HOME": str(directory),
            "LANG": "C.UTF-8",
            # What the start script ``erl`` sets; it has Debian's own directory written into it.
            "ROOTDIR": str(erlang),
            "BINDIR": str(programs),
            "EMU": "beam",
            "PROGNAME": "erl",
            "ERL_LIBS": str(home / "plugins"),
            "ERL_EPMD_PORT": str(mapper),
            "ERL_EPMD_ADDRESS": "127.0.0.1",
            "ERL_MAX_ETS_TABLES": "50000",
            "RABBITMQ_HOME": str(home),
            "RABBITMQ_PLUGINS_DIR": str(home / "plugins"),
            "RABBITMQ_NODENAME": f"lab{self.port}@localhost",
            "RABBITMQ_NODE_IP_ADDRESS": "127.0.0.1",
            "RABBITMQ_NODE_PORT": str(self.port),
            "RABBITMQ_DIST_PORT": str(free_port()),
            "RABBITMQ_MNESIA_BASE": str(directory / "mnesia"),
            "RABBITMQ_LOG_BASE": str(directory),
            "RABBITMQ_LOGS": "-",
            "RABBITMQ_CONFIG_FILE": str(directory / "rabbitmq.conf"),
            "RABBITMQ_CONF_ENV_FILE": str(directory / "none"),
            "RABBITMQ_ENABLED_PLUGINS_FILE": str(directory / "plugins"),
            "RABBITMQ_GENERATED_CONFIG_DIR": str(directory / "generated"),
        }
        super().__init__("rabbitmq", _argv(programs), directory / "rabbitmq.log", self._up, env=env)

    def start(self) -> None:
        """Start, with the port mapper before it."""
        with contextlib.suppress(OSError):
            # What an earlier run said is no sign of this one.
            self.log.rename(self.log.with_suffix(".old"))
        self._mapper.start()
        super().start()

    def stop(self, *, kill: bool = False) -> None:
        """End both; with ``kill`` neither gets the chance to say goodbye."""
        super().stop(kill=kill)
        self._mapper.stop(kill=kill)

    def _up(self) -> bool:
        return _listens(self.port) and _STARTED in self.log.read_text(errors="replace")


def _argv(programs: Path) -> list[str]:
    """What Debian's start script passes (``sbin/rabbitmq-server``), with idle waits that sleep."""
    return [
        str(programs / "erlexec"),
        *("-noinput", "-s", "rabbit", "boot", "-boot", "start_sasl", "+W", "w", "+B", "i"),
        *("+P", "1048576", "+t", "5000000"),
        *("+sbwt", "none", "+sbwtdcpu", "none", "+sbwtdio", "none"),
        *("-syslog", "logger", "[]", "-syslog", "syslog_error_logger", "false"),
        *("-kernel", "prevent_overlapping_partitions", "false"),
        *("-kernel", "inet_dist_use_interface", "{127,0,0,1}"),
    ]


def _listens(port: int) -> bool:
    with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=1):
        return True
    return False
