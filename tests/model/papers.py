"""Orders, reports, tickets and receipts of the model, by tokens that spell them out."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

from eraser.ownership.model import SlotEntry
from eraser.protocol.identity import ControllerIdentity, Slot
from eraser.protocol.order import EraseOrder
from eraser.protocol.report import EraseReport, Hello, Outcome, Verdict
from eraser.protocol.ticket import Ticket, TicketReceipt, TicketState
from quarantine.record.words.facts import (
    SlotRecord,
)
from quarantine.rules.action import ServiceLimits
from quarantine.rules.reports import ticket as ticket_rules
from tests.model.names import Names
from tests.model.world import NOWHERE, Mail, World, server
from tests.unit.quarantine.testimony import ORDER, REPORT

ADDRESS = "0000:01:00.0"
CLASS = "CUSTOM_NVME"
NOW = datetime(2026, 11, 20, 12, 0, tzinfo=UTC)
LONG_AGO = NOW - timedelta(days=2)
LONGER_AGO = NOW - timedelta(days=4)
UUIDS = {"known": "provider-in-our-record", "other": "provider-of-another-day"}
LIMITS = ServiceLimits()

Steps = Iterator[tuple[str, World]]

RECORDS: Names[SlotRecord] = Names()
HELLOS: Names[Hello] = Names()
ENTRIES: Names[SlotEntry] = Names()
"""What a gate has of its slot."""
PAPERS: Names[Ticket] = Names()
"""Tickets that no :class:`Mail` spells out."""


def slot(place: int) -> Slot:
    """The one slot of a host."""
    return Slot(f"host{place}", ADDRESS)


@functools.cache
def identity(drive: int) -> ControllerIdentity:
    """Who a drive is."""
    return dataclasses.replace(ORDER.identity, serial=f"DRIVE{drive}")


@functools.cache
def drive_of(who: ControllerIdentity | None) -> int:
    """The drive that an identity names."""
    return NOWHERE if who is None else int(who.serial.removeprefix("DRIVE"))


def instance(place: int) -> str:
    """The consumer of a place's instance."""
    return f"instance-{server(place)}"


# Orders and reports, by tokens that spell them out


def order_token(place: int, mail: Mail) -> str:
    """Stands for the signed order, or ticket."""
    return f"{mail.kind} {place} {mail.generation} {mail.drive} {int(mail.present)}"


def order_mail(token: str) -> tuple[int, Mail]:
    """Whose order, or ticket, a token is."""
    kind, place, generation, drive, present = token.split()
    return int(place), Mail(kind, int(generation), int(drive), bool(int(present)))


@functools.cache
def order(place: int, mail: Mail) -> EraseOrder:
    """The order itself. One case gives one order to one incarnation."""
    name = f"{mail.generation:04d}-{mail.drive}-{int(mail.present)}"
    return dataclasses.replace(
        ORDER,
        order_id=f"order-of-case-{name}",
        nonce=f"nonce-of-case-{name}",
        slot=slot(place),
        identity=identity(mail.drive),
        generation=mail.generation,
        incarnation=incarnation(mail.present),
    )


def incarnation(present: bool) -> str:
    """A host is one of two: the one that it is, or one that it was."""
    return "incarnation-00001" if present else "incarnation-00000"


@functools.cache
def report(place: int, mail: Mail) -> EraseReport:
    """What the host answers to an order."""
    asked = order(place, mail._replace(kind="order", says=""))
    base = dataclasses.replace(
        REPORT,
        order_id=asked.order_id,
        slot=asked.slot,
        identity=asked.identity,
        generation=asked.generation,
        nonce=asked.nonce,
        incarnation=asked.incarnation,
    )
    if mail.says == "erased":
        return base
    nothing: dict[str, Any] = {
        "methods": (),
        "commands": (),
        "verification": None,
        "fit": False,
        "verdict": Verdict.UNKNOWN,
        "reasons": (mail.says,),
        "achieved": None,
    }
    outcome = {
        "in_use": Outcome.IN_USE,
        "wrong": Outcome.WRONG_DRIVE,
        "failed": Outcome.COMPLETED,
    }[mail.says]
    return dataclasses.replace(base, outcome=outcome, **nothing)


@functools.cache
def ticket(place: int, mail: Mail) -> Ticket:
    """The ticket itself, as the product makes it from the case's order and report."""
    asked, said = mail._replace(kind="order"), mail._replace(kind="report", says="erased")
    return ticket_rules.build(order(place, asked), report(place, said), certificate(place))


def certificate(place: int) -> str:
    """The digest of the certificate that a place's record may name."""
    return f"certificate-{place}"


@functools.cache
def receipt(place: int, mail: Mail) -> TicketReceipt:
    """What the host answers to a ticket."""
    asked = ticket(place, mail._replace(kind="ticket", says=""))
    valid = mail.says == "valid"
    return TicketReceipt(
        order_id=asked.order_id,
        slot=asked.slot,
        generation=asked.generation,
        incarnation=asked.incarnation,
        state=TicketState(mail.says),
        reason="" if valid else mail.says,
        counters=asked.counters if valid else None,
    )


def spoken(token: str) -> Any:
    """What a token stands for."""
    kind, _, rest = token.partition(" ")
    if kind == "hello":
        return HELLOS[int(rest)]
    if kind == "paper":
        return PAPERS[int(rest)]
    place, generation, drive, present, *says = rest.split()
    mail = Mail(kind, int(generation), int(drive), bool(int(present)), *says)
    return _SPOKEN[kind](int(place), mail)


_SPOKEN: dict[str, Callable[[int, Mail], Any]] = {
    "order": order,
    "ticket": ticket,
    "report": report,
    "receipt": receipt,
}


def provider_uuid(p: int, provider: str) -> str:
    return f"{UUIDS[provider]}-{p}"
