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
    look = Observation(record, view, now, limits, context)
    action = _BY_STATE[record.state](look)
    if context.unknown and action.act not in _KEEPS_OUT:
        action = Action(ActionKind.WAIT, context.unknown)
    # What keeps a drive from the wrong hands comes first; then people hear of it, once.
    if action.act in _CALM:
        code, wrong = concern(look)
        if wrong != record.alarm:
            return amend(wrong or ended(look), SlotChanges(alarm=wrong), alarm=code)
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


def _in_use(look: Observation) -> Action:
    record, others = look.record, look.others
    if not others:
        if not look.locked and look.ours is None:
            return _reserved_late(
                record,
                unburned="its claim was given up before Nova reserved it; reserved first",
                lowered="released while reserved was lowered; reserved first",
            )
        return move(
            Event.RELEASE_SEEN,
            f"the allocation of {record.consumer or 'the last consumer'} is gone",
            SlotChanges(
                consumer=look.last_user,
                custody=look.ours,
                custody_stage=Custody.left(look.ours),
            ),
        )
    # Between its claim and its burn a server holds an allocation without reserved: Nova's window.
    if not look.locked and look.age(record.entered_at) > look.limits.burn_grace:
        return _reserved_late(
            record,
            unburned="Nova has not reserved it since it was claimed; reserved",
            lowered="somebody lowered reserved while the drive is in use",
        )
    if record.consumer not in others:
        return handed_over(look)
    # A guest runs that Placement does not name: Nova may know of a migration.
    if strangers(others, look.context) and look.context.handover is Handover.UNASKED:
        return Action(ActionKind.ASK, "Nova")
    return NOTHING


def _reserved_late(record: SlotRecord, *, unburned: str, lowered: str) -> Action:
    """A build or a move may wait in Nova's queue, or end there: that is nobody's fault."""
    if is_unburned(record):
        return reserve(unburned)
    return reserve(lowered, alarm=AlarmCode.RESERVE_LOWERED)


def _released(look: Observation) -> Action:
    if look.others:
        return move(
            Event.CLAIM_SEEN,
            f"claimed by {look.others[0]} before it was erased",
            SlotChanges(consumer=look.others[0]),
            alarm=AlarmCode.CLAIMED_UNERASED,
        )
    if not look.locked:
        if look.ours is None:
            text = "free without a certificate; reserved first"
            return reserve(text, alarm=AlarmCode.ON_OFFER)
        # Between the two writes of a take: our allocation is there, and reserved is not yet.
        return Action(ActionKind.ENSURE, "custody was half taken")
    # Only now that it is reserved: a hold locks nothing in Placement.
    if look.record.next_hold is not None:
        return hold_as_asked(look.record.next_hold)
    if look.ours is None:
        return Action(ActionKind.TAKE, "custody")
    changes = SlotChanges(consumer=look.last_user, custody=look.ours)
    return move(Event.CUSTODY_TAKEN, changes=changes)


def _quarantined(look: Observation) -> Action:
    record = look.record
    broken = _custody_trouble(look)
    if broken is not None:
        return broken
    if look.ours is None:
        # Only a custody that was seen can vanish: of one that is TAKING the request may not have
        # been made before its look died.
        if record.custody_stage is Custody.HELD:
            return amend(_CUSTODY_GONE, _NO_CASE, alarm=AlarmCode.CUSTODY_GONE)
        return Action(ActionKind.TAKE, "custody again")
    if look.strange_custody:
        return amend(_STRANGE_CUSTODY, look.begun_again, alarm=AlarmCode.CUSTODY_STRANGE)
    if record.custody_stage is not Custody.HELD:
        return fence("custody was found")
    postponed = look.context.postponed
    if postponed >= look.limits.max_attempts:
        text = f"the order came back {postponed} times without an erase: {record.reason}"
        return hold(HoldCode.ORDER_CAME_BACK, text)
    if postponed and look.age(record.entered_at) < look.limits.retry_in_use_after:
        return NOTHING
    return _unless_haunted(look, Action(ActionKind.ORDER, "erase"))


