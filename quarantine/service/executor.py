"""Carrying out one step: the writes to the store and to Placement, in the order that survives."""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Final, Protocol

from quarantine.cloud import custody
from quarantine.cloud.facts import View
from quarantine.doors import Monotonic, new_uuid
from quarantine.errors import BadInputError, BrokerAwayError, ConflictError
from quarantine.record.store import Store
from quarantine.record.words.facts import UNSET, SlotChanges, SlotRecord
from quarantine.record.words.reasons import AlarmCode
from quarantine.record.words.states import Custody, Event, State
from quarantine.record.words.texts import storable
from quarantine.rules.action import Action, ActionKind
from quarantine.rules.alarmbook import alarm
from quarantine.service import owners

LOG = logging.getLogger(__name__)

_QUIET_SHARE: Final = 2.0
"""What the broker did not take is followed by a time without any try: so many times as long as that
one took, so that at most a third of the time goes to a broker whose machine is gone."""

_QUIET_SECONDS: Final = 5.0
"""That long at least: each try has a line in the log."""


class SendsOrders(Protocol):
    """Who sends orders to hosts (:mod:`quarantine.service.issue.dispatch`)."""

    def order(self, record: SlotRecord) -> SlotRecord:
        """Send the case's order, the same one again where it is out already.

        Where something is missing (the host's hello, a profile) the record stays quarantined and
        the next look asks again. Raises ``BrokerAwayError`` when the broker does not take it.
        """


class SendsTickets(Protocol):
    """Who sends tickets to hosts (:mod:`quarantine.service.issue.tickets`)."""

    def send(self, record: SlotRecord) -> SlotRecord:
        """Send the case's ticket, always the same one; the time of sending is on the record.

        Raises ``BrokerAwayError`` when the broker does not take it, ``BadInputError`` where the
        stored one is no good.
        """


