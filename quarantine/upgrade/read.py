"""Gathers the facts: configuration files, the record, Placement. Judges nothing."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Final, Protocol

from eraser.protocol.identity import Slot
from quarantine.cloud.facts import Provider, View
from quarantine.cloud.patience import patiently
from quarantine.doors import Clock
from quarantine.errors import QuarantineError
from quarantine.record.store import Store
from quarantine.record.words.facts import HostRecord, SlotRecord
from quarantine.upgrade import options
from quarantine.upgrade.facts import ConfigSource, Facts, ProviderSeen, Role
from quarantine.upgrade.nova.releases import release_of

_LOOKS_AGAIN: Final = 3
"""Rounds over the slots that moved; each is short beside the one before."""


class UpgradePlacement(Protocol):
    """What is asked of :class:`quarantine.cloud.placement.Placement`."""

    def one_time_use(self, host: str | None = None) -> list[Provider]:
        """Every one-time-use slot."""

    def offered(self, resource_class: str) -> list[Provider]:
        """The slots of a class that Placement would hand out now."""

    def by_slot(self, slot: Slot) -> Provider | None:
        """The slot's provider by name."""

    def root(self, host: str) -> Provider | None:
        """A compute host's own provider."""

    def view(self, uuid: str, resource_class: str) -> View | None:
        """One consistent look."""

    def holders(self, uuid: str) -> tuple[int, frozenset[str]] | None:
        """Generation and consumers."""


class UpgradeNova(Protocol):
    """What is asked of :class:`quarantine.cloud.compute.Compute`."""

    def newest_microversion(self) -> tuple[int, int]:
        """Of nova-api."""


@dataclass(frozen=True)
class CheckScope:
    """What the operator asked; empty ``hosts`` means all. Seconds in ``silent_after``."""

    sources: tuple[ConfigSource, ...] = ()
    hosts: frozenset[str] = frozenset()
    nova_release: int | None = None
    placement_release: int | None = None
    silent_after: float = 900.0

    def asks(self, host: str) -> bool:
        """Whether that host is asked about."""
        return not self.hosts or host in self.hosts


def gather(
    question: CheckScope,
    store: Callable[[], Store],
    placement: Callable[[], UpgradePlacement],
    nova: Callable[[], UpgradeNova],
    *,
    policies: Iterable[str],
    switched_off: Iterable[str] = (),
    drive_aliases: Iterable[str] | None = None,
    shared_keys: Iterable[str] = (),
    clock: Clock,
) -> Facts:
    """Everything that can be read; for a source that does not answer, why.

    ``policies`` are approved beyond the record's (the built-in one). Raises
    :class:`quarantine.errors.BadInputError` for a configuration file that is not there.
    """
    facts = Facts(
        confs=tuple(
            options.nova(s)
            for s in question.sources
            if s.role is not Role.PLACEMENT and (s.host is None or question.asks(s.host))
        ),
        placement_confs=tuple(
            options.placement(s) for s in question.sources if s.role is Role.PLACEMENT
        ),
        asked=question.hosts,
        policies=frozenset(policies),
        nova_release=question.nova_release,
        placement_release=question.placement_release,
        silent_after=question.silent_after,
        switched_off=tuple(switched_off),
        drive_aliases=None if drive_aliases is None else frozenset(drive_aliases),
        shared_keys=tuple(shared_keys),
    )
    try:
        # The record first: which slots are looked for in Placement is known from it.
        facts = _with_record(facts, question, store(), clock())
    except QuarantineError as error:
        facts = replace(facts, record_trouble=str(error))
    try:
        facts = _with_placement(facts, question, placement())
    except QuarantineError as error:
        facts = replace(facts, placement_trouble=str(error))
    if not (facts.record_trouble or facts.placement_trouble):
        facts = _settled(facts, question, store, placement, clock)
    # The operator's word goes before what nova-api shows.
    if facts.nova_release is None:
        facts = replace(facts, nova_release=_release(nova))
    return facts


def _with_record(facts: Facts, question: CheckScope, store: Store, now: datetime) -> Facts:
    readable, damaged_hosts = store.every_host()
    hosts = tuple(host for host in readable if question.asks(host.name))
    facts = _with_slots(facts, question, store, now)
    return replace(
        facts,
        hosts=hosts,
        # Told whoever is asked about: the name may be what cannot be read.
        damaged_hosts=tuple(damaged_hosts),
        registered=frozenset(store.host_names()),
        silent={host.name: _silence(host, now) for host in hosts},
        profiles={one.name: one.content for one in store.profiles() if one.content},
        policies=facts.policies | {one.name for one in store.policies() if one.content},
    )


