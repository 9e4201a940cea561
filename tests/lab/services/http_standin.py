"""What the stand-ins for Glance and Neutron share: JSON answers on loopback, from threads."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Final, Self

_STATUS: Final = {"GET": 200, "POST": 201, "PATCH": 200, "PUT": 204, "DELETE": 204}


class JsonStandIn:
    """Answers each request with what ``answer`` makes of method and path.

    ``url`` has no slash at its end. What a request brings is read and thrown away.
    """

    def __init__(self, answer: Callable[[str, str], Any]) -> None:
        class Handler(BaseHTTPRequestHandler):
            wbufsize = -1

            def _any(self) -> None:
                self.rfile.read(int(self.headers.get("Content-Length") or 0))
                status = _STATUS[self.command]
                body = (
                    b"" if status == 204 else json.dumps(answer(self.command, self.path)).encode()
                )
                self.send_response(status)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            do_GET = do_POST = do_PATCH = do_PUT = do_DELETE = _any

            def log_message(self, format: str, *args: object) -> None:
                """Nobody reads it."""

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_port}"
        self._thread = threading.Thread(
            target=self._server.serve_forever, args=(0.02,), daemon=True
        )

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()
