"""A server of WSGI as its own processes, and what they used, by /proc."""

from __future__ import annotations

import contextlib
import http.client
import os
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

from tests.lab.services.process import ServiceProcess, free_port

_ROOT = Path(__file__).resolve().parents[2]
_TICK = os.sysconf("SC_CLK_TCK")


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


def cpu(top: int) -> float:
    """Seconds that a process and its children used."""
    seconds = 0.0
    for pid in _family(top):
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):
            fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
            seconds += (int(fields[11]) + int(fields[12])) / _TICK
    return seconds


def forget_peak(top: int) -> None:
    """The most memory counts from now on. Raises ``OSError`` for who may not say so."""
    for pid in _family(top):
        Path(f"/proc/{pid}/clear_refs").write_text("5")


def peak_mib(top: int) -> float:
    """The most memory that one process of the family had, since it was forgotten last."""
    found = [0.0]
    for pid in _family(top):
        for line in Path(f"/proc/{pid}/status").read_text().splitlines():
            if line.startswith("VmHWM:"):
                found.append(int(line.split()[1]) / 1024)
    return max(found)


def _family(top: int) -> Iterator[int]:
    """Some of a database's end meanwhile."""
    children: list[int] = []
    with contextlib.suppress(FileNotFoundError, ProcessLookupError):
        for task in Path(f"/proc/{top}/task").iterdir():
            children += map(int, (task / "children").read_text().split())
    yield top
    for child in children:
        yield from _family(child)
