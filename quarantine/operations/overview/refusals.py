"""Messages of hosts that were refused."""

from __future__ import annotations

from quarantine.operations.plane import Plane
from quarantine.record.messages import RefusalLine as RefusalLine


def page(
    plane: Plane, *, limit: int, after: int = 0, host: str | None = None
) -> tuple[RefusalLine, ...]:
    """Those behind the id ``after``, oldest first. Raises ``UnavailableError``."""
    with plane.parts() as parts:
        return tuple(parts.store.refusal_page(limit=limit, after=after, host=host))
