"""Questions of lists that a database would answer by reading far more than a page.

None is given statistics of ours: SQLite has none, and guesses by the order of columns.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import sqlalchemy as sa


def asked_of_each(condition: sa.ColumnElement[bool]) -> sa.ColumnElement[bool]:
    """The same condition, by no index: another one leaves few rows, of which this is asked."""
    return sa.case((condition, 1), else_=0) == 1


def in_one_of(key: sa.Column[Any], pages: Iterable[sa.Select[Any]]) -> sa.ColumnElement[bool]:
    """Whether a row is in one of these pages of ``key``, each in the list's own order.

    An index has the rows of one state, or of one code, in the order of a list, and those of several
    in none: of a page of each the first are the list's.
    """
    parts = [sa.select(page.subquery().c[key.name]) for page in pages]
    return key.in_(sa.union_all(*parts)) if parts else sa.false()
