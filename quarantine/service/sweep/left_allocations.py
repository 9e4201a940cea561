"""Slots in use by a consumer that Nova has forgotten: an allocation that was left over.

Where a nova-compute dies between the end of a migration and the removal of its allocation, the
allocation stays for ever, and the slot is "in use" as long. ``nova-manage placement audit`` (Nova
34, ``_check_orphaned_allocations_for_provider``) looks at Nova's own resource classes alone. So
Nova is asked about each consumer in its turn, and people are told; nothing else follows from it.
"""

from __future__ import annotations

import contextlib
import logging
import time
from collections.abc import Callable, Iterable
from datetime import timedelta
from typing import Final, Protocol

from eraser.protocol.identity import Slot
from quarantine.cloud.novafacts import ComputeService, Migration, Server
from quarantine.doors import Clock, utc_now
from quarantine.errors import ConflictError, QuarantineError
from quarantine.record.store import Store
from quarantine.record.words.facts import SlotRecord
from quarantine.record.words.reasons import AlarmCode
from quarantine.record.words.states import State
from quarantine.rules.alarmbook import StandingAlarms
from quarantine.service.sweep.service_hosts import ServiceHosts, UnsaidError

LOG = logging.getLogger(__name__)

AT_ONCE: Final = 5
"""Consumers that are asked about in one turn: some 7,000 a day with turns of a minute."""

YOUNG_SECONDS: Final = 3600.0
"""A slot that is in use for less is not asked about: what ends late has time to end."""

AGAIN_SECONDS: Final = 6 * 3600.0
"""Between two questions about a consumer that Nova knows."""

AWAY_SECONDS: Final = 600.0
"""A Nova that did not answer is not asked again for so long: each try may cost a timeout."""

DOUBT_SECONDS: Final = 900.0
"""Between two about one that it does not know: it may have ended just now. Told at the second."""


class ConsumersNova(Protocol):
    """What is asked of :class:`quarantine.cloud.compute.Compute`."""

    def server(self, server: str) -> Server | None:
        """A server; None where Nova has it no more."""

    def service_host(self, node: str) -> str | None:
        """The service host of a hypervisor."""

    def compute_services(self, host: str) -> list[ComputeService]:
        """Its nova-compute."""

    def migrations(self, host: str) -> list[Migration]:
        """Its migrations, ended or not."""


class LeftAllocations:
    """Remembers whom Nova was asked about. For one thread."""

    def __init__(
        self,
        store: Store,
        nova: ConsumersNova,
        clock: Clock = utc_now,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._store = store
        self._nova = nova
        self._hosts = ServiceHosts(nova, monotonic)
        self._clock = clock
        self._now = monotonic
        self._due: dict[tuple[Slot, str], float] = {}
        """When each slot's consumer is asked about next."""
        self._unknown: dict[tuple[Slot, str], float] = {}
        """Since when Nova does not know it."""
        self._away_until = -float("inf")
        self._standing = StandingAlarms()
        self._told_before: frozenset[str] | None = None
        """By the process before this one: they are asked about first."""

    def turn(self, records: Iterable[SlotRecord]) -> None:
        """Asks about those whose turn it is. Raises ``UnavailableError`` for the record alone."""
        old = self._clock() - timedelta(seconds=YOUNG_SECONDS)
        used = {
            (record.slot, record.consumer): record
            for record in records
            if record.state is State.IN_USE and record.consumer and record.entered_at <= old
        }
        self._due = {each: at for each, at in self._due.items() if each in used}
        self._unknown = {each: at for each, at in self._unknown.items() if each in used}
        present = [slot for slot, _consumer in self._unknown]
        self._standing.end_others(present, AlarmCode.ALLOCATION_LEFT, "it is let go of, or known")
        now, first = self._now(), self._first()
        if now < self._away_until:
            return
        due = [each for each in used if self._due.get(each, now) <= now]
        due.sort(key=lambda each: (str(each[0]) not in first, self._due.get(each, -float("inf"))))
        for each in due[:AT_ONCE]:
            try:
                why, move = self._why_left(*each)
            except UnsaidError as error:
                LOG.warning("%s: Nova cannot be asked about its consumer: %s", each[0], error)
                self._due[each] = self._now() + AWAY_SECONDS
                continue
            except (QuarantineError, LookupError, TypeError, ValueError) as error:
                LOG.warning("%s: Nova cannot be asked about its consumer: %s", each[0], error)
                # Also after the others, or one strange answer would keep all from their turn.
                self._due[each] = self._away_until = self._now() + AWAY_SECONDS
                return
            if move is not None:
                # Of one that had the drive when we saw it first, or while Nova was away. Where
                # somebody else notes it in this moment, it is noted.
                with contextlib.suppress(ConflictError):
                    self._store.note_move(move.uuid, move.server)
            self._weigh(each, why)

    def _first(self) -> frozenset[str]:
        if self._told_before is None:
            page = self._store.alarm_page(
                limit=1000, codes=[AlarmCode.ALLOCATION_LEFT], is_over=False
            )
            self._told_before = frozenset(line.subject for line in page)
        return self._told_before

    def _why_left(self, slot: Slot, consumer: str) -> tuple[str, Migration | None]:
        """Why the allocation is of no use, empty where it is, or may be; and its migration."""
        if self._nova.server(consumer) is not None:
            return "", None
        host = self._hosts.of(slot.host)
        # A cell whose database is down has no servers and no migrations, and is no error (2.69);
        # nor are its compute services up.
        if host is None or not any(each.up for each in self._nova.compute_services(host)):
            return "", None
        for move in self._nova.migrations(host):
            if move.uuid == consumer:
                what = f"{move.kind or 'migration'} {consumer} of server {move.server}"
                ended = f"in use by {what}, which Nova calls {move.status}"
                return "" if move.unfinished else ended, move
        return f"in use by {consumer}, and Nova knows no such server and no such migration", None

    def _weigh(self, each: tuple[Slot, str], why: str) -> None:
        now = self._now()
        if not why:
            self._due[each] = now + AGAIN_SECONDS
            self._unknown.pop(each, None)
            return
        self._due[each] = now + DOUBT_SECONDS
        if now - self._unknown.setdefault(each, now) >= DOUBT_SECONDS:
            self._standing.tell(each[0], AlarmCode.ALLOCATION_LEFT, why)
