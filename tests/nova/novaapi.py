"""The harness's own nova-api over real HTTP on loopback, for the control plane's door to Nova.

Keystone is not there: every request comes from an administrator, as Nova's fixture for its API has
it for its own client (``nova/tests/fixtures/nova.py`` OSAPIFixture).
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from typing import Any

import fixtures
from nova.api import wsgi

from tests.lab.services.wsgi import listen

_ADMINISTRATOR = {
    "HTTP_X_AUTH_USER": "admin",
    "HTTP_X_USER_ID": "admin",
    "HTTP_X_AUTH_PROJECT_ID": "admin",
    "HTTP_X_ROLES": "admin,member,reader",
}


class NovaApi(fixtures.Fixture):
    """Serves on ``port`` while the test runs; Nova's own fixtures must be up."""

    def __init__(self, port: int) -> None:
        super().__init__()
        self._port = port

    def setUp(self) -> None:
        super().setUp()
        application = wsgi.Loader().load_app("osapi_compute")

        def as_administrator(
            environ: dict[str, Any], start_response: Callable[..., Any]
        ) -> Iterable[bytes]:
            answer: Iterable[bytes] = application(environ | _ADMINISTRATOR, start_response)
            return answer

        server = listen(as_administrator, self._port)
        thread = threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True)
        thread.start()
        self.addCleanup(thread.join)
        self.addCleanup(server.server_close)
        self.addCleanup(server.shutdown)
