"""Words that people type and read, without what the operations load."""

from __future__ import annotations

from enum import StrEnum
from typing import Final

from quarantine.record.words.states import Event as Event
from quarantine.record.words.states import State as State
from quarantine.rules.alarmbook import Severity as Severity

KEEP: Final = 0.9
"""The share of the pool that stays on offer during a campaign where none is named."""


class EnrolmentFate(StrEnum):
    """What enrolment does with a slot."""

    FREE = "free"
    """Nobody has the drive: reserved, and then erased."""
    IN_USE = "in_use"
    """A tenant has the drive: recorded, and only looked at."""
    KNOWN = "known"
    """Enrolled already, or retired: left as it is."""
    REFUSED = "refused"
    """Not to be taken into care as it stands."""
