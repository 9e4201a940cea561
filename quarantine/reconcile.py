"""What is, what should be, one step: the loop that moves slots through their life.

Level triggered: every look starts from the record and from Placement as they are now, so a lost
message, a crash between two steps or another process doing the same costs time and nothing else.
Writes to the store are compare-and-set, writes to Placement carry the generation of the view that
was decided on; whoever loses looks again and decides again.
"""

from __future__ import annotations

import contextlib
import logging
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Final, Protocol

from eraser.wire.identity import Slot
from quarantine import custody
from quarantine.cloud.facts import Provider, View
from quarantine.decide import decide
from quarantine.errors import ConflictError, QuarantineError, UnavailableError
from quarantine.hands import Dispatcher, Hands, Tickets
from quarantine.offers import hold_unburnt, reserve_stranger
from quarantine.past import past_of
from quarantine.record.facts import SlotChanges, SlotRecord
from quarantine.record.states import CASE_OPEN, FREE_TO_SCHEDULE, State
from quarantine.record.store import Store
from quarantine.silence import Silence
from quarantine.step import Act, Action, Limits, Past
from quarantine.watch import Watch

LOG = logging.getLogger(__name__)

_STEPS: Final = 12
"""Steps in one look; from a release to an order it takes five."""

_PATIENCE: Final = 3
"""Slots in a row that Placement may fail before the pass is put off: each may cost a timeout."""

_READ_AT_SECONDS: Final = 60.0
"""``read_at`` is for people; a newer one is not worth a write."""


_WORK: Final = CASE_OPEN | {State.RELEASED}


def utc_now() -> datetime:
    """Our own wall clock."""
    return datetime.now(UTC)


class Haunts(Protocol):
    """Who asks Nova for ghosts (:class:`quarantine.ghosts.Haunts`)."""

    def of(self, record: SlotRecord) -> tuple[str, ...]:
        """Why nothing may be sent to the drive now; it never raises for a Nova that is away."""


class Departed(Protocol):
    """Who asks Nova for deleted servers (:class:`quarantine.departed.Departed`)."""

    def poll(self) -> frozenset[str]:
        """Their uuids, each once."""


class Cloud(custody.Door, Protocol):
    """What the loop needs of :class:`quarantine.cloud.placement.Placement`."""

    def one_time_use(self, host: str | None = None) -> list[Provider]:
        """Every one-time-use slot with its generation."""

    def offered(self, resource_class: str) -> list[Provider]:
        """The slots of a class that Placement would hand out now."""

    def by_slot(self, slot: Slot) -> Provider | None:
        """The slot's provider by name."""

    def holders(self, uuid: str) -> tuple[int, frozenset[str]] | None:
        """Generation and consumers."""


@dataclass(frozen=True)
class Outcome:
    """What one look at one slot came to; ``error`` is empty when it went through."""

    slot: Slot
    state: State | None
    error: str = ""


