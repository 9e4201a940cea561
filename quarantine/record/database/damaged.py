"""Rows that cannot be read: one of them ends no list and no count of the others.

SQLite keeps whatever was written into a column, an older driver or a hand on the file too.
"""

from __future__ import annotations

import contextlib
import functools
import logging
import math
from collections.abc import Callable, Iterator, Sequence
from datetime import datetime
from typing import Any, Final

import sqlalchemy as sa
from sqlalchemy import exc

from quarantine.errors import UnreadableError
from quarantine.record.database import models

LOG = logging.getLogger(__name__)

UNREADABLE: Final = (
    *(ValueError, TypeError, OverflowError),
    *(exc.DataError, exc.OperationalError),
)
"""What a damaged row raises; a database that is away too, see :func:`of_the_row`."""


def of_the_row(error: Exception) -> bool:
    """Not of a database that is away; SQLite's driver calls text that is no UTF-8 operational."""
    return not isinstance(error, exc.OperationalError) or "decode" in str(error.orig)


@contextlib.contextmanager
def told(what: str) -> Iterator[None]:
    """What is read meanwhile stands in evidence: a damaged row is an error, which says so of
    ``what``. Raises :class:`UnreadableError`."""
    try:
        yield
    except (*UNREADABLE, RecursionError) as error:
        if not of_the_row(error):
            raise
        why = str(error).partition("\n")[0]
        raise UnreadableError(
            f"{what}: expected what can be read, found a damaged row ({why}); restore the record "
            "from a backup"
        ) from error


CHUNK: Final = 500
"""Rows of one question, where one of all of them cannot be read."""


def separately(
    db: sa.Connection, query: sa.Select[Any], key: sa.Column[Any]
) -> Iterator[tuple[Any, sa.RowMapping | None, str]]:
    """The rows of a query; of one that cannot be read its ``key``, None, and why.

    Halved until the damaged one is alone: one of very many costs one more reading of all.
    """
    try:
        found = db.execute(query).mappings().all()
    except UNREADABLE as error:
        if not of_the_row(error):
            raise
    else:
        yield from ((None, row, "") for row in found)
        return
    places = db.execute(query.with_only_columns(place_of(key))).scalars().all()
    for start in range(0, len(places), CHUNK):
        yield from _halved(db, query, key, places[start : start + CHUNK])


def _halved(
    db: sa.Connection, query: sa.Select[Any], key: sa.Column[Any], places: Sequence[Any]
) -> Iterator[tuple[Any, sa.RowMapping | None, str]]:
    # They are a page's already: cut once more, its second half would be missing.
    those = query.where(place_of(key).in_(places)).limit(None).offset(None)
    try:
        found = db.execute(those).mappings().all()
    except UNREADABLE as error:
        if not of_the_row(error):
            raise
        if len(places) == 1:
            why = str(error).partition("\n")[0]
            place = _shown(places[0])
            _tell(str(key.table), place, why)
            yield place, None, why
            return
    else:
        yield from ((None, row, "") for row in found)
        return
    half = len(places) // 2
    yield from _halved(db, query, key, places[:half])
    yield from _halved(db, query, key, places[half:])


def place_of(key: sa.Column[Any]) -> sa.ColumnElement[Any]:
    """What tells rows apart also where that is what is damaged: bytes can be read of any text."""
    return sa.cast(key, sa.LargeBinary) if isinstance(key.type, sa.String) else key


def counted(
    db: sa.Connection, query: sa.Select[Any], *texts: sa.ColumnElement[str]
) -> list[tuple[Any, ...]]:
    """The rows of a query that counts by ``texts``, but for what has a text that cannot be read:
    the database counts, so one damaged row would cost all numbers."""
    try:
        return [tuple(row) for row in db.execute(query)]
    except UNREADABLE as error:
        if not of_the_row(error):
            raise
    for text in texts:
        raw = sa.cast(text, sa.LargeBinary)
        bad = [one for one in db.execute(sa.select(raw).distinct()).scalars() if not _is_text(one)]
        for one in bad:
            _tell(str(text), _shown(one), "it is no text")
        query = query.where(sa.or_(raw.is_(None), raw.not_in(bad)))
    return [tuple(row) for row in db.execute(query)]


def _is_text(raw: bytes | None) -> bool:
    try:
        return raw is None or raw.decode() is not None
    except UnicodeDecodeError:
        return False


def _shown(place: object) -> object:
    return place.decode("utf-8", "replace") if isinstance(place, bytes) else place


@functools.lru_cache(maxsize=1024)
def _tell(table: str, place: object, why: str) -> None:
    """Once in a process: passes read such a row again and again."""
    LOG.warning("%s: row %s cannot be read: %s", table, place, why)


@functools.cache
def kind(column: sa.Column[Any]) -> type:
    """What a value of a column is in Python."""
    return datetime if isinstance(column.type, models.UtcDateTime) else column.type.python_type


def fits(column: sa.Column[Any], value: Any) -> bool:
    """Whether a value is what its column says; no JSON has infinity."""
    if value is None:
        return bool(column.nullable)
    if kind(column) is float:
        return isinstance(value, int | float) and math.isfinite(value)
    return isinstance(value, kind(column))


def whole(columns: Sequence[sa.Column[Any]]) -> Callable[[Sequence[Any]], bool]:
    """Whether a row of these columns fits in each: as :func:`fits` says, for rows by the ten
    thousand."""
    kinds = [
        (
            kind(one),
            *((int,) if kind(one) is float else ()),
            *((type(None),) if one.nullable else ()),
        )
        for one in columns
    ]
    floats = [place for place, one in enumerate(columns) if kind(one) is float]

    def is_whole(row: Sequence[Any]) -> bool:
        return all(map(isinstance, row, kinds)) and all(
            row[place] is None or math.isfinite(row[place]) for place in floats
        )

    return is_whole


def readable(
    db: sa.Connection,
    query: sa.Select[Any],
    columns: Sequence[sa.Column[Any]],
    key: sa.Column[Any],
) -> list[tuple[Any, ...]]:
    """The rows of a query of ``columns``, but for damaged ones; ``key`` tells its rows apart."""
    try:
        found = [tuple(row) for row in db.execute(query)]
    except UNREADABLE as error:
        if not of_the_row(error):
            raise
        found = []
        place = place_of(key)
        for each in db.execute(query.with_only_columns(place)).scalars().all():
            try:
                found += [tuple(row) for row in db.execute(query.where(place == each))]
            except UNREADABLE as why:
                if not of_the_row(why):
                    raise
                _tell(str(key.table), _shown(each), str(why).partition("\n")[0])
    is_whole = whole(columns)
    for row in found:
        if not is_whole(row):
            damaged = [
                one.name for one, value in zip(columns, row, strict=True) if not fits(one, value)
            ]
            _tell(str(key.table), row[0], f"damaged: {', '.join(damaged)}")
    return list(filter(is_whole, found))
