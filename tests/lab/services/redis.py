"""A real redis-server on loopback, in memory only, that can be killed and come back."""

from __future__ import annotations

import contextlib
import shutil
from pathlib import Path

import redis

from tests.lab.errors import LabError
from tests.lab.services.process import ServiceProcess, free_port


class RedisServer(ServiceProcess):
    """``url`` stays the same over restarts; the content does not (nothing is written to disk)."""

    def __init__(self, directory: Path) -> None:
        program = shutil.which("redis-server")
        if program is None:
            raise LabError(
                "expected redis-server on PATH, found none: apt-get install redis-server"
            )
        self.port = free_port()
        self.url = f"redis://127.0.0.1:{self.port}/0"
        directory.mkdir(parents=True, exist_ok=True)
        argv = [program, "--bind", "127.0.0.1", "--port", str(self.port), "--save", ""]
        argv += ["--appendonly", "no", "--dir", str(directory), "--daemonize", "no"]
        super().__init__("redis-server", argv, directory / "redis.log", self._answers)

    def client(self) -> redis.Redis:
        """A client that gives up quickly; the caller closes it."""
        return redis.Redis(
            "127.0.0.1", self.port, socket_timeout=5, socket_connect_timeout=5, protocol=2
        )

    def _answers(self) -> bool:
        with contextlib.suppress(redis.RedisError), self.client() as client:
            return bool(client.ping())
        return False
