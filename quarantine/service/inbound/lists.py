"""The lists that hosts push onto (:mod:`eraser.protocol.inbound`), as the control plane reads them.

An entry is looked at, worked on, and only then removed: one that was worked on when the process was
killed is still there. It may be worked on twice, which changes nothing.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Final

from redis import Redis
from redis.exceptions import RedisError, ResponseError

from eraser.protocol.transport.messaging import BrokerRedis
from quarantine.errors import UnavailableError

_CHUNK: Final = 64
"""Keys that one EXISTS asks for: few answers where all is quiet, few questions where it is not."""


class Lists:
    """The door to them. Every method raises :class:`UnavailableError` when Redis is away."""

    def __init__(self, door: BrokerRedis) -> None:
        self._door = door

    def full(self, keys: Sequence[str]) -> list[str]:
        """Those of ``keys`` that exist, in their order."""
        chunks = [keys[at : at + _CHUNK] for at in range(0, len(keys), _CHUNK)]
        with self._client() as client:
            # EXISTS says how many of its keys are there, and not which: those of a group that has
            # one are asked for again, one by one.
            found = _exist(client, chunks)
            asked = [key for chunk in found for key in chunk]
            return [key for (key,) in _exist(client, [[key] for key in asked])]

    def length(self, key: str) -> int:
        """Entries of a list; -1 where the key is no list, which no honest host makes it."""
        with self._client() as client:
            try:
                return int(client.llen(key))
            except ResponseError as error:
                if not str(error).startswith("WRONGTYPE"):
                    raise
                return -1

    def lengths(self, keys: Sequence[str]) -> list[int]:
        """As :meth:`length`, of many at once."""
        with self._client() as client, client.pipeline(transaction=False) as pipe:
            for key in keys:
                pipe.llen(key)
            found = pipe.execute(raise_on_error=False)
            for each in found:
                if isinstance(each, Exception) and not str(each).startswith("WRONGTYPE"):
                    raise each
        return [count if isinstance(count, int) else -1 for count in found]

    def head(self, key: str) -> bytes | None:
        """The entry that its host pushed first."""
        with self._client() as client:
            return _bytes(client.lindex(key, 0))

    def tail(self, key: str) -> bytes | None:
        """The entry that its host pushed last."""
        with self._client() as client:
            return _bytes(client.lindex(key, -1))

    def remove(self, key: str, entry: bytes) -> None:
        """Takes one entry off, which somebody else may have done meanwhile."""
        with self._client() as client:
            client.lrem(key, 1, entry)  # type: ignore[arg-type]

    def cut(self, key: str, keep: int, *, oldest: bool) -> None:
        """Drops all but so many entries of a list: the oldest, or the newest, are kept."""
        with self._client() as client:
            client.ltrim(key, *((0, keep - 1) if oldest else (-keep, -1)))

    def drop(self, key: str) -> None:
        """Removes a key, whatever it is."""
        with self._client() as client:
            client.unlink(key)

    @contextmanager
    def _client(self) -> Iterator[Redis]:
        try:
            yield self._door.client()
        except (RedisError, OSError) as error:
            raise UnavailableError(f"broker: expected an answer, found: {error}") from error


def _exist(client: Redis, groups: Sequence[Sequence[str]]) -> list[Sequence[str]]:
    """The groups of keys of which one exists."""
    with client.pipeline(transaction=False) as pipe:
        for group in groups:
            pipe.exists(*group)
        return [group for group, count in zip(groups, pipe.execute(), strict=True) if count]


def _bytes(found: object) -> bytes | None:
    return found if isinstance(found, bytes) else None
