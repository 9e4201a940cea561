"""What a named drive is made of."""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import StrEnum
from typing import TYPE_CHECKING

from tests.lab.nvme.faults import HEALTHY, Faults
from tests.lab.nvme.leftovers import NOTHING, Leftovers
from tests.lab.nvme.profile import DriveProfile, SanitizeProfile, SecurityProfile

if TYPE_CHECKING:
    from tests.lab.nvme.composed.description import Description


class Expected(StrEnum):
    """How an erase of the drive has to end: handed out again, or held for a person."""

    ERASED = "erased"
    HELD = "held"


class Event(StrEnum):
    """What the world does to a drive while it is erased; whoever plays the world reads this.

    POWER_CUT: the host and the drive lose power in the middle of the erase. KILL: the worker dies
    there. RETURN: the drive was pulled, and the host takes it back when it is in its slot again.
    TWIN: a second drive with the same serial number is in the next slot. PASSED: a function level
    reset, as when a guest ends, goes before.
    """

    NONE = "none"
    POWER_CUT = "power-cut"
    KILL = "kill"
    RETURN = "return"
    TWIN = "twin"
    PASSED = "passed"


@dataclass(frozen=True, slots=True)
class Preset:
    """A drive by name.

    ``honest`` tells that it erases what it says it erases; ``unfit`` is why it must be held all
    the same. ``left`` is what its last tenant did to it: a new drive is served in that state.
    ``filled`` is the part of the drive that the tenant wrote to; 0 is a single block.
    """

    name: str
    about: str
    profile: DriveProfile
    faults: Faults = HEALTHY
    honest: bool = True
    left: Leftovers = NOTHING
    unfit: str = ""
    filled: float = 0.2
    event: Event = Event.NONE
    composed: Description | None = None
    """What it does beside, where it is composed."""

    @property
    def expected(self) -> Expected:
        """How it has to end."""
        return Expected.ERASED if self.honest and not self.unfit else Expected.HELD


PLAIN = DriveProfile()
NO_SANITIZE = SanitizeProfile(crypto=False, block=False, overwrite=False)
FULL_FEATURED = replace(
    PLAIN,
    namespace_management=True,
    reservations=True,
    security=SecurityProfile(),
    boot_partition_units=1,
    lockdown=True,
)
"""Everything that a data centre drive may have."""
