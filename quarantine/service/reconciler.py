"""Which slot is looked at when: the loop that moves slots through their life.

Level triggered: every look starts from the record and from Placement as they are now, so a lost
message, a crash between two steps or another process doing the same costs time and nothing else.
Writes to the store are compare-and-set, writes to Placement carry the generation of the view that
was decided on; whoever loses looks again and decides again.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Final, Protocol

from eraser.protocol.identity import Slot
from quarantine.cloud.facts import Provider
from quarantine.doors import new_uuid, utc_now
from quarantine.errors import BrokerAwayError, QuarantineError, UnavailableError
from quarantine.record.store import Store
from quarantine.record.words.facts import PLACEMENT, READING, RESUMED, SWEEP, SlotRecord
from quarantine.record.words.states import CASE_OPEN, FREE_TO_SCHEDULE, State
from quarantine.rules import absence
from quarantine.rules.absence import Absences
from quarantine.rules.action import ServiceLimits
from quarantine.rules.breaks import is_break
from quarantine.rules.maintenance import Maintenances
from quarantine.rules.offermark import Mark
from quarantine.service.brake import Brake
from quarantine.service.campaigns import CampaignWork
from quarantine.service.executor import Executor, SendsOrders, SendsTickets
from quarantine.service.look import ChecksOrphanGuests, JudgesHandovers, LookPlacement, Looks
from quarantine.service.reread_schedule import RereadSchedule
from quarantine.service.safety import OffersPlacement, Safety
from quarantine.service.sweep.leftovers import Leftovers
from quarantine.service.sweep.stray_offers import UnreadableRows, hold_unburnable
from quarantine.service.turns import TimeBox, Turns
from quarantine.service.unknowndefences import UnknownDefences
from quarantine.service.watch.host_liveness import HostLiveness
from quarantine.service.watch.lateness import Lateness

LOG = logging.getLogger(__name__)

_PATIENCE: Final = 3
"""Slots in a row that Placement may fail before the pass is put off: each may cost a timeout."""

_SHARE: Final = 1 / 3
"""Of ``sweep_interval``, for each pass of a round: what waits, the slots in use, the open cases.
And for campaigns after them."""

_WORK: Final = CASE_OPEN | {State.RELEASED}


class PollsDeletedServers(Protocol):
    """Who asks Nova for deleted servers (:mod:`quarantine.service.sweep.deleted_servers`)."""

    def poll(self) -> frozenset[str]:
        """Their uuids, each once."""


class TellsLeftAllocations(Protocol):
    """Who asks Nova about consumers (:mod:`quarantine.service.sweep.left_allocations`)."""

    def turn(self, records: Iterable[SlotRecord]) -> None:
        """A few of those that use a slot."""


class SlotPlacement(LookPlacement, OffersPlacement, Protocol):
    """What the loop needs of :class:`quarantine.cloud.placement.Placement`."""

    def one_time_use(self, host: str | None = None) -> list[Provider]:
        """Every one-time-use slot with its generation."""


@dataclass(frozen=True)
class LookResult:
    """What one look at one slot came to; ``error`` is empty when it went through."""

    slot: Slot
    state: State | None
    error: str = ""
    is_away: bool = False
    """Placement, or the record, did not answer: the next slot would meet the same."""
    seconds: float = 0.0
    """How long that took to say."""


class Reconciler:
    """One control-plane process's hands. Several processes may run at once, one per thread."""

    def __init__(
        self,
        store: Store,
        placement: SlotPlacement,
        dispatcher: SendsOrders,
        config: ServiceLimits,
        clock: Callable[[], datetime] = utc_now,
        *,
        tickets: SendsTickets,
        orphan_guests: ChecksOrphanGuests | None = None,
        deleted_servers: PollsDeletedServers | None = None,
        left_allocations: TellsLeftAllocations | None = None,
        lateness: Lateness | None = None,
        handovers: JudgesHandovers | None = None,
        monotonic: Callable[[], float] = time.monotonic,
        uuid: Callable[[], str] = new_uuid,
    ) -> None:
        """What is None of ``orphan_guests``, ``deleted_servers`` (deletes), ``left_allocations``
        (consumers) and ``handovers`` (migrations), Nova is not asked for; ``lateness`` None: of its
        own."""
        self._store = store
        self._placement = placement
        self._limits = config
        self._deleted_servers = deleted_servers
        self._left_allocations = left_allocations
        self._clock = clock
        self._monotonic = monotonic
        self._next_sweep = monotonic()
        self._watch = RereadSchedule(config.in_use_reread, monotonic)
        self._turns = Turns(monotonic)
        self._unlisted = Turns(monotonic)
        self._leftovers = Leftovers(store, told_again(config), clock, monotonic)
        self._liveness = HostLiveness(store, config.silent_after, config.overdue_after, clock)
        self._safety = Safety(store, placement, config, monotonic=monotonic)
        self._unread = UnreadableRows()
        self._lateness = lateness or Lateness(monotonic)
        self._lateness.expect(SWEEP, lambda: sweep_bound(config))
        # Where that is late the sweep is, or there are more slots than it can read: that is for
        # whoever looks at the fleet, at no hour of the night.
        self._lateness.expect(
            READING, lambda: worst_case_detection(config, len(self._watch)), calls=False
        )
        self._absences = Absences(config.absent_after, sweep_bound(config))
        self._brake = Brake(monotonic)
        self._doubted: frozenset[Slot] = frozenset()
        self._looks = Looks(
            store,
            placement,
            Executor(store, placement, dispatcher, tickets, uuid, monotonic),
            config,
            clock,
            orphan_guests=orphan_guests,
            handovers=handovers,
            brake=self._brake,
            unknown_defences=UnknownDefences(config.unknown_grace, monotonic),
            watch=self._watch,
            turns=self._turns,
        )
        self._campaigns = CampaignWork(store, self._looks.look, self.consumers, monotonic)

    def look(self, slot: Slot) -> SlotRecord | None:
        """Do for one slot all that can be done now, as :meth:`Looks.look`."""
        return self._looks.look(slot)

    def consumers(self, record: SlotRecord) -> tuple[str, ...]:
        """Who but us holds the slot in Placement now. Raises ``UnavailableError``."""
        view = self._looks.view(record)
        held = () if view is None else view.foreign(record.custody)
        return tuple(one.consumer for one in held)

    def is_shown(self, record: SlotRecord) -> bool:
        """Whether Placement has anything of the slot now. Raises ``UnavailableError``."""
        view = self._looks.view(record)
        return view is not None and bool(view.inventories)

    def bell(self, host: str, address: str | None = None) -> list[LookResult]:
        """A person wants that host's slots looked at, or that one: all, however long that takes."""
        return self._each(self._rung(host, address))

    def ring(self, host: str, address: str | None = None) -> tuple[Slot, ...]:
        """Something happened on that host: look at its slots, or at that one, in a time box.

        Those that it did not reach. Whoever passes bells on rings for each of them in its turn:
        the worker, which hears bells, has a reconciler of its own without any other pass. What it
        forgets (by ending), and what Placement was away for, the service's rounds look at.
        """
        slots = self._rung(host, address)
        outcomes = self._each(slots, self._box())
        # Rung again they would meet the same, in front of all other bells.
        return () if self._is_away(outcomes) else tuple(slots[len(outcomes) :])

    def _is_away(self, outcomes: list[LookResult]) -> bool:
        """Placement does not answer: some looks in a row said so, or one that took all the time."""
        last = outcomes[-_PATIENCE:]
        if not last or not last[-1].is_away:
            return False
        hung = last[-1].seconds >= self._limits.sweep_interval * _SHARE
        return hung or (len(last) == _PATIENCE and all(one.is_away for one in last))

    def _rung(self, host: str, address: str | None) -> list[Slot]:
        return self._turns.oldest_first(
            record.slot
            for record in self._store.slots(host=host)
            if address in (None, record.slot.address)
        )

    def sweep(self) -> list[LookResult]:
        """List every one-time-use provider once and look at all slots that may need a step.

        A slot whose generation stood still is skipped only where our record says that nobody uses
        it and no case is open; slots in use are read again on their own budget (:meth:`reread`).
        What is on offer without a certificate is reserved, enrolled or not. Whom the pass does not
        reach in its time comes first in the next rounds.
        """
        # Who is on offer without a right to it comes first.
        wrong = self._safety.check().reserved
        # Before the record: who gives a slot back has written it there by then, so what is listed
        # here as on offer is in the record that is read next.
        providers = self._placement.one_time_use()
        self._guarded(self._note_listing)
        records, unread = self._store.every_slot()
        self._unread.tell(unread)
        hosts = self._store.last_heard().keys()
        listed = {provider.uuid: provider for provider in providers}
        self._watch.refill(r for r in records if r.state is State.IN_USE)
        self._turns.forget({record.slot for record in records})
        self._brake.refresh(records)
        named = {provider.slot for provider in providers if provider.slot is not None}
        lacking = absence.weigh(records, listed, named)
        if any(self._placement.by_slot(slot) is not None for slot in lacking.sample):
            # They are there, without the trait: that is seen slot by slot.
            lacking = replace(lacking, doubted=frozenset())
        self._doubted = lacking.doubted
        quiet = Maintenances.of(self._store.maintenances())
        self._absences.tell(lacking, records, self._clock(), quiet)
        free = {r.slot: r for r in records if r.state in FREE_TO_SCHEDULE}
        # The listing goes by the trait: what is on offer without it Nova would not reserve.
        self._hold_unburnable([record for record in free.values() if record.provider not in listed])
        # Where the gate is required, slots on offer of a removed host are taken back.
        wrong |= {slot for slot in free if slot.host not in hosts}
        # What is wrongly on offer is looked at, however doubtful the listing is.
        by_slot = {
            r.slot: r
            for r in records
            if r.slot in wrong or (r.slot not in self._doubted and self._is_due(r, listed))
        }
        due = [by_slot[slot] for slot in self._turns.oldest_first(by_slot)]
        # Nobody waits behind those that the brake leaves on offer: they may be very many.
        crowd = [r for r in due if r.slot not in wrong and self._was_left(r, listed)]
        later = {r.slot for r in crowd[self._brake.room :]}
        due = [r for r in due if r.slot not in later]
        # What moved while it was on offer may have a user by now whom nothing else shows.
        known = {r.slot for r in crowd}
        # The sort is stable: among equals the longest wait stays first.
        due.sort(key=lambda r: (r.slot not in wrong, r.slot in known, r.slot not in free))
        cases = [r.slot for r in due if r.state in _WORK and r.slot not in wrong]
        urgent = [r.slot for r in due if r.state not in _WORK or r.slot in wrong]
        outcomes = self._each(urgent, self._box(), wait=True)
        # No place in the next round for cases: each round looks at all open ones, oldest first.
        return outcomes + self._each(cases, self._box())

    def reread(self) -> list[LookResult]:
        """Read the slots in use whose turn it is: one request each, a full look on a change."""
        outcomes: list[LookResult] = []
        failures = 0
        box = self._box()
        # No list: which slots are due is asked step by step, for the looks in between change it.
        for number, record in enumerate(self._watch.due()):
            # One at least, or a pass that begins late would read none for ever.
            if number and box.over:
                break
            if record.slot in self._doubted:
                self._watch.missed(record)
                continue
            try:
                unchanged = self._still_used(record)
            except Exception as error:
                # As in _one. The slot goes back into the row, or it alone would be read for ever.
                _warn(record.slot, error)
                self._watch.missed(record)
                outcomes.append(LookResult(record.slot, record.state, str(error)))
                failures += 1
                if failures >= _PATIENCE:
                    break
                continue
            failures = 0
            if unchanged:
                self._watch.seen(record)
            else:
                outcomes += self._each([record.slot])
                if outcomes[-1].error:
                    self._watch.missed(record)
        self._lateness.done(READING, self._watch.oldest)
        return outcomes

    def tend(self) -> list[LookResult]:
        """The round between two sweeps: who waits, the slots in use whose turn it is, open cases.

        What the first two leave of the time is for the cases, the longest wait first.
        """
        whole = self._box(1.0)
        outcomes = self._each(self._turns.waiting(), self._box(), wait=True) + self.reread()
        work = (r.slot for r in self._store.slots(states=_WORK) if r.slot not in self._doubted)
        return outcomes + self._each(self._turns.oldest_first(work), whole)

    def follow_deletes(self) -> list[LookResult]:
        """Look at the slots in use whose servers Nova has deleted since the last time."""
        gone = self._deleted_servers.poll() if self._deleted_servers is not None else frozenset()
        if not gone:
            return []
        used = self._store.slots(states=[State.IN_USE])
        left = [record.slot for record in used if record.consumer in gone]
        return self._each(left, self._box(), wait=True)

    def ask_about_consumers(self) -> list[LookResult]:
        """Tell of slots in use by whom Nova has forgotten; slots stay as they are."""
        if self._left_allocations is not None:
            self._left_allocations.turn(self._store.slots(states=[State.IN_USE]))
        return []

    def listen(self) -> list[LookResult]:
        """Tell of hosts that say nothing any more, and of alarms that are over; slots stay as they
        are."""
        self._liveness.check()
        self._leftovers.end()
        return []

    def campaigns(self) -> list[LookResult]:
        """A turn of each campaign that runs: they are in no hurry, and the next round is."""
        self._campaigns.advance_all(seconds=self._limits.sweep_interval * _SHARE)
        return []

    def _note_listing(self) -> list[LookResult]:
        self._store.note_pass(PLACEMENT, sweep_bound(self._limits))
        return []

    def _note_sweep(self) -> list[LookResult]:
        # First: without it, the next sweep would find no break any more.
        if is_break(self._store.passes(), self._clock(), self._limits.overdue_after):
            self._store.note_pass(RESUMED, sweep_bound(self._limits))
        self._store.note_pass(SWEEP, sweep_bound(self._limits))
        return []

    def round(self) -> None:
        """A sweep where one is due, or what lies between two sweeps. Raises nothing."""
        started = self._monotonic()
        if started >= self._next_sweep and self._guarded(self.sweep):
            # A sweep that failed is due again in the next round. Counted from its beginning: a slow
            # one must not make the next ones rarer.
            self._next_sweep = started + self._limits.list_interval
            self._lateness.done(SWEEP)
            # Not by a sweep that failed: who asks from outside has to see that none went through.
            self._guarded(self._note_sweep)
            self._guarded(self.reread)
            self._guarded(self.ask_about_consumers)
        else:
            self._guarded(self.follow_deletes)
            self._guarded(self.tend)
        self._guarded(self.listen)
        self._lateness.check()
        self._guarded(self.campaigns)

    def run_forever(self, stop: threading.Event) -> None:
        """Round after round until ``stop`` is set; nothing but ``stop`` ends it."""
        while not stop.is_set():
            started = self._monotonic()
            self.round()
            pause = self._limits.sweep_interval - (self._monotonic() - started)
            if pause < 0:
                LOG.warning("a round took %.1f s longer than sweep_interval", -pause)
            stop.wait(max(0.0, pause))

    def _hold_unburnable(self, unlisted: list[SlotRecord]) -> None:
        """A listing may be empty for once: then this is everything that is on offer."""
        box = self._box()
        records = {record.slot: record for record in unlisted}
        for slot in self._unlisted.oldest_first(records):
            hold_unburnable(self._store, self._placement, records[slot])
            self._unlisted.looked(slot)
            if box.over:
                break
        self._unlisted.forget(set(records))

    def _is_due(self, record: SlotRecord, listed: dict[str, Provider]) -> bool:
        found = listed.get(record.provider)
        if record.state in _WORK or found is None or found.slot != record.slot:
            return True
        # Without a gate the mark counts, not the last look: each write since has to be explained.
        if record.state is State.AVAILABLE and not self._limits.tickets:
            mark = Mark.read(record.offered_as)
            return mark is None or mark.generation != found.generation
        return found.generation != record.provider_generation

    def _was_left(self, record: SlotRecord, listed: dict[str, Provider]) -> bool:
        """Its provider stands as it did when the slot was looked at last, and was left on offer."""
        found = listed.get(record.provider)
        if found is None or found.slot != record.slot or self._limits.tickets:
            return False
        marked = record.state is State.AVAILABLE and Mark.read(record.offered_as) is not None
        return marked and found.generation == record.provider_generation

    def _still_used(self, record: SlotRecord) -> bool:
        held = self._placement.holders(record.provider)
        return (
            held is not None
            and held[0] == record.provider_generation
            and record.consumer in held[1]
        )

    def _box(self, share: float = _SHARE) -> TimeBox:
        return TimeBox(self._limits.sweep_interval * share, self._monotonic)

    def _each(
        self, slots: Iterable[Slot], box: TimeBox | None = None, *, wait: bool = False
    ) -> list[LookResult]:
        """Each slot alone: what breaks one stops no other, but a dead Placement ends the pass.

        ``wait``: whom the pass does not reach comes first in the next round.
        """
        outcomes: list[LookResult] = []
        failures = 0
        left = list(dict.fromkeys(slots))
        for done, slot in enumerate(left, start=1):
            outcome = self._one(slot)
            outcomes.append(outcome)
            self._turns.looked(slot)
            failures = failures + 1 if outcome.is_away else 0
            away = failures >= _PATIENCE
            if away:
                LOG.warning("%d slots in a row could not be read; the pass is put off", failures)
            if away or (box is not None and box.over):
                if wait:
                    self._turns.missed(left[done:])
                break
        return outcomes

    def _one(self, slot: Slot) -> LookResult:
        began = self._monotonic()
        try:
            record = self.look(slot)
        except Exception as error:
            # A mistake of ours about one slot must not stop the care for all the others.
            _warn(slot, error)
            text = str(error) if isinstance(error, QuarantineError) else repr(error)
            # Of a broker that is away the next slot meets nothing: it is not tried for each.
            is_away = isinstance(error, UnavailableError) and not isinstance(error, BrokerAwayError)
            return LookResult(slot, None, text, is_away, self._monotonic() - began)
        return LookResult(slot, record.state if record else None)

    def _guarded(self, step: Callable[[], list[LookResult]]) -> bool:
        try:
            step()
        except QuarantineError as error:
            LOG.warning("%s: %s", step.__name__, error)
            return False
        except Exception:
            # As in _one: the loop is what brings everything else back, so it goes on.
            LOG.exception("%s: unexpected", step.__name__)
            return False
        return True


