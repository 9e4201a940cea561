"""What Placement said of a slot as it went on offer, and whether somebody used it since. Pure.

Only where no gate tells of guests. A server that came and went between two lists, and that Nova
did not reserve the drive for, leaves one trace: a claim moves the provider's generation. So do
writes of inventories and traits, and those leave what they wrote. Placement's handlers count each
of them once (``increment_generation``), and nova-compute writes only what differs
(``ProviderTree.has_inventory_changed``, ``have_traits_changed``). But where it heals an allocation
it moves each provider of its host by two, as two uses do (docs/decisions/moved.md).
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Final

from quarantine.cloud.facts import View

RESHAPED: Final = 3
"""How far giving back moves the generation: ``placement/objects/reshaper.py`` (11.0.1 to 16.0.0)
sets the inventories, replaces the allocations, and sets the inventories again."""

_DIGITS: Final = 16


@dataclass(frozen=True)
class Mark:
    """One moment of a provider that nobody held."""

    generation: int
    stock: str
    """Digest of its inventories."""
    traits: str
    """Digest of its traits."""

    def __str__(self) -> str:
        return f"{self.generation} {self.stock} {self.traits}"

    @classmethod
    def read(cls, text: str | None) -> Mark | None:
        """A stored one; None where there is none, or one that another release wrote."""
        words = (text or "").split()
        if len(words) != 3 or not (words[0].isascii() and words[0].isdigit()):
            return None
        return cls(int(words[0]), words[1], words[2])

    @classmethod
    def of(cls, view: View, traits: Iterable[str]) -> Mark:
        """The provider as it is."""
        stock = sorted(map(repr, view.inventories))
        return cls(view.provider.generation, _digest(stock), _digest(sorted(traits)))

    @classmethod
    def given_back(cls, view: View, traits: Iterable[str]) -> Mark:
        """What it will be once our custody is given back."""
        free = tuple(replace(each, reserved=0) for each in view.inventories)
        mark = cls.of(replace(view, inventories=free), traits)
        return replace(mark, generation=mark.generation + RESHAPED)

    def unexplained(self, now: Mark) -> str:
        """What was written since that neither the inventories nor the traits show; or empty."""
        # Each digest that differs explains one write. A generation that fell is never explained.
        shown = (self.stock != now.stock) + (self.traits != now.traits)
        if 0 <= now.generation - self.generation <= shown:
            return ""
        return (
            f"its provider went from generation {self.generation} to {now.generation}, which "
            "neither its inventories nor its traits explain: used and let go between two lists?"
        )


def _digest(words: Iterable[str]) -> str:
    return hashlib.sha256("\n".join(words).encode()).hexdigest()[:_DIGITS]
