"""What every room of the store shares: the engine, our clock, and text that a database takes."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Final

import sqlalchemy as sa

from quarantine.record import engine as door

Clock = Callable[[], datetime]

CLOCKS_APART: Final = timedelta(seconds=60)
"""The control plane's processes may run on two machines: so far their clocks may be apart. What is
noted of later than that was noted before our clock was set back."""


def utc_now() -> datetime:
    """The control plane's own clock. No other machine's time is ever compared with it."""
    return datetime.now(UTC)


def storable(text: str, limit: int = 4000) -> str:
    """``text`` as every database takes it: no NUL, no lone surrogates, at most ``limit`` long.

    Reasons and excerpts quote drives and hosts, which send what they like; PostgreSQL refuses NUL.
    """
    clean = text.encode("utf-8", "backslashreplace").decode("utf-8").replace("\0", "\\x00")
    return clean if len(clean) <= limit else clean[: limit - 3] + "..."


class Room:
    """A part of the store. All parts share one engine and one clock."""

    def __init__(self, engine: sa.Engine, clock: Clock = utc_now) -> None:
        self._engine = engine
        self._clock = clock

    def _reading(self) -> contextlib.AbstractContextManager[sa.Connection]:
        return door.reading(self._engine)

    def _writing(self) -> contextlib.AbstractContextManager[sa.Connection]:
        return door.writing(self._engine)
