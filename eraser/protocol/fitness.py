"""What a drive must be like to be handed out again: thresholds, and what follows from each finding.

Data: :mod:`eraser.protocol.condition` holds a drive's record against it.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass


class HealthFinding(enum.StrEnum):
    """One thing that can be wrong with a drive's health.

    The first seven are the bits of Critical Warning (log 02h byte 0, Base 2.0, 5.16.1.3).
    """

    SPARE_LOW = "spare-low"
    """Bit 0, or spare below the drive's own threshold."""
    HOT = "hot"
    """Bit 1: a temperature is beyond a threshold, which may have been a tenant's to set."""
    UNRELIABLE = "unreliable"
    """Bit 2: reliability degraded by media or internal errors."""
    READ_ONLY = "read-only"
    """Bit 3: all media went read only. Namespace write protection does not set it."""
    BACKUP_FAILED = "backup-failed"
    """Bit 4: the volatile memory backup device failed."""
    MEMORY_READ_ONLY = "memory-read-only"
    """Bit 5: the Persistent Memory Region is read only or unreliable."""
    OTHER_WARNING = "other-warning"
    """Bits 6 and 7, which that edition of the standard reserves."""
    SPARE_SHORT = "spare-short"
    """Spare below the policy's ``min_available_spare``, and not below the drive's own threshold."""
    WORN = "worn"
    """Percentage Used above the policy's ``max_percentage_used``."""
    MEDIA_ERRORS = "media-errors"
    """More new media errors during the erase than ``max_new_media_errors``."""
    LINK_NARROW = "link-narrow"
    """Fewer PCI Express lanes in use than drive and slot both have."""
    LINK_SLOW = "link-slow"
    """A lower PCI Express speed in use than drive and slot both can."""
    ERASE_FAILED = "erase-failed"
    """The drive's own log says that its sanitize failed (SSTAT 3), and again when it was repeated,
    by the same method or another. Only for drives that nothing erased after it."""


class Consequence(enum.StrEnum):
    """What a finding leads to for a drive that was erased."""

    NOTE = "note"
    """Printed on the certificate; the drive goes out."""
    HOLD = "hold"
    """A person decides."""
    RETIRE = "retire"
    """The drive is to be pulled; nobody has to decide that again."""


@dataclass(frozen=True)
class Health:
    """Beyond these a drive is erased all the same, but not handed out.

    ``retire`` and ``note`` are the table of consequences; a finding in neither of them holds the
    drive.
    """

    max_percentage_used: int = 100
    """SMART log 02h byte 5; 100 is the vendor's rated endurance, 255 stands for more than 254."""
    allow_critical_warning: bool = False
    """Every critical warning is only noted, whatever the table says."""
    min_available_spare: int = 0
    """Percent of spare that must be left, beyond the drive's own threshold."""
    max_new_media_errors: int = 0
    """Media and Data Integrity Errors that may be added during the erase and its verification."""
    retire: tuple[HealthFinding, ...] = (
        HealthFinding.SPARE_LOW,
        HealthFinding.UNRELIABLE,
        HealthFinding.READ_ONLY,
        HealthFinding.ERASE_FAILED,
    )
    """What the drive itself calls its end. Neither wear nor ``spare-short`` is among them: a
    threshold that somebody mistyped would retire a fleet."""
    note: tuple[HealthFinding, ...] = (HealthFinding.HOT, HealthFinding.LINK_SLOW)
    """An erase makes drives warm, and a tenant can have lowered the threshold. And a riser may be
    of an older generation than the port and the drive at its ends, which both do not know."""

    def __post_init__(self) -> None:
        for name, low, high in (
            ("max_percentage_used", 0, 255),
            ("min_available_spare", 0, 100),
            ("max_new_media_errors", 0, 1 << 32),
        ):
            if not low <= getattr(self, name) <= high:
                raise ValueError(f"expected {low} <= {name} <= {high}, found {getattr(self, name)}")
        if both := sorted(set(self.retire) & set(self.note)):
            raise ValueError(f"expected {both[0]} among retire or note, found it in both")

    def consequence(self, finding: HealthFinding) -> Consequence:
        """What the table says of ``finding``."""
        if finding in self.retire:
            return Consequence.RETIRE
        return Consequence.NOTE if finding in self.note else Consequence.HOLD
