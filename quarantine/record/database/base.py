"""What every room of the store shares: the engine and our clock."""

from __future__ import annotations

import contextlib

import sqlalchemy as sa

from quarantine.doors import Clock, utc_now
from quarantine.record.database import engine as door


class Repository:
    """A part of the store. All parts share one engine and one clock."""

    def __init__(self, engine: sa.Engine, clock: Clock = utc_now) -> None:
        self._engine = engine
        self._clock = clock

    def _reading(self) -> contextlib.AbstractContextManager[sa.Connection]:
        return door.reading(self._engine)

    def _writing(self) -> contextlib.AbstractContextManager[sa.Connection]:
        return door.writing(self._engine)
