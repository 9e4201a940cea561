"""Why a slot cannot be sold now, in one sentence, and what returns it. Pure.

Two texts, and nobody tells them apart once they are one: the first quotes hosts, drives and people,
who write what they like, the second is our own.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from quarantine.record.words.states import FREE_TO_SCHEDULE, WORKING, State
from quarantine.rules import holds
from quarantine.rules.sale.capacity import minutes
from quarantine.rules.sale.pace import Pace, due, late_after


@dataclass(frozen=True)
class SaleFacts:
    """What is known of a slot that somebody wants to sell. Times are our own clock's."""

    state: State
    entered_at: datetime
    reason: str = ""
    hold_code: str | None = None
    consumer: str | None = None
    detail: str = ""
    """What it waits for."""
    next_hold: str = ""
    """Why it is to be held at its next release; empty where it is not."""
    silent: float | None = 0.0
    """As :class:`quarantine.rules.sale.capacity.HostStock` has it."""
    unguarded: str = ""
    """What its host lacks of the defences that are required."""
    pace: Pace | None = None
    """Of its drive's model."""
    overdue: float = 21600.0
    """``[erase]overdue_after``, seconds."""


def why(facts: SaleFacts, now: datetime) -> str:
    """One sentence; empty where the slot can be sold."""
    match facts.state:
        case State.AVAILABLE:
            return _offered(facts)
        case State.IN_USE if facts.next_hold:
            what = f"{_server(facts)} has the drive: it is held when the server lets go of it"
            return _sentence(f"{what} ({' '.join(facts.next_hold.split())})")
        case State.IN_USE:
            return f"{_server(facts)} has the drive: it is erased when the server lets go of it."
        case State.HELD:
            code = facts.hold_code or holds.OLDER
            return f"Held ({code}): {_sentence(facts.reason)}"
        case State.RETIRED:
            return f"Retired: {_sentence(facts.reason)} Its drive is never handed out again."
        case State.RELEASED:
            what = "The drive was let go and waits to be taken into quarantine"
        case State.QUARANTINED:
            what = "The drive is dirty and waits for its erase order"
        case State.ERASING:
            what = "The drive is being erased"
        case State.VERIFYING:
            what = "The drive was erased and is being read back"
        case State.CERTIFIED:
            what = "The drive is erased and certified, and waits to be given back"
    return _sentence("; ".join([what, *_waits(facts, now)]))


def remedy(facts: SaleFacts) -> str:
    """What a person has to do for it, in our own words; empty for a slot that is not held."""
    held = facts.state is State.HELD
    return holds.meaning(facts.hold_code or holds.OLDER).remedy if held else ""


def together(why: str, remedy: str) -> str:
    """Both in one text, for programs."""
    return f"{why} To return it: {remedy}" if why and remedy else why


def _offered(facts: SaleFacts) -> str:
    silence = _silence(facts)
    if not silence:
        return ""
    return f"On offer, but {silence}: nobody knows whether a guest would start there."


def _server(facts: SaleFacts) -> str:
    return f"Server {facts.consumer}" if facts.consumer else "A server"


def _waits(facts: SaleFacts, now: datetime) -> list[str]:
    """What stands in its way, or when it is done."""
    found = [_silence(facts)]
    if facts.state is State.CERTIFIED:
        found.append(facts.unguarded)
    if facts.detail and facts.detail not in found:
        found.append(facts.detail)
    known = [words for words in found if words]
    age = (now - facts.entered_at).total_seconds()
    if age > late_after(facts.state, facts.pace, facts.overdue):
        usual = " than its model takes" if facts.state in WORKING and facts.pace else ""
        known.append(
            f"that has gone on for {minutes(age)}, which is longer{usual or ' than usual'}"
        )
        return known
    stands = known and facts.state not in WORKING
    at = None if stands or _silence(facts) else due(facts.state, facts.entered_at, now, facts.pace)
    if at is not None:
        known.append(f"it can be sold in about {minutes((at - now).total_seconds())}")
    return known


def _silence(facts: SaleFacts) -> str:
    if facts.silent is None:
        return "its host is not registered"
    if facts.silent == 0.0 or facts.state not in WORKING | FREE_TO_SCHEDULE | _ASKS_HOST:
        return ""
    return f"nothing was heard of its host for {minutes(facts.silent)}"


_ASKS_HOST = frozenset({State.QUARANTINED, State.CERTIFIED})


def _sentence(words: str) -> str:
    words = " ".join(words.split()) or "no reason is on record"
    return words if words.endswith((".", "!", "?")) else f"{words}."
