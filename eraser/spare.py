"""A runner that is ready before there is work.

Starting Python and reading our modules takes a few tenths of a second, several in an emulated
guest: more than everything else between a release and the first command at the drive. So the
worker keeps one process that has done this and waits for its orders on its standard input. It is
an ordinary runner otherwise: in a session of its own, and it survives the worker. A spare whose
worker dies reads the end of its input and ends.

``python -m eraser.spare`` is that process.
"""

from __future__ import annotations

import importlib
import json
import logging
import os
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

LOG = logging.getLogger(__name__)

REST_SECONDS = 5.0
"""After a spare was put to work: making the next one at once would only slow it down."""


def open_log(path: Path) -> int:
    """A descriptor that appends to a runner's log."""
    return os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)


class Runners:
    """Starts ``nvme-eraser`` in detached processes; one start in a while takes no time."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._spare: subprocess.Popen[bytes] | None = None
        self._rest_until = clock()

    def prepare(self) -> None:
        """Sees to it that a spare waits, unless one was just taken. Cheap where one does."""
        if self._spare is not None and self._spare.poll() is None:
            return
        if self._clock() < self._rest_until:
            return
        # One that ends by itself must not be made anew without end.
        self._rest_until = self._clock() + REST_SECONDS
        self._spare = subprocess.Popen(
            [sys.executable, "-m", "eraser.spare"],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            start_new_session=True,
        )

    def start(self, arguments: Sequence[str], log: Path) -> subprocess.Popen[bytes]:
        """Runs ``nvme-eraser ARGUMENTS``, everything that it prints appended to ``log``."""
        self._rest_until = self._clock() + REST_SECONDS
        spare, self._spare = self._spare, None
        if spare is not None and spare.poll() is None and _told(spare, arguments, log):
            return spare
        output = open_log(log)
        try:
            return subprocess.Popen(
                [sys.executable, "-m", "eraser.cli", *arguments],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                start_new_session=True,
            )
        finally:
            os.close(output)


def _told(spare: subprocess.Popen[bytes], arguments: Sequence[str], log: Path) -> bool:
    """Whether the spare took the work."""
    if spare.stdin is None:
        return False
    try:
        with spare.stdin as pipe:
            pipe.write(json.dumps([str(log), *arguments]).encode() + b"\n")
    except OSError as error:
        LOG.warning("the spare runner %d is of no use: %s", spare.pid, error)
        # It may have read half a line: never two runners for one case.
        spare.kill()
        return False
    return True


def main() -> int:
    """Waits for one line, a JSON list of the log's path and the arguments; then works."""
    cli = importlib.import_module("eraser.cli")
    importlib.import_module(cli.VERBS["case"][0])  # this is what takes the time
    line = sys.stdin.buffer.readline()
    if not line.endswith(b"\n"):
        return 0  # the worker is gone
    log, *arguments = json.loads(line)
    output = open_log(Path(log))
    nothing = os.open(os.devnull, os.O_RDONLY)
    for source, target in ((nothing, 0), (output, 1), (output, 2)):
        os.dup2(source, target)
    os.close(nothing)
    os.close(output)
    code: int = cli.main(arguments)
    return code


if __name__ == "__main__":
    sys.exit(main())
