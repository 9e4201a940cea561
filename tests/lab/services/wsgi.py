"""Serve a WSGI application on loopback, one thread per request."""

from __future__ import annotations

import socketserver
from typing import Any, Final
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer, make_server

_HOST: Final = "127.0.0.1"


class _Handler(WSGIRequestHandler):
    # Without this each answer waits for the client's delayed ACK: 40 ms per request.
    wbufsize = -1

    def log_message(self, format: str, *args: object) -> None:
        """The applications write their own request logs; a second one helps nobody."""


class _Server(socketserver.ThreadingMixIn, WSGIServer):
    daemon_threads = True
    request_queue_size = 64

    def server_bind(self) -> None:
        # WSGIServer asks the resolver for our own name, which hangs where there is no DNS.
        socketserver.TCPServer.server_bind(self)
        self.server_name, self.server_port = _HOST, int(self.server_address[1])
        self.setup_environ()


def listen(application: Any, port: int) -> WSGIServer:
    """A server that is bound and serves when its caller lets it."""
    return make_server(_HOST, port, application, _Server, _Handler)


def serve(application: Any, port: int) -> None:
    """Serve until killed."""
    with listen(application, port) as server:
        server.serve_forever()