def _working(look: Observation) -> Action:
    record = look.record
    broken = _custody_trouble(look)
    if broken is not None:
        return broken
    if look.ours is None:
        return move(Event.POSTPONED, _CUSTODY_GONE, _NO_CASE, alarm=AlarmCode.CUSTODY_GONE)
    if look.strange_custody:
        code = AlarmCode.CUSTODY_STRANGE
        return move(Event.POSTPONED, _STRANGE_CUSTODY, look.begun_again, alarm=code)
    # Since the later of the two: an order sent again has its time anew.
    last = min(look.age(record.ordered_at), look.age(record.heard_at))
    if last > look.patience:
        return _unless_haunted(look, Action(ActionKind.RESEND, "nothing was heard of the order"))
    return NOTHING


def _unless_haunted(look: Observation, action: Action) -> Action:
    """Nothing is sent to a drive that may have a user whom Placement does not know."""
    context = look.context
    if context.claimed:
        return Action(ActionKind.WAIT, context.claimed)
    if context.ghosts is None:
        return Action(ActionKind.ASK, "Nova")
    if context.ghosts:
        return Action(ActionKind.WAIT, "; ".join(context.ghosts))
    return action


def _custody_trouble(look: Observation) -> Action | None:
    """What is wrong with the two locks of an open case, where that needs a step of its own."""
    if look.others:
        return hold(
            HoldCode.CLAIMED,
            f"{look.others[0]} holds the drive although it was under our custody "
            f"({custody.describe(look.view)})",
            SlotChanges(consumer=look.others[0]),
        )
    if not look.locked:
        if look.ours is None:
            text = "custody and reserved are gone; reserved first"
            return reserve(text, alarm=AlarmCode.ON_OFFER)
        text = "reserved was lowered under custody"
        return Action(ActionKind.ENSURE, text, alarm=AlarmCode.RESERVE_LOWERED)
    return None


def _certified(look: Observation) -> Action:
    record = look.record
    begun = record.custody_stage is Custody.RETURNING
    if look.ours is None:
        # RETURNING is written before the request that gives the drive back: without it somebody
        # else took our custody away. A hold locks nothing in Placement, so a drive that is free
        # is reserved first, and held by the next look.
        if not look.locked and not look.others and (look.lacks or not begun):
            return reserve(
                f"free although {look.lacks or 'we did not give it back'}; reserved first",
                alarm=AlarmCode.ON_OFFER,
            )
        if look.lacks or not begun:
            return hold(
                _GONE[bool(look.lacks)],
                f"{look.lacks or 'not given back by us, and burned again since'} "
                f"({custody.describe(look.view)})",
                SlotChanges(
                    custody=None,
                    custody_stage=Custody.NONE,
                    consumer=look.others[0] if look.others else record.consumer,
                ),
            )
        # Whoever has it by now got it clean, and is its user from the next look on.
        return move(
            Event.RETURNED,
            changes=SlotChanges(custody=None, custody_stage=Custody.NONE, consumer=None, detail=""),
        )
    # A claim on a drive under custody is graver than both, and its hold names the claimant.
    if look.lacks and not look.others:
        return hold(HoldCode.NOT_CLEAN, look.lacks)
    if look.strange_custody and not look.others:
        changes = SlotChanges(consumer=look.last_user, custody=look.ours)
        return hold(HoldCode.STRANGE_CUSTODY, _STRANGE_CUSTODY, changes)
    return _custody_trouble(look) or _to_the_pool(look)


def _to_the_pool(look: Observation) -> Action:
    """Certified and locked away by us alone: given back once its host would let a guest start."""
    record, present = look.record, look.context.incarnation
    if not look.limits.tickets:
        return _give_back(look)
    if present is None:
        return Action(ActionKind.WAIT, f"waiting for host {record.slot.host} to be registered")
    if record.ticket_incarnation != present:
        # The new life knows nothing of the case, and takes no ticket without its report.
        before = record.ticket_incarnation or "given no ticket"
        return _recalled(
            look, f"its host is incarnation {present} now and was {before} at the certificate"
        )
    if look.context.recall:
        return _recalled(look, look.context.recall)
    if not look.context.greeted:
        return Action(ActionKind.WAIT, f"waiting for the hello of host {record.slot.host}")
    if look.context.unguarded:
        return Action(ActionKind.WAIT, look.context.unguarded)
    # The host's receipt is in: a guest on this drive would start.
    if record.ticket_ready:
        return _give_back(look)
    if look.age(record.ticket_at) > look.patience:
        return Action(ActionKind.TICKET, "its host's receipt is wanted")
    return NOTHING


