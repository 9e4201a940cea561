"""Lines of lists from rows, some of which may be damaged: what of one can be read is given, and
which of its columns cannot."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Any, TypeVar

import sqlalchemy as sa

from quarantine.record.database.damaged import (
    UNREADABLE,
    fits,
    kind,
    of_the_row,
    place_of,
    whole,
)

LOG = logging.getLogger(__name__)

L = TypeVar("L")


def lines_of(
    db: sa.Connection,
    cls: Callable[..., L],
    query: sa.Select[Any],
    columns: Sequence[sa.Column[Any]],
    *key: sa.Column[Any],
) -> list[L]:
    """The rows of a page of ``columns``: the members of ``cls`` in their order, but for its last,
    ``damaged``.

    Where one cannot be read, each is read by itself; ``key`` tells the rows of the page apart.
    """
    try:
        found = db.execute(query).all()
    except UNREADABLE as error:
        if not of_the_row(error):
            raise
        where = [place_of(column) for column in key]
        places = db.execute(query.with_only_columns(*where)).all()
        which = [
            [column == word for column, word in zip(where, row, strict=True)] for row in places
        ]
        return [_piecemeal(db, cls, sa.and_(*each), columns) for each in which]
    is_whole = whole(columns)
    return [cls(*row) if is_whole(row) else _mended(cls, row, columns) for row in found]


def _mended(cls: Callable[..., L], row: Sequence[Any], columns: Sequence[sa.Column[Any]]) -> L:
    """A row with what is damaged of it replaced."""
    read, damaged = [], []
    for column, value in zip(columns, row, strict=True):
        is_whole = fits(column, value)
        read.append(value if is_whole else _nothing(column))
        if not is_whole:
            damaged.append(column.name)
    return cls(*read, damaged=tuple(damaged))


def named_page(
    db: sa.Connection,
    cls: Callable[..., L],
    query: sa.Select[Any],
    columns: Sequence[sa.Column[Any]],
    key: Sequence[sa.Column[Any]],
    limit: int | None,
    *names: str,
) -> list[L]:
    """The first ``limit`` rows of a query that have ``names``, by which a list goes on; or all.

    Fewer are the last ones: a row without a name, left out, does not make the list look ended.
    """
    found: list[L] = []
    taken = 0
    while limit is None or len(found) < limit:
        more = None if limit is None else limit - len(found)
        page = lines_of(db, cls, query.limit(more).offset(taken or None), columns, *key)
        found += named(page, *names)
        if more is None or len(page) < more:
            break
        # Counted, since nothing else goes on behind a name that cannot be read.
        taken += len(page)
    return found


def named(found: list[L], *columns: str) -> list[L]:
    """Lines by which a list can go on; the log tells of one whose very name cannot be read."""
    whole = [line for line in found if all(getattr(line, name) for name in columns)]
    for _ in range(len(found) - len(whole)):
        LOG.warning("a row without a name that can be read is left out (%s)", ", ".join(columns))
    return whole


def _piecemeal(
    db: sa.Connection,
    cls: Callable[..., L],
    which: sa.ColumnElement[bool],
    columns: Sequence[sa.Column[Any]],
) -> L:
    """One row, column by column."""
    read: dict[str, Any] = {}
    damaged: list[str] = []
    for column in columns:
        try:
            value = db.execute(sa.select(column).where(which)).scalar()
        except UNREADABLE as error:
            if not of_the_row(error):
                raise
            value = NotImplemented
        is_whole = fits(column, value)
        read[column.name] = value if is_whole else _nothing(column)
        if not is_whole:
            damaged.append(column.name)
    return cls(**read, damaged=tuple(damaged))


def _nothing(column: sa.Column[Any]) -> Any:
    """What stands for a damaged value."""
    made = kind(column)
    return None if column.nullable or made is datetime else made()
