"""A real redis-server on loopback, in memory only, that can be killed and come back."""

from __future__ import annotations

import shutil
from pathlib import Path

import redis
from redis.backoff import NoBackoff
from redis.retry import Retry

from tests.lab.errors import LabError
from tests.lab.services.process import ServiceProcess, free_port


class RedisServer(ServiceProcess):
    """``url`` stays the same over restarts; the content does not (nothing is written to disk).

    With ``accounts``, only those of ``acl_file`` get in; it must be there before the start. With
    ``certificate``, a file with the key as well, it speaks TLS alone, and ``url`` says localhost.
    """

    def __init__(
        self, directory: Path, *, accounts: bool = False, certificate: Path | None = None
    ) -> None:
        program = shutil.which("redis-server")
        if program is None:
            raise LabError(
                "expected redis-server on PATH, found none: apt-get install redis-server"
            )
        self.port = free_port()
        self.url = f"redis://127.0.0.1:{self.port}/0"
        self._certificate = certificate
        directory.mkdir(parents=True, exist_ok=True)
        self.directory = directory
        self.acl_file = directory / "users.acl"
        argv = [program, "--bind", "127.0.0.1", "--save", ""]
        if certificate is None:
            argv += ["--port", str(self.port)]
        else:
            self.url = f"rediss://localhost:{self.port}/0"
            argv += ["--port", "0", "--tls-port", str(self.port), "--tls-auth-clients", "no"]
            for option in ("--tls-cert-file", "--tls-key-file", "--tls-ca-cert-file"):
                argv += [option, str(certificate)]
        argv += ["--appendonly", "no", "--dir", str(directory), "--daemonize", "no"]
        argv += ["--proto-max-bulk-len", "16mb"]
        if accounts:
            argv += ["--aclfile", str(self.acl_file)]
        super().__init__("redis-server", argv, directory / "redis.log", self._answers)

    def client(self, account: str | None = None, password: str | None = None) -> redis.Redis:
        """A client that gives up quickly; the caller closes it."""
        return redis.Redis(
            "127.0.0.1",
            self.port,
            username=account,
            password=password,
            socket_timeout=5,
            socket_connect_timeout=5,
            # By itself it tries ten times more, with pauses that grow: 4 s where a server starts.
            retry=Retry(NoBackoff(), 0),
            protocol=2,
            ssl=self._certificate is not None,
            ssl_ca_certs=None if self._certificate is None else str(self._certificate),
            ssl_check_hostname=False,  # it is asked by its address here
        )

    def url_of(self, account: str, password: str) -> str:
        """``url`` for an account."""
        return self.url.replace("://", f"://{account}:{password}@")

    def _answers(self) -> bool:
        try:
            with self.client() as client:
                return bool(client.ping())
        except redis.AuthenticationError:
            return True  # it knows nobody without a name
        except redis.RedisError:
            return False
