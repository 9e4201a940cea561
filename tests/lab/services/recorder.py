"""What somebody asks of Placement, as shapes that two programs can be compared by.

A shape is the method, the path, the microversion and the body with every name of this run replaced
by its part in the play: ``{drive}`` for a PCI device's provider, ``{host}`` for a compute host's,
``{server}`` and ``{consumer}`` (a migration) for who holds something. Of the values only those stay
that mean something.

:data:`SAMPLE` holds what the real Nova 34.0.0 asks for each thing that it does with a drive. It is
written, and checked to be current, by ``tests/nova/test_record_placement.py``; the stand-in is
held against it by ``tests/services/test_nova_standin.py``.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final
from urllib.parse import parse_qsl, urlsplit

from tests.lab.services.faults import FaultProxy
from tests.lab.services.placement_http import PlacementHttp

SAMPLE: Final = Path(__file__).with_name("samples") / "nova-34-placement.json"

_UUID: Final = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")
_TELLING: Final = frozenset({"reserved", "total", "max_unit", "consumer_type", "traits"})
"""Members whose value is a part of the shape."""

_DEFAULT_VERSION: Final = "1.0"
"""What Placement takes a request without a microversion for."""


@dataclass(frozen=True)
class Shape:
    """One request, comparable over runs and programs."""

    method: str
    path: str
    version: str
    body: str
    """Canonical JSON; empty without a body."""

    def __str__(self) -> str:
        return f"{self.method} {self.path} @{self.version} {self.body}".rstrip()


def decisive(shapes: Iterable[Shape]) -> list[str]:
    """What two programs must have in common, in order: every write, and the question what is free.

    Left out are the other reads, which depend on what Nova has in its cache, and what it writes
    about a compute host's own inventory and traits.
    """
    return [
        str(shape)
        for shape in shapes
        if (shape.method != "GET" or shape.path.startswith("/allocation_candidates"))
        and not shape.path.startswith("/resource_providers/{host}/")
    ]


@dataclass(frozen=True)
class _Request:
    method: str
    path: str
    version: str
    body: Any


class Recorder(FaultProxy):
    """A proxy that remembers every request; ``shapes`` translates those since ``start``."""

    def __init__(self, target_port: int) -> None:
        super().__init__(target_port)
        self._heard: list[_Request] = []
        self._direct = PlacementHttp(f"http://127.0.0.1:{target_port}")
        self._roles: dict[str, str] = {}

    def forward(
        self, method: str, path: str, headers: dict[str, str], body: bytes
    ) -> tuple[int, list[tuple[str, str]], bytes]:
        """Notes the request on its way."""
        lower = {name.lower(): value for name, value in headers.items()}
        version = lower.get("openstack-api-version", _DEFAULT_VERSION).rpartition(" ")[2]
        self._heard.append(_Request(method, path, version, json.loads(body) if body else None))
        answer = super().forward(method, path, headers, body)
        self._learn()
        return answer

    def start(self) -> None:
        """Forget what was heard so far; who is who is remembered."""
        self._heard.clear()

    def shapes(self, *servers: str) -> list[Shape]:
        """The requests since ``start``, in order; ``servers`` are the ids that Nova gave."""
        roles = self._roles | {server: "{server}" for server in servers}
        return [_shape(request, roles) for request in self._heard]

    def _learn(self) -> None:
        """Who is who: providers with a parent are drives. Asked past the proxy."""
        answer = self._direct("GET", "/resource_providers", "1.39")
        for row in answer.body["resource_providers"]:
            child = row["parent_provider_uuid"] is not None
            self._roles[row["uuid"]] = "{drive}" if child else "{host}"
            self._roles[row["name"]] = "{drive name}" if child else "{host name}"


def _shape(request: _Request, roles: dict[str, str]) -> Shape:
    parts = urlsplit(request.path)
    path = "/".join(_name(part, roles) for part in parts.path.split("/"))
    query = sorted({_parameter(key, value, roles) for key, value in parse_qsl(parts.query)})
    if query:
        path += "?" + "&".join(query)
    body = request.body
    text = "" if body is None else json.dumps(_body(body, roles), sort_keys=True)
    return Shape(request.method, path, request.version, text)


def _name(text: str, roles: dict[str, str]) -> str:
    if text in roles:
        return roles[text]
    if _UUID.fullmatch(text):
        return "{consumer}"
    # A granular group is named after a request for a device and a number.
    return "{group}" if _UUID.match(text) else text


def _parameter(key: str, value: str, roles: dict[str, str]) -> str:
    for prefix in ("resources", "required"):
        if key != prefix and key.startswith(prefix):
            key = f"{prefix}{{group}}"
    return f"{key}={_name(value, roles)}"


def _body(value: Any, roles: dict[str, str], key: str = "") -> Any:
    if isinstance(value, dict):
        return {_name(k, roles): _body(v, roles, k) for k, v in value.items()}
    if isinstance(value, list):
        return sorted(_body(v, roles, key) for v in value)
    if key in _TELLING or value is None:
        return value
    if isinstance(value, str):
        return roles.get(value, "text")
    return "number"
