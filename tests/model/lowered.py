"""Generations counted from the oldest one in sight: the control plane only compares them.

So one look, or one letter heard, serves for all worlds that differ in how many cases there were.
"""

from __future__ import annotations

import dataclasses
import functools
import re
from typing import TypeVar

from eraser.protocol.report import AcceptedOrder
from eraser.protocol.ticket import TicketSeen
from quarantine.record.words.facts import SlotRecord
from tests.model.papers import HELLOS, RECORDS, order_mail, order_token
from tests.model.world import NOWHERE, World

Said = TypeVar("Said", AcceptedOrder, TicketSeen)

_NONE = 1 << 30
_CASE = re.compile(r"(?<=-of-case-)\d{4}")


def lowered(world: World, p: int, by: int) -> World:
    """The world with ``by`` less on each generation of a place that the control plane sees."""
    if not by:
        return world
    here = world.places[p]
    return world.at(
        p,
        record=_record(here.record, by),
        hello=hello_lowered(here.hello, by),
        mail=frozenset(each._replace(generation=each.generation - by) for each in here.mail),
    )


def excess(*oldest: int) -> int:
    """By how much all of these can be lowered: 0 is for what was never in a case, and stays."""
    return max(min(oldest) - 1, 0)


@functools.cache
def oldest_in_record(number: int) -> int:
    """The oldest generation that a slot's record, its order and its ticket are of."""
    if number == NOWHERE:
        return _NONE
    record = RECORDS[number]
    tokens = (record.order_token, record.ticket_token)
    return min([record.generation, *(order_mail(each)[1].generation for each in tokens if each)])


@functools.cache
def oldest_in_hello(number: int) -> int:
    """The oldest generation that a host speaks of."""
    if number == NOWHERE:
        return _NONE
    said = HELLOS[number]
    found = [order.generation for order in said.accepted]
    found += [seen.generation for seen in (said.gate.tickets if said.gate else ())]
    return min(found, default=_NONE)


def _record(number: int, by: int) -> int:
    if number == NOWHERE:
        return number
    record = RECORDS[number]
    after: SlotRecord = dataclasses.replace(
        record,
        generation=record.generation - by,
        order_id=_named(record.order_id, by),
        nonce=_named(record.nonce, by),
        order_token=_token(record.order_token, by),
        ticket_token=_token(record.ticket_token, by),
    )
    return RECORDS.number(after)


@functools.cache
def hello_lowered(number: int, by: int) -> int:
    """The same word of a host, of cases that many earlier."""
    if number == NOWHERE or not by:
        return number
    hello = HELLOS[number]
    gate = hello.gate
    return HELLOS.number(
        dataclasses.replace(
            hello,
            cases=tuple(str(_named(each, by)) for each in hello.cases),
            accepted=tuple(_numbered(each, by) for each in hello.accepted),
            gate=gate
            and dataclasses.replace(
                gate, tickets=tuple(_numbered(each, by) for each in gate.tickets)
            ),
        )
    )


def _numbered(each: Said, by: int) -> Said:
    order_id = _named(each.order_id, by)
    return dataclasses.replace(each, order_id=order_id, generation=each.generation - by)


def _named(name: str | None, by: int) -> str | None:
    return name and _CASE.sub(lambda found: f"{int(found[0]) - by:04d}", name)


def _token(token: str | None, by: int) -> str | None:
    if token is None:
        return None
    place, mail = order_mail(token)
    return order_token(place, mail._replace(generation=mail.generation - by))
