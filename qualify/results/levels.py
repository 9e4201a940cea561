"""Performance levels of volumes, and the largest one whose promises a measurement keeps.

The table is Oracle's public one for block volumes (VPU: volume performance units). From VPU 10 on
it is linear, so it is kept as the rule; Lower Cost stands on its own. Units are decimal throughout:
1 GB = 10**9 bytes, 1 KB = 1,000 bytes.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

TOLERANCE: Final = 0.02
"""Share of a promise that a measurement may miss. The sources' own measurements of a known level
lie up to 1.2 % below its formula (56.9k IOPS where VPU 120 promises 57,600 at 256 GB)."""

I1_READ_IOPS: Final = 2_374_000
I1_WRITE_IOPS: Final = 1_710_000
"""4k random reads and writes of the source's array of four drives (32 cores, fio as in
:mod:`qualify.fio.presets`)."""


@dataclass(frozen=True)
class Level:
    """What a volume is promised: so much for each GB, and never more than the most."""

    vpu: int
    name: str
    iops_per_gb: float
    max_iops: int
    kb_per_gb: float
    """KB/s for each GB."""
    max_mb: int
    """MB/s."""

    def iops(self, size: int) -> float:
        """IOPS promised to a volume of ``size`` bytes."""
        return min(size / 1e9 * self.iops_per_gb, self.max_iops)

    def throughput(self, size: int) -> float:
        """Bytes a second promised to a volume of ``size`` bytes."""
        return min(size / 1e9 * self.kb_per_gb * 1e3, self.max_mb * 1e6)

    def __str__(self) -> str:
        return f"{self.name} (VPU {self.vpu})"


_NAMES: Final = {10: "Balanced", 20: "Higher Performance"}


def _linear(vpu: int) -> Level:
    # In the public table VPU 10 has 60 IOPS and 480 KB/s for each GB, at most 25,000 and 480 MB/s.
    return Level(
        vpu,
        _NAMES.get(vpu, "Ultra High Performance"),
        iops_per_gb=45 + 1.5 * vpu,
        max_iops=2_500 * vpu,
        kb_per_gb=360 + 12 * vpu,
        max_mb=280 + 20 * vpu,
    )


LEVELS: Final = (
    Level(0, "Lower Cost", iops_per_gb=2, max_iops=3_000, kb_per_gb=240, max_mb=480),
    *(_linear(vpu) for vpu in range(10, 121, 10)),
)
"""Smallest first. Each promises at least what the one before does, at every size."""


def grade(
    size: int, iops: float, throughput: float, *, tolerance: float = TOLERANCE
) -> Level | None:
    """The largest level whose promises to a volume of ``size`` bytes hold; None where none does.

    ``throughput`` is in bytes a second. Raises ``ValueError`` for a size that is not positive.
    """
    if size <= 0:
        raise ValueError(f"expected a size above 0 bytes, found {size}")
    least = 1 - tolerance
    held = [
        level
        for level in LEVELS
        if iops >= level.iops(size) * least and throughput >= level.throughput(size) * least
    ]
    return held[-1] if held else None
