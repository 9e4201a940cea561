"""What reading found, counted: one tally per namespace while it runs, one result at the end."""

from __future__ import annotations

from dataclasses import dataclass, field

from eraser.proof.classify import BlockClass
from eraser.protocol.policy import VerificationMode
from eraser.protocol.report import NamespaceVerification, StatusCount

MAX_PATTERNS = 4
"""Different patterns that are remembered; already two are one too many."""
MAX_STATUSES = 16
"""Different statuses that are told apart: a drive has 2048 to choose from."""


@dataclass
class Blocks:
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

    def plus(self, other: Blocks) -> Blocks:
        """The sum of both."""
        return Blocks(
            self.zeros + other.zeros,
            self.ones + other.ones,
            self.pattern + other.pattern,
            self.random + other.random,
            self.structured + other.structured,
        )


@dataclass
class Reread:
    """The second reading of one namespace."""

    read: int = 0
    canaries: int = 0
    unchanged: int = 0
    unreadable: int = 0


@dataclass
class Tally:
    """One namespace so far. ``cursor`` is the next block: all below it that were to be read are
    counted, none above it is."""

    cursor: int = 0
    looks: Blocks = field(default_factory=Blocks)
    written: Blocks = field(default_factory=Blocks)
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
    sweep: int = 0
    """0: runs in a row, 1: scattered blocks, 2: the first reading is done."""
    by_passthrough: int = 0
    statuses: dict[str, int] = field(default_factory=dict)
    """Unreadable blocks by status in hexadecimal, empty for no completion."""
    once: dict[str, int] = field(default_factory=dict)
    """Sums of what the blocks that are read twice held the first time, by group of them."""
    twice: dict[str, int] = field(default_factory=dict)
    again: Reread = field(default_factory=Reread)

    def saw_pattern(self, piece: bytes) -> None:
        """Remember a pattern that was met."""
        text = piece.hex()
        if text not in self.patterns and len(self.patterns) < MAX_PATTERNS:
            self.patterns = (*self.patterns, text)

    def saw_status(self, status: int | None) -> None:
        """Count an unreadable block."""
        text = "" if status is None else f"{status:#05x}"
        # What does not fit is counted with those without a status: no block is lost from the count.
        if text not in self.statuses and len(self.statuses) >= MAX_STATUSES:
            text = ""
        self.statuses[text] = self.statuses.get(text, 0) + 1

    @property
    def status_counts(self) -> tuple[StatusCount, ...]:
        """The statuses as the record has them."""
        return tuple(
            StatusCount(int(text, 16) if text else None, count)
            for text, count in sorted(self.statuses.items())
        )

    @property
    def changed(self) -> int:
        """Groups of blocks that read otherwise the second time: at least so many blocks did."""
        groups = self.once.keys() | self.twice.keys()
        return sum(self.once.get(group, 0) != self.twice.get(group, 0) for group in groups)


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
    written: tuple[Blocks, ...]
    """Of each namespace, how blocks look that are known to have been written before the erase."""
    patterns: tuple[tuple[str, ...], ...]
    """Of each namespace, the different patterns met."""
    canaries_planted: int
    canaries_checked: int
    fingerprints_taken: int
    fingerprints_checked: int
    compared: int
    """Blocks looked at before the erase that the fingerprints speak for, blank ones included: as
    many as count wherever a remainder lies (:mod:`eraser.proof.probecount`)."""
    canaries_counted: int
    """The same of the canaries."""
    incomplete: str
    """Why not every block of the plan was read; empty when all were."""
    bytes_read: int
    seconds: float

    @property
    def each_looks(self) -> tuple[Blocks, ...]:
        """The blocks of each namespace by class."""
        return tuple(
            Blocks(n.zeros, n.ones, n.pattern, n.random, n.structured) for n in self.namespaces
        )

    @property
    def looks(self) -> Blocks:
        """All blocks of all namespaces by class."""
        total = Blocks()
        for looks in self.each_looks:
            total = total.plus(looks)
        return total
