"""Who has which drive when the gate is set up on a host that has guests already. Pure."""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass

from eraser.ownership.facts import CaseSeen, CaseStanding
from eraser.ownership.model import Book, Owner, PciIds, SlotEntry
from eraser.protocol.identity import ControllerIdentity
from eraser.protocol.ticket import TicketState

_UNTOUCHED = (CaseStanding.NONE, CaseStanding.IN_USE)


@dataclass(frozen=True)
class DomainDrives:
    """A domain that is defined or running and names managed drives."""

    uuid: str
    name: str
    addresses: frozenset[str]
    running: bool


@dataclass(frozen=True)
class SlotNow:
    """A slot as adoption sees it. ``identity`` is None where the drive is not to be read now."""

    identity: ControllerIdentity | None
    pci: PciIds | None
    case: CaseSeen
    place: str = ""
    """Where sysfs has the function; empty where none is there."""


@dataclass(frozen=True)
class Adopted:
    """The book with the owners in it, what was added, and what a person has to settle first."""

    book: Book
    owners: tuple[tuple[str, Owner], ...]
    conflicts: tuple[str, ...]


def adopt(
    book: Book,
    domains: Iterable[DomainDrives],
    slots: Mapping[str, SlotNow],
    at: str,
    places: Mapping[str, str],
) -> Adopted:
    """Records each domain as the owner of the drives that it names, where nobody else is.

    After the first time only where the gate never had to do with the slot: what came later has a
    ticket, or was refused, and is not made good by being adopted. ``places`` is where sysfs has the
    functions of the book's slots.
    """
    known = tuple(domains)
    added: list[tuple[str, Owner]] = []
    conflicts: list[str] = []
    for address, now in sorted(slots.items()):
        having = [each for each in known if address in each.addresses]
        if not having:
            continue
        if why := _conflict(book, address, having, now):
            conflicts.append(f"{address}: {why}")
            continue
        entry = book.entry(address)
        # It has its record already.
        if entry.owner is not None and entry.owner.incarnation == book.incarnation:
            continue
        owner = Owner(
            domain=having[0].uuid,
            name=having[0].name,
            identity=now.identity,
            pci=now.pci,
            incarnation=book.incarnation,
            since=at,
            adopted=True,
            let_in=None,
            # While a drive cannot be read, the place that it has not left is all that tells it.
            place="" if now.identity is not None else now.place,
        )
        book = book.with_entry(dataclasses.replace(entry, owner=owner))
        added.append((address, owner))
    # Before there was a gate a boot may have dealt the addresses out anew: a guest whose drive
    # nobody read may have got the one that another slot's entry tells of.
    unread = {owner.pci for _address, owner in added if owner.identity is None}
    for entry in book.entries:
        if _may_be_elsewhere(entry, unread, slots.get(entry.address), places):
            book = book.with_entry(dataclasses.replace(entry, doubted=True))
    if not book.adopted_at:
        book = dataclasses.replace(book, adopted_at=at)
    return Adopted(book, tuple(added), tuple(conflicts))


def _may_be_elsewhere(
    entry: SlotEntry,
    unread: Collection[PciIds | None],
    now: SlotNow | None,
    places: Mapping[str, str],
) -> bool:
    """One of those drives that nobody could read may be the one that this entry tells of: a guest
    got it past the gate, in another slot."""
    owned = entry.owner.identity if entry.owner is not None else None
    certified = entry.ticket.ticket.identity if entry.ticket is not None else None
    # A ticket that is void says nothing of the drive that is there now.
    stands = entry.ticket is not None and entry.ticket.state is not TicketState.VOID
    # The drive that the newest erase took has not left its place since.
    stayed = bool(entry.place) and places.get(entry.address) == entry.place
    if entry.place and not stayed and unread and owned is None and not stands:
        return True  # an erase took whatever was there, and no paper says which drive that was
    last = entry.last_identity if entry.last_owner is not None else None
    # The drives that the entry tells of and that are of the kind of an unread one.
    told = {each for each in (owned, certified, last) if each and PciIds.of(each) in unread}
    # A drive that has not left its place is here, which one it may be; papers of others stay.
    here = {now.identity if now is not None else None}
    if stayed and entry.took is not None:
        here.add(entry.took)
    elif stayed and here == {None}:
        here = {owned, certified if stands else None}
    # Doubted if it tells of one that is not known to be here.
    return bool(told - here)


def _conflict(book: Book, address: str, having: list[DomainDrives], now: SlotNow) -> str:
    entry = book.entry(address)
    names = " and ".join(sorted(f"{each.name!r} ({each.uuid})" for each in having))
    if len(having) > 1:
        return f"expected one domain that names it, found {names}; undefine all but its owner's"
    owner = entry.owner
    if owner is not None and owner.domain != having[0].uuid:
        return (
            f"expected no owner but {names}, found domain {owner.name!r} ({owner.domain}) since "
            f"{owner.since}; release the slot if that one is gone for good"
        )
    # Its own record, perhaps of an earlier incarnation: after a new installation of the host this
    # is how the record is renewed, so no erase and no ticket stands against it.
    if owner is not None:
        return ""
    if now.case.standing is CaseStanding.OPEN:
        return f"expected a slot at rest, found an erase of it ({now.case.detail}); wait for it"
    # An erase took it, whatever became of that: it may have sent a command, and then died.
    taken = bool(entry.place) or entry.took is not None or bool(entry.away)
    handled = entry.ticket is not None or entry.last_owner is not None or taken
    if book.adopted_at and (handled or now.case.standing not in _UNTOUCHED):
        return (
            f"expected a slot that the gate never had to do with, found one that was erased before "
            f"{names} came; start the domain, or see 'nvme-eraser gate allow --once'"
        )
    return ""
