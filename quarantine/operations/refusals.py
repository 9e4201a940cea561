"""Messages that were refused, and alarms about drives."""

from __future__ import annotations

from quarantine.operations.plane import Plane
from quarantine.record.facts import Refusal as Refusal


def find(plane: Plane, *, host: str | None = None) -> tuple[Refusal, ...]:
    """Those of a host, or all; oldest first. Raises ``UnavailableError``."""
    with plane.parts() as parts:
        return tuple(parts.store.refusals(host=host))


def page(
    plane: Plane, *, limit: int, after: int = 0, host: str | None = None
) -> tuple[Refusal, ...]:
    """Those behind the id ``after``, oldest first. Raises ``UnavailableError``."""
    with plane.parts() as parts:
        return tuple(parts.store.refusal_page(limit=limit, after=after, host=host))
