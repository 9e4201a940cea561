"""A slot of a campaign: what is to be done with it next, by its line and its record. Pure.

A campaign does what a person may do by hand, and nothing else: it holds a slot, now or at its next
release, and ends its own hold; what follows, the slot's own life does. A slot that somebody else
decides about is left to that person.
"""

from __future__ import annotations

import enum
import math
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from quarantine.record.words.campaign_facts import CampaignSlot, CampaignState, CampaignStep
from quarantine.record.words.facts import SlotRecord
from quarantine.record.words.states import State
from quarantine.rules import holds

_ANOTHER: Final = "another drive is in the slot than when the campaign began"


class CampaignAct(enum.Enum):
    """What to do to a slot."""

    NOTHING = "nothing"
    ASK = "ask"
    """Have it held at its next release."""
    HOLD = "hold"
    """It is on offer: hold it, where the pool can spare it."""
    TAKE_BACK = "take back"
    """It is not to be held at its next release any more."""
    RELEASE = "release"
    """End the hold: the drive is erased again."""
    END = "end"
    """Write the line; nothing is done to the slot."""


_NEXT_TO_NOTHING: Final = 1e-9
"""Of a drive, by which a share in binary digits may be too great: 0.07 of 100 are 7."""
_CAMPAIGN: Final = "campaign "
"""How the reasons of all campaigns' holds begin."""


@dataclass(frozen=True)
class CampaignMove:
    """An act, and the line's next step with it."""

    act: CampaignAct
    step: CampaignStep
    result: str = ""
    generation: int = 0
    certificate: str | None = None


@dataclass(frozen=True)
class CampaignTerms:
    """What of a campaign a move depends on."""

    reason: str
    """With which it holds."""
    hold_code: str | None = None
    """Whose holds it ends too: those that stood when it began."""
    begun_at: datetime | None = None
    state: CampaignState = CampaignState.RUNNING


def next_move(line: CampaignSlot, record: SlotRecord | None, terms: CampaignTerms) -> CampaignMove:
    """What is taken is finished whatever state the campaign is in: a hold of its own that nobody
    ends would keep an honest drive for ever."""
    if record is None or record.state is State.RETIRED:
        return _skipped("the slot is enrolled no more" if record is None else "it is retired")
    # One that was not known when the campaign began is no other than any.
    another = line.drive is not None and _drive(record) != line.drive
    # Before the drive is compared: a hold of the campaign's own is ended, whichever drive is there.
    if line.step is CampaignStep.ERASING:
        return _erasing(line, record, terms, another)
    if record.state is State.HELD and record.reason == terms.reason:
        return _release(record)
    if another:
        return _without(_ANOTHER, record, terms)
    if line.step is CampaignStep.ASKED and record.state is State.IN_USE:
        if not _wished(record, terms):
            return _skipped("a person took back, or changed, that it is held at its next release")
        return _wait(line) if terms.state is not CampaignState.STOPPED else _stopped(record, terms)
    if terms.state is CampaignState.RUNNING or _taken(line, record, terms):
        return _waiting(line, record, terms)
    return _wait(line) if terms.state is CampaignState.PAUSED else _stopped(record, terms)


def learned(line: CampaignSlot, record: SlotRecord | None) -> str | None:
    """The drive of a slot of which none was known when the campaign began, once it is."""
    return None if record is None or line.drive is not None else _drive(record)


def _drive(record: SlotRecord) -> str | None:
    return None if record.identity is None else record.identity.digest


def _taken(line: CampaignSlot, record: SlotRecord, terms: CampaignTerms) -> bool:
    asked = line.step is CampaignStep.ASKED and record.state is not State.AVAILABLE
    return asked or (_wished(record, terms) and record.state is not State.IN_USE)


def _wished(record: SlotRecord, terms: CampaignTerms) -> bool:
    return record.next_hold is not None and record.next_hold.reason == terms.reason


def _stopped(record: SlotRecord, terms: CampaignTerms) -> CampaignMove:
    return _without("the campaign was stopped before it was taken", record, terms)


