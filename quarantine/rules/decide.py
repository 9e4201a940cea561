"""One slot, one look, one step: what our record and Placement's view of it ask for next.

Pure: no I/O, no clock of its own. :mod:`quarantine.service.look` looks, asks :func:`decide`,
carries the step out under compare-and-set, and looks again until nothing is left to do. So each
step may assume only what the record and the view say now, whoever crashed before.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import datetime
from typing import Final

from quarantine.cloud import custody
from quarantine.cloud.facts import ONE_TIME_USE, View
from quarantine.record.words.facts import NextHold, SlotChanges, SlotRecord
from quarantine.record.words.reasons import AlarmCode, HoldCode
from quarantine.record.words.states import CASE_OPEN, WAITING_FOR_PEOPLE, Custody, Event, State
from quarantine.record.words.texts import USED_AGAIN
from quarantine.rules import absence
from quarantine.rules.action import Action, ActionKind, ServiceLimits, SlotContext
from quarantine.rules.alarmbook import only
from quarantine.rules.alarms import concern, ended, intruder
from quarantine.rules.entitlement import is_unburned
from quarantine.rules.handover import Handover
from quarantine.rules.observation import (
    Observation,
    amend,
    fence,
    handed_over,
    hold,
    hold_as_asked,
    move,
    reserve,
    strangers,
)
from quarantine.rules.offermark import Mark

NOTHING: Final = Action(ActionKind.NOTHING)
_NO_PAST: Final = SlotContext()
_NO_CASE: Final = SlotChanges(
    new_case=True, consumer=None, custody=None, custody_stage=Custody.NONE
)
"""Who took our custody away may have had the drive, or our record may be older than its end."""
_CALM: Final = frozenset(
    {
        ActionKind.NOTHING,
        ActionKind.WAIT,
        ActionKind.ASK,
        ActionKind.TAKE,
        ActionKind.ORDER,
        ActionKind.RESEND,
        ActionKind.TICKET,
    }
)
"""Steps that the drive can wait for by a moment: it is reserved, or nothing is wrong."""
UNBURNABLE: Final = (
    f"without the trait {ONE_TIME_USE} Nova would hand the drive on unerased; restore one_time_use "
    "in device_spec, then release the slot"
)
_KEEPS_OUT: Final = frozenset({ActionKind.RESERVE, ActionKind.ENSURE})
"""Steps that need no past: they are taken first, whatever cannot be read."""
_GONE: Final = {True: HoldCode.NOT_CLEAN, False: HoldCode.NOT_GIVEN_BACK}
"""Why a certified slot without custody is held, by whether its drive lacks something."""
_CUSTODY_GONE: Final = "our custody vanished; the case starts again"
_STRANGE_CUSTODY: Final = (
    "the custody in Placement is of a case that this record does not know: was the database "
    "restored from a backup? The drive may have been used since, so it is erased again"
)


def decide(
    record: SlotRecord,
    view: View | None,
    now: datetime,
    limits: ServiceLimits,
    context: SlotContext = _NO_PAST,
) -> Action:
    """The next step for a slot; ``view`` is ``None`` when Placement has no provider for it."""
    # What is not there, or is another provider, comes before the state: each state's rules are
    # about the provider that the record names.
    if view is None or not view.inventories:
        return _missing(record, view)
    if view.provider.uuid != record.provider or view.inventory is None:
        return _moved(record, view)
    seen = Observation(record, view, now, limits, context)
    action = _BY_STATE[record.state](seen)
    if context.unknown and action.act not in _KEEPS_OUT:
        action = Action(ActionKind.WAIT, context.unknown)
    # What keeps a drive from the wrong hands comes first; then people hear of it, once.
    if action.act in _CALM:
        code, wrong = concern(seen)
        if wrong != record.alarm:
            return amend(wrong or ended(seen), SlotChanges(alarm=wrong), alarm=code)
    return action


def _missing(record: SlotRecord, view: View | None) -> Action:
    """Nothing to schedule: the provider is gone, or its inventory is. What comes back is judged."""
    if record.state in WAITING_FOR_PEOPLE:
        return NOTHING
    return Action(ActionKind.WAIT, absence.words(view))


def _moved(record: SlotRecord, view: View) -> Action:
    """Another provider, or another resource class, where ours was: Nova's lock was forgotten."""
    now = view.inventories[0].resource_class
    rebased = SlotChanges(
        provider=view.provider.uuid, resource_class=now, custody=None, custody_stage=Custody.NONE
    )
    found = f"the provider was {record.provider} ({record.resource_class}), now it is "
    found += f"{view.provider.uuid} ({now})"
    others = view.foreign(record.custody)
    # A provider that was away is made anew when its drive is back: that is no news.
    alarm = only(AlarmCode.PROVIDER_REPLACED, absence.absent_since(record) is None)
    # The record is rebased by the next look, once nobody can take the drive.
    if not view.locked and not view.allocations:
        return reserve(f"{found}; reserved first", alarm=AlarmCode.ON_OFFER)
    if record.state in WAITING_FOR_PEOPLE:
        return amend(found, rebased, alarm=alarm)
    if record.state in CASE_OPEN:
        text = f"{found}; the drive may have been used meanwhile"
        return hold(HoldCode.PROVIDER_REPLACED, text, rebased)
    if others:
        rebased = replace(rebased, consumer=others[0].consumer)
        if record.state is State.IN_USE:
            return amend(found, rebased, alarm=AlarmCode.PROVIDER_REPLACED)
        return move(Event.CLAIM_SEEN, found, rebased, alarm=AlarmCode.CLAIMED_UNERASED)
    # Its erase is due already: only the names change.
    if record.state is State.RELEASED:
        return amend(found, rebased, alarm=alarm)
    return move(Event.RELEASE_SEEN, found, rebased, alarm=alarm)