def _recalled(look: Observation, why: str) -> Action:
    """Erased again; first whoever has begun to give the slot back is kept from it."""
    if look.record.custody_stage is Custody.RETURNING:
        return fence(why)
    return move(Event.RECALLED, f"{why}: erased again")


def _give_back(look: Observation) -> Action:
    """Nova reserves only what has the trait: without it the next user would leave no mark."""
    if look.context.burns is None:
        return Action(ActionKind.CHECK, ONE_TIME_USE)
    mark = SlotChanges(offered_as=look.mark_of_return)
    return (
        Action(ActionKind.GIVE_BACK, "certified", changes=mark)
        if look.context.burns
        else hold(HoldCode.NO_ONE_TIME_USE, UNBURNABLE)
    )


def _available(look: Observation) -> Action:
    if look.others:
        return move(
            Event.CLAIM_SEEN,
            changes=SlotChanges(consumer=look.others[0], custody=None, custody_stage=Custody.NONE),
        )
    if look.ours is not None:
        return move(
            Event.RELEASE_SEEN,
            "our custody is still there; erased again",
            SlotChanges(custody=look.ours, custody_stage=Custody.TAKING),
            alarm=AlarmCode.CUSTODY_GONE,
        )
    wrong = look.lacks or look.context.recall or intruder(look)
    if look.locked:
        return move(
            Event.RELEASE_SEEN,
            wrong or "reserved without an allocation: used and let go between two looks",
            # Of a recall people heard when we reserved the slot for it. Where Nova did, its ticket
            # is used as it should be: a short use is no alarm.
            alarm=only(AlarmCode.ON_OFFER, look.lacks or intruder(look)),
        )
    if wrong:
        return reserve(f"on offer although {wrong}; reserved first", alarm=AlarmCode.ON_OFFER)
    return NOTHING if look.limits.tickets else _unmoved(look)


def _unmoved(look: Observation) -> Action:
    """No gate tells of a guest here: what moves the provider is a use until it is explained."""
    mark = Mark.read(look.record.offered_as)
    # Nobody wrote to the provider since the mark.
    if mark is not None and mark.generation == look.view.provider.generation:
        return NOTHING
    if look.context.traits is None:
        return Action(ActionKind.CHECK, "traits")
    now = Mark.of(look.view, look.context.traits)
    # A slot that was on offer before there were marks gets its first one, unjudged.
    why = mark.unexplained(now) if mark is not None else ""
    if not why:
        return amend("", SlotChanges(offered_as=str(now)))
    if look.context.crowded:
        return Action(ActionKind.WAIT, look.context.crowded)
    return reserve(f"{why}; reserved first")


def _parked(look: Observation) -> Action:
    """Held or retired: we only keep the drive out of the pool."""
    if look.outrun:
        return move(
            Event.CLAIM_SEEN,
            f"{look.others[0]} was quicker than the hold: held at its next release",
            SlotChanges(
                consumer=look.others[0],
                next_hold=NextHold(look.record.reason, look.context.held_by),
            ),
        )
    if not look.locked:
        if look.ours is not None:
            return Action(
                ActionKind.ENSURE,
                f"reserved was lowered while {look.record.state}",
                alarm=AlarmCode.RESERVE_LOWERED,
            )
        # A drive that was on offer when a person decided is free at the first look after that.
        alarm = only(AlarmCode.ON_OFFER, not look.first)
        return reserve(f"free while {look.record.state}; reserved", alarm=alarm)
    if look.ours is not None and look.record.custody_stage is not Custody.HELD:
        return fence(f"{look.record.state} in the midst of a step")
    if look.others and look.record.consumer not in look.others:
        return amend(
            f"{look.others[0]} holds the drive while it is {look.record.state}: {USED_AGAIN}",
            SlotChanges(consumer=look.others[0]),
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
