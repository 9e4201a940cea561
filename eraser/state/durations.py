"""How long erases of one model, firmware and method take: counted, bounded, and not easily fooled.

Pure. A drive that lies about itself can make the numbers of its own model worse, never better, and
alone not even that: see :func:`patience`.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from eraser.protocol.policy import Method

MAX_SAMPLES = 64
"""Kept of one model, firmware and method: the newest."""
MAX_PER_DRIVE = 4
"""Of those from one drive."""
MIN_DRIVES = 3
"""So many different drives before anything waits longer because of what was learned."""
FACTOR = 2.0
"""Standing still for so many times the 99th percentile is no longer usual."""
MAX_STRETCH = 8.0
"""The learned limit is at most so many times the configured one."""
MAX_SECONDS = 30 * 86400.0


@dataclass(frozen=True)
class DurationSample:
    """One erase that was proved."""

    drive: str
    """The beginning of its identity's digest: enough to tell drives apart."""
    seconds: float

    def __post_init__(self) -> None:
        if not 0 <= self.seconds <= MAX_SECONDS:
            raise ValueError(f"expected 0 to {MAX_SECONDS:g} seconds, found {self.seconds}")


@dataclass(frozen=True)
class ModelDurations:
    """All that is kept of one model, firmware and method; the newest sample stands last."""

    vendor_id: int
    model: str
    firmware: str
    method: Method
    samples: tuple[DurationSample, ...] = ()

    def __post_init__(self) -> None:
        if len(self.samples) > MAX_SAMPLES:
            raise ValueError(f"expected at most {MAX_SAMPLES} samples, found {len(self.samples)}")

    @property
    def drives(self) -> int:
        """Different drives among the samples."""
        return len({sample.drive for sample in self.samples})

    def with_sample(self, sample: DurationSample) -> ModelDurations:
        """The row with one more; what is too old, or too much from one drive, goes."""
        kept: list[DurationSample] = []
        per_drive: dict[str, int] = {}
        for each in (sample, *reversed(self.samples)):
            per_drive[each.drive] = per_drive.get(each.drive, 0) + 1
            if per_drive[each.drive] <= MAX_PER_DRIVE and len(kept) < MAX_SAMPLES:
                kept.append(each)
        return ModelDurations(
            self.vendor_id, self.model, self.firmware, self.method, tuple(reversed(kept))
        )


@dataclass(frozen=True)
class Estimate:
    """What to expect of an erase. Seconds."""

    p50: float
    p99: float
    count: int
    drives: int


def percentile(values: Iterable[float], share: float) -> float:
    """The smallest value that at least ``share`` of all do not exceed (nearest rank)."""
    ordered = sorted(values)
    if not ordered:
        raise ValueError("expected at least one value, found none")
    return ordered[max(0, math.ceil(share * len(ordered)) - 1)]


def estimate(row: ModelDurations | None) -> Estimate | None:
    """None where nothing is known yet."""
    if row is None or not row.samples:
        return None
    seconds = [sample.seconds for sample in row.samples]
    return Estimate(percentile(seconds, 0.5), percentile(seconds, 0.99), len(seconds), row.drives)


def patience(row: ModelDurations | None, configured: float) -> float:
    """Seconds that a sanitize may stand still: the policy's limit, or more where this model is
    known to be slow. Never less than ``configured``.

    The slowest drive of all is left out, so no single one can talk others into waiting.
    """
    if row is None or row.drives < MIN_DRIVES:
        return configured
    slowest = max(row.samples, key=lambda sample: sample.seconds).drive
    others = [sample.seconds for sample in row.samples if sample.drive != slowest]
    learned = FACTOR * percentile(others, 0.99)
    return max(configured, min(learned, MAX_STRETCH * configured))


def left(elapsed: float, fraction: float, known: Estimate | None) -> str:
    """How long an erase still takes, for people; empty where nobody knows.

    The drive's own progress counts once it says something; until then, and for drives that count
    nothing, what others of the model took.
    """
    if 0.01 < fraction < 1 and elapsed > 1:
        return f"about {elapsed * (1 - fraction) / fraction:.0f} s left"
    if known is None:
        return ""
    usual = f"{known.p50:.0f} s is usual, of {known.count} erases of this model"
    if elapsed >= known.p50:
        slow = "; slower than 99 of 100" if elapsed > known.p99 else ""
        return f"{elapsed:.0f} s so far, {usual}{slow}"
    return f"about {known.p50 - elapsed:.0f} s left, {usual}"


def table(rows: Sequence[ModelDurations]) -> list[dict[str, object]]:
    """For people and machines: a line for each row that has samples."""
    found: list[dict[str, object]] = []
    for row in sorted(rows, key=lambda row: (row.model, row.firmware, row.method)):
        known = estimate(row)
        if known is not None:
            found.append(
                {
                    "model": row.model,
                    "firmware": row.firmware,
                    "method": row.method.value,
                    "p50": round(known.p50, 1),
                    "p99": round(known.p99, 1),
                    "erases": known.count,
                    "drives": known.drives,
                }
            )
    return found