def _in_use(seen: Observation) -> Action:
    record, others = seen.record, seen.others
    if not others:
        if not seen.locked and seen.ours is None:
            return _reserved_late(
                record,
                unburned="its claim was given up before Nova reserved it; reserved first",
                lowered="released while reserved was lowered; reserved first",
            )
        return move(
            Event.RELEASE_SEEN,
            f"the allocation of {record.consumer or 'the last consumer'} is gone",
            SlotChanges(
                consumer=seen.last_user,
                custody=seen.ours,
                custody_stage=Custody.left(seen.ours),
            ),
        )
    # Between its claim and its burn a server holds an allocation without reserved: Nova's window.
    if not seen.locked and seen.age(record.entered_at) > seen.limits.burn_grace:
        return _reserved_late(
            record,
            unburned="Nova has not reserved it since it was claimed; reserved",
            lowered="somebody lowered reserved while the drive is in use",
        )
    if record.consumer not in others:
        return handed_over(seen)
    # A guest runs that Placement does not name: Nova may know of a migration.
    if strangers(others, seen.context) and seen.context.handover is Handover.UNASKED:
        return Action(ActionKind.ASK, "Nova")
    return NOTHING


def _reserved_late(record: SlotRecord, *, unburned: str, lowered: str) -> Action:
    """A build or a move may wait in Nova's queue, or end there: that is nobody's fault."""
    if is_unburned(record):
        return reserve(unburned)
    return reserve(lowered, alarm=AlarmCode.RESERVE_LOWERED)


def _released(seen: Observation) -> Action:
    if seen.others:
        return move(
            Event.CLAIM_SEEN,
            f"claimed by {seen.others[0]} before it was erased",
            SlotChanges(consumer=seen.others[0]),
            alarm=AlarmCode.CLAIMED_UNERASED,
        )
    if not seen.locked:
        if seen.ours is None:
            text = "free without a certificate; reserved first"
            return reserve(text, alarm=AlarmCode.ON_OFFER)
        # Between the two writes of a take: our allocation is there, and reserved is not yet.
        return Action(ActionKind.ENSURE, "custody was half taken")
    # Only now that it is reserved: a hold locks nothing in Placement.
    if seen.record.next_hold is not None:
        return hold_as_asked(seen.record.next_hold)
    if seen.ours is None:
        return Action(ActionKind.TAKE, "custody")
    changes = SlotChanges(consumer=seen.last_user, custody=seen.ours)
    return move(Event.CUSTODY_TAKEN, changes=changes)


def _quarantined(seen: Observation) -> Action:
    record = seen.record
    broken = _custody_trouble(seen)
    if broken is not None:
        return broken
    if seen.ours is None:
        # Only a custody that was seen can vanish: of one that is TAKING the request may not have
        # been made before its look died.
        if record.custody_stage is Custody.HELD:
            return amend(_CUSTODY_GONE, _NO_CASE, alarm=AlarmCode.CUSTODY_GONE)
        return Action(ActionKind.TAKE, "custody again")
    if seen.strange_custody:
        return amend(_STRANGE_CUSTODY, seen.begun_again, alarm=AlarmCode.CUSTODY_STRANGE)
    if record.custody_stage is not Custody.HELD:
        return fence("custody was found")
    postponed = seen.context.postponed
    if postponed >= seen.limits.max_attempts:
        text = f"the order came back {postponed} times without an erase: {record.reason}"
        return hold(HoldCode.ORDER_CAME_BACK, text)
    if postponed and seen.age(record.entered_at) < seen.limits.retry_in_use_after:
        return NOTHING
    return _unless_haunted(seen, Action(ActionKind.ORDER, "erase"))


