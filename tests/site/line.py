"""The line from the control plane to Placement and Nova: each request takes time and may fail.

It stands where openstacksdk's proxies stand, so :mod:`quarantine.cloud` runs as it is.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from random import Random
from typing import Any

from tests.lab.services.placement_http import Answer
from tests.site.world import World

Service = Callable[[str, str, str, Any], Answer]


@dataclass
class Weather:
    """How a service answers now; faults set it."""

    latency: float = 0.005
    """Seconds a request, half before it counts and half after."""
    away: int = 0
    """How many reasons there are for 503."""
    empty: int = 0
    """So many of the next lists of all one-time-use devices are empty."""
    lose: float = 0.0
    """Share of the answers to changes that are lost."""
    twice: float = 0.0
    """Share of the changes that a proxy sends twice; the second one's answer is passed on."""


class Response:
    """What ``requests`` would hand out."""

    def __init__(self, answer: Answer) -> None:
        self.status_code = answer.status
        self._body = answer.body
        self.content = b"" if answer.status == 204 else b"{}"

    @cached_property
    def text(self) -> str:
        return json.dumps(self._body)

    def json(self) -> Any:
        return self._body


class Proxy:
    """``Connection.placement`` or ``Connection.compute``."""

    def __init__(self, world: World, service: Service, weather: Weather, chance: Random) -> None:
        self._world = world
        self._service = service
        self._weather = weather
        self._chance = chance
        self.requests = 0

    def request(
        self,
        path: str,
        method: str,
        microversion: str = "",
        json: Any = None,
        **_: Any,
    ) -> Response:
        """One request."""
        weather = self._weather
        self.requests += 1
        self._world.sleep(weather.latency / 2)
        if weather.away:
            self._world.sleep(weather.latency / 2)
            return Response(Answer(503, {"errors": [{"detail": "away"}]}))
        listed = "required=" in path and "resources=" not in path
        if weather.empty and method == "GET" and listed:
            weather.empty -= 1
            answer = Answer(200, {"resource_providers": []})
        else:
            answer = self._service(method, path, microversion, json)
        if method != "GET":
            if weather.twice and self._chance.random() < weather.twice:
                answer = self._service(method, path, microversion, json)
            if weather.lose and self._chance.random() < weather.lose:
                answer = Answer(504, {"errors": [{"detail": "the answer was lost"}]})
        self._world.sleep(weather.latency / 2)
        return Response(answer)


@dataclass
class Connection:
    """openstacksdk's connection."""

    placement: Proxy
    compute: Proxy
