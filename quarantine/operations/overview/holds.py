"""How many slots are held, and for what."""

from __future__ import annotations

from dataclasses import dataclass

from quarantine.operations.plane import Plane
from quarantine.rules import holds


@dataclass(frozen=True)
class HeldCount:
    """The slots that are held for one kind of reason."""

    code: str
    """``older`` for those of a release without codes."""
    slots: int
    why: str
    remedy: str


def count(plane: Plane) -> tuple[HeldCount, ...]:
    """Held slots by the code of their reason, most first. Raises ``UnavailableError``."""
    with plane.parts() as parts:
        codes = holds.counted(parts.store.held_by_code())
    found = [(code, slots, holds.meaning(code)) for code, slots in codes.items()]
    return tuple(HeldCount(code, slots, kind.why, kind.remedy) for code, slots, kind in found)
