"""What happened in the whole fleet, the last first."""

from __future__ import annotations

from quarantine.operations.plane import Plane
from quarantine.record.words.facts import HistoryRow as HistoryRow
from quarantine.record.words.states import Event as Event


def page(
    plane: Plane,
    *,
    limit: int,
    before: int | None = None,
    host: str | None = None,
    event: Event | None = None,
) -> tuple[tuple[HistoryRow, ...], int | None]:
    """Lines before the line numbered ``before``, and the number to go on before; None at the end.

    Raises ``UnavailableError``.
    """
    with plane.parts() as parts:
        lines, more = parts.store.fleet_history(limit=limit, before=before, host=host, event=event)
        return tuple(lines), more
