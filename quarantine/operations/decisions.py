"""What only people decide about a slot, with a reason for the history; and a look at it now.

Before a decision is written Placement is asked whether a server has the drive by now, which the
record may not know yet: then the record learns it first, and the decision is about a slot in use.
Where Placement does not answer, a hold is written all the same: it is the careful act, a person can
take it back, and it takes no drive from anybody. What presumes that no server has the drive waits
for Placement, of a slot that was on offer: to retire it, which is for good, and to hold it *at its
next release*, which asks for nothing to happen to a server that has it.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from eraser.protocol.identity import Slot
from quarantine.errors import (
    ConflictError,
    IllegalTransitionError,
    QuarantineError,
    StaleError,
    UnavailableError,
    UnfinishedError,
    UnreadOutcomeError,
)
from quarantine.operations import slots
from quarantine.operations.plane import Plane
from quarantine.operations.slots import SlotView, closely, known, version
from quarantine.operations.unrecordeddrive import named, unrecorded
from quarantine.record.store import Store
from quarantine.record.words import lifecycle
from quarantine.record.words.facts import (
    Initiator,
    NextHold,
    SlotChanges,
    SlotRecord,
)
from quarantine.record.words.reasons import HoldCode
from quarantine.record.words.states import FREE_TO_SCHEDULE, WAITING_FOR_PEOPLE, Event, State
from quarantine.rules import holds

if TYPE_CHECKING:
    from quarantine.service.assembly import Assembly

LOG = logging.getLogger(__name__)

_TRIES: Final = 5
"""How often a decision is written anew behind somebody who changed nothing that it is about."""


@dataclass(frozen=True)
class SlotDecision:
    """What became of a decision."""

    slot: SlotView
    unacted: str
    """Why it was not acted on at once: the running service does. Empty where it was."""
    version: str = ""
    """The slot's, as in ``VersionedSlot``."""


@dataclass(frozen=True)
class SlotLook:
    """What one look at one slot came to; ``error`` is empty when it went through."""

    slot: Slot
    state: State | None
    error: str


@dataclass(frozen=True)
class Decision:
    """Who decides, and on what."""

    by: Initiator | None = None
    versions: tuple[str, ...] = ()
    """The slot has to be at one of these (``VersionedSlot``). Empty: as it is now."""


ERASED_AGAIN: Final = frozenset({State.CERTIFIED, State.AVAILABLE})
"""States whose drives can be erased again without a hold to end."""

ANYHOW: Final = Decision()
"""As somebody decides who looks at the slot while typing."""


def hold(
    plane: Plane,
    slot: Slot,
    *,
    reason: str,
    at_next_release: bool = False,
    decision: Decision = ANYHOW,
) -> SlotDecision:
    """Keeps a slot out of the pool.

    With ``at_next_release`` a slot whose drive a server has is held when that lets go of it;
    another one now, also one in use that Placement does not show any more. Raises
    ``UnknownError``, ``IllegalTransitionError``, ``StaleError``; ``ConflictError`` where a server
    has the drive and the record cannot be told so; ``UnavailableError`` where Placement would have
    to answer first; ``UnfinishedError`` where one in use is so no more, and not held.
    """
    why = holds.because(HoldCode.BY_PERSON, reason)

    def kept(store: Store, record: SlotRecord) -> SlotRecord:
        if at_next_release and record.state is State.IN_USE:
            return _held_later(store, record, reason, decision.by)
        _require_step(record, Event.HELD)
        return store.hold(record, why, by=decision.by)

    if at_next_release:
        return _decide(plane, slot, decision, kept, needs_placement=True)
    return _decide_absent(plane, slot, decision, kept, reason)


def retire(plane: Plane, slot: Slot, *, reason: str, decision: Decision = ANYHOW) -> SlotDecision:
    """Gives its drive up; it is never handed out again. Raises as :func:`hold`.

    The record may not know the drive yet: then it is the one that the host named last, where
    nothing says that it is another's (:mod:`.unrecordeddrive`). The slot's reason says which, or
    why none is given up.
    """

    def given_up(store: Store, record: SlotRecord) -> SlotRecord:
        _require_step(record, Event.RETIRED)
        changes, why = SlotChanges(), reason
        if record.identity is None:
            found = unrecorded(store, record.slot)
            if found.identity is not None:
                changes = SlotChanges(identity=found.identity)
            # A reason has to be given all the same.
            why = f"{reason} ({found.says})" if reason.strip() else reason
        return store.transition(record, Event.RETIRED, reason=why, changes=changes, by=decision.by)

    return _decide_absent(plane, slot, decision, given_up, reason, needs_placement=True)


