"""What Placement would hand out and must not: reserved first, by a thread that does nothing else.

It waits for no case, no slow pass, no broker and no host: it needs Placement's list of what is on
offer, the record's list of what may be, and one write for each slot that is in the first and not in
the second. It decides nothing about a slot's case; the look that follows does.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import deque
from collections.abc import Collection, Iterable
from dataclasses import dataclass, replace
from typing import Final, Protocol

from eraser.protocol.identity import Slot
from quarantine.cloud import custody
from quarantine.cloud.facts import Provider
from quarantine.doors import Monotonic
from quarantine.errors import (
    ConflictError,
    QuarantineError,
    UnavailableError,
    UnreadableError,
)
from quarantine.record.store import Store
from quarantine.record.words.facts import SlotChanges, SlotRecord
from quarantine.record.words.reasons import AlarmCode
from quarantine.record.words.states import WAITING_FOR_PEOPLE
from quarantine.rules.action import ServiceLimits
from quarantine.rules.alarmbook import SlotInState, alarm
from quarantine.rules.entitlement import entitled, is_as_a_person_found_it, is_unburned
from quarantine.service.sweep.newclasses import ListsClasses, NewClasses
from quarantine.service.turns import TimeBox, Turns
from quarantine.service.watch.lateness import Lateness
from quarantine.service.watch.silence import Silence

LOG = logging.getLogger(__name__)

PASS: Final = "safety pass"  # noqa: S105
"""What is late where no pass was good within the bound."""

_TRIES: Final = 5
"""Views of one slot that may be stale at the write; who comes in between has moved it."""

_PATIENCE: Final = 3
"""Slots in a row that Placement may fail before the pass ends."""

_SLOW_LINE: Final = 5.0
"""Seconds after which a line of history is the last one that a pass writes."""

_MEASURED: Final = 20
"""Good passes, and slots in them, whose longest counts as what one may take."""


class OffersPlacement(custody.CustodyPlacement, ListsClasses, Protocol):
    """What the pass needs of :class:`quarantine.cloud.placement.Placement`."""

    def offered(self, resource_class: str, traits: Collection[str] = ()) -> list[Provider]:
        """The slots of a class that Placement would hand out now; ``traits``: with one of them."""


@dataclass(frozen=True)
class SafetyResult:
    """What a pass came to."""

    reserved: frozenset[Slot]
    """Slots that were on offer without a right to it, and are no longer."""
    left: int = 0
    """How many more are, or may be; a class that could not be asked for counts as one."""


class Safety:
    """One safety pass after the other, with a Placement client of its own."""

    def __init__(
        self,
        store: Store,
        placement: OffersPlacement,
        limits: ServiceLimits,
        *,
        lateness: Lateness | None = None,
        monotonic: Monotonic = time.monotonic,
    ) -> None:
        self._store = store
        self._silence = Silence(limits.silent_after, monotonic)
        self._placement = placement
        self._limits = limits
        self._now = monotonic
        self._turns = Turns(monotonic)
        self._new_classes = NewClasses(placement)
        self._took: deque[float] = deque(maxlen=_MEASURED)
        self._slots: deque[float] = deque(maxlen=_MEASURED)
        self._shown = 0.0
        self._cut = False
        """The last pass left slots on offer because its time was over, and for nothing else."""
        self._lateness = lateness

    @property
    def bound(self) -> float:
        """Seconds that a slot may stand on offer without a right to it, one failed pass included.

        It is put on offer just after a pass has asked; that pass goes on, another one fails, and
        the next one reserves it. Measured: the longest of the last passes and of the last slots.
        Before the first one a pass counts as one request that takes as long as it may.
        """
        longest = max(self._took, default=self._limits.request_timeout)
        slot = max(self._slots, default=longest)
        return 2 * (self._pause(longest) + longest) + longest + slot

    def check(self) -> SafetyResult:
        """One pass. Raises ``UnavailableError`` where the record does not answer."""
        # Placement first: what is given back after this is in the record when we read that.
        offered, failed = self._offered()
        # One answer for all slots: one query for each would make the bound grow with the fleet.
        rightly = entitled(self._store.claims(), tickets=self._limits.tickets)
        wrong = {
            provider.slot: provider
            for provider in offered
            if provider.slot is not None and (provider.uuid, provider.slot) not in rightly
        }
        found = self._reserve_all(wrong)
        return replace(found, left=found.left + failed)

    def _offered(self) -> tuple[list[Provider], int]:
        """Each class alone: the odd name of one must not hide what the others have on offer."""
        offered: list[Provider] = []
        failed = 0
        known = self._store.resource_classes()
        for name in known:
            try:
                offered += self._placement.offered(name)
            except Exception as error:
                _tell(name, error)
                failed += 1
        strangers, unasked = self._strangers(known)
        return offered + strangers, failed + unasked

    def _strangers(self, known: Collection[str]) -> tuple[list[Provider], int]:
        """Drives of other classes, by their trait, on hosts that have an enrolled slot.

        A host that has none is not under our care: what it offers is its operator's. So is a
        device of which its host says that it is no NVMe function. Where nothing is enrolled,
        nobody is asked.
        """
        if not known:
            return [], 0
        # In each pass, for it counts the time in which hosts are heard.
        silent = self._silence.of(self._store.last_heard())
        try:
            row = self._new_classes.turn(known)
        except Exception as error:
            _tell("resource classes", error)
            return [], 1
        found: list[Provider] = []
        failed = 0
        for name in row:
            try:
                those = self._placement.offered(name, self._new_classes.traits)
            except Exception as error:
                _tell(name, error)
                failed += 1
                if isinstance(error, UnavailableError):
                    break  # each further answer may take as long as this one
                continue
            # The record after Placement, and only where there is something to judge.
            cared = self._store.hosts_in_care() if those else frozenset()
            ours = [provider for provider in those if provider.host in cared]
            drives = self._drives(ours, silent)
            if drives or len(ours) < len(those):
                self._new_classes.had(name)
            found += drives
        return found, failed

    def _drives(self, providers: Iterable[Provider], silent: Collection[str]) -> list[Provider]:
        """Without those of which their hosts' last hellos say that they are something else; what
        ``silent`` hosts said says nothing."""
        by_host: dict[str, list[Provider]] = {}
        for provider in providers:
            by_host.setdefault(provider.host or "", []).append(provider)
        found: list[Provider] = []
        for name, those in by_host.items():
            seen = None if name in silent else self._seen(name)
            found += [p for p in those if seen is None or (p.slot and p.slot.address in seen)]
        return found

    def _seen(self, host: str) -> frozenset[str] | None:
        """Addresses of the host's NVMe functions, by its hello; None where nobody can say."""
        try:
            known = self._store.host(host)
        except UnreadableError:
            return None
        if known is None or known.hello is None:
            return None
        return frozenset(drive.address for drive in known.hello.drives)

    def run_forever(self, stop: threading.Event) -> None:
        """Pass after pass until ``stop`` is set; nothing but ``stop`` ends it."""
        while not stop.is_set():
            took = self.run_once()
            # Where very many lost their locks at once, no half of the time goes by beside them.
            stop.wait(0.0 if self._cut else self._pause(took))

    def run_once(self) -> float:
        """One pass, measured and told of; the seconds it took. Raises nothing."""
        started = self._now()
        self._cut = False
        try:
            good = not self.check().left
        except QuarantineError as error:
            LOG.warning("%s: %s", PASS, error)
            good = False
        except Exception:
            # A mistake of ours must not end the one thing that nothing else stands in for.
            LOG.exception("%s: unexpected", PASS)
            good = False
        took = self._now() - started
        # One that left something is no measure of what a whole pass takes.
        if good:
            self._took.append(took)
            self._show()
            if self._lateness is not None:
                # As of its beginning: what came on offer while it ran was not asked for.
                self._lateness.done(PASS, at=started)
        if self._lateness is not None:
            self._lateness.check()
        return took

    def _pause(self, took: float) -> float:
        """At least as long as the pass, so that Placement has the other half of the time."""
        return max(self._limits.safety_interval, took)

    def _show(self) -> None:
        """Again when it has doubled or halved: what is measured changes a little all the time."""
        if not self._shown / 2 <= self.bound <= self._shown * 2:
            self._shown = self.bound
            LOG.info(
                "a drive on offer without a right to it is reserved after %.1f s at worst "
                "(a pass takes %.2f s, one comes every %g s)",
                self.bound,
                max(self._took),
                self._pause(max(self._took)),
            )

    def _reserve_all(self, wrong: dict[Slot, Provider]) -> SafetyResult:
        """Until the time is over: then Placement is asked anew, for those that came meanwhile."""
        reserved: set[Slot] = set()
        # A Placement that is slow to write must not keep us from asking what else it would hand
        # out.
        box = TimeBox(max(self._limits.safety_interval, 1.0), self._now)
        failures = settled = 0
        for number, slot in enumerate(self._turns.oldest_first(wrong), start=1):
            started = self._now()
            try:
                if self._reserve(wrong[slot], slot):
                    reserved.add(slot)
                settled += 1
                failures = 0
                self._slots.append(self._now() - started)
            except Exception as error:
                _tell(slot, error)
                failures += 1
            self._turns.looked(slot)
            if box.over or failures >= _PATIENCE:
                # What fails has the pause: a Placement that is slow for its load gets less of it.
                self._cut = failures == 0 and number < len(wrong)
                break
        self._turns.forget(set(wrong))
        self._tell_all(sorted(reserved))
        return SafetyResult(frozenset(reserved), len(wrong) - settled)

    def _reserve(self, provider: Provider, slot: Slot) -> bool:
        """Whether we reserved it: nobody else did, and it has no right to be on offer."""
        for _ in range(_TRIES):
            view = self._placement.view(provider.uuid, "")
            # The list is some seconds old; a server may have taken the drive, and a server's is not
            # ours.
            if view is None or not view.on_offer or view.provider.slot != slot:
                return False
            # The record after the view: whoever gave the slot back before the view wrote it there.
            claims = self._store.claims(slot)
            if (provider.uuid, slot) in entitled(claims, tickets=self._limits.tickets):
                return False
            try:
                custody.reserve(self._placement, view)
            except ConflictError:
                # Somebody wrote since the view: the drive may be a server's, or rightly given back.
                continue
            return True
        raise UnavailableError(f"still changing after {_TRIES} looks; the next pass goes on")

    def _tell_all(self, reserved: list[Slot]) -> None:
        """After all of them are safe: a record that is locked by somebody else costs lines of
        history, and the time of one answer."""
        answers = True
        for slot in reserved:
            try:
                record = self._store.slot(slot) if answers else None
            except UnavailableError as error:
                LOG.info("%s: no line of history: %s", slot, error)
                record, answers = None, False
            except QuarantineError as error:
                text = f"on offer, its row cannot be read ({error}); reserved"
                alarm(slot, AlarmCode.ON_OFFER, text)
                continue
            if record is not None:
                answers = self._told(record)
            elif answers:
                text = "on offer and not enrolled; reserved, enrol it"
                alarm(slot, AlarmCode.NOT_ENROLLED, text)
            else:
                alarm(slot, AlarmCode.ON_OFFER, "on offer without a right to it; reserved")

    def _told(self, record: SlotRecord) -> bool:
        """Whether it went into the record, and soon: a commit may wait for a standby."""
        started = self._now()
        reason = f"on offer while {record.state}, without a right to it; reserved"
        if not self._is_expected(record):
            alarm(SlotInState(record.slot, record.state), AlarmCode.ON_OFFER, reason)
        try:
            self._store.amend(record, SlotChanges(), note=reason)
        except QuarantineError as error:
            LOG.info("%s: no line of history: %s", record.slot, error)
            return False
        return self._now() - started < _SLOW_LINE

    def _is_expected(self, record: SlotRecord) -> bool:
        """A person decided it so, or a server's claim ended before Nova burned the drive, and the
        look that follows would have reserved it as silently."""
        if is_unburned(record):
            return True
        if record.state not in WAITING_FOR_PEOPLE:
            return False
        try:
            last = self._store.newest_history(record.slot, 1)
        except QuarantineError as error:
            LOG.info("%s: whether that was asked for cannot be read: %s", record.slot, error)
            return False
        return is_as_a_person_found_it(record, last[0] if last else None)


def _tell(what: Slot | str, error: Exception) -> None:
    """One odd slot or class, or a mistake of ours, must not end the pass for all the others."""
    if isinstance(error, QuarantineError):
        LOG.warning("%s: %s", what, error)
    else:
        LOG.error("%s: unexpected", what, exc_info=error)
