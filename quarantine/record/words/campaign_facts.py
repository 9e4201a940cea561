"""What the store hands out about campaigns. No database."""

from __future__ import annotations

import enum
from dataclasses import dataclass
from datetime import datetime

from quarantine.record.words.facts import Initiator


class CampaignState(enum.StrEnum):
    """How a campaign goes."""

    RUNNING = "running"
    PAUSED = "paused"
    """No slot is taken; what was taken is finished by the service as ever."""
    STOPPED = "stopped"
    """For good."""
    DONE = "done"
    """Each of its slots has its result."""


class CampaignStep(enum.StrEnum):
    """How far a slot of a campaign is."""

    WAITING = "waiting"
    ASKED = "asked"
    """A server has the drive; the slot is held when it lets go."""
    ERASING = "erasing"
    """It was released from its hold: quarantine, erase and certificate are the service's."""
    DONE = "done"
    """Certified since."""
    SKIPPED = "skipped"
    """Nothing was done, or a person decided otherwise; the result says why."""
    FAILED = "failed"
    """It was erased and is held; the result says why."""


ENDED = (CampaignStep.DONE, CampaignStep.SKIPPED, CampaignStep.FAILED)
"""With a result."""


@dataclass(frozen=True)
class Campaign:
    """One, without its slots."""

    id: str
    version: int
    state: CampaignState
    query: str
    """As it was asked for, canonical JSON."""
    reason: str
    keep: float
    """Of the drives that would be on offer without it, this share stays there."""
    by: Initiator
    created_at: datetime
    changed_at: datetime


@dataclass(frozen=True)
class CampaignSlot:
    """One slot's line."""

    campaign: str
    host: str
    address: str
    step: CampaignStep
    drive: str | None
    generation: int
    was_free: bool
    result: str
    certificate: str | None
    changed_at: datetime


@dataclass(frozen=True)
class CampaignSlotLine:
    """One slot's line in a list. Its step is as it is stored, another release's too."""

    campaign: str
    host: str
    address: str
    step: str
    drive: str | None
    generation: int
    was_free: bool
    result: str
    certificate: str | None
    changed_at: datetime | None
    """None where that is damaged."""
    damaged: tuple[str, ...] = ()
    """Columns that cannot be read."""


@dataclass(frozen=True)
class CampaignActLine:
    """What somebody decided of a campaign; without a name: the service, when all was done."""

    version: int
    at: datetime
    state: str
    reason: str
    by: Initiator | None
