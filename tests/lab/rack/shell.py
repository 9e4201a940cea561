"""A terminal in a guest, over its agent: what is typed goes in, what its shell says comes out."""

import contextlib
import json
import os
import select
import signal
import socket
import sys
import termios
import tty
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Final, Protocol

from tests.lab.errors import GuestError, LabError
from tests.lab.guest.agent import Answer, decode, encode
from tests.lab.guest.commands import GRACE_S

LEAVE: Final = b"\x1d"
"""Ctrl-], as with telnet: out of the shell, whatever it does."""
_END_OF_FILE: Final = b"\x04"
_LOOK_S: Final = 0.05
_END_S: Final = 1.0
_CHUNK: Final = 1 << 16
ATTACH: Final = "attach"
"""The file in a rack's directory that names the socket by which its guests are reached."""

_PROGRAM: Final = """
import os, pty, sys
os.dup2(os.open(sys.argv[1], os.O_RDWR), 0)
sys.exit(os.waitstatus_to_exitcode(pty.spawn(["/bin/bash", "-i"])))
"""
_HELD: Final = 'sleep 1000000 <>"$1" & exec /usr/bin/python3 -c "$0" "$1"'
"""The pipe is read for ever: keys that come after the shell has ended keep nobody waiting."""


class Reached(Protocol):
    """A guest whose agent answers."""

    name: str

    def request(self, operation: str, *, timeout: float, **fields: object) -> Answer:
        """Asks its agent. Raises ``GuestError``."""


def interact(guest: Reached) -> int | None:
    """Runs a shell in the guest until it ends or is left; its exit code, None where it was left.

    Raises ``GuestError`` when the guest dies.
    """
    stem = f"/run/lab/shell-{uuid.uuid4().hex[:8]}"
    output, keys = f"{stem}.out", f"{stem}.in"
    made = ["/bin/sh", "-c", f"mkdir -p /run/lab && mkfifo {keys}"]
    guest.request("run", timeout=GRACE_S, argv=made, stdin="", limit=GRACE_S, env={})
    pid = guest.request(
        "spawn",
        timeout=GRACE_S,
        argv=["/bin/sh", "-c", _HELD, _PROGRAM, keys],
        env={"TERM": os.environ.get("TERM", "dumb"), "HOME": "/root"},
        stdout=output,
        stderr=output,
    )["pid"]
    shown = 0
    with _raw(sys.stdin.fileno()):
        typed: bytes | None = b""
        while True:
            code: int | None = guest.request("poll", timeout=GRACE_S, pid=pid)["rc"]
            while said := _said(guest, output, shown):
                shown += len(said)
                sys.stdout.buffer.write(said)
                sys.stdout.buffer.flush()
            if code is not None:
                return code
            if typed is None:
                # Again and again: one that comes before the shell reads keys by itself is lost.
                select.select([], [], [], _END_S)
            else:
                typed = _typed()
            if typed is not None and LEAVE in typed:
                guest.request(
                    "signal", timeout=GRACE_S, pid=pid, signal=int(signal.SIGKILL), group=True
                )
                return None
            if typed != b"":
                data = encode(_END_OF_FILE if typed is None else typed)
                guest.request("put", timeout=GRACE_S, path=keys, data=data, append=True)


def _said(guest: Reached, path: str, offset: int) -> bytes:
    return decode(
        guest.request("get", timeout=GRACE_S, path=path, offset=offset, size=_CHUNK)["data"]
    )


def _typed() -> bytes | None:
    """What was typed in a moment; None at the end of the input."""
    ready, _, _ = select.select([sys.stdin.fileno()], [], [], _LOOK_S)
    if not ready:
        return b""
    return os.read(sys.stdin.fileno(), 1024) or None


@contextlib.contextmanager
def _raw(terminal: int) -> Iterator[None]:
    """Every key goes to the guest, Ctrl-C too; what is typed there is echoed there."""
    if not os.isatty(terminal):
        yield
        return
    before = termios.tcgetattr(terminal)
    tty.setraw(terminal)
    try:
        yield
    finally:
        termios.tcsetattr(terminal, termios.TCSADRAIN, before)


# Guests of another process


def serve(guests: dict[str, Reached], directory: Path, place: Path) -> None:
    """Lets one visitor ask the guests' agents, and returns when that one has left.

    ``directory`` is what the visitor names; ``place`` is short enough for a socket.
    """
    path = place / ATTACH
    with socket.socket(socket.AF_UNIX) as door:
        door.bind(str(path))
        door.listen(1)
        (directory / ATTACH).write_text(f"{path}\n")
        try:
            visitor, _ = door.accept()
            with visitor, visitor.makefile("rw", encoding="utf-8") as line:
                line.write(json.dumps(sorted(guests)) + "\n")
                line.flush()
                with contextlib.suppress(BrokenPipeError):
                    for question in line:
                        line.write(json.dumps(_answer(guests, json.loads(question))) + "\n")
                        line.flush()
        finally:
            (directory / ATTACH).unlink()
            path.unlink()


def _answer(guests: dict[str, Reached], asked: Answer) -> Answer:
    try:
        guest, operation = guests[asked.pop("guest")], asked.pop("operation")
        return {"answer": guest.request(operation, timeout=asked.pop("timeout"), **asked)}
    except GuestError as error:
        return {"error": str(error)}


class Attached:
    """A guest that another process keeps: ``serve`` is on the other side."""

    def __init__(self, directory: Path, name: str | None = None) -> None:
        """Raises ``LabError`` where nobody serves that guest."""
        try:
            path = (directory / ATTACH).read_text().strip()
            self._socket = socket.socket(socket.AF_UNIX)
            self._socket.connect(path)
        except OSError as error:
            raise LabError(
                f"expected a rack that is kept in {directory} ({error}); "
                "run the test with --keep, and attach while it waits"
            ) from error
        self._line = self._socket.makefile("rw", encoding="utf-8")
        names = json.loads(self._line.readline())
        if name is not None and name not in names:
            raise LabError(f"expected one of the guests {', '.join(names)}, found {name}")
        self.name: str = names[0] if name is None else name
        self.others = [each for each in names if each != self.name]

    def request(self, operation: str, *, timeout: float, **fields: object) -> Answer:
        """Asks its agent. Raises ``GuestError``."""
        asked = {"guest": self.name, "operation": operation, "timeout": timeout, **fields}
        self._line.write(json.dumps(asked) + "\n")
        self._line.flush()
        line = self._line.readline()
        if not line:
            raise GuestError("the process that kept the guest is gone")
        found: Answer = json.loads(line)
        if "error" in found:
            raise GuestError(str(found["error"]))
        answer: Answer = found["answer"]
        return answer

    def close(self) -> None:
        """Leaves: what was kept is ended."""
        self._line.close()
        self._socket.close()
