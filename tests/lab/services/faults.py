"""A reverse proxy in front of a service that answers wrongly, late or not at all, on demand.

A fault names the requests that it hits (method and a pattern on the path) and for how many of them
it lasts. ``after=True`` lets the request through first and spoils only the answer: the change is
made, the caller never learns it.
"""

from __future__ import annotations

import http.client
import re
import socketserver
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from enum import StrEnum
from http.server import BaseHTTPRequestHandler
from typing import Final, Self

_HOP_BY_HOP: Final = {"connection", "keep-alive", "transfer-encoding", "content-length", "date"}


class Kind(StrEnum):
    """What happens to a request that a fault hits."""

    STATUS = "status"
    """The proxy answers by itself with ``Fault.status``."""
    CLOSE = "close"
    """The connection is closed without one byte of an answer."""
    HANG = "hang"
    """No answer, no close, until the proxy is healed or stopped."""
    CALL = "call"
    """``Fault.call`` runs first, then the request goes through: for races."""


@dataclass
class Fault:
    """One wrong behaviour; ``left`` counts down, ``None`` lasts until healed."""

    kind: Kind
    method: str = ".*"
    path: str = ".*"
    status: int = 500
    after: bool = False
    left: int | None = None
    call: Callable[[], None] | None = None
    hits: int = 0
    healed: threading.Event = field(default_factory=threading.Event)

    def wants(self, method: str, path: str) -> bool:
        """Whether the fault is to be applied to this request."""
        return (
            self.left != 0
            and re.fullmatch(self.method, method) is not None
            and re.search(self.path, path) is not None
        )


class FaultProxy:
    """``url`` is what the client is given; ``requests`` lists every (method, path) that came."""

    def __init__(self, target_port: int) -> None:
        self._target_port = target_port
        self._faults: list[Fault] = []
        self._lock = threading.Lock()
        self.requests: list[tuple[str, str]] = []
        proxy = self

        class Handler(_Handler):
            owner = proxy

        self._server = _Server(("127.0.0.1", 0), Handler)
        self.port = int(self._server.server_address[1])
        self.url = f"http://127.0.0.1:{self.port}"
        self._thread = threading.Thread(
            target=self._server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True
        )

    def inject(self, fault: Fault) -> Fault:
        """Switch a fault on."""
        with self._lock:
            self._faults.append(fault)
        return fault

    def heal(self) -> None:
        """Switch every fault off; requests that hang are closed."""
        with self._lock:
            faults, self._faults = self._faults, []
        for fault in faults:
            fault.healed.set()

    def changes(self) -> list[tuple[str, str]]:
        """The requests so far that were meant to change something."""
        return [request for request in self.requests if request[0] != "GET"]

    def pick(self, method: str, path: str) -> Fault | None:
        """The first fault for this request, counted down."""
        with self._lock:
            self.requests.append((method, path))
            for fault in self._faults:
                if fault.wants(method, path):
                    fault.hits += 1
                    if fault.left is not None:
                        fault.left -= 1
                    return fault
        return None

    def forward(
        self, method: str, path: str, headers: dict[str, str], body: bytes
    ) -> tuple[int, list[tuple[str, str]], bytes]:
        """Ask the real service."""
        connection = http.client.HTTPConnection("127.0.0.1", self._target_port, timeout=60)
        try:
            connection.request(method, path, body=body, headers=headers)
            answer = connection.getresponse()
            return answer.status, answer.getheaders(), answer.read()
        finally:
            connection.close()

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.heal()
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


class _Server(socketserver.ThreadingTCPServer):
    daemon_threads = True
    allow_reuse_address = True
    request_queue_size = 64
    # Joining would wait for keep-alive connections that the client holds open.
    block_on_close = False


class _Handler(BaseHTTPRequestHandler):
    owner: FaultProxy
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True

    def _serve(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        fault = self.owner.pick(self.command, self.path)
        if fault is None:
            self._pass_on(body)
        elif fault.kind is Kind.CALL:
            if fault.call is not None:
                fault.call()
            self._pass_on(body)
        else:
            if fault.after:
                self._ask(body)
            self._spoil(fault)

    do_GET = do_PUT = do_POST = do_DELETE = _serve

    def _ask(self, body: bytes) -> tuple[int, list[tuple[str, str]], bytes]:
        headers = {k: v for k, v in self.headers.items() if k.lower() not in _HOP_BY_HOP}
        return self.owner.forward(self.command, self.path, headers, body)

    def _pass_on(self, body: bytes) -> None:
        try:
            status, headers, answer = self._ask(body)
        except OSError:
            # The service is down: to the client that is a connection that breaks.
            self.close_connection = True
            return
        self._answer(status, headers, answer)

    def _answer(self, status: int, headers: list[tuple[str, str]], answer: bytes) -> None:
        self.send_response(status)
        for name, value in headers:
            if name.lower() not in _HOP_BY_HOP:
                self.send_header(name, value)
        if status != 204:
            self.send_header("Content-Length", str(len(answer)))
        self.end_headers()
        self.wfile.write(answer)

    def _spoil(self, fault: Fault) -> None:
        if fault.kind is Kind.STATUS:
            detail = b'{"errors": [{"status": %d, "detail": "injected fault", "title": "fault"}]}'
            headers = [("Content-Type", "application/json")]
            self._answer(fault.status, headers, detail % fault.status)
            return
        if fault.kind is Kind.HANG:
            fault.healed.wait(timeout=600)
        self.close_connection = True

    def log_message(self, format: str, *args: object) -> None:
        """``FaultProxy.requests`` is the log."""
