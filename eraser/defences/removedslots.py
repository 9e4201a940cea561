"""Slots that a person took from host-setup (``--fewer``): their word that these are none now.

The gate's book, and the orders, go on knowing them.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from eraser.state import hostcard, notes


@dataclass(frozen=True)
class Drop:
    """One such slot."""

    address: str
    order: str
    """Digest of its newest order then; empty without one. A newer order makes it a slot again."""


@dataclass(frozen=True)
class Drops:
    """All that stand, by address."""

    slots: tuple[Drop, ...] = ()

    def covers(self, state_dir: Path, address: str) -> bool:
        """What is known of the slot is from before that word. Raises ``OSError``."""
        return any(
            each.address == address and each.order == _order(state_dir, address)
            for each in self.slots
        )

    def renewed(self, state_dir: Path, given: Iterable[str], dropped: Iterable[str]) -> Drops:
        """Without those that are ``given`` to host-setup, and with what it ``dropped``.

        Raises ``OSError``.
        """
        stand = {each.address: each for each in self.slots}
        stand |= {each: Drop(each, _order(state_dir, each)) for each in dropped}
        named = set(given)
        return Drops(tuple(stand[each] for each in sorted(stand) if each not in named))


def _order(state_dir: Path, address: str) -> str:
    try:
        return hashlib.sha256(hostcard.order_file(state_dir, address).read_bytes()).hexdigest()
    except FileNotFoundError:
        return ""


def drops_file(state_dir: Path) -> Path:
    """Where they are kept."""
    return state_dir / "gate" / "no-slots.json"


def save(state_dir: Path, drops: Drops) -> None:
    """Raises ``OSError``."""
    notes.save(drops_file(state_dir), drops)


def load(state_dir: Path) -> Drops:
    """None of them where nobody dropped any, or an earlier release did.

    Raises :class:`BadInputError`.
    """
    return notes.load(drops_file(state_dir), Drops())
