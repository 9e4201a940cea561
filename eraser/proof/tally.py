"""What reading found, counted: one tally per namespace while it runs, one result at the end."""

from __future__ import annotations

from dataclasses import dataclass, field

from eraser.proof.classify import BlockClass
from eraser.wire.policy import VerificationMode
from eraser.wire.report import NamespaceVerification

MAX_PATTERNS = 4
"""Different patterns that are remembered; already two are one too many."""


@dataclass
class Looks:
    """Blocks by what they look like."""

    zeros: int = 0
    ones: int = 0
    pattern: int = 0
    random: int = 0
    structured: int = 0

    def add(self, kind: BlockClass, count: int = 1) -> None:
        """Count ``count`` blocks of one class."""
        setattr(self, kind.value, getattr(self, kind.value) + count)

    def of(self, kind: BlockClass) -> int:
        """The count of one class."""
        return int(getattr(self, kind.value))

    @property
    def total(self) -> int:
        """All blocks that were looked at."""
        return self.zeros + self.ones + self.pattern + self.random + self.structured

    @property
    def uniform(self) -> int:
        """Blocks of zeros, ones or a pattern."""
        return self.zeros + self.ones + self.pattern

    def plus(self, other: Looks) -> Looks:
        """The sum of both."""
        return Looks(
            self.zeros + other.zeros,
            self.ones + other.ones,
            self.pattern + other.pattern,
            self.random + other.random,
            self.structured + other.structured,
        )


@dataclass
class Tally:
    """One namespace so far. ``cursor`` is the next block: all below it that were to be read are
    counted, none above it is."""

    cursor: int = 0
    looks: Looks = field(default_factory=Looks)
    written: Looks = field(default_factory=Looks)
    """How blocks look that held a canary or a fingerprinted block before the erase: what this
    erase makes of a block that was written."""
    patterns: tuple[str, ...] = ()
    """The different 16-byte patterns met, in hexadecimal."""
    canaries: int = 0
    unchanged: int = 0
    unreadable: int = 0
    canaries_unreadable: int = 0
    fingerprints_unreadable: int = 0
    bytes_read: int = 0

    def saw_pattern(self, piece: bytes) -> None:
        """Remember a pattern that was met."""
        text = piece.hex()
        if text not in self.patterns and len(self.patterns) < MAX_PATTERNS:
            self.patterns = (*self.patterns, text)


@dataclass(frozen=True)
class VerificationResult:
    """Everything that a finished (or given up) verification counted."""

    asked: VerificationMode
    done: VerificationMode
    seed: str
    confidence: float
    residual: float
    sampled: int
    """Distinct random places of the plan, all of them read; every block for a full read."""
    namespaces: tuple[NamespaceVerification, ...]
    written: Looks
    patterns: int
    """Different patterns met."""
    canaries_planted: int
    canaries_checked: int
    fingerprints_taken: int
    fingerprints_checked: int
    compared: int
    """Blocks looked at before the erase that the fingerprints speak for, blank ones included."""
    incomplete: str
    """Why not every block of the plan was read; empty when all were."""
    bytes_read: int
    seconds: float

    @property
    def looks(self) -> Looks:
        """All blocks of all namespaces by class."""
        total = Looks()
        for n in self.namespaces:
            total = total.plus(Looks(n.zeros, n.ones, n.pattern, n.random, n.structured))
        return total
