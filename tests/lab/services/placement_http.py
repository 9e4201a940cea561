"""A bare HTTP client for Placement, for the stand-in and for tests: no openstacksdk, no retries."""

from __future__ import annotations

import http.client
import json
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit


@dataclass(frozen=True)
class Answer:
    """A status and the decoded body (an empty dict for an empty one)."""

    status: int
    body: Any


class PlacementHttp:
    """One connection per request: it survives restarts of the server."""

    def __init__(self, url: str) -> None:
        self._netloc = urlsplit(url).netloc

    def __call__(self, method: str, path: str, version: str, body: object = None) -> Answer:
        """Ask at that microversion as admin. Raises ``OSError`` when nobody answers."""
        connection = http.client.HTTPConnection(self._netloc, timeout=60)
        headers = {
            "X-Auth-Token": "admin",
            "Accept": "application/json",
            "Content-Type": "application/json",
            "OpenStack-API-Version": f"placement {version}",
        }
        try:
            encoded = None if body is None else json.dumps(body)
            connection.request(method, path, body=encoded, headers=headers)
            answer = connection.getresponse()
            text = answer.read()
            return Answer(answer.status, json.loads(text) if text else {})
        finally:
            connection.close()
