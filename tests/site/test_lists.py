"""The simulated lists keep what Redis promises (``tests/services`` asks that)."""

from __future__ import annotations

import pytest

from eraser.protocol import inbound
from eraser.protocol.inbound import MessageKind
from tests.site.broker import Broker, Message
from tests.site.lists import Lists
from tests.site.listscontract import HOST, Door, ListsContract
from tests.site.world import World


class Simulated:
    """A broker of a site in which nothing else happens."""

    def __init__(self) -> None:
        self._world = World(1)
        self._broker = Broker(self._world, self._world.chance("broker"))
        self.lists = Lists(self._broker, lambda kind, host: inbound.key(MessageKind(kind), host))

    def push(self, kind: MessageKind, text: str) -> None:
        payload = {"host": HOST, "address": text} if kind is MessageKind.BELL else text
        self.lists.push(Message(HOST, kind.value, payload))

    def let_pass(self, seconds: float) -> None:
        self._world.run(self._world.now + seconds)


class TestSimulated(ListsContract):
    @pytest.fixture
    def door(self) -> Door:
        return Simulated()