def _with_slots(facts: Facts, question: CheckScope, store: Store, now: datetime) -> Facts:
    slots, damaged = store.every_slot()
    return replace(
        facts,
        slots=tuple(record for record in slots if question.asks(record.slot.host)),
        damaged_slots=tuple(row for row in damaged if question.asks(row.host)),
        now=now,
    )


def _settled(
    facts: Facts,
    question: CheckScope,
    store: Callable[[], Store],
    placement: Callable[[], UpgradePlacement],
    clock: Clock,
) -> Facts:
    """Slots that moved while Placement was asked are looked at again.

    A large cloud is asked for many minutes: a row of before held against a look of after would call
    a slot that was given back, or taken, in between one whose reserved somebody lowered.
    """
    for _round in range(_LOOKS_AGAIN):
        before = {record.slot: _standing(record) for record in facts.slots}
        try:
            facts = _with_slots(facts, question, store(), clock())
        except QuarantineError as error:
            return replace(facts, record_trouble=str(error))
        moved = {r.slot for r in facts.slots if before.get(r.slot) != _standing(r)}
        if not moved:
            break
        try:
            facts = replace(facts, providers=tuple(_again(placement(), facts, moved)))
        except QuarantineError as error:
            return replace(facts, placement_trouble=str(error))
    return facts


def _standing(record: SlotRecord) -> tuple[object, ...]:
    """What a slot's provider is held against."""
    custody = (record.custody, record.custody_stage)
    return (record.state, record.provider, record.resource_class, record.certificate, *custody)


def _again(
    cloud: UpgradePlacement, facts: Facts, moved: Collection[Slot]
) -> Iterator[ProviderSeen]:
    for seen in facts.providers:
        if seen.slot in moved:
            seen = replace(seen, view=_view(cloud, seen.provider.uuid))
        yield seen


def _silence(host: HostRecord, now: datetime) -> float:
    return math.inf if host.heard_at is None else (now - host.heard_at).total_seconds()


def _with_placement(facts: Facts, question: CheckScope, cloud: UpgradePlacement) -> Facts:
    """One listing, and a look at each slot (three requests, some 30 ms together)."""
    marked = {p.uuid: p for p in cloud.one_time_use() if p.host and question.asks(p.host)}
    found = dict(marked)
    known = {provider.slot for provider in marked.values()}
    for record in facts.slots:
        if record.slot not in known:
            # A slot that lost its trait, or its provider, is in no listing of one-time-use devices.
            provider = cloud.by_slot(record.slot)
            if provider is not None:
                found[provider.uuid] = provider
    seen = _views(cloud, found, marked)
    # The classes of one-time-use devices are known now; who else offers them?
    facts = replace(facts, providers=seen)
    for name in sorted(facts.our_classes):
        for provider in cloud.offered(name):
            if provider.host and question.asks(provider.host) and provider.uuid not in found:
                found[provider.uuid] = provider
    facts = replace(facts, providers=_views(cloud, found, marked, seen))
    return replace(facts, servers=_servers(facts, cloud))


def _views(
    cloud: UpgradePlacement,
    providers: Mapping[str, Provider],
    marked: Mapping[str, Provider],
    seen: Sequence[ProviderSeen] = (),
) -> tuple[ProviderSeen, ...]:
    before = {one.provider.uuid: one for one in seen}
    return tuple(
        # Each provider is looked at once: a look is three requests.
        before.get(uuid) or ProviderSeen(provider, uuid in marked, _view(cloud, uuid))
        for uuid, provider in providers.items()
    )


def _view(cloud: UpgradePlacement, uuid: str) -> View | None:
    return patiently(lambda: cloud.view(uuid, ""))


def _servers(facts: Facts, cloud: UpgradePlacement) -> dict[str, int]:
    """Servers on hosts without any slot in Placement: where tracking is about to begin."""
    tracked = {provider.slot.host for provider in facts.providers}
    counts: dict[str, int] = {}
    for host in facts.host_names:
        # Hosts that are tracked need no question: their restart begins nothing.
        root = cloud.root(host) if host not in tracked else None
        held = cloud.holders(root.uuid) if root else None
        if held is not None:
            counts[host] = len(held[1])
    return counts


def _release(nova: Callable[[], UpgradeNova]) -> int | None:
    """By the newest microversion; None where that does not decide, or nobody answers."""
    try:
        return release_of(nova().newest_microversion())
    except QuarantineError:
        return None
