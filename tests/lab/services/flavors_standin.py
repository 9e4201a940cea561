"""A stand-in for nova-api's flavors on loopback: it is not Nova, it keeps a dictionary.

Answers have the shape of Nova's own samples (``nova/tests/functional/api_sample_tests/api_samples``
of Nova 34: ``flavor-manage/v2.75``, ``flavors/v2.75``, ``flavor-extra-specs``), errors that of its
fault wrapper. ``tests/nova/test_flavors.py`` holds the same commands against the real one.
"""

from __future__ import annotations

import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Final, Self
from urllib.parse import parse_qs, urlsplit

_ROOT: Final = "/v2.1"


class FlavorsStandIn:
    """``url`` is the compute endpoint; ``flavors`` is what it has; ``writes`` what it was told."""

    def __init__(self, *, page: int = 2) -> None:
        """``page`` is Nova's ``[api]max_limit``."""
        self.flavors: dict[str, dict[str, Any]] = {}
        self.writes: list[tuple[str, str]] = []
        self.version = "2.104"
        self.broken_after: int | None = None
        """Writes that are still answered; then 503."""
        self._page = page
        stand_in = self

        class Handler(BaseHTTPRequestHandler):
            def _any(self) -> None:
                raw = self.rfile.read(int(self.headers.get("Content-Length") or 0))
                body = json.loads(raw) if raw else {}
                status, answer = stand_in._answer(self.command, self.path, body)
                text = json.dumps(answer).encode()
                self.send_response(status)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(text)))
                self.end_headers()
                self.wfile.write(text)

            do_GET = do_POST = _any

            def log_message(self, format: str, *args: object) -> None:
                """Nobody reads it."""

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_port}{_ROOT}"
        self._thread = threading.Thread(
            target=self._server.serve_forever, args=(0.02,), daemon=True
        )

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()

    def add(self, name: str, vcpus: int, ram: int, disk: int, specs: dict[str, str]) -> None:
        """A flavor that somebody made before."""
        self.flavors[name] = {
            "id": f"id-{name}",
            "name": name,
            "vcpus": vcpus,
            "ram": ram,
            "disk": disk,
            "OS-FLV-EXT-DATA:ephemeral": 0,
            "swap": 0,
            "rxtx_factor": 1.0,
            "os-flavor-access:is_public": True,
            "OS-FLV-DISABLED:disabled": False,
            "description": None,
            "links": [],
            "extra_specs": specs,
        }

    def _answer(self, method: str, path: str, body: dict[str, Any]) -> tuple[int, dict[str, Any]]:
        parts = urlsplit(path)
        where = parts.path.removeprefix(_ROOT).rstrip("/")
        if (method, where) == ("GET", ""):
            links = [{"rel": "self", "href": f"{self.url}/"}]
            shown = {"id": "v2.1", "status": "CURRENT", "min_version": "2.1", "links": links}
            return 200, {"version": {**shown, "version": self.version}}
        if (method, where) == ("GET", "/flavors/detail"):
            return 200, {"flavors": self._listed(parse_qs(parts.query))}
        if method != "POST":
            return 404, {"itemNotFound": {"code": 404, "message": "Not found."}}
        if self.broken_after is not None:
            if not self.broken_after:
                return 503, {"serviceUnavailable": {"code": 503, "message": "Try again later."}}
            self.broken_after -= 1
        self.writes.append((method, where))
        if where == "/flavors":
            return self._created(body["flavor"])
        for flavor in self.flavors.values():
            if where == f"/flavors/{flavor['id']}/os-extra_specs":
                flavor["extra_specs"] |= body["extra_specs"]
                return 200, {"extra_specs": flavor["extra_specs"]}
        return 404, {"itemNotFound": {"code": 404, "message": "Flavor could not be found."}}

    def _listed(self, query: dict[str, list[str]]) -> list[dict[str, Any]]:
        rows = list(self.flavors.values())
        if query.get("is_public") != ["None"]:
            rows = [row for row in rows if row["os-flavor-access:is_public"]]
        if "marker" in query:
            ids = [row["id"] for row in rows]
            rows = rows[ids.index(query["marker"][0]) + 1 :]
        return rows[: min(self._page, int(query.get("limit", ["1000"])[0]))]

    def _created(self, wanted: dict[str, Any]) -> tuple[int, dict[str, Any]]:
        if wanted["name"] in self.flavors:
            message = f"Flavor with name {wanted['name']} already exists."
            return 409, {"conflictingRequest": {"code": 409, "message": message}}
        self.add(wanted["name"], wanted["vcpus"], wanted["ram"], wanted["disk"], {})
        return 200, {"flavor": self.flavors[wanted["name"]]}
