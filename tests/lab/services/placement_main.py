"""Serve the real Placement API (the ``placement`` package) on loopback; run as a process.

Usage: ``OS_PLACEMENT_CONFIG_DIR=DIR python -m tests.lab.services.placement_main PORT``
"""

from __future__ import annotations

import socketserver
import sys
from typing import Final
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer, make_server

_HOST: Final = "127.0.0.1"


class _Handler(WSGIRequestHandler):
    # Without this each answer waits for the client's delayed ACK: 40 ms per request.
    wbufsize = -1

    def log_message(self, format: str, *args: object) -> None:
        """Placement writes its own request log; a second one helps nobody."""


class _Server(socketserver.ThreadingMixIn, WSGIServer):
    daemon_threads = True
    request_queue_size = 64

    def server_bind(self) -> None:
        # WSGIServer asks the resolver for our own name, which hangs where there is no DNS.
        socketserver.TCPServer.server_bind(self)
        self.server_name, self.server_port = _HOST, int(self.server_address[1])
        self.setup_environ()


def main(argv: list[str]) -> int:
    """Serve until killed."""
    from placement.wsgi import init_application

    application = init_application()
    with make_server(_HOST, int(argv[0]), application, _Server, _Handler) as server:
        server.serve_forever()
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