def _warn(slot: Slot, error: Exception) -> None:
    """One line for what we foresaw; the whole story for a mistake of ours."""
    if isinstance(error, BrokerAwayError):
        # Whoever tried has said so, once for all slots.
        LOG.info("%s: %s", slot, error)
    elif isinstance(error, QuarantineError):
        LOG.warning("%s: %s", slot, error)
    else:
        LOG.error("%s: unexpected", slot, exc_info=error)


def sweep_bound(config: ServiceLimits) -> float:
    """Seconds after which people hear that no sweep went through: two may fail."""
    return 3 * (config.list_interval + 2 * config.sweep_interval)


def told_again(config: ServiceLimits) -> float:
    """Seconds in which a process that begins has called people again for whatever still is."""
    after = max(config.silent_after, config.overdue_after, config.absent_after)
    return after + sweep_bound(config)


def worst_case_detection(config: ServiceLimits, slots: int, read_seconds: float = 0.05) -> float:
    """Seconds from a release without any bell to our knowing of it, at worst.

    ``slots`` in use are read in turn, oldest first, each at least every ``in_use_reread`` seconds
    unless the requests (``read_seconds`` each) take longer than that in their share of the rounds;
    a turn comes once in ``sweep_interval``. A slot whose claim another process saw (the worker, by
    a bell) is among them after the next listing.
    """
    reads = slots * read_seconds
    turn = config.sweep_interval + min(reads, config.sweep_interval)
    return max(config.in_use_reread, config.list_interval, reads / _SHARE) + turn
