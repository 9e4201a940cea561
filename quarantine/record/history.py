"""What happened: to one slot, to the slots of a host, to all. Lines are only ever added."""

from __future__ import annotations

import logging
from typing import Any, Final

import sqlalchemy as sa

from eraser.protocol.identity import Slot
from quarantine.record.database import models, rows
from quarantine.record.database.base import Repository
from quarantine.record.database.damaged import readable, told, whole
from quarantine.record.database.paging import asked_of_each
from quarantine.record.words.facts import HistoryRow
from quarantine.record.words.states import Event
from quarantine.record.words.texts import storable

LOG = logging.getLogger(__name__)

_SLOTS = models.slots
_HISTORY = models.history
_COLUMNS: Final = (*_HISTORY.c, _SLOTS.c.host, _SLOTS.c.address)
_LINES: Final = sa.select(*_COLUMNS).join(_SLOTS, _SLOTS.c.id == _HISTORY.c.slot_id)

_MOST: Final = 2**31 - 1

MENTIONS = 1000
"""Lines of history in one answer."""


class HistoryRepository(Repository):
    """The life of slots, as it was written down."""

    def history(self, slot: Slot, generation: int | None = None) -> list[HistoryRow]:
        """The slot's life, or one case of it, oldest line first. Evidence reads it: a damaged line
        is an error here, and not as if it had never been written. Raises ``UnreadableError``."""
        query = _LINES.where(_SLOTS.c.host == slot.host, _SLOTS.c.address == slot.address).order_by(
            _HISTORY.c.seq
        )
        if generation is not None:
            # What is no case's number may have been this one's.
            number = _HISTORY.c.generation.between(0, _MOST)
            query = query.where(sa.or_(_HISTORY.c.generation == generation, sa.not_(number)))
        with self._reading() as db, told(f"history of {slot}"):
            return _strictly(db, query)

    def mentions(self, text: str) -> list[HistoryRow]:
        """Lines of any slot's history whose reason has ``text`` in it, oldest first.

        For a uuid in an operator's question; at most :data:`MENTIONS`, the newest. Evidence reads
        it: raises ``UnreadableError`` as :meth:`history` does.
        """
        query = (
            _LINES.where(_HISTORY.c.reason.contains(text, autoescape=True))
            .order_by(_HISTORY.c.seq.desc())
            .limit(MENTIONS)
        )
        with self._reading() as db, told("history"):
            return _strictly(db, query)[::-1]

    def history_page(
        self, slot: Slot, *, limit: int, after: int = 0
    ) -> tuple[list[HistoryRow], int | None]:
        """Lines of a slot's life behind the revision ``after``, oldest first, and the revision that
        the next page is behind: lines that cannot be read are left out, and are no end."""
        of_slot = (_SLOTS.c.host == slot.host, _SLOTS.c.address == slot.address)
        behind = (
            sa.select(_HISTORY.c.revision)
            .join(_SLOTS, _SLOTS.c.id == _HISTORY.c.slot_id)
            .where(*of_slot, _HISTORY.c.revision > after)
            .order_by(_HISTORY.c.revision)
            .limit(limit)
        )
        with self._reading() as db:
            numbers = db.execute(behind).scalars().all()
            found = _LINES.where(*of_slot, _HISTORY.c.revision.in_(numbers))
            lines = _lines(db, found.order_by(_HISTORY.c.revision))
        # A damaged number is behind all others, and no place to go on behind.
        last = max((one for one in numbers if isinstance(one, int)), default=None)
        return lines, last if len(numbers) == limit else None

    def newest_history(self, slot: Slot, limit: int) -> list[HistoryRow]:
        """The last lines of a slot's life, oldest first: what somebody looks at again and again."""
        query = (
            _LINES.where(_SLOTS.c.host == slot.host, _SLOTS.c.address == slot.address)
            .order_by(_HISTORY.c.revision.desc())
            .limit(limit)
        )
        with self._reading() as db:
            return _lines(db, query)[::-1]

    def fleet_history(
        self,
        *,
        limit: int,
        before: int | None = None,
        host: str | None = None,
        event: Event | None = None,
    ) -> tuple[list[HistoryRow], int | None]:
        """Lines of all slots before the line ``before``, the newest first, and the line that the
        next page is before: lines that cannot be read are left out, and are no end."""
        query, is_event = sa.select(_HISTORY.c.seq), _HISTORY.c.event == event
        if before is not None:
            query = query.where(_HISTORY.c.seq < before)
        if event is not None:
            query = query.where(is_event if host is None else asked_of_each(is_event))
        with self._reading() as db:
            if host is not None:
                of_host = sa.select(_SLOTS.c.id).where(_SLOTS.c.host == storable(host))
                query = query.where(_HISTORY.c.slot_id.in_(db.execute(of_host).scalars().all()))
            newest = query.order_by(_HISTORY.c.seq.desc()).limit(limit)
            numbers = db.execute(newest).scalars().all()
            lines = _LINES.where(_HISTORY.c.seq.in_(numbers)).order_by(_HISTORY.c.seq.desc())
            found = _lines(db, lines)
        return found, numbers[-1] if len(numbers) == limit else None


def _strictly(db: sa.Connection, query: sa.Select[Any]) -> list[HistoryRow]:
    """For evidence. Raises ``ValueError`` and others for a damaged line."""
    fits = whole(_COLUMNS)
    found = db.execute(query).mappings().all()
    for row in found:
        if not fits(tuple(row.values())):
            raise ValueError(f"line {row['seq']}: a column has what it cannot have")
    return rows.history_rows(found)


def _lines(db: sa.Connection, query: sa.Select[Any]) -> list[HistoryRow]:
    """Those that can be read, for people to look at."""
    names = [column.name for column in _COLUMNS]
    lines: list[HistoryRow] = []
    for values in readable(db, query, _COLUMNS, _HISTORY.c.seq):
        row = dict(zip(names, values, strict=True))
        word = row["event"]
        if rows.is_of_another_release(word):
            # Its states say what it did; left out, a slot would seem to have skipped a step.
            row |= {"event": None, "reason": f"{word} (of another release): {row['reason']}"}
        try:
            line = rows.history_row(row)
        except (ValueError, RecursionError) as error:
            LOG.warning("history line %s cannot be read: %s", row["seq"], error)
            continue
        lines.append(line)
    return lines
