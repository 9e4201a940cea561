"""How many slots are held, and for what."""

from __future__ import annotations

from quarantine.record.store import Store
from quarantine.rules import holds


def held_by_code(store: Store) -> dict[str, int]:
    """Held slots by code, most first; those of a release without codes count as ``older``."""
    return holds.counted(store.held_by_code())