def _working(seen: Observation) -> Action:
    record = seen.record
    broken = _custody_trouble(seen)
    if broken is not None:
        return broken
    if seen.ours is None:
        return move(Event.POSTPONED, _CUSTODY_GONE, _NO_CASE, alarm=AlarmCode.CUSTODY_GONE)
    if seen.strange_custody:
        code = AlarmCode.CUSTODY_STRANGE
        return move(Event.POSTPONED, _STRANGE_CUSTODY, seen.begun_again, alarm=code)
    # Since the later of the two: an order sent again has its time anew.
    last = min(seen.age(record.ordered_at), seen.age(record.heard_at))
    if last > seen.patience:
        return _unless_haunted(seen, Action(ActionKind.RESEND, "nothing was heard of the order"))
    return NOTHING


def _unless_haunted(seen: Observation, action: Action) -> Action:
    """Nothing is sent to a drive that may have a user whom Placement does not know."""
    context = seen.context
    if context.claimed:
        return Action(ActionKind.WAIT, context.claimed)
    if context.ghosts is None:
        return Action(ActionKind.ASK, "Nova")
    if context.ghosts:
        return Action(ActionKind.WAIT, "; ".join(context.ghosts))
    return action


def _custody_trouble(seen: Observation) -> Action | None:
    """What is wrong with the two locks of an open case, where that needs a step of its own."""
    if seen.others:
        return hold(
            HoldCode.CLAIMED,
            f"{seen.others[0]} holds the drive although it was under our custody "
            f"({custody.describe(seen.view)})",
            SlotChanges(consumer=seen.others[0]),
        )
    if not seen.locked:
        if seen.ours is None:
            text = "custody and reserved are gone; reserved first"
            return reserve(text, alarm=AlarmCode.ON_OFFER)
        text = "reserved was lowered under custody"
        return Action(ActionKind.ENSURE, text, alarm=AlarmCode.RESERVE_LOWERED)
    return None


def _certified(seen: Observation) -> Action:
    record = seen.record
    begun = record.custody_stage is Custody.RETURNING
    if seen.ours is None:
        # RETURNING is written before the request that gives the drive back: without it somebody
        # else took our custody away. A hold locks nothing in Placement, so a drive that is free
        # is reserved first, and held by the next look.
        if not seen.locked and not seen.others and (seen.lacks or not begun):
            return reserve(
                f"free although {seen.lacks or 'we did not give it back'}; reserved first",
                alarm=AlarmCode.ON_OFFER,
            )
        if seen.lacks or not begun:
            return hold(
                _GONE[bool(seen.lacks)],
                f"{seen.lacks or 'not given back by us, and burned again since'} "
                f"({custody.describe(seen.view)})",
                SlotChanges(
                    custody=None,
                    custody_stage=Custody.NONE,
                    consumer=seen.others[0] if seen.others else record.consumer,
                ),
            )
        # Whoever has it by now got it clean, and is its user from the next look on.
        return move(
            Event.RETURNED,
            changes=SlotChanges(custody=None, custody_stage=Custody.NONE, consumer=None, detail=""),
        )
    # A claim on a drive under custody is graver than both, and its hold names the claimant.
    if seen.lacks and not seen.others:
        return hold(HoldCode.NOT_CLEAN, seen.lacks)
    if seen.strange_custody and not seen.others:
        changes = SlotChanges(consumer=seen.last_user, custody=seen.ours)
        return hold(HoldCode.STRANGE_CUSTODY, _STRANGE_CUSTODY, changes)
    return _custody_trouble(seen) or _to_the_pool(seen)


def _to_the_pool(seen: Observation) -> Action:
    """Certified and locked away by us alone: given back once its host would let a guest start."""
    record, present = seen.record, seen.context.incarnation
    if not seen.limits.tickets:
        return _give_back(seen)
    if present is None:
        return Action(ActionKind.WAIT, f"waiting for host {record.slot.host} to be registered")
    if record.ticket_incarnation != present:
        # The new life knows nothing of the case, and takes no ticket without its report.
        before = record.ticket_incarnation or "given no ticket"
        return _recalled(
            seen, f"its host is incarnation {present} now and was {before} at the certificate"
        )
    if seen.context.recall:
        return _recalled(seen, seen.context.recall)
    if not seen.context.greeted:
        return Action(ActionKind.WAIT, f"waiting for the hello of host {record.slot.host}")
    if seen.context.unguarded:
        return Action(ActionKind.WAIT, seen.context.unguarded)
    # The host's receipt is in: a guest on this drive would start.
    if record.ticket_ready:
        return _give_back(seen)
    if seen.age(record.ticket_at) > seen.patience:
        return Action(ActionKind.TICKET, "its host's receipt is wanted")
    return NOTHING


