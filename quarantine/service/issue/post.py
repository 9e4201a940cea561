"""The way to a host's queue, as those see it who sign what goes there."""

from __future__ import annotations

from typing import Protocol


class Post(Protocol):
    """Hands a signed message to a host's queue. Raises :class:`BrokerAwayError`."""

    def __call__(self, host: str, token: str) -> None: ...
