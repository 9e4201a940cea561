"""Each host's lists at the broker, as the real ``Lists`` shows them to the intake."""

from __future__ import annotations

from collections.abc import Callable, Sequence

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
        broker.deliver = self.push
        broker.forget = self._entries.clear

    def push(self, message: Message) -> None:
        """A message has arrived."""
        kind = _NAMES.get(message.task, message.task)
        payload = message.payload
        text = payload.get("address") or "" if isinstance(payload, dict) else str(payload)
        self._entries.setdefault(self._key(kind, message.host), []).append(text.encode())
        self._broker.arrived.set()

    def full(self, keys: Sequence[str]) -> list[str]:
        self._require()
        return [] if self._deaf else [key for key in keys if self._entries.get(key)]

    def length(self, key: str) -> int:
        self._require()
        return 0 if self._deaf else len(self._entries.get(key, ()))

    def head(self, key: str) -> bytes | None:
        self._require()
        entries = self._entries.get(key)
        return entries[0] if entries and not self._deaf else None

    def tail(self, key: str) -> bytes | None:
        self._require()
        entries = self._entries.get(key)
        return entries[-1] if entries and not self._deaf else None

    def remove(self, key: str, entry: bytes) -> None:
        self._require()
        if entry in self._entries.get(key, ()):
            self._entries[key].remove(entry)

    def cut(self, key: str, keep: int, *, oldest: bool) -> None:
        self._require()
        entries = self._entries.get(key, [])
        entries[:] = entries[:keep] if oldest else entries[-keep:]

    def drop(self, key: str) -> None:
        self._entries.pop(key, None)

    @property
    def _deaf(self) -> bool:
        return bool(self._broker.faults.deaf)

    def _require(self) -> None:
        if self._broker.faults.down:
            raise UnavailableError("broker: expected an answer, it is away")
