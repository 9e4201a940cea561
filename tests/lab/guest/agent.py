"""Our end of a guest's command agent: many requests at a time over one virtio serial port."""

import base64
import contextlib
import itertools
import json
import socket
import struct
import threading
from collections.abc import Callable
from concurrent.futures import Future
from concurrent.futures import TimeoutError as FutureTimeout
from pathlib import Path
from typing import Any, TypeVar

from tests.lab.errors import GuestError

Answer = dict[str, Any]
_SLICE_S = 0.25
_SEND_S = 60
_Result = TypeVar("_Result")


class Agent:
    """A connection to the agent. ``alive`` is asked while waiting, so that a dead guest is seen."""

    def __init__(self, path: Path, alive: Callable[[], bool]) -> None:
        self._alive = alive
        self._socket = socket.socket(socket.AF_UNIX)
        # A guest that has stopped to read must not stop us for ever.
        self._socket.setsockopt(
            socket.SOL_SOCKET, socket.SO_SNDTIMEO, struct.pack("ll", _SEND_S, 0)
        )
        self._socket.connect(str(path))
        self._ids = itertools.count(1)
        self._waiting: dict[int, Future[Answer]] = {}
        self._lock = threading.Lock()
        self.hello: Future[str] = Future()
        """The kernel's release, sent when the agent starts (not after a restore)."""
        threading.Thread(target=self._receive, name="agent", daemon=True).start()

    def request(self, operation: str, *, timeout: float, **fields: object) -> Answer:
        """Send a request and return its answer.

        Raises ``GuestError`` when the agent reports an error, does not answer within ``timeout``
        seconds, or when the guest has died.
        """
        number = next(self._ids)
        answer: Future[Answer] = Future()
        message = json.dumps({"id": number, "op": operation, **fields}) + "\n"
        with self._lock:
            self._waiting[number] = answer
            try:
                self._socket.sendall(message.encode())
            except OSError as error:
                raise GuestError(f"the guest is gone, {operation} was not sent: {error}") from error
        try:
            result = self.wait(answer, timeout, operation)
        finally:
            self._waiting.pop(number, None)
        if "error" in result:
            raise GuestError(f"the guest's agent could not {operation}: {result['error']}")
        return result

    def wait(self, future: Future[_Result], timeout: float, what: str) -> _Result:
        """Wait for an answer while the guest lives. Raises ``GuestError``."""
        remaining = timeout
        while True:
            with contextlib.suppress(FutureTimeout):
                return future.result(min(_SLICE_S, max(remaining, 0)))
            remaining -= _SLICE_S
            if not self._alive():
                raise GuestError(f"the guest died during {what}; see its console and qemu.log")
            if remaining <= 0:
                raise GuestError(f"the guest's agent gave no answer to {what} in {timeout:g} s")

    def close(self) -> None:
        """Hang up."""
        with contextlib.suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()

    def _receive(self) -> None:
        pending = b""
        while True:
            try:
                data = self._socket.recv(1 << 18)
            except OSError:
                data = b""
            if not data:
                self._fail_all()
                return
            *lines, pending = (pending + data).split(b"\n")
            for line in lines:
                self._dispatch(json.loads(line))

    def _dispatch(self, message: Answer) -> None:
        if "hello" in message:
            if not self.hello.done():
                self.hello.set_result(str(message["hello"]))
            return
        # An answer that nobody waits for any more belongs to a request that timed out.
        if (future := self._waiting.get(message["id"])) is not None:
            future.set_result(message)

    def _fail_all(self) -> None:
        gone = GuestError("the guest's agent port closed: the guest is gone")
        if not self.hello.done():
            self.hello.set_exception(gone)
        for future in list(self._waiting.values()):
            if not future.done():
                future.set_exception(gone)


def encode(data: bytes) -> str:
    """Return bytes as they travel in a request."""
    return base64.b64encode(data).decode()


def decode(text: str) -> bytes:
    """Return the bytes of an answer's field."""
    return base64.b64decode(text)