def _recalled(seen: Observation, why: str) -> Action:
    """Erased again; first whoever has begun to give the slot back is kept from it."""
    if seen.record.custody_stage is Custody.RETURNING:
        return fence(why)
    return move(Event.RECALLED, f"{why}: erased again")


def _give_back(seen: Observation) -> Action:
    """Nova reserves only what has the trait: without it the next user would leave no mark."""
    if seen.context.burns is None:
        return Action(ActionKind.CHECK, ONE_TIME_USE)
    mark = SlotChanges(offered_as=seen.mark_of_return)
    return (
        Action(ActionKind.GIVE_BACK, "certified", changes=mark)
        if seen.context.burns
        else hold(HoldCode.NO_ONE_TIME_USE, UNBURNABLE)
    )


def _available(seen: Observation) -> Action:
    if seen.others:
        return move(
            Event.CLAIM_SEEN,
            changes=SlotChanges(consumer=seen.others[0], custody=None, custody_stage=Custody.NONE),
        )
    if seen.ours is not None:
        return move(
            Event.RELEASE_SEEN,
            "our custody is still there; erased again",
            SlotChanges(custody=seen.ours, custody_stage=Custody.TAKING),
            alarm=AlarmCode.CUSTODY_GONE,
        )
    wrong = seen.lacks or seen.context.recall or intruder(seen)
    if seen.locked:
        return move(
            Event.RELEASE_SEEN,
            wrong or "reserved without an allocation: used and let go between two looks",
            # Of a recall people heard when we reserved the slot for it. Where Nova did, its ticket
            # is used as it should be: a short use is no alarm.
            alarm=only(AlarmCode.ON_OFFER, seen.lacks or intruder(seen)),
        )
    if wrong:
        return reserve(f"on offer although {wrong}; reserved first", alarm=AlarmCode.ON_OFFER)
    return NOTHING if seen.limits.tickets else _unmoved(seen)


def _unmoved(seen: Observation) -> Action:
    """No gate tells of a guest here: what moves the provider is a use until it is explained."""
    mark = Mark.read(seen.record.offered_as)
    # Nobody wrote to the provider since the mark.
    if mark is not None and mark.generation == seen.view.provider.generation:
        return NOTHING
    if seen.context.traits is None:
        return Action(ActionKind.CHECK, "traits")
    now = Mark.of(seen.view, seen.context.traits)
    # A slot that was on offer before there were marks gets its first one, unjudged.
    why = mark.unexplained(now) if mark is not None else ""
    if not why:
        return amend("", SlotChanges(offered_as=str(now)))
    if seen.context.crowded:
        return Action(ActionKind.WAIT, seen.context.crowded)
    return reserve(f"{why}; reserved first")


def _parked(seen: Observation) -> Action:
    """Held or retired: we only keep the drive out of the pool."""
    if seen.outrun:
        return move(
            Event.CLAIM_SEEN,
            f"{seen.others[0]} was quicker than the hold: held at its next release",
            SlotChanges(
                consumer=seen.others[0],
                next_hold=NextHold(seen.record.reason, seen.context.held_by),
            ),
        )
    if not seen.locked:
        if seen.ours is not None:
            return Action(
                ActionKind.ENSURE,
                f"reserved was lowered while {seen.record.state}",
                alarm=AlarmCode.RESERVE_LOWERED,
            )
        # A drive that was on offer when a person decided is free at the first look after that.
        alarm = only(AlarmCode.ON_OFFER, not seen.first)
        return reserve(f"free while {seen.record.state}; reserved", alarm=alarm)
    if seen.ours is not None and seen.record.custody_stage is not Custody.HELD:
        return fence(f"{seen.record.state} in the midst of a step")
    if seen.others and seen.record.consumer not in seen.others:
        return amend(
            f"{seen.others[0]} holds the drive while it is {seen.record.state}: {USED_AGAIN}",
            SlotChanges(consumer=seen.others[0]),
            alarm=AlarmCode.USED_AGAIN,
        )
    return NOTHING


_BY_STATE: Final[Mapping[State, Callable[[Observation], Action]]] = {
    State.IN_USE: _in_use,
    State.RELEASED: _released,
    State.QUARANTINED: _quarantined,
    State.ERASING: _working,
    State.VERIFYING: _working,
    State.CERTIFIED: _certified,
    State.AVAILABLE: _available,
    State.HELD: _parked,
    State.RETIRED: _parked,
}
