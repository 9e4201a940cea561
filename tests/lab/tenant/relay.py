"""Ansible's way into a guest: its connection plugin talks to this relay, the relay to the agent.

One request and one answer per connection, each a line of JSON; bytes travel as base64.
"""

import base64
import json
import socketserver
import threading
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

from tests.lab.errors import LabError
from tests.lab.guest.vm import Guest

_COMMAND_S: Final = 900.0


class Relay:
    """A unix socket in front of one guest, while the context lasts."""

    def __init__(self, guest: Guest, path: Path) -> None:
        self.path = path

        class Handler(socketserver.StreamRequestHandler):
            def handle(self) -> None:
                request = json.loads(self.rfile.readline())
                try:
                    answer = _perform(guest, request)
                except LabError as error:
                    answer = {"error": str(error)}
                self.wfile.write((json.dumps(answer) + "\n").encode())

        self._server = socketserver.ThreadingUnixStreamServer(str(path), Handler)
        self._thread = threading.Thread(
            target=self._server.serve_forever, args=(0.02,), daemon=True
        )

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()
        self.path.unlink(missing_ok=True)


def _perform(guest: Guest, request: dict[str, Any]) -> dict[str, Any]:
    match request["op"]:
        case "run":
            done = guest.run(
                ["/bin/sh", "-c", request["command"]],
                stdin=base64.b64decode(request["stdin"]),
                timeout=_COMMAND_S,
                check=False,
            )
            return {
                "code": done.returncode,
                "out": base64.b64encode(done.raw).decode(),
                "err": base64.b64encode(done.raw_errors).decode(),
            }
        case "put":
            guest.put(request["path"], base64.b64decode(request["data"]))
            return {}
        case "get":
            return {"data": base64.b64encode(guest.get(request["path"])).decode()}
    raise LabError(f"expected run, put or get, got {request['op']!r}")
