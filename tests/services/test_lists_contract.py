"""The lists of hosts on a real Redis: what the simulated ones of ``tests/site`` are held to."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import pytest

from eraser.protocol.inbound import MessageKind, key
from eraser.protocol.transport.messaging import CONTROL, BrokerRedis, make_app
from quarantine.service.inbound.lists import Lists
from tests.lab.services.redis import RedisServer
from tests.site.listscontract import HOST, Door, ListsContract

pytestmark = pytest.mark.services


class Real:
    """A host and the control plane at one Redis."""

    def __init__(self, server: RedisServer, door: BrokerRedis) -> None:
        self._server, self._door = server, door
        self.lists = Lists(door)

    def push(self, kind: MessageKind, text: str) -> None:
        self._door.push(kind, HOST, text)

    def let_pass(self, seconds: float) -> None:
        """Takes the seconds off what Redis gives each list: nobody waits for them here."""
        with contextlib.closing(self._server.client()) as client:
            for name in (key(kind, HOST) for kind in MessageKind):
                left = client.ttl(name)
                assert isinstance(left, int)
                if left >= 0:
                    client.expire(name, int(left - seconds))


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RedisServer]:
    with RedisServer(tmp_path_factory.mktemp("redis")) as server:
        yield server


class TestReal(ListsContract):
    @pytest.fixture
    def door(self, server: RedisServer) -> Iterator[Door]:
        with contextlib.closing(server.client()) as client:
            client.flushall()
        with make_app(server.url, CONTROL) as app:
            yield Real(server, BrokerRedis(app))
