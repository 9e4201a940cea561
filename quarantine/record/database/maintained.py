"""Conditions for queries: which hosts and slots are in maintenance.

They stand here because the totals of all slots need them as well as the maintenances themselves.
"""

from __future__ import annotations

from datetime import datetime

import sqlalchemy as sa

from quarantine.record.database import models
from quarantine.record.words.clock import CLOCKS_APART


def in_effect(
    now: datetime, host: sa.ColumnElement[str], address: sa.ColumnElement[str] | None = None
) -> sa.ColumnElement[bool]:
    """Within a query: whether that host is in maintenance, or with an address that slot."""
    table = models.maintenances.alias()
    whole = table.c.address == ""
    return sa.exists().where(
        *present(table, now),
        table.c.host == host,
        whole if address is None else sa.or_(whole, table.c.address == address),
    )


def present(table: sa.FromClause, now: datetime) -> tuple[sa.ColumnElement[bool], ...]:
    """Of the table of maintenances, or its alias: the last word about a subject, and as
    :meth:`Maintenance.lasts`."""
    later = models.maintenances.alias()
    return (
        table.c.until > now,
        table.c.at <= now + CLOCKS_APART,
        ~sa.exists().where(
            later.c.host == table.c.host,
            later.c.address == table.c.address,
            later.c.version > table.c.version,
        ),
    )
