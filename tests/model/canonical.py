"""One spelling for states that nothing can tell apart, so that the search ends."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Mapping
from typing import Any

from eraser.ownership.model import SlotEntry
from eraser.protocol.report import Hello
from eraser.protocol.ticket import TicketState
from quarantine.record.words.facts import SlotRecord
from tests.model import papers
from tests.model.books import domain
from tests.model.papers import ENTRIES, HELLOS, NOW, RECORDS, instance, order, order_token, ticket
from tests.model.world import CLEAN, GONE, NOWHERE, Known, Mail, Place, World, ghost, server

Ranks = tuple[tuple[int, int], ...]

_OURS, _STRANGE, _OTHERS = "custody-of-the-record", "custody-of-nobody", "instance-long-gone"


def canonical(world: World) -> World:
    """The same state, spelt in the one way."""
    alive = _alive(world)
    drives = tuple(
        drive if drive.data in (CLEAN, *alive) else drive._replace(data=GONE)
        for drive in world.drives
    )
    places = tuple(_cached(p, place, alive) for p, place in enumerate(world.places))
    known = tuple(_known(places, each) for each in world.known)
    return World(drives, places, known, world.budget)


def canonical_place(p: int, place: Place) -> Place:
    """One host spelt in the one way."""
    return _place(p, place, domains(p, place))


def domains(p: int, place: Place) -> frozenset[int]:
    """The domains that a host has."""
    found = {server(p): place.instance, ghost(p): place.ghost}
    return frozenset(number for number, there in found.items() if there)


def _alive(world: World) -> frozenset[int]:
    return frozenset().union(*(domains(p, place) for p, place in enumerate(world.places)))


def _known(places: tuple[Place, ...], known: Known | None) -> Known | None:
    if known is None or known.certificate in (NOWHERE, GONE):
        return known
    record = places[known.certificate].record
    if record == NOWHERE or RECORDS[record].certificate is None:
        return known._replace(certificate=GONE)
    return known


def _place(p: int, place: Place, alive: frozenset[int]) -> Place:
    provider, record = _placement(p, place.provider, place.record)
    spelt = _ranks(place.mail, record, place.accepted, place.entry, place.hello)
    names = _names(alive)
    changes: dict[str, Any] = {"provider": provider}
    if place.holder not in ("", "server"):
        ours = record != NOWHERE and place.holder == RECORDS[record].custody
        changes["holder"] = _OURS if ours else _STRANGE
    if record != NOWHERE:
        changes["record"] = _record(p, record, place.registered, bool(place.instance), spelt)
    if place.entry != NOWHERE:
        entry = changes["entry"] = _entry(p, place.entry, spelt, names)
        owner = ENTRIES[entry].owner
        changes["rest_fresh"] = place.rest_fresh and owner is not None and owner.rest is not None
    if place.hello != NOWHERE:
        changes["hello"] = _hello(place.hello, place.heard, spelt, names)
    if place.accepted is not None:
        number = dict(spelt)[place.accepted.generation]
        changes["accepted"] = place.accepted._replace(generation=number)
    return place._replace(**changes, mail=_mail(place.mail, spelt))


_cached = functools.cache(_place)


@functools.cache
def _names(alive: frozenset[int]) -> frozenset[str]:
    return frozenset(map(domain, alive))


@functools.cache
def _placement(p: int, provider: str, number: int) -> tuple[str, int]:
    """The provider is known by the uuid that the record has of it."""
    if number == NOWHERE:
        return ("other" if provider else ""), NOWHERE
    record, known = RECORDS[number], f"{papers.UUIDS['known']}-{p}"
    same = bool(provider) and record.provider == f"{papers.UUIDS[provider]}-{p}"
    if record.provider != known:
        # Its name is always the record's; what is not called that is another one.
        number = RECORDS.number(dataclasses.replace(record, provider=known))
    return ("known" if same else "other" if provider else ""), number


@functools.cache
def _ranks(
    mail: frozenset[Mail], record: int, accepted: Mail | None, entry: int, hello: int
) -> Ranks:
    """Only the order of generations can be told, so they are numbered without gaps."""
    found = {each.generation for each in mail}
    if record != NOWHERE:
        found.add(RECORDS[record].generation)
    if accepted is not None:
        found.add(accepted.generation)
    if entry != NOWHERE and (kept := ENTRIES[entry].ticket) is not None:
        found.add(kept.ticket.generation)
    if hello != NOWHERE:
        said = HELLOS[hello]
        found |= {order.generation for order in said.accepted}
        found |= {seen.generation for seen in (said.gate.tickets if said.gate else ())}
    return ((0, 0), *((each, rank) for rank, each in enumerate(sorted(found - {0}), 1)))


@functools.cache
def _mail(mail: frozenset[Mail], spelt: Ranks) -> frozenset[Mail]:
    """All of the newest generation; of the one before what does most harm if it were believed.

    What is still older is refused as that is.
    """
    ranks = dict(spelt)
    generations = sorted({each.generation for each in mail})
    newest, before = generations[-1:], generations[-2:-1]
    return frozenset(
        each._replace(generation=ranks[each.generation])
        for each in mail
        if each.generation in newest
        or (each.generation in before and each.says in ("", "erased", "valid"))
    )


@functools.cache
def _record(p: int, number: int, registered: bool, alive: bool, spelt: Ranks) -> int:
    record, ranks = RECORDS[number], dict(spelt)
    token, order_id, nonce = record.order_token, None, None
    if token is not None:
        _place_number, mail = papers.order_mail(token)
        mail = mail._replace(
            generation=ranks[mail.generation],
            present=mail.present and registered,
        )
        made = order(p, mail)
        token, order_id, nonce = order_token(p, mail), made.order_id, made.nonce
    paper = record.ticket_token
    if paper is not None:
        _place_number, mail = papers.order_mail(paper)
        mail = mail._replace(
            generation=ranks[mail.generation],
            present=mail.present and registered,
        )
        paper = order_token(p, mail)
    consumer = record.consumer
    if consumer is not None and not (consumer == instance(p) and alive):
        consumer = _OTHERS
    after: SlotRecord = dataclasses.replace(
        record,
        generation=ranks[record.generation],
        revision=0,
        reason="",
        consumer=consumer,
        custody=None if record.custody is None else _OURS,
        order_id=order_id,
        nonce=nonce,
        order_token=token,
        ordered_at=None if record.ordered_at is None else NOW,
        heard_at=None,
        attempts=0,
        step=None,
        fraction=0.0,
        detail="",
        ticket_token=paper,
        ticket_incarnation=_incarnation(record.ticket_incarnation, registered),
        ticket_at=None if record.ticket_at is None else NOW,
        provider_generation=None,
        offered_as=None,
        read_at=None,
        entered_at=NOW,
    )
    return RECORDS.number(after)


def _incarnation(name: str | None, registered: bool) -> str | None:
    if name is None:
        return None
    return papers.incarnation(name == papers.incarnation(True) and registered)


@functools.cache
def _entry(p: int, number: int, spelt: Ranks, alive: frozenset[str]) -> int:
    entry, ranks = ENTRIES[number], dict(spelt)
    owner, kept = entry.owner, entry.ticket
    if owner is not None and owner.domain not in alive:
        # It starts no more, so nobody asks what its drive counted.
        owner = dataclasses.replace(owner, domain=_OTHERS, name="", rest=None, left="")
    if kept is not None:
        mail = Mail(
            "ticket",
            ranks[kept.ticket.generation],
            papers.drive_of(kept.ticket.identity),
            kept.ticket.incarnation == papers.incarnation(True),
        )
        paper = ticket(p, mail)
        counters = paper.counters
        if kept.state is TicketState.VALID and kept.counters is not None:
            # The seal as it was read at the intake; whether anybody wrote since is ticket_fresh.
            seal = kept.counters.global_data_erased
            counters = dataclasses.replace(counters, global_data_erased=seal)
        kept = dataclasses.replace(kept, ticket=paper, reason="", counters=counters)
    after: SlotEntry = dataclasses.replace(entry, owner=owner, ticket=kept)
    return ENTRIES.number(after)


@functools.cache
def _hello(number: int, heard: bool, spelt: Ranks, alive: frozenset[str]) -> int:
    """What is asked of a hello later: of its domains nothing, once the slot has moved on."""
    hello, ranks = HELLOS[number], dict(spelt)
    accepted = tuple(
        dataclasses.replace(
            each,
            generation=ranks[each.generation],
            order_id=_renamed(each.order_id, each.generation, ranks),
        )
        for each in hello.accepted
    )
    gate = hello.gate
    if gate is not None:
        gate = dataclasses.replace(
            gate,
            domains=tuple(
                seen if seen.uuid in alive else dataclasses.replace(seen, uuid=_OTHERS)
                for seen in (gate.domains if heard else ())
            ),
            tickets=tuple(
                dataclasses.replace(
                    seen,
                    generation=ranks[seen.generation],
                    order_id=_renamed(seen.order_id, seen.generation, ranks),
                    reason="",
                )
                for seen in gate.tickets
            ),
        )
    drives = tuple(dataclasses.replace(seen, driver="") for seen in hello.drives)
    after: Hello = dataclasses.replace(hello, drives=drives, accepted=accepted, cases=(), gate=gate)
    return HELLOS.number(after)


def _renamed(order_id: str, generation: int, ranks: Mapping[int, int]) -> str:
    return order_id.replace(f"-{generation:04d}-", f"-{ranks[generation]:04d}-")
