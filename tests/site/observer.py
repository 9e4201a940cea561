"""Who knows the truth: what lies on which drive, who runs with it, what Placement would hand out.

It believes nothing of the control plane's record. After each change it looks at the slots
concerned, and every few seconds at the clock; the first finding ends a run.
"""

from __future__ import annotations

import logging
from collections import Counter
from dataclasses import dataclass, field
from typing import Final, Protocol

from eraser.protocol.identity import Slot
from quarantine.cloud.facts import CONSUMER_TYPE, slot_of
from quarantine.record.words.facts import SlotRecord
from quarantine.record.words.states import Event
from quarantine.rules.action import ServiceLimits
from tests.lab.services.nova_standin import OTU_TRAIT
from tests.site.hosts import Drive, Host
from tests.site.nova import RESOURCE_CLASS
from tests.site.placement import Placement
from tests.site.world import World

TICK_SECONDS: Final = 5.0


@dataclass(frozen=True)
class Finding:
    """What must never be, and was."""

    kind: str
    """``leak``, ``offer``, ``unlocked``, ``unburnable``, ``erased_in_use``, ``held``, ``alarm``,
    ``refused``, ``stuck``."""
    at: float
    slot: Slot | None
    text: str

    def __str__(self) -> str:
        return f"{self.kind} at {self.at:.1f}, {self.slot or 'no slot'}: {self.text}"


@dataclass
class Exposure:
    """Since when something stands open, or has happened."""

    since: float
    excused: float
    """Seconds that had been excused by then."""


class Promise(Protocol):
    """Seconds that a drive with data may stand on offer, where a request takes ``latency``."""

    def __call__(self, latency: float, *, unseen: bool) -> float:
        """``unseen``: Nova never locked it."""


