"""A server of WSGI as its own processes."""

from __future__ import annotations

import http.client
import os
import sys
from collections.abc import Mapping
from pathlib import Path

from tests.lab.services.process import ServiceProcess, free_port

_ROOT = Path(__file__).resolve().parents[3]


class Gunicorn(ServiceProcess):
    """An application, as docs/api.md has it served."""

    def __init__(
        self,
        name: str,
        application: str,
        directory: Path,
        env: Mapping[str, str],
        *,
        workers: int,
        threads: int,
    ) -> None:
        self.port = free_port()
        argv = [sys.executable, "-m", "gunicorn", "--no-control-socket", "--keep-alive", "60"]
        argv += ["--workers", str(workers), "--threads", str(threads), "--timeout", "600"]
        argv += ["--bind", f"127.0.0.1:{self.port}", application]
        said = {**os.environ, "PYTHONPATH": str(_ROOT), **env}
        super().__init__(name, argv, directory / f"{name}.log", self._answers, env=said)

    def _answers(self) -> bool:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        try:
            connection.request("GET", "/")
            return connection.getresponse().status == 200
        except (OSError, http.client.HTTPException):
            return False
        finally:
            connection.close()