def release(
    plane: Plane,
    slot: Slot,
    *,
    reason: str,
    new_drive: bool = False,
    decision: Decision = ANYHOW,
) -> SlotDecision:
    """Ends a hold: the drive goes through quarantine again. Or takes back that the slot is to be
    held at its next release: then it is erased as ever.

    With ``new_drive`` the one that the host names next is accepted in the slot. Raises as
    :func:`hold`.
    """

    def let_go(store: Store, record: SlotRecord) -> SlotRecord:
        return _released(store, record, reason, new_drive, decision.by)

    return _decide(plane, slot, decision, let_go)


def erase(plane: Plane, slot: Slot, *, reason: str, decision: Decision = ANYHOW) -> SlotDecision:
    """Has the drive of a slot that is certified, on offer or held erased again, by one word.

    One that is not held is held first, until Placement has it reserved: no server gets it between.
    Who dies in the midst leaves a slot that is held for this reason; who looks at it and says the
    same again goes on. Raises as :func:`hold`; ``UnfinishedError`` where it is held by then, and
    not released: a server was quicker, the record or Placement went away, somebody else decided.
    """

    def taken(store: Store, record: SlotRecord) -> SlotRecord:
        if record.state not in ERASED_AGAIN:
            raise IllegalTransitionError(f"{record.slot}: {_why_not_again(record)}")
        return store.hold(record, holds.because(HoldCode.BY_PERSON, reason), by=decision.by)

    # A hold that stands needs no second one: its release is the erase.
    if slots.versioned(plane, slot).slot.state is State.HELD:
        return release(plane, slot, reason=reason, decision=decision)
    try:
        held = _decide(plane, slot, decision, taken, needs_placement=True)
    except UnreadOutcomeError as error:
        raise _only_held(slot, f"what came of that cannot be read: {error.__cause__}") from error
    # Placement still offers the drive then, so a server may get it: nothing is released.
    if held.unacted:
        raise _only_held(slot, f"Placement could not be told so: {held.unacted}")
    try:
        # A server may have got the drive after the first question and before Placement had it
        # reserved.
        if servers := _servers(plane, slot):
            raise _outrun(held.slot, servers[0])
        # Only the hold just made is ended: where somebody else decided since, this is a StaleError.
        decision = replace(decision, versions=(held.version,))
        return release(plane, slot, reason=reason, decision=decision)
    except (UnreadOutcomeError, UnfinishedError):
        # Both say already that something is done.
        raise
    except QuarantineError as error:
        # Whatever it is of the second half, to the caller it is not as if nothing had been done.
        raise _only_held(slot, str(error)) from error


def _only_held(slot: Slot, why: str) -> UnfinishedError:
    """The first half of an erase is on record, and the second is not."""
    done, then = (
        "it is held by now, and not yet released for its erase",
        "look at it, then the same",
    )
    return UnfinishedError(
        f"{slot}: {done} ({why}): {then} again", told=f"{slot}: {done}: {then} again"
    )


def _outrun(held: SlotView, server: str) -> UnfinishedError:
    """A server got the drive while it was being held, and keeps it."""
    left = (
        "it is held, and then to be released, when the server lets go of the drive"
        if held.state is State.IN_USE
        else "the slot is held: release it once the server has let go of the drive"
    )
    said = (
        f"{held.slot}: server {server} got the drive in that moment; nothing is erased, and {left}"
    )
    return UnfinishedError(said, told=said)


def reconcile(
    plane: Plane, *, slot: Slot | None = None, host: str | None = None
) -> tuple[SlotLook, ...]:
    """Looks at one slot now, at a host's, or at all of them. Raises ``BadInputError``."""
    with plane.assembly() as assembly:
        if slot is not None:
            known(assembly.store, slot)
            found = assembly.reconciler.bell(slot.host, slot.address)
        elif host is not None:
            found = assembly.reconciler.bell(host)
        else:
            found = assembly.reconciler.sweep()
        return tuple(SlotLook(one.slot, one.state, one.error) for one in found)


def _decide(
    plane: Plane,
    slot: Slot,
    decision: Decision,
    decide: Callable[[Store, SlotRecord], SlotRecord],
    *,
    needs_placement: bool = False,
) -> SlotDecision:
    """Writes a decision down, and acts on it at once; where that fails the service does it."""
    with plane.assembly() as assembly:
        # Who is late anyway need not wait for Placement.
        _looked_at(assembly.store, slot, decision)
        # The order matters: the record learns of a server, the decision is written, and it is acted
        # on. Whoever dies behind the second step leaves the third to the service.
        unasked = _caught_up(assembly, slot, needs_placement=needs_placement)
        record = _decided(assembly.store, slot, decision, decide)
        unacted = unasked or _acted(assembly, record)
        if unacted:
            LOG.warning("%s: decided, and not acted on at once: %s", record.slot, unacted)
        try:
            # The look may have moved the slot on.
            after = assembly.store.slot(record.slot) or record
            return SlotDecision(closely(assembly, after), unacted, version(after))
        except QuarantineError as error:
            raise UnreadOutcomeError(
                f"{record.slot}: the decision is on record, and the service acts on it; what came "
                f"of it cannot be read now: {error}"
            ) from error


