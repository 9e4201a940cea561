"""What an operator should hear of, beside the steps that the slot takes by itself. Pure.

The text stands on the record until it is over, so it holds nothing that changes from look to look:
one alarm for one trouble.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from datetime import datetime
from typing import Final

from eraser.protocol.ticket import DomainSeen
from quarantine.record.words.facts import SlotRecord
from quarantine.record.words.reasons import AlarmCode
from quarantine.record.words.states import WORKING, State
from quarantine.record.words.texts import ALARM_LENGTH, storable
from quarantine.rules.handover import Handover
from quarantine.rules.observation import Observation

_WAITING: Final = frozenset({State.RELEASED, State.QUARANTINED, State.CERTIFIED})
"""States of minutes: the next step is ours, and no person's."""

_NAMED: Final = 4
"""Guests that an alarm names for each of two reasons: whole, it must fit into its column, or what
people were told of could not be found in it again."""

_MORE: Final = " and more"
_WHO_LENGTH: Final = 80
"""Characters of a guest's name and id; a host may call its domains anything."""


def concern(seen: Observation) -> tuple[AlarmCode | None, str]:
    """The present trouble, and in words; None and empty when there is none."""
    for code, trouble in (
        (AlarmCode.RECORD_UNREADABLE, seen.context.unknown),
        (AlarmCode.STRANGER_RUNS, intruder(seen)),
        (AlarmCode.UNGUARDED, _unguarded(seen)),
        (AlarmCode.OVERDUE, "" if seen.context.quiet else _overdue(seen)),
    ):
        if trouble:
            return code, storable(trouble, ALARM_LENGTH)
    return None, ""


def ended(seen: Observation) -> str:
    """What is written where the record's alarm stands no more."""
    told = seen.record.alarm
    if seen.context.quiet and told == storable(_overdue(seen), ALARM_LENGTH):
        return f"silenced by a maintenance: {told}"
    return f"over: {told}"


def may_be_overdue(record: SlotRecord, now: datetime, after: float) -> bool:
    """Whether somebody has to ask if the slot is in maintenance; else that changes nothing."""
    limited = record.state in WORKING or record.state in _WAITING
    return limited and (now - record.entered_at).total_seconds() > after


def intruder(seen: Observation) -> str:
    """The guests that run with the drive and should not."""
    found: dict[str, list[str]] = {}
    # A host may name them in another order each time.
    for domain in sorted(seen.context.running, key=lambda each: each.uuid):
        who = f"{domain.name!r} ({domain.uuid})"[:_WHO_LENGTH]
        if wrong := _wrong(seen, domain, who):
            found.setdefault(wrong, []).append(who)
    return "; ".join(_together(who, wrong) for wrong, who in found.items())


def _wrong(seen: Observation, domain: DomainSeen, who: str) -> str:
    if seen.record.state is not State.IN_USE:
        return "no server holds it in Placement: a ghost, or started by hand"
    # Without a gate no guest is in its book.
    if not domain.recorded and seen.limits.tickets:
        return "the gate has not let it in: plugged in by hand, or past the hook"
    if domain.uuid in seen.others:
        return ""
    held = f"Placement has it for {', '.join(seen.others) or 'nobody'}"
    return held if _is_news(seen, who, held) else ""


def _together(who: list[str], wrong: str) -> str:
    if len(who) == 1:
        return f"domain {who[0]} runs with the drive, and {wrong}"
    more = _MORE if len(who) > _NAMED else ""
    return f"domains {', '.join(who[:_NAMED])}{more} run with the drive, and {wrong}"


def _is_news(seen: Observation, who: str, held: str) -> bool:
    """Not where Nova has handed the drive to the server's migration, whose guest still runs here,
    or did when the host spoke: it is news again where that migration ended a while ago. Until Nova
    says so, what people were told of stands."""
    if seen.context.handover in (Handover.UNASKED, Handover.UNKNOWN):
        told = seen.record.alarm
        named = storable(who) in told or _MORE in told
        return named and storable(held, ALARM_LENGTH) in told
    return seen.context.handover is not Handover.MOVED


def _unguarded(seen: Observation) -> str:
    exposed = seen.record.state in (State.CERTIFIED, State.AVAILABLE)
    if not exposed or not seen.limits.tickets:
        return ""
    lacking = seen.context.unguarded
    # What people were told of stands until it is over: another process may have waited longer.
    told = seen.record.alarm == storable(lacking, ALARM_LENGTH)
    return "" if seen.context.doubtful and not told else lacking


def _overdue(seen: Observation) -> str:
    attended = seen.age(seen.context.attended_since)
    told = seen.record.alarm
    # What people were told of stands until it is over: a break of ours ends nothing.
    standing = told if told in _delays(seen, math.inf) else ""
    return next(_delays(seen, attended), standing)


def _delays(seen: Observation, attended: float) -> Iterator[str]:
    """The gravest first. Sweeps have gone through for ``attended`` seconds, without a break."""
    record, limit = seen.record, seen.limits.overdue_after
    whole = seen.age(record.entered_at)
    here = min(whole, attended)
    # Without end is what a clock that was set back shows: that is no trouble of the slot's.
    silence = min(here, seen.age(record.heard_at))
    # Each hello names the order, also where its case dies again and again before it reports. A host
    # counts the order's time from when it took it, and not while it is off. It does not wait for
    # us: after a break of ours only its report may have.
    longest = seen.limits.order_seconds + limit
    if record.state in WORKING and longest < whole < math.inf and attended > limit:
        yield f"its host has not finished the order in more than {longest / 3600:g} h"
    if record.state in WORKING and limit < silence < math.inf:
        yield f"its host has said nothing of the order for more than {limit / 3600:g} h"
    # Without a detail too: where Placement or the broker fails each look, nothing is on the record.
    if record.state in _WAITING and limit < here < math.inf:
        # What it waits for may change from look to look; this must not.
        yield f"no step for more than {limit / 3600:g} h; its detail or the log says why"


def is_round(times: int) -> bool:
    """The first time, the second, the fourth, and so on: people hear that it goes on, and a host
    that says the same all day (installed anew, or rooted) does not hide all other alarms."""
    return times & (times - 1) == 0
