"""``gate adopt``, ``allow`` and ``forget``: what a person changes in the gate's book."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Iterable
from pathlib import Path

from eraser.errors import BadInputError
from eraser.gate import rules
from eraser.gate.admit import LOOK_SECONDS, pci_class
from eraser.gate.adoption import Adopted, DomainDrives, SlotNow, adopt
from eraser.gate.read_drives import look, pci_ids
from eraser.host import domains
from eraser.host.sysfs import Host, PciFunction
from eraser.ownership import audit, pending, revocation
from eraser.ownership import store as books
from eraser.ownership.audit import AuditEntry
from eraser.ownership.cases import read_case
from eraser.ownership.facts import DriveSeen, is_untouched
from eraser.ownership.model import Allowance, Book, Owner
from eraser.protocol.ticket import TicketState
from eraser.state import hostcard


def adopt_all(state_dir: Path, host: Host, by: str, *, plan: bool, renew: bool) -> Adopted:
    """Records who has which drive now; with ``plan`` only says what it would record.

    ``renew`` puts a damaged book aside first. Raises ``EraserError`` and ``OSError``.
    """
    _need_card(state_dir)
    # Before the book's lock, for which every start waits: a drive may be mute.
    having, slots = _now(state_dir, host)
    at = host.clock.utc()
    with books.opened(state_dir, renew=renew) as book:
        places = {
            entry.address: PciFunction(host, entry.address).place for entry in book.book.entries
        }
        found = adopt(book.book, having, slots, at, places)
        if plan:
            return found
        if renew:
            # The audit file first, as below: nothing counts that nobody answers for.
            audit.account(state_dir, AuditEntry(at, by, "renew", "", "", book.damage))
            aside = books.book_file(state_dir).with_name(f"book.damaged.{at}.json")
            # Under a second name, not away: without any book owners would count as nobody.
            os.link(books.book_file(state_dir), aside)
            # Which of them were used is not known any more; taken in again they would be unused.
            pending.forget(state_dir)
        for address, owner in found.owners:
            reason = "running" if owner.identity is None else "defined"
            audit.account(state_dir, AuditEntry(at, by, "adopt", address, owner.domain, reason))
        book.write(found.book)
    return found


def _need_card(state_dir: Path) -> None:
    if not hostcard.incarnation(state_dir):
        raise BadInputError(
            f"expected this host's card in {state_dir}, found none; run 'nvme-eraser keygen' first"
        )


def _now(state_dir: Path, host: Host) -> tuple[tuple[DomainDrives, ...], dict[str, SlotNow]]:
    exempt = audit.exemptions(state_dir).addresses
    found: dict[str, DomainDrives] = {}
    for each in domains.listed(host):
        named = each.named
        if not named.uuid:
            raise BadInputError(f"expected a uuid in {each.file}, found none; define it anew")
        classes = {address: pci_class(host, address) for address in named.addresses}
        needed = frozenset(rules.needing(named.addresses, classes, exempt))
        # A domain may stand in several files: what any of them names counts.
        before = found.get(named.uuid, DomainDrives(named.uuid, named.domain, frozenset(), False))
        found[named.uuid] = dataclasses.replace(
            before,
            addresses=before.addresses | needed,
            running=before.running or each.running,
        )
    addresses = sorted({address for each in found.values() for address in each.addresses})
    drives = look(host, addresses, LOOK_SECONDS)
    slots = {
        address: SlotNow(
            drives[address].identity,
            pci_ids(host, address),
            read_case(state_dir, address),
            PciFunction(host, address).place,
        )
        for address in addresses
    }
    return tuple(found.values()), slots


def allow(
    state_dir: Path, host: Host, addresses: Iterable[str], reason: str, by: str, domain: str
) -> tuple[str, ...]:
    """Lets the next start on each slot pass once, with the drive that is there now, and accounts
    for it first; the slots.

    Raises ``EraserError`` and ``OSError``: then nothing is allowed.
    """
    _need_card(state_dir)
    given = tuple(dict.fromkeys(addresses))
    drives = look(host, given, LOOK_SECONDS)
    at = host.clock.utc()
    with books.opened(state_dir) as book:
        found = book.book
        for address in given:
            # First: a crash leaves an entry without an allowance, never one without an entry.
            audit.account(state_dir, AuditEntry(at, by, "allow", address, domain, reason))
            entry = found.entry(address)
            word = Allowance(by, reason, at, domain, drives[address].identity)
            found = found.with_entry(dataclasses.replace(entry, allowance=word))
        book.write(found)
    return given


def _may_be_there(book: Book, address: str, drive: DriveSeen) -> bool:
    """A drive of the owner's kind that is nobody else's. One that is dead can be read by nobody,
    and on most hosts it has no driver.

    By papers that count: neither doubted ones nor a ticket that is void, which may be of a drive
    that had left before it came.
    """
    # Another driver, a guest's for one, has a live drive. Else what cannot be read is dead.
    if drive.identity is None:
        return drive.driver not in (None, "", "nvme")
    believed = tuple(
        dataclasses.replace(entry, ticket=None)
        if entry.ticket is not None and entry.ticket.state is TicketState.VOID
        else entry
        for entry in book.entries
        if not entry.doubted
    )
    there = dataclasses.replace(book, entries=believed)
    return not revocation.known_elsewhere(there, address, drive.identity)


def forget(state_dir: Path, host: Host, address: str, reason: str, by: str) -> Owner:
    """Takes the slot from an owner whose drive nobody ever read, and accounts for it; the owner.

    For a drive that is gone: erases of drives of its kind wait for its owner's next start, which
    cannot come. Raises ``EraserError`` and ``OSError``: then nothing is forgotten.
    """
    at, kind = host.clock.utc(), pci_ids(host, address)
    # Before the book's lock, for which every start waits: the drive may be mute.
    drive = look(host, [address], LOOK_SECONDS)[address]
    with books.opened(state_dir) as book:
        entry = book.book.entry(address)
        owner = entry.owner
        if owner is None or owner.identity is not None:
            found = "nobody has it" if owner is None else f"{owner.name!r} with a known drive"
            raise BadInputError(
                f"{address}: expected an owner that was adopted unread, found {found}; no erase "
                "waits for it"
            )
        if is_untouched(owner, PciFunction(host, address).place):
            raise BadInputError(
                f"{address}: expected an owner whose drive is gone, found that it never left its "
                "slot; no erase waits for it"
            )
        if owner.pci == kind and _may_be_there(book.book, address, drive):
            raise BadInputError(
                f"{address}: expected an owner whose drive is gone, found a drive of its kind in "
                "its slot; start the domain once, or remove it"
            )
        # The drive of a domain that runs is in use, whatever the slot shows.
        for each in domains.listed(host):
            if each.running and each.named.uuid == owner.domain:
                raise BadInputError(
                    f"{address}: expected an owner that is off, found domain {owner.name!r} "
                    f"({owner.domain}) in {each.file}; its drive is read when it stops"
                )
        audit.account(state_dir, AuditEntry(at, by, "forget", address, owner.domain, reason))
        after = revocation.voided(revocation.parted(entry, owner, at), "its owner was forgotten")
        book.write(book.book.with_entry(dataclasses.replace(after, allowance=None)))
    return owner
