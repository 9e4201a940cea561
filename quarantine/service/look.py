"""One look at one slot: what is, what should be, and each step that can be taken now.

The record is read anew for each step, and Placement but after those that know what they left.
"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import datetime
from typing import Final, Protocol

from eraser.protocol.identity import Slot
from quarantine.cloud import custody
from quarantine.cloud.facts import ONE_TIME_USE_TRAITS, Provider, View
from quarantine.errors import ConflictError
from quarantine.logs import named
from quarantine.record.store import Store
from quarantine.record.words.clock import is_to_come
from quarantine.record.words.facts import UNSETTLED, SlotChanges, SlotRecord
from quarantine.record.words.reasons import LASTING, AlarmCode
from quarantine.record.words.states import (
    FREE_TO_SCHEDULE,
    WAITING_FOR_PEOPLE,
    Custody,
    State,
)
from quarantine.rules import absence
from quarantine.rules.action import Action, ActionKind, ServiceLimits, SlotContext
from quarantine.rules.alarmbook import SlotInState, alarm
from quarantine.rules.alarms import may_be_overdue
from quarantine.rules.breaks import attended_since
from quarantine.rules.decide import decide
from quarantine.rules.handover import Handover
from quarantine.rules.maintenance import Maintenances
from quarantine.rules.observation import strangers
from quarantine.service.brake import Brake
from quarantine.service.context import context_of
from quarantine.service.copies import Copies
from quarantine.service.executor import Executor
from quarantine.service.reread_schedule import RereadSchedule
from quarantine.service.turns import Turns
from quarantine.service.unknowndefences import UnknownDefences

LOG = logging.getLogger(__name__)

_STEPS: Final = 12
"""Steps in one look; from a release to an order it takes five."""

_READ_AT_SECONDS: Final = 60.0
"""``read_at`` is for people; a newer one is not worth a write."""

_UUID_LENGTH: Final = 36
"""Of a server of Nova's; a host may call its domains anything."""

_LAST: Final = frozenset(
    {ActionKind.NOTHING, ActionKind.WAIT, ActionKind.TICKET, ActionKind.ORDER, ActionKind.RESEND}
)
"""Steps that end a look."""

_UNWAITING: Final = FREE_TO_SCHEDULE | WAITING_FOR_PEOPLE | {State.IN_USE}
"""States in which a slot waits for what a look says, and for nothing else."""

_ORDERS: Final = frozenset({ActionKind.ORDER, ActionKind.RESEND})
"""Steps that may end with an erase."""


class ChecksOrphanGuests(Protocol):
    """Who asks Nova for ghosts: see :mod:`quarantine.service.sweep.orphan_guests`."""

    def of(self, record: SlotRecord, unchanged: float) -> tuple[str, ...]:
        """Why nothing may be sent to the drive now; it never raises for a Nova that is away.
        For ``unchanged`` seconds nobody got the drive."""


class JudgesHandovers(Protocol):
    """Who asks Nova for migrations (:class:`quarantine.service.handovers.Handovers`)."""

    def between(self, before: str, now: str) -> Handover:
        """What Nova says of two consumers; it never raises for a Nova that is away."""


class LookPlacement(custody.CustodyPlacement, Protocol):
    """What a look needs of :class:`quarantine.cloud.placement.Placement`."""

    def by_slot(self, slot: Slot) -> Provider | None:
        """The slot's provider by name."""

    def holders(self, uuid: str) -> tuple[int, frozenset[str]] | None:
        """Generation and consumers."""

    def burns(self, uuid: str) -> bool:
        """Whether Nova reserves the slot at its next use."""

    def traits(self, uuid: str) -> tuple[int, frozenset[str]]:
        """Generation and traits."""