def _without(why: str, record: SlotRecord, terms: CampaignTerms) -> CampaignMove:
    """Skipped, and nothing of the campaign's is left at the slot."""
    if _wished(record, terms):
        return CampaignMove(CampaignAct.TAKE_BACK, CampaignStep.SKIPPED, why)
    return _skipped(why)


def _waiting(line: CampaignSlot, record: SlotRecord, terms: CampaignTerms) -> CampaignMove:
    match record.state:
        case State.IN_USE if record.next_hold is None:
            return CampaignMove(CampaignAct.ASK, CampaignStep.ASKED, "held at its next release")
        case State.IN_USE if _wished(record, terms):
            return CampaignMove(CampaignAct.END, CampaignStep.ASKED, "held at its next release")
        case State.IN_USE if _wished_by_another(record):
            return _wait(line)
        case State.IN_USE:
            return _skipped("a person has it held at its next release, for another reason")
        case State.AVAILABLE:
            return CampaignMove(CampaignAct.HOLD, CampaignStep.WAITING)
        case State.HELD if _ours(record, terms):
            return _release(record)
        case State.HELD if record.reason.startswith(_CAMPAIGN):
            return _wait(line)  # another one's, which ends it
        case State.HELD:
            return _skipped(f"held ({holds.shown(record)}): {record.reason}")
        # The case takes the next generation with its custody.
        case State.RELEASED if record.next_hold is None:
            return _on_its_way(record.generation + 1)
        # No order is out yet: the erase to come is one of the campaign's time.
        case State.QUARANTINED:
            return _on_its_way(record.generation)
        case _:
            # Its erase began before: when that is over, it is taken.
            return _wait(line)


def reason_of(campaign: str, reason: str) -> str:
    """Of the holds that a campaign makes, by which it knows them again."""
    return f"{_CAMPAIGN}{campaign}: {reason}"


def _wished_by_another(record: SlotRecord) -> bool:
    """By another campaign, which may be stopped before it takes the slot."""
    return record.next_hold is not None and record.next_hold.reason.startswith(_CAMPAIGN)


def _ours(record: SlotRecord, terms: CampaignTerms) -> bool:
    """Its own hold, or one of those that it was begun for: who holds a slot later, though for the
    same code, knows of something that the campaign does not."""
    stood = terms.begun_at is None or record.entered_at <= terms.begun_at
    wanted = terms.hold_code is not None and holds.shown(record) == terms.hold_code
    return record.reason == terms.reason or (wanted and stood)


def _erasing(
    line: CampaignSlot, record: SlotRecord, terms: CampaignTerms, another: bool
) -> CampaignMove:
    begun = record.generation >= line.generation
    if record.state is State.HELD and not begun and _ours(record, terms):
        # The line was written, and then the process died.
        return CampaignMove(CampaignAct.RELEASE, line.step, line.result, line.generation)
    if record.certificate is not None and begun:
        if another:
            return _skipped(_ANOTHER)
        certificate = record.certificate
        return CampaignMove(
            CampaignAct.END, CampaignStep.DONE, "erased", line.generation, certificate
        )
    if record.state is State.HELD:
        words = f"held ({holds.shown(record)}): {record.reason}"
        return CampaignMove(CampaignAct.END, CampaignStep.FAILED, words, line.generation)
    return _wait(line)


def _release(record: SlotRecord) -> CampaignMove:
    return CampaignMove(
        CampaignAct.RELEASE, CampaignStep.ERASING, "released", record.generation + 1
    )


def _on_its_way(generation: int) -> CampaignMove:
    return CampaignMove(CampaignAct.END, CampaignStep.ERASING, "its erase is due", generation)


def _skipped(why: str) -> CampaignMove:
    return CampaignMove(CampaignAct.END, CampaignStep.SKIPPED, why)


def _wait(line: CampaignSlot) -> CampaignMove:
    return CampaignMove(CampaignAct.NOTHING, line.step, line.result, line.generation)


def spare(free: int, taken: int, keep: float) -> int:
    """How many more drives may be taken: of ``free`` and ``taken`` together, by all campaigns, the
    share ``keep`` stays on offer."""
    kept = math.ceil(keep * (free + taken) - _NEXT_TO_NOTHING)
    return max(0, free - kept)
