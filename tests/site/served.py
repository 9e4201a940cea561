"""The simulated Placement behind HTTP, for tests that drive openstacksdk and the fault proxy."""

from __future__ import annotations

import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Final, Self

from tests.site.placement import Placement

_VERSIONS: Final = {
    "versions": [
        {
            "id": "v1.0",
            "min_version": "1.0",
            "max_version": "1.39",
            "status": "CURRENT",
            "links": [{"rel": "self", "href": ""}],
        }
    ]
}


class SimulatedPlacementServer:
    """On loopback at ``url``. It answers one request at a time, as the simulated one expects."""

    def __init__(self) -> None:
        placement, alone = Placement(), threading.Lock()

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            disable_nagle_algorithm = True
            wbufsize = -1

            def _any(self) -> None:
                text = self.rfile.read(int(self.headers.get("Content-Length") or 0))
                if self.path == "/":
                    self._say(200, _VERSIONS)
                    return
                version = self.headers.get("OpenStack-API-Version", "").rpartition(" ")[2]
                with alone:
                    answer = placement(
                        self.command, self.path, version, json.loads(text) if text else None
                    )
                self._say(answer.status, answer.body)

            def _say(self, status: int, body: Any) -> None:
                content = b"" if status == 204 else json.dumps(body).encode()
                self.send_response(status)
                if status != 204:
                    self.send_header("Content-Type", "application/json")
                    self.send_header("Content-Length", str(len(content)))
                self.end_headers()
                self.wfile.write(content)

            do_GET = do_POST = do_PUT = do_DELETE = _any

            def log_message(self, format: str, *args: object) -> None:
                """Nobody reads it."""

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self._server.block_on_close = False
        self.port = self._server.server_port
        self.url = f"http://127.0.0.1:{self.port}"
        self._thread = threading.Thread(
            target=self._server.serve_forever, args=(0.05,), daemon=True
        )

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()