class Executor:
    """Does what :func:`quarantine.rules.decide.decide` asked for, one step per call."""

    def __init__(
        self,
        store: Store,
        placement: custody.CustodyPlacement,
        dispatcher: SendsOrders,
        tickets: SendsTickets,
        uuid: Callable[[], str] = new_uuid,
        monotonic: Monotonic = time.monotonic,
    ) -> None:
        self._store = store
        self._placement = placement
        self._dispatcher = dispatcher
        self._tickets = tickets
        self._uuid = uuid
        self._monotonic = monotonic
        self._quiet_until = -math.inf

    def wait(self, record: SlotRecord, reason: str) -> SlotRecord:
        """Say on the record what the slot waits for."""
        reason = storable(reason)
        if record.detail == reason:
            return record
        LOG.warning("%s: %s", record.slot, reason)
        return self._store.amend(record, SlotChanges(detail=reason))

    def send_ticket(self, record: SlotRecord) -> SlotRecord:
        """Have the ticket sent; a case whose stored one is no good begins again."""
        try:
            return self._posted(self._tickets.send, record)
        except BadInputError as error:
            # Damaged, or signed by a key that was replaced since: it stays so, and no other ticket
            # can be made of this case.
            after = self._store.transition(record, Event.RECALLED, reason=str(error))
            # After the write: where it is refused the record moved on, and nobody is called for it.
            alarm(record.slot, AlarmCode.TICKET_DAMAGED, str(error))
            return after

    def send(self, record: SlotRecord) -> SlotRecord:
        """Have the order sent; the time of sending is on the record afterwards."""
        return self._posted(self._dispatcher.order, record)

    def _posted(self, send: Callable[[SlotRecord], SlotRecord], record: SlotRecord) -> SlotRecord:
        """What ``send`` leaves. Where the broker took nothing a moment ago it is not tried: looks
        have other steps to take than to wait for its timeouts."""
        began = self._monotonic()
        if began < self._quiet_until:
            raise BrokerAwayError(
                "broker: it took no message a moment ago; this one goes out on a later round"
            )
        try:
            return send(record)
        except BrokerAwayError as error:
            LOG.warning("%s: %s", record.slot, error)
            now = self._monotonic()
            self._quiet_until = now + max(_QUIET_SECONDS, _QUIET_SHARE * (now - began))
            raise

    def carry_out(
        self, record: SlotRecord, view: View | None, action: Action
    ) -> tuple[View | None, int | None]:
        """Do one step; the view to go on with, and the revision of the record that it goes with:
        under another one somebody else wrote since. None: look again.

        Raises ``ConflictError`` when the record or Placement moved on, ``UnavailableError`` when
        it is unknown whether Placement did what was asked: look again in both cases.
        """
        done = self._carry_out(record, view, action)
        # Last: no lock waits for what only people ask.
        owners.learn(self._store, view, action.changes.consumer)
        return done

    def _carry_out(
        self, record: SlotRecord, view: View | None, action: Action
    ) -> tuple[View | None, int | None]:
        seen = {"placement": custody.describe(view) if view else "no provider"}
        if action.event is Event.RELEASE_SEEN and record.state is State.IN_USE and record.consumer:
            seen["consumer"] = record.consumer
        # Of a hold or a transition the record comes first and Placement, where it has to be written
        # to, with the next step: who dies in between leaves a state from which a look goes on.
        if action.hold is not None:
            after = self._store.hold(
                record, action.hold, detail=seen, changes=action.changes, by=action.by
            )
            return view, _kept_for(after, action)
        if action.act is ActionKind.TRANSITION and action.event is not None:
            after = self._store.transition(
                record, action.event, reason=action.reason, detail=seen, changes=action.changes
            )
            return view, _kept_for(after, action)
        if action.act is ActionKind.AMEND:
            after = self._store.amend(record, action.changes, note=action.reason)
            return view, _kept_for(after, action)
        # All further steps write to a provider.
        if view is None:
            return None, None
        if action.act in (ActionKind.RESERVE, ActionKind.ENSURE):
            # The note first: it fails where the record is older than the view, and then what is
            # found in Placement may be the work of a look beside this one.
            noted = self._store.amend(record, SlotChanges(), note=action.reason)
            if action.act is ActionKind.ENSURE:
                return custody.ensure(self._placement, view, record.custody), noted.revision
            custody.reserve(self._placement, view)
            return None, None
        if action.act is ActionKind.FENCE:
            self._fence(record, view, action.changes, action.reason)
            return None, None
        if action.act is ActionKind.TAKE:
            return self._take(record, view)
        if action.act is not ActionKind.GIVE_BACK:
            raise ValueError(f"expected a step on the record or in Placement, found {action.act}")
        self._give_back(record, view, action.changes)
        return None, None

    def _take(self, record: SlotRecord, view: View) -> tuple[View, int]:
        # The same consumer again where a look died in the midst: its allocation is found by it.
        consumer = record.custody or self._uuid()
        if record.custody is None:
            # Before the request: whoever finds the allocation after a crash must know whose it is.
            taking = SlotChanges(custody=consumer, custody_stage=Custody.TAKING)
            record = self._store.amend(record, taking)
        taken = custody.take(self._placement, view, consumer)
        # After the request: HELD says that we have written to Placement since any return began.
        after = self._store.amend(record, SlotChanges(custody_stage=Custody.HELD))
        return taken, after.revision

    def _give_back(self, record: SlotRecord, view: View, changes: SlotChanges) -> None:
        if record.custody is None:
            raise ConflictError(f"{record.slot}: expected a custody to give back, found none")
        # The mark tells a later look that an absent custody may be our own doing. Written also
        # where it was begun before: a fence that was put up since we read the record refuses this,
        # and one that comes after it our request.
        begun = self._store.amend(record, replace(changes, custody_stage=Custody.RETURNING))
        try:
            custody.give_back(self._placement, view, record.custody)
        except ConflictError:
            # A proxy that repeats a request gets a 409 for one that went through. Where the custody
            # is gone the mark stands: whoever has the drive by now got it clean, and it is erased
            # when he lets go. Where it is still there nothing was done, and the mark must not
            # excuse what somebody else does next.
            now = self._placement.view(view.provider.uuid, view.resource_class)
            if now is not None and custody.returnable(now, record.custody):
                self._fence(begun, now, SlotChanges(custody_stage=Custody.HELD))
            raise

    def _fence(self, record: SlotRecord, view: View, changes: SlotChanges, note: str = "") -> None:
        """Placement first: the record says that it was done, and a crash does it again."""
        custody.reserve(self._placement, view)
        self._store.amend(record, changes, note=note)


def _kept_for(after: SlotRecord, action: Action) -> int | None:
    """A view is of one resource class: where the record got another, it has to be read again."""
    return after.revision if action.changes.resource_class is UNSET else None