def _decide_absent(
    plane: Plane,
    slot: Slot,
    decision: Decision,
    decide: Callable[[Store, SlotRecord], SlotRecord],
    reason: str,
    *,
    needs_placement: bool = False,
) -> SlotDecision:
    """As :func:`_decide`, also of a slot in use that Placement does not show at all: that nobody
    has it is written first, and is no change since the decision.

    Raises ``UnfinishedError`` where that is on record, and the decision itself is not.
    """
    with plane.parts() as parts:
        record = _looked_at(parts.store, slot, decision)
        after = _let_go_of(plane, parts.store, record, reason, decision.by)
    if after is record:
        return _decide(plane, slot, decision, decide, needs_placement=needs_placement)
    if decision.versions:
        decision = replace(decision, versions=(version(after),))
    try:
        return _decide(plane, slot, decision, decide, needs_placement=needs_placement)
    except (UnreadOutcomeError, UnfinishedError):
        # Both say already that something is done.
        raise
    except QuarantineError as error:
        done, then = "it is in use no more by now", "look at it, then the same again"
        raise UnfinishedError(
            f"{slot}: {done}, and nothing else is decided ({error}): {then}",
            told=f"{slot}: {done}, and nothing else is decided: {then}",
        ) from error


def _let_go_of(
    plane: Plane, store: Store, record: SlotRecord, reason: str, by: Initiator | None
) -> SlotRecord:
    """The record, told that a slot is in use no more which Placement does not show at all.

    No look can tell: it waits for the provider, which is gone for good where its host is, and the
    slot would be in use for ever. A person knows whether it comes back. While Placement does not
    answer it stays in use.
    """
    if record.state is not State.IN_USE or not reason.strip():
        return record
    try:
        with plane.assembly() as assembly:
            if assembly.reconciler.is_shown(record):
                return record
    except QuarantineError as error:
        LOG.info("%s: not known whether Placement shows it: %s", record.slot, error)
        return record
    why = f"Placement does not show the slot, so nobody holds it there; {reason}"
    return store.transition(record, Event.RELEASE_SEEN, reason=why, by=by)


def _servers(plane: Plane, slot: Slot) -> tuple[str, ...]:
    """Who but us holds the slot by now. Raises ``UnavailableError``."""
    with plane.assembly() as assembly:
        return assembly.reconciler.consumers(known(assembly.store, slot))


def _caught_up(assembly: Assembly, slot: Slot, *, needs_placement: bool) -> str:
    """The record knows what server has the drive; else why Placement could not be asked.

    Between this question and the decision a server may still be quicker, by moments: then the
    record says so with the look that follows.
    """
    record = known(assembly.store, slot)
    # The record knows the server of a slot in use. A retired drive is never on offer.
    if record.state in (State.IN_USE, State.RETIRED):
        return ""
    try:
        servers = assembly.reconciler.consumers(record)
    except QuarantineError as error:
        # Only in this state may Placement hand the drive out without the record knowing of it.
        if needs_placement and record.state in FREE_TO_SCHEDULE:
            raise UnavailableError(
                f"{slot}: expected Placement to say whether a server has the drive by now: "
                f"{error}; hold it, or decide when Placement answers"
            ) from error
        return str(error)
    if not servers:
        return ""
    # The look writes into the record that a server has the drive.
    why = _acted(assembly, record)
    # The record still takes the drive for free: a decision would be about a slot that is not as it
    # is shown.
    if known(assembly.store, slot).state in FREE_TO_SCHEDULE:
        said = (
            f"{slot}: {servers[0]} has the drive by now, and nothing is taken from a server; the "
            "record could not be told so"
        )
        raise ConflictError(
            f"{said} ({why or 'a look changed nothing'}): try again",
            told=f"{said}, the log says why: try again",
        )
    return ""


def _acted(assembly: Assembly, record: SlotRecord) -> str:
    """A look; why it did not go through. The service may look in that moment too."""
    # True in the last try alone.
    for is_last in (*(False,) * (_TRIES - 1), True):
        try:
            assembly.reconciler.look(record.slot)
        except ConflictError as error:
            # The service was quicker with the same step: look at what it left.
            if is_last:
                return str(error)
        except QuarantineError as error:
            return str(error)
        else:
            break
    return ""


def _looked_at(store: Store, slot: Slot, decision: Decision) -> SlotRecord:
    """The slot, as it was when this was decided. Raises ``StaleError``."""
    record = known(store, slot)
    if decision.versions and version(record) not in decision.versions:
        raise StaleError(
            f"{slot}: expected it as it was when this was decided, found it {record.state} "
            f"since {record.entered_at:%Y-%m-%d %H:%M:%S}, or something else of it changed; "
            "look at it again"
        )
    return record