class Reconciler:
    """One control-plane process's hands. Several processes may run at once, one per thread."""

    def __init__(
        self,
        store: Store,
        placement: Cloud,
        dispatcher: Dispatcher,
        config: Limits,
        clock: Callable[[], datetime] = utc_now,
        *,
        tickets: Tickets,
        haunts: Haunts | None = None,
        departed: Departed | None = None,
    ) -> None:
        """``haunts`` None: Nova is not asked for ghosts; ``departed`` None: nor for deletes."""
        self._store = store
        self._placement = placement
        self._hands = Hands(store, placement, dispatcher, tickets, clock)
        self._limits = config
        self._haunts = haunts
        self._departed = departed
        self._clock = clock
        self._watch = Watch(config.in_use_reread)
        self._silence = Silence(store, config.overdue_after, clock)
        self._failed: dict[Slot, float] = {}

    def look(self, slot: Slot) -> SlotRecord | None:
        """Do for one slot all that can be done now; its record after, ``None`` if not enrolled.

        Raises ``UnavailableError`` when Placement, the broker or the store does not answer:
        nothing is lost, the next look goes on from there.
        """
        view: View | None = None
        fresh = False
        for _ in range(_STEPS):
            record = self._store.slot(slot)
            if record is None:
                return None
            if not fresh:
                view = self._view(record)
            fresh = False
            past = self._past(record)
            action = decide(record, view, self._clock(), self._limits, past)
            if action.act is Act.ASK:
                past = replace(past, ghosts=self._ghosts(record))
                action = decide(record, view, self._clock(), self._limits, past)
            try:
                with _told(record, action):
                    if action.act is Act.NOTHING:
                        return self._noted(record, view)
                    if action.act is Act.WAIT:
                        return self._noted(self._hands.wait(record, action.reason), view)
                    if action.act is Act.TICKET:
                        return self._noted(self._hands.send_ticket(record), view)
                    if action.act in (Act.ORDER, Act.RESEND):
                        return self._noted(self._hands.send(record), view)
                    view, fresh = self._hands.carry_out(record, view, action)
            except ConflictError as error:
                LOG.info("%s: %s", slot, error)
        LOG.warning("%s: still changing after %d steps; the next look goes on", slot, _STEPS)
        return self._store.slot(slot)

    def bell(self, host: str, address: str | None = None) -> list[Outcome]:
        """Something happened on that host: look at its slots, or at that one, now."""
        slots = [
            record.slot
            for record in self._store.slots(host=host)
            if address in (None, record.slot.address)
        ]
        return self._each(slots)

    def bell_server(self, server: str) -> list[Outcome]:
        """Something happened to that instance: look at the slots that it had when last read."""
        return self._each(record.slot for record in self._store.slots(consumer=server))

    def sweep(self) -> list[Outcome]:
        """List every one-time-use provider once and look at all slots that may need a step.

        A slot whose generation stood still is skipped only where our record says that nobody uses
        it and no case is open; slots in use are read again on their own budget (:meth:`reread`).
        What is on offer without a certificate is reserved, enrolled or not.
        """
        providers = self._placement.one_time_use()
        records, hosts = self._store.slots(), self._store.last_heard().keys()
        listed = {provider.uuid: provider for provider in providers}
        self._watch.refill(r for r in records if r.state is State.IN_USE)
        offered = self._offered(records)
        known = {record.slot for record in records}
        for provider in offered:
            if provider.slot not in known:
                reserve_stranger(self._placement, provider)
        # Who is on offer without a right to it comes first.
        wrong = {p.slot for p in offered} - {r.slot for r in records if r.state in FREE_TO_SCHEDULE}
        for record in records:
            if record.state in FREE_TO_SCHEDULE and record.provider not in listed:
                hold_unburnt(self._store, self._placement, record)
        wrong |= {
            r.slot for r in records if r.state in FREE_TO_SCHEDULE and r.slot.host not in hosts
        }
        due = [r for r in records if r.slot in wrong or self._is_due(r, listed)]
        due.sort(key=lambda r: (r.slot not in wrong, r.state in _WORK, r.slot))
        return self._each(r.slot for r in due)

    def reread(self) -> list[Outcome]:
        """Read the slots in use whose turn it is: one request each, a full look on a change."""
        outcomes: list[Outcome] = []
        failures = 0
        for record in self._watch.due():
            try:
                unchanged = self._still_used(record)
            except Exception as error:
                # As in _one. The slot goes back into the row, or it alone would be read for ever.
                _warn(record.slot, error)
                self._watch.missed(record)
                outcomes.append(Outcome(record.slot, record.state, str(error)))
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
        return outcomes

    def tend(self) -> list[Outcome]:
        """The round between two sweeps: open cases, and the slots in use whose turn it is."""
        return self._each(r.slot for r in self._store.slots(states=_WORK)) + self.reread()

    def follow_deletes(self) -> list[Outcome]:
        """Look at the slots in use whose servers Nova has deleted since the last time."""
        gone = self._departed.poll() if self._departed is not None else frozenset()
        if not gone:
            return []
        used = self._store.slots(states=[State.IN_USE])
        return self._each(record.slot for record in used if record.consumer in gone)

    def listen(self) -> list[Outcome]:
        """Tell of hosts that say nothing any more; their slots stay as they are."""
        self._silence.check()
        return []

    def run_forever(self, stop: threading.Event) -> None:
        """Sweep and tend until ``stop`` is set; nothing but ``stop`` ends it."""
        next_sweep = time.monotonic()
        while not stop.is_set():
            started = time.monotonic()
            if started >= next_sweep and self._guarded(self.sweep):
                next_sweep = started + self._limits.list_interval
                self._guarded(self.reread)
            else:
                self._guarded(self.follow_deletes)
                self._guarded(self.tend)
            self._guarded(self.listen)
            pause = self._limits.sweep_interval - (time.monotonic() - started)
            if pause < 0:
                LOG.warning("a round took %.1f s longer than sweep_interval", -pause)
            stop.wait(max(0.0, pause))

    def _offered(self, records: list[SlotRecord]) -> list[Provider]:
        """What Placement would hand out now of the resource classes that are enrolled."""
        classes = sorted({record.resource_class for record in records})
        return [p for name in classes for p in self._placement.offered(name)]

    def _is_due(self, record: SlotRecord, listed: dict[str, Provider]) -> bool:
        found = listed.get(record.provider)
        if record.state in _WORK or found is None or found.slot != record.slot:
            return True
        return found.generation != record.provider_generation

    def _still_used(self, record: SlotRecord) -> bool:
        held = self._placement.holders(record.provider)
        return (
            held is not None
            and held[0] == record.provider_generation
            and record.consumer in held[1]
        )

    def _each(self, slots: Iterable[Slot]) -> list[Outcome]:
        """Each slot alone: what breaks one stops no other, but a dead Placement ends the pass."""
        outcomes: list[Outcome] = []
        failures = 0
        # Who failed last time comes last: a few that always fail must not keep the others waiting.
        for slot in sorted(slots, key=lambda slot: self._failed.get(slot, 0.0)):
            outcome, available = self._one(slot)
            outcomes.append(outcome)
            if available:
                self._failed.pop(slot, None)
                failures = 0
            else:
                self._failed[slot] = time.monotonic()
                failures += 1
            if failures >= _PATIENCE:
                LOG.warning("%d slots in a row could not be read; the pass is put off", failures)
                break
        return outcomes

    def _one(self, slot: Slot) -> tuple[Outcome, bool]:
        try:
            record = self.look(slot)
        except Exception as error:
            # A mistake of ours about one slot must not stop the care for all the others.
            _warn(slot, error)
            text = str(error) if isinstance(error, QuarantineError) else repr(error)
            return Outcome(slot, None, text), not isinstance(error, UnavailableError)
        return Outcome(slot, record.state if record else None), True

    def _guarded(self, step: Callable[[], list[Outcome]]) -> bool:
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

    def _view(self, record: SlotRecord) -> View | None:
        view = self._placement.view(record.provider, record.resource_class)
        named = None if view is None else view.provider.slot
        if named == record.slot:
            return view
        # Nova goes by the name: one that was renamed by hand stands for another drive now.
        provider = self._placement.by_slot(record.slot)
        if provider is None:
            return view if named is None else None
        return self._placement.view(provider.uuid, record.resource_class)

    def _past(self, record: SlotRecord) -> Past:
        past = past_of(self._store, record, self._limits)
        return past if self._haunts is None else replace(past, ghosts=None)

    def _ghosts(self, record: SlotRecord) -> tuple[str, ...]:
        return () if self._haunts is None else self._haunts.of(record)

    def _noted(self, record: SlotRecord, view: View | None) -> SlotRecord:
        now = self._clock()
        generation = view.provider.generation if view else None
        old = record.read_at
        stale = old is None or (now - old).total_seconds() >= _READ_AT_SECONDS
        if stale or generation != record.provider_generation:
            changes = SlotChanges(provider_generation=generation, read_at=now)
            record = self._store.amend(record, changes)
        self._watch.seen(record)
        return record


