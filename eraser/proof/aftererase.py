"""What an erase left in a namespace, as its reading found it: what every other look must show.

Pure. docs/decisions/visit.md says why a look at each block by itself is not enough: an encrypted
tenant's data look like noise.
"""

from __future__ import annotations

from dataclasses import dataclass

from eraser.proof.classify import BlockClass
from eraser.proof.tally import MAX_PATTERNS, Tally

_PIECE = 16


@dataclass(frozen=True)
class AfterErase:
    """Every value that the blocks of one namespace repeat, where all of them repeat one.

    More than one is honest: a drive may read otherwise by die, and where nothing was written.
    """

    pieces: frozenset[bytes] = frozenset()
    """16 bytes each; empty where the reading found noise or data too: then no look tells."""

    @classmethod
    def of(cls, reading: Tally) -> AfterErase:
        """What a first reading that came to its end says."""
        looks = reading.looks
        # Noise or data was read: then any other look may be what the erase left, and none tells.
        # Of patterns no more are remembered than would hold the drive anyway.
        if looks.total != looks.uniform or len(reading.patterns) >= MAX_PATTERNS:
            return cls()
        pieces = [bytes.fromhex(pattern) for pattern in reading.patterns]
        pieces += [bytes(_PIECE)] if looks.zeros else []
        pieces += [b"\xff" * _PIECE] if looks.ones else []
        return cls(frozenset(pieces))

    def has(self, block: bytes, look: BlockClass) -> bool:
        """Whether a block that looks so may be what the erase left."""
        return not self.pieces or (look.uniform and block[:_PIECE] in self.pieces)


UNTOLD = AfterErase()
"""Of a namespace of which nothing is known yet."""