@dataclass
class Observer:
    """``ordinary``: nothing may be held, refused or alarmed for nothing."""

    world: World
    placement: Placement
    hosts: dict[str, Host]
    limits: ServiceLimits
    promised: Promise
    ordinary: bool
    gate: bool
    only: frozenset[str] = frozenset()
    """Kinds that count; empty for all."""
    findings: list[Finding] = field(default_factory=list)
    counts: Counter[str] = field(default_factory=Counter)
    alarms: list[str] = field(default_factory=list)
    expected: list[str] = field(default_factory=list)
    """Parts of alarms that have to ring, each exactly once."""
    suspects: set[Slot] = field(default_factory=set)
    """Slots whose hold has a true cause."""
    latency: float = 0.0
    """The slowest request so far."""
    lifecycles: int = 0
    longest: float = 0.0
    """Seconds that a dirty drive stood on offer, at most."""
    _excused: float = 0.0
    _offered: dict[Slot, Exposure] = field(default_factory=dict)
    _unlocked: dict[Slot, Exposure] = field(default_factory=dict)
    _traitless: dict[Slot, float] = field(default_factory=dict)
    _kept: set[Slot] = field(default_factory=set)
    """Slots under custody when last looked at."""
    _unburned: set[str] = field(default_factory=set)
    _claimed: dict[str, Exposure] = field(default_factory=dict)
    """When each server claimed its drives."""
    _freed: dict[Slot, Exposure] = field(default_factory=dict)
    """When a person took each slot from us last."""

    def watch(self) -> None:
        """From now on."""
        self.placement.changed = self.provider_changed
        for host in self.hosts.values():
            host.changed = self.look
            host.erased = self.erased
            host.starting = self.starting
        self.world.every(TICK_SECONDS, self.tick)

    def excuse(self, seconds: float) -> None:
        """So long nobody could have done better: Placement was away, or we were dead."""
        self._excused += seconds

    def found(self, kind: str, slot: Slot | None, text: str) -> None:
        """Note it, and end the run."""
        if self.only and kind not in self.only:
            self.counts[f"not counted: {kind}"] += 1
            return
        self.findings.append(Finding(kind, self.world.now, slot, text))
        self.world.say(f"FOUND {self.findings[-1]}")

    # What is told.

    def provider_changed(self, uuid: str) -> None:
        """Placement changed something about it."""
        provider = self.placement.providers.get(uuid)
        slot = slot_of(provider.name) if provider else None
        if slot is not None:
            self.look(slot)

    def look(self, slot: Slot) -> None:
        """The slot's truth now."""
        drive = self.hosts[slot.host].drives.get(slot.address)
        free, locked, burns, kept = self._stand(slot)
        dirty = drive is not None and drive.blocks is not None
        self._note(self._offered, slot, dirty and free)
        self._note(self._unlocked, slot, dirty and not locked)
        if burns:
            self._traitless.pop(slot, None)
        else:
            self._traitless.setdefault(slot, self.world.now)
        if kept:
            self._kept.add(slot)
        elif slot in self._kept:
            self._kept.discard(slot)
            self.lifecycles += 1
            since = self.world.now - self._traitless.get(slot, self.world.now)
            if free and since > 20 * max(self.latency, 0.1):
                self.found(
                    "unburnable",
                    slot,
                    f"put on offer although Nova has not been able to burn it for {since:.0f} s",
                )

    def starting(self, server: str, slot: Slot, drive: Drive) -> None:
        """A guest begins to run with a drive."""
        self.counts["guests"] += 1
        if not self._stand(slot)[1]:
            self._unburned.add(server)
        if drive.blocks in (None, server):
            return
        exposed = self._unlocked.get(slot) or self._offered.get(slot)
        age = self._age(exposed) if exposed else 0.0
        text = f"server {server} starts on the data of {drive.blocks}"
        if not self.gate and drive.blocks in self._unburned and age <= self._bound(slot):
            # Nova never locked it, its tenant was quick, and no gate stands here: within the bound.
            self.counts["leaks within the bound"] += 1
            return
        if not self.gate and self._is_taken_by_hand(server, slot):
            # A person put it on offer, and a tenant was quicker than the next safety pass.
            self.counts["leaks within the bound"] += 1
            return
        self.found("leak", slot, f"{text}, which stood unlocked for {age:.0f} s")

    def claimed(self, server: str, *, burns: bool) -> None:
        """A server has its drives; ``burns`` False: Nova was made to forget its burn."""
        self._claimed.setdefault(server, self._now())
        if not burns:
            self._unburned.add(server)

    def freed(self, slot: Slot) -> None:
        """A person takes a slot from us."""
        self._freed[slot] = self._now()

    def erased(self, slot: Slot, drive: Drive) -> None:
        """A host erases a drive."""
        self.counts["erases"] += 1
        self.counts["erases of drives without data"] += drive.blocks is None
        if drive.user is not None:
            self.found("erased_in_use", slot, f"{drive.user} runs with it")

    def refused(self, server: str, why: str) -> None:
        """A guest was not let in."""
        self.counts["refusals"] += 1
        if self.ordinary:
            self.found("refused", None, f"{server}: {why}")

    def moved(self, record: SlotRecord, event: Event, reason: str) -> None:
        """The record took a step."""
        self.counts[event.value] += 1
        self.world.say(f"{record.slot} {event.value} -> {record.state} {reason[:160]}")
        if event is Event.HELD and record.slot not in self.suspects:
            self.found("held", record.slot, f"for nothing: {reason[:300]}")

    def alarm(self, text: str) -> None:
        """An operator is called."""
        self.counts["alarms"] += 1
        self.world.say(f"alarm: {text[:300]}")
        self.alarms.append(text)
        if not self.ordinary:
            return
        for part in self.expected:
            if part in text:
                self.expected.remove(part)
                return
        self.found("alarm", None, text[:300])

    def missing(self) -> None:
        """At the end: what should have rung, and did not."""
        for part in self.expected:
            self.found("alarm", None, f"expected one with {part!r}, none rang")

    # What the clock shows.

    def tick(self) -> None:
        """Nothing may stand open for longer than its bound."""
        for slot, exposure in list(self._offered.items()):
            age = self._age(exposure)
            if age > (most := self._bound(slot)):
                text = f"a dirty drive is on offer for {age:.0f} s, promised {most:.0f} s"
                self.found("offer", slot, text)
        for slot, exposure in list(self._unlocked.items()):
            age = self._age(exposure)
            most = self._bound(slot) + self.limits.burn_grace + 2 * self.limits.list_interval
            if age > most:
                text = f"a drive with data is without any lock for {age:.0f} s, expected {most:.0f}"
                self.found("unlocked", slot, text)

    def _bound(self, slot: Slot) -> float:
        drive = self.hosts[slot.host].drives.get(slot.address)
        unseen = drive is not None and drive.blocks in self._unburned
        return self.promised(self.latency, unseen=unseen) + 2 * TICK_SECONDS

    def _is_taken_by_hand(self, server: str, slot: Slot) -> bool:
        """Whether it claimed the slot so soon after a person freed it."""
        freed = self._freed.get(slot)
        if freed is None:
            return False
        claimed = self._claimed.get(server) or self._now()
        return claimed.since >= freed.since and _between(freed, claimed) <= self._bound(slot)

    def _now(self) -> Exposure:
        return Exposure(self.world.now, self._excused)

    def _age(self, exposure: Exposure) -> float:
        return _between(exposure, self._now())

    def _note(self, noted: dict[Slot, Exposure], slot: Slot, is_so: bool) -> None:
        if is_so:
            noted.setdefault(slot, self._now())
        elif slot in noted:
            age = self._age(noted.pop(slot))
            if noted is self._offered:
                self.longest = max(self.longest, age)

    def _stand(self, slot: Slot) -> tuple[bool, bool, bool, bool]:
        """On offer; under any lock; with the trait that makes Nova burn it; under our custody."""
        provider = self.placement.named(f"{slot.host}_{slot.address.upper()}")
        if provider is None or RESOURCE_CLASS not in provider.inventories:
            return False, True, True, False
        row = provider.inventories[RESOURCE_CLASS]
        held = self.placement.held(provider.uuid)
        reserved = row["reserved"] >= row["total"]
        custody = any(consumer.type == CONSUMER_TYPE for consumer in held.values())
        burns = OTU_TRAIT in provider.traits
        return not held and not reserved, reserved or custody, burns, custody


def _between(first: Exposure, last: Exposure) -> float:
    """Seconds that count against a bound."""
    return last.since - first.since - (last.excused - first.excused)


class AlarmHandler(logging.Handler):
    """Hears what the control plane logs for operators."""

    def __init__(self, observer: Observer) -> None:
        super().__init__(logging.WARNING)
        self._observer = observer

    def emit(self, record: logging.LogRecord) -> None:
        if self._observer.world.among_the_dead:
            return
        text = record.getMessage()
        if text.startswith("ALARM"):
            self._observer.alarm(text)
        elif record.exc_info:
            self._observer.counts["tracebacks"] += 1
            error = record.exc_info[1]
            self._observer.world.say(f"traceback: {text[:80]}: {error!r}"[:300])