def _warn(slot: Slot, error: Exception) -> None:
    """One line for what we foresaw; the whole story for a mistake of ours."""
    if isinstance(error, QuarantineError):
        LOG.warning("%s: %s", slot, error)
    else:
        LOG.error("%s: unexpected", slot, exc_info=error)


@contextlib.contextmanager
def _told(record: SlotRecord, action: Action) -> Iterator[None]:
    """Tells of a step as it begins, and of an alarm once it was more than a look at an old record.

    Looks run side by side: one that read the record before another one's step, and Placement after
    it, finds what nobody did. Its first write is refused then, and the next look decides again.
    """
    if not action.alarm:
        if action.act not in (Act.NOTHING, Act.WAIT):
            what = action.event or action.act
            LOG.info("%s (%s): %s %s", record.slot, record.state, what, action.reason)
        yield
        return
    try:
        yield
    except ConflictError:
        raise
    except BaseException:
        _alarm(record, action)
        raise
    _alarm(record, action)


def _alarm(record: SlotRecord, action: Action) -> None:
    LOG.error("ALARM %s (%s): %s", record.slot, record.state, action.reason)


def worst_case_detection(config: Limits, slots: int, read_seconds: float = 0.05) -> float:
    """Seconds from a release without any bell to our knowing of it, at worst.

    ``slots`` in use are read in turn, oldest first, each at least every ``in_use_reread`` seconds
    unless the requests (``read_seconds`` each) take longer than that; a turn comes once in
    ``sweep_interval``, and a sweep that looks at every slot may come first.
    """
    reads = slots * read_seconds
    return max(config.in_use_reread, reads) + max(config.sweep_interval, reads) + reads