class Looks:
    """Takes them, one after the other; not thread safe."""

    def __init__(
        self,
        store: Store,
        placement: LookPlacement,
        executor: Executor,
        limits: ServiceLimits,
        clock: Callable[[], datetime],
        *,
        orphan_guests: ChecksOrphanGuests | None,
        handovers: JudgesHandovers | None,
        brake: Brake,
        unknown_defences: UnknownDefences,
        watch: RereadSchedule,
        turns: Turns,
    ) -> None:
        """``brake``, ``watch`` and ``turns`` are the loop's: they hear of what was seen."""
        self._store = store
        self._placement = placement
        self.executor = executor
        self._limits = limits
        self._clock = clock
        self._orphan_guests = orphan_guests
        self._handovers = handovers
        self._brake = brake
        self._unknown_defences = unknown_defences
        self._watch = watch
        self._turns = turns
        self._copies = Copies()
        self._called: dict[Slot, tuple[AlarmCode, str]] = {}
        """What people were called for by a step that failed, while it fails with each look."""

    def look(self, slot: Slot) -> SlotRecord | None:
        """Do for one slot all that can be done now; its record after, ``None`` if not enrolled.

        Raises ``UnavailableError`` when Placement, the broker or the store does not answer:
        nothing is lost, the next look goes on from there.
        """
        view: View | None = None
        kept: int | None = None
        began: SlotRecord | None = None
        for _ in range(_STEPS):
            # Read anew for every step: a worker, a person or another look may write between two of
            # them.
            record = self._store.slot(slot)
            if record is None:
                return None
            began = began or record
            with named(case=record.order_id or ""):
                # Under a record that somebody else wrote the view is too old: the slot may have
                # been given back, and claimed, in between.
                if record.revision != kept:
                    view = self.view(record)
                kept = None
                context = self.context(record)
                action = decide(record, view, self._clock(), self._limits, context)
                try:
                    # Nova and the traits are asked only where the rules want to know: each costs
                    # requests.
                    if action.act is ActionKind.ASK:
                        context = self._asked(context, record, view, began)
                        action = decide(record, view, self._clock(), self._limits, context)
                    elif action.act is ActionKind.CHECK:
                        context = self._checked(context, record, view)
                        action = decide(record, view, self._clock(), self._limits, context)
                    with self._told(record, action):
                        if action.act not in _LAST:
                            view, kept = self.executor.carry_out(record, view, action)
                        # After the step: what Placement failed to reserve does not count. Traits
                        # are read only where no gate tells of guests, and only there the brake
                        # holds.
                        if context.traits is not None:
                            self._brake.note(slot, action)
                        if action.act in _ORDERS:
                            self._require_unmoved(record, view)
                        if action.act in _LAST:
                            after = self._last(record, action)
                            self._called.pop(slot, None)
                            done = action.act is ActionKind.NOTHING
                            return self._noted(after, view, context, done=done)
                except ConflictError as error:
                    LOG.info("%s: %s", slot, error)
        LOG.warning("%s: still changing after %d steps; the next look goes on", slot, _STEPS)
        return self._store.slot(slot)

    def _require_unmoved(self, record: SlotRecord, view: View | None) -> None:
        """No write to Placement goes with an order, which would be refused where a server was
        quicker: so Placement is asked. Raises ``ConflictError`` where it moved since the view."""
        found = self._placement.holders(record.provider)
        if view is None or found != (
            view.provider.generation,
            frozenset(each.consumer for each in view.allocations),
        ):
            raise ConflictError(f"its provider is not as it was: {found}; look again")

    @contextlib.contextmanager
    def _told(self, record: SlotRecord, action: Action) -> Iterator[None]:
        """Tells of a step as it begins, and of an alarm once it was more than a look at an old
        record. Of a look's last step its own code tells, once it is known whether it changed
        anything.

        Looks run side by side: one that read the record before another one's step, and Placement
        after it, finds what nobody did. Its first write is refused then, and the next look decides
        again.
        """
        if not action.alarm:
            if action.act not in _LAST:
                what = action.event or action.act
                LOG.info("%s (%s): %s %s", record.slot, record.state, what, action.reason)
            yield
            return
        try:
            yield
        except ConflictError:
            raise
        except BaseException:
            # No other failure says that the record was old: people hear of what was seen.
            self._call(record, action.alarm, action.reason)
            raise
        # Where the record did not have it by then, the call was written as one that is over.
        if action.alarm in LASTING:
            self._called.pop(record.slot, None)
        self._call(record, action.alarm, action.reason)
        self._called.pop(record.slot, None)

    def _call(self, record: SlotRecord, code: AlarmCode, reason: str) -> None:
        """Once for a step, however often it is tried."""
        if self._called.get(record.slot) != (code, reason):
            alarm(SlotInState(record.slot, record.state), code, reason)
        self._called[record.slot] = code, reason

    def _last(self, record: SlotRecord, action: Action) -> SlotRecord:
        """The step after which there is nothing more to do now; the record after it."""
        if action.act is ActionKind.NOTHING:
            return record
        if action.act is ActionKind.WAIT:
            return self.executor.wait(record, action.reason)
        send = self.executor.send_ticket if action.act is ActionKind.TICKET else self.executor.send
        after = send(record)
        if (after.ordered_at, after.ticket_at) != (record.ordered_at, record.ticket_at):
            # What waits for its host was not sent; whoever had to wait has said so, once.
            LOG.info("%s (%s): %s %s", record.slot, record.state, action.act, action.reason)
            first_ticket = action.act is ActionKind.TICKET and record.ticket_at is None
            if action.act is not ActionKind.ORDER and not first_ticket:
                self._copies.sent(after)
        return after

    def view(self, record: SlotRecord) -> View | None:
        """What Placement says of the slot now."""
        view = self._placement.view(record.provider, record.resource_class)
        named = None if view is None else view.provider.slot
        if named == record.slot:
            return view
        # Nova goes by the name: one that was renamed by hand stands for another drive now.
        provider = self._placement.by_slot(record.slot)
        if provider is None:
            # Under a name that stands for no slot it is judged as it was. Under another slot's name
            # it is that slot's, and ours is absent.
            return view if named is None else None
        return self._placement.view(provider.uuid, record.resource_class)

    def context(self, record: SlotRecord) -> SlotContext:
        """What else the decision rests on, as far as nobody has to be asked for it."""
        # None is a question that was not put yet: the rules answer ASK or CHECK to it.
        context = replace(context_of(self._store, record, self._limits), burns=None)
        context = replace(context, copies=self._copies_of(record, context.host_heard_at))
        young = self._unknown_defences.is_young(record.slot.host, context.doubtful, context.said)
        context = replace(context, doubtful=young)
        # Asked only where something could be told.
        if may_be_overdue(record, self._clock(), self._limits.overdue_after):
            since = attended_since(self._store.passes(), self._clock(), self._limits.overdue_after)
            context = replace(context, attended_since=since, quiet=self._quiet(record))
        if self._handovers is not None:
            context = replace(context, handover=Handover.UNASKED)
        return context if self._orphan_guests is None else replace(context, ghosts=None)

    def _copies_of(self, record: SlotRecord, heard: datetime | None) -> int:
        if heard is None or (self._clock() - heard).total_seconds() > self._limits.silent_after:
            self._copies.forget(record.slot)
        return self._copies.of(record)

    def _quiet(self, record: SlotRecord) -> bool:
        """A person expects delays."""
        found = Maintenances.of(self._store.maintenances(record.slot.host))
        return bool(found.of_slot(record.slot))

    def _asked(
        self, context: SlotContext, record: SlotRecord, view: View | None, began: SlotRecord
    ) -> SlotContext:
        """With Nova's answer to what the state of the slot makes us ask; the look ``began`` so."""
        if record.state is not State.IN_USE:
            return replace(context, ghosts=self._ghosts(record, began))
        others = view.foreign(record.custody) if view is not None else ()
        if self._handovers is None or record.consumer is None or not others:
            return replace(context, handover=Handover.STRANGE)
        now = tuple(held.consumer for held in others)
        # Where the consumer on record holds the drive still, the question is about the guest that
        # runs beside it; else about that consumer.
        if record.consumer in now:
            before = set(strangers(now, context))
        else:
            # Migrations are a server's, never each other's: one may follow another unseen.
            server = self._store.server_behind(record.consumer)
            before = {record.consumer if server == now[0] else server}
        one = before.pop() if len(before) == 1 else ""
        if not 0 < len(one) <= _UUID_LENGTH:
            # One guest at most is the migration's. A host may name thousands, by any text.
            return replace(context, handover=Handover.STRANGE)
        return replace(context, handover=self._handovers.between(one, now[0]))

    def _checked(self, context: SlotContext, record: SlotRecord, view: View | None) -> SlotContext:
        """With the traits of the slot. Raises ``ConflictError`` where it moved since the view."""
        if self._limits.tickets:
            # After the view: a trait that goes later moves the generation of our write.
            return replace(context, burns=self._placement.burns(record.provider))
        generation, traits = self._placement.traits(record.provider)
        if view is None or generation != view.provider.generation:
            raise ConflictError(f"its provider moved on to generation {generation}; look again")
        return replace(
            context,
            burns=not traits.isdisjoint(ONE_TIME_USE_TRAITS),
            traits=traits,
            crowded=self._crowded(record) if record.state is State.AVAILABLE else "",
        )

    def _crowded(self, record: SlotRecord) -> str:
        """Where nobody sweeps, as in the worker, a full brake has to be told who is done."""
        if self._brake.is_stale(self._limits.list_interval):
            self._brake.refresh(self._store.every_slot()[0])
        return self._brake.waits(record.slot)

    def _ghosts(self, record: SlotRecord, began: SlotRecord) -> tuple[str, ...]:
        if self._orphan_guests is None:
            return ()
        # What was on offer may have had a user until just now.
        returning = began.custody_stage is Custody.RETURNING
        now = self._clock()
        since = now if returning or began.state is State.AVAILABLE else began.entered_at
        return self._orphan_guests.of(record, (now - since).total_seconds())

    def _noted(
        self, record: SlotRecord, view: View | None, context: SlotContext, *, done: bool
    ) -> SlotRecord:
        """The look is over. Its generation is kept only where nothing is left to do in the slot: a
        slot that is not settled stays due, whoever looks next. ``done``: it waits for nothing."""
        now = self._clock()
        settled = view is None or _settled(record, view, context)
        # Without inventory there is nothing to schedule: absent, like a slot without a provider.
        shown = view is not None and bool(view.inventories)
        generation = view.provider.generation if view is not None and shown else None
        if shown and not settled:
            generation = UNSETTLED
        # In the other states what a slot waits for is said by its host, or by who sends to it.
        over = done and record.state in _UNWAITING and bool(record.detail)
        old, back = record.read_at, shown and (over or absence.is_told(record))
        stale = old is None or (now - old).total_seconds() >= _READ_AT_SECONDS
        # The first look that finds nothing stays: since then the slot is absent. But where our
        # clock was set back: nobody would hear of it until that time is here.
        first = old is None or is_to_come(old, now)
        moved = generation != record.provider_generation
        if moved or back or (stale and shown) or (first and not shown):
            # Whoever wrote the state may have a clock that is ahead: it was seen all the same.
            read_at = max(now, record.entered_at) if shown else now
            changes = SlotChanges(provider_generation=generation, read_at=read_at)
            if back:
                changes = replace(changes, detail="")
            record = self._store.amend(record, changes)
        self._watch.seen(record)
        if not settled:
            self._turns.wait(record.slot)
        return record


def _settled(record: SlotRecord, view: View, context: SlotContext) -> bool:
    """False for a claim that Nova has not burned yet: only time tells whether it will. And where
    something could not be read: only the next look can tell."""
    return not context.unknown and (view.locked or record.state is not State.IN_USE)
