"""Each host's lists at the broker, as the real ``Lists`` shows them to the intake."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from eraser.protocol.inbound import BOUNDS, MessageKind
from quarantine.errors import UnavailableError
from tests.site.broker import Broker, Message

_NAMES = {"ticket_receipt": "receipt"}
"""What a message was called when all of them were Celery's."""


class Lists:
    """In memory; nothing in it while the broker is away or the worker is deaf."""

    def __init__(self, broker: Broker, key: Callable[[str, str], str]) -> None:
        """``key`` gives the list of a kind and a host."""
        self._broker = broker
        self._key = key
        self._entries: dict[str, list[bytes]] = {}
        self._ends: dict[str, float] = {}
        """When a list that is not pushed onto is gone as a whole."""
        broker.deliver = self.push
        broker.forget = self._entries.clear

    def push(self, message: Message) -> None:
        """A message has arrived, with what its host does to the list (``BrokerRedis.push``)."""
        kind = MessageKind(_NAMES.get(message.task, message.task))
        payload = message.payload
        text = payload.get("address") or "" if isinstance(payload, dict) else str(payload)
        name, bound = self._key(kind, message.host), BOUNDS[kind]
        entries = self._of(name)
        entries.append(text.encode())
        if bound.seconds is not None:
            entries[:] = entries[-bound.keep :]
            self._ends[name] = self._broker.now + bound.seconds
        self._broker.arrived.set()

    def full(self, keys: Sequence[str]) -> list[str]:
        self._require()
        return [] if self._deaf else [key for key in keys if self._of(key)]

    def length(self, key: str) -> int:
        self._require()
        return 0 if self._deaf else len(self._of(key))

    def head(self, key: str) -> bytes | None:
        self._require()
        entries = self._of(key)
        return entries[0] if entries and not self._deaf else None

    def tail(self, key: str) -> bytes | None:
        self._require()
        entries = self._of(key)
        return entries[-1] if entries and not self._deaf else None

    def remove(self, key: str, entry: bytes) -> None:
        self._require()
        entries = self._of(key)
        if entry in entries:
            entries.remove(entry)

    def cut(self, key: str, keep: int, *, oldest: bool) -> None:
        self._require()
        entries = self._of(key)
        entries[:] = entries[:keep] if oldest else entries[-keep:]

    def drop(self, key: str) -> None:
        self._require()
        self._entries.pop(key, None)

    def _of(self, key: str) -> list[bytes]:
        """A list as it is now."""
        entries = self._entries.setdefault(key, [])
        if self._broker.now >= self._ends.get(key, float("inf")):
            entries.clear()
        return entries

    @property
    def _deaf(self) -> bool:
        return bool(self._broker.faults.deaf)

    def _require(self) -> None:
        if self._broker.faults.down:
            raise UnavailableError("broker: expected an answer, it is away")