def _decided(
    store: Store,
    slot: Slot,
    decision: Decision,
    decide: Callable[[Store, SlotRecord], SlotRecord],
) -> SlotRecord:
    # True in the last try alone.
    for last in (*(False,) * (_TRIES - 1), True):
        # The version is held against the record in each try: a retry never decides about more than
        # what was looked at.
        record = _looked_at(store, slot, decision)
        try:
            return decide(store, record)
        except ConflictError:
            # A host's progress, say: with a version it is known that the decision still stands.
            if last or not decision.versions:
                raise
    raise AssertionError("unreachable")


def possible(state: State) -> frozenset[str]:
    """What a person can decide about a slot in this state: hold, release, retire, erase."""
    decisions = {Event.HELD: "hold", Event.RELEASED_BY_OPERATOR: "release", Event.RETIRED: "retire"}
    found = {decisions[event] for event in lifecycle.events(state) if event in decisions}
    # Erase has no event of its own: it is a hold and a release.
    return frozenset(found | ({"erase"} if state in ERASED_AGAIN else set()))


def _require_step(record: SlotRecord, event: Event) -> None:
    if event not in lifecycle.events(record.state):
        raise IllegalTransitionError(f"{record.slot}: {_why_not(record)}")


def _why_not(record: SlotRecord) -> str:
    """Why a slot can be neither held nor retired as it is, and what can be done."""
    if record.state is State.IN_USE:
        return (
            f"server {record.consumer or 'unknown'} has the drive, and nothing is taken from a "
            "server; it is erased when the server lets go of it: decide then, or have it held at "
            "its next release"
        )
    if record.state in WAITING_FOR_PEOPLE:
        return f"it is {record.state} already ({record.reason})"
    return f"it is {record.state}: hold it first, then retire it"


def _why_not_again(record: SlotRecord) -> str:
    """Why a slot's drive cannot be erased again as it is."""
    if record.state is State.IN_USE:
        return (
            f"server {record.consumer or 'unknown'} has the drive, and nothing is taken from a "
            "server; it is erased when the server lets go of it"
        )
    if record.state in WAITING_FOR_PEOPLE:
        return f"it is {record.state} ({record.reason})"
    return f"it is {record.state}: it is being erased as it is"


def _held_later(store: Store, record: SlotRecord, reason: str, by: Initiator | None) -> SlotRecord:
    if not reason.strip():
        raise IllegalTransitionError(f"{record.slot}: expected a reason for a hold, found none")
    # No transition: the slot stays in use, and its server notices nothing.
    changes = SlotChanges(next_hold=NextHold(reason, by))
    note = f"to be held at its next release: {reason}"
    return store.amend(record, changes, note=note, by=by)


def _released(
    store: Store, record: SlotRecord, reason: str, new_drive: bool, by: Initiator | None
) -> SlotRecord:
    changes = SlotChanges()
    # There is no hold to end yet: what is taken back is the one to come.
    if record.next_hold is not None and not new_drive:
        if not reason.strip():
            raise IllegalTransitionError(f"{record.slot}: expected a reason, found none")
        note = f"not to be held at its next release any more: {reason}"
        return store.amend(record, SlotChanges(next_hold=None), note=note, by=by)
    if not new_drive and record.state is not State.HELD:
        raise IllegalTransitionError(
            f"{record.slot}: expected a held slot, or one that is to be held at its next release, "
            f"found it {record.state}: there is no hold to end"
        )
    if new_drive:
        if record.state is not State.HELD:
            raise IllegalTransitionError(
                f"{record.slot}: expected a held slot to accept a new drive in, "
                f"found it {record.state}"
            )
        _require_another_drive(store, record)
        if reason.strip():
            reason += " (another drive is accepted in the slot)"
        # The last consumer had the old drive: the new one's certificate must not name it.
        changes = SlotChanges(identity=None, consumer=None)
    return store.transition(
        record, Event.RELEASED_BY_OPERATOR, reason=reason, changes=changes, by=by
    )


def _require_another_drive(store: Store, record: SlotRecord) -> None:
    """Else the drive that was pulled would be learned again, from a word of before the exchange."""
    host = store.host(record.slot.host)
    seen = named(host, record.slot)
    if host is not None and seen is not None and seen == record.identity:
        heard = f" at {host.heard_at:%Y-%m-%d %H:%M:%S}" if host.heard_at else ""
        raise IllegalTransitionError(
            f"{record.slot}: expected its host to name another drive, found serial {seen.serial} "
            f"still named{heard}; wait for the host's next word (host show), remove a host that is "
            "gone for good ('nvme-quarantine host remove'), or release without --new-drive"
        )
