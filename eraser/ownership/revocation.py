"""How a slot is taken from whoever had it, and its ticket from whoever might have used it. Pure."""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Mapping
from dataclasses import dataclass

from eraser.ownership.facts import CaseStanding, HostSeen, NewErase, is_untouched
from eraser.ownership.model import Book, Owner, PciIds, SlotEntry, SteadyTime
from eraser.protocol.identity import ControllerIdentity
from eraser.protocol.ticket import LastOwner, TicketState

START_GRACE_SECONDS = 60.0
"""After a start was let in, a domain that libvirt's files do not name yet counts as defined: a
transient one shows up there only when its QEMU runs."""


def parted(entry: SlotEntry, owner: Owner, at: str) -> SlotEntry:
    """The entry after ``owner`` lost the slot."""
    last = LastOwner(owner.domain, owner.name, owner.since, at)
    return dataclasses.replace(entry, owner=None, last_owner=last, last_identity=owner.identity)


def voided(entry: SlotEntry, reason: str) -> SlotEntry:
    """The entry with a valid ticket made void. Used ones stay used: nothing goes back."""
    kept = entry.ticket
    if kept is None or kept.state is not TicketState.VALID:
        return entry
    return dataclasses.replace(
        entry, ticket=dataclasses.replace(kept, state=TicketState.VOID, reason=reason)
    )


def void(book: Book, address: str, reason: str) -> Book:
    """The book with the slot's ticket, if it is valid, made void."""
    entry = book.entry(address)
    found = voided(entry, reason)
    return book if found == entry else book.with_entry(found)


def gone(book: Book, address: str, standing: CaseStanding, reason: str) -> Book:
    """The book after the slot's drive may have been elsewhere: its ticket is void, and so is one
    that comes later for an erase whose case stands at its end. What is still erased, is read."""
    book = void(book, address, reason)
    # Only an erase that has ended well can still get a ticket, which ``away`` then speaks against.
    if standing is not CaseStanding.ERASED:
        return book
    return book.with_entry(dataclasses.replace(book.entry(address), away=reason))


@dataclass(frozen=True)
class StillOwned:
    """The erase must not begin: the owner's domain may come back for its drive."""

    owner: Owner
    found: str
    address: str
    """Where the owner got its drive."""
    unread: bool = False
    """Nobody ever read the owner's drive: it may be this one."""


@dataclass(frozen=True)
class Revocation:
    """The book in which nobody has the slot's drive, and who had it last."""

    book: Book
    last_owner: LastOwner | None
    """Of the drive, in whichever slot that was. None also where nobody ever read the drive that
    the slot's last owner had (it may be another), and where two may be the last."""


def _went_without(book: Book, address: str, owner: Owner, seen: HostSeen) -> bool:
    """The domain runs, and was let in on other drives without this one since it had it.

    As after an unshelve to the same host. A suspended domain does not run, and one that resumes got
    all of its drives at one start, whichever of them it has back already.
    """
    named = seen.running.get(owner.domain, ())
    others = (book.entry(other).owner for other in named if other != address)
    return address not in named and any(
        other is not None and other.domain == owner.domain and _later(other, owner, seen.now)
        for other in others
    )


def _later(one: Owner, other: Owner, now: SteadyTime) -> bool:
    """``one`` was let in in this boot, and ``other`` before that or never."""
    if one.let_in is None or one.let_in.boot != now.boot:
        return False
    before = other.let_in
    return before is None or before.boot != now.boot or before.seconds < one.let_in.seconds


def known_elsewhere(book: Book, address: str, identity: ControllerIdentity | None) -> str:
    """Whose drive this is by the entry of another slot; empty where by none.

    Then it is not the one of an owner that was adopted unread: that had its own all the time.
    """
    for entry in book.entries:
        if entry.address == address or identity is None:
            continue
        if whose := _told_of(entry, identity):
            return whose + (_DOUBTED if entry.doubted else "")
    return ""


_DOUBTED = (
    " (which is doubted: a guest was adopted since with a drive that nobody read; if this is its "
    "drive, see 'nvme-eraser gate allow')"
)


def _told_of(entry: SlotEntry, identity: ControllerIdentity) -> str:
    owner, kept = entry.owner, entry.ticket
    if owner is not None and owner.identity == identity:
        return f"that of domain {owner.name!r} ({owner.domain}), which got it at {entry.address}"
    if entry.last_owner is not None and entry.last_identity == identity:
        last = entry.last_owner
        return f"the last one of domain {last.name!r} ({last.domain}) at {entry.address}"
    if kept is not None and kept.ticket.identity == identity:
        return f"the one that was certified at {entry.address}"
    return ""


def _unread(book: Book, erase: NewErase, seen: HostSeen) -> tuple[str, Owner] | None:
    """An owner of another slot that was adopted unread and may have this drive: it is of the same
    kind; and that slot.

    Not where the domain runs with that slot: it has its own drive then. Nor where its drive never
    left its place.
    """
    for entry in book.entries:
        owner = entry.owner
        if entry.address == erase.address or owner is None or owner.identity is not None:
            continue
        runs = entry.address in seen.running.get(owner.domain, ())
        # Its drive is still where it was when the owner was adopted, so it is not this one.
        if is_untouched(owner, seen.places.get(entry.address, "")):
            continue
        if owner.domain in seen.domains and not runs and owner.pci == PciIds.of(erase.identity):
            return entry.address, owner
    return None


def _is_known(book: Book, erase: NewErase) -> bool:
    """Somebody read this drive where no owner that was adopted unread had it.

    It was certified and its ticket held, or was used: not where the slot's owner was adopted unread
    after that, who may have got it past the gate. Or its owner was adopted with it while off. One
    that was adopted unread and started since may have got another's drive, by its PCI ids alone,
    and so may one that a person let in. Or the slot's newest erase took it, in this boot and in
    this very place.
    """
    if erase.place and book.entry(erase.address).place == erase.place:
        return True
    return any(
        _is_read(entry.owner, erase.identity) or _was_certified(entry, erase.identity)
        for entry in book.entries
        if not entry.doubted
    )


def _is_read(owner: Owner | None, identity: ControllerIdentity) -> bool:
    if owner is None or owner.identity != identity:
        return False
    return owner.adopted and owner.let_in is None


def _was_certified(entry: SlotEntry, identity: ControllerIdentity) -> bool:
    owner, kept = entry.owner, entry.ticket
    if kept is None or kept.state is TicketState.VOID:
        return False
    if owner is not None and owner.identity is None:
        return False
    return kept.ticket.identity == identity


def revoke(book: Book, erase: NewErase, seen: HostSeen) -> Revocation | StillOwned:
    """Takes the slot from its owner, and the drive from its own, before the drive is erased.

    An owner of an earlier incarnation is not let in, and counts here all the same.
    """
    owners = _owners(book, erase)
    still = _still_owned(book, owners, seen) or _maybe_owned(book, erase, seen)
    if still is not None:
        return still
    book = _parted_from(book, owners, erase)
    entry = _taken(book.entry(erase.address), erase)
    # A resumed case changes nothing, and an equal book is not written again.
    if entry != book.entry(erase.address):
        book = book.with_entry(entry)
    return Revocation(book, _last_owner(book, erase.identity))


def _owners(book: Book, erase: NewErase) -> Mapping[str, Owner]:
    """The slot's owner, and whoever has this very drive by another slot's entry, by address."""
    mine = book.entry(erase.address).owner
    owners = {} if mine is None else {erase.address: mine}
    # Drives move: a boot deals the addresses out anew, or a person plugs one in elsewhere. The
    # domain of a guest that is off goes on naming the old address.
    for entry in book.entries:
        owner = entry.owner
        if entry.address != erase.address and owner and owner.identity == erase.identity:
            owners[entry.address] = owner
    return owners


def _still_owned(book: Book, owners: Mapping[str, Owner], seen: HostSeen) -> StillOwned | None:
    """The first of ``owners`` who may come back for the drive."""
    for where, owner in owners.items():
        left = _went_without(book, where, owner, seen)
        # The domain exists, so its guest may be started again, and would want this drive.
        if owner.domain in seen.domains and not left:
            return StillOwned(owner, f"its domain stands in {seen.domains[owner.domain]}", where)
        if owner.let_in is not None and seen.now.within(START_GRACE_SECONDS, owner.let_in):
            return StillOwned(owner, "its start was let in a moment ago", where)
    return None


def _maybe_owned(book: Book, erase: NewErase, seen: HostSeen) -> StillOwned | None:
    """An owner whose drive nobody read, and who may have this one, wherever it sits by now."""
    mine = book.entry(erase.address)
    # A resumed case proved before that the drive is nobody's; the book must still be of that time.
    if erase.again and mine.place and mine.took == erase.identity and not mine.doubted:
        return None
    maybe = _unread(book, erase, seen)
    if maybe is None or _is_known(book, erase):
        return None
    where, owner = maybe
    found = f"its domain stands in {seen.domains[owner.domain]}"
    return StillOwned(owner, found, where, unread=True)


def _parted_from(book: Book, owners: Mapping[str, Owner], erase: NewErase) -> Book:
    """The book in which nobody has the slot or the drive."""
    # Whoever lost a drive now is its last owner; older records go.
    for owner in owners.values():
        book = forgotten(book, owner.identity, owners)
    for where, owner in owners.items():
        book = book.with_entry(parted(book.entry(where), owner, erase.at))
    return book


def _taken(entry: SlotEntry, erase: NewErase) -> SlotEntry:
    """The slot's entry from here on: no start may pass by a paper of before this erase."""
    doubted, kept = entry.doubted, entry.ticket
    entry = voided(entry, "an erase began")
    if kept is not None and kept.ticket.identity != erase.identity:
        # Nobody knows any more where that drive is: its paper proves nothing of any other.
        void = dataclasses.replace(kept, state=TicketState.VOID, reason="another drive is erased")
        entry = dataclasses.replace(entry, ticket=None if doubted else void)
    if doubted and entry.last_identity not in (None, erase.identity):
        # As its paper, if it was doubted: the doubt ends here, and would be forgotten with it.
        entry = dataclasses.replace(entry, last_owner=None, last_identity=None)
    return dataclasses.replace(
        entry,
        # A person's word was about the drive as it was: it does not outlive the erase.
        allowance=None,
        away=erase.away,
        place=erase.place,
        doubted=doubted and erase.by_hand,
        took=erase.identity if erase.place else None,
    )


def forgotten(book: Book, identity: ControllerIdentity | None, since: Collection[str]) -> Book:
    """The book after somebody else lost this drive: in no slot but these ``since`` is who lost it
    before the last owner. None: nobody knows which drive that was."""
    for one in book.entries:
        if one.last_identity == identity and one.address not in since:
            book = book.with_entry(dataclasses.replace(one, last_identity=None))
    return book


def _last_owner(book: Book, identity: ControllerIdentity) -> LastOwner | None:
    """Who had this drive last. Hosts' times are for people, so of two nobody knows."""
    found = [
        one.last_owner
        for one in book.entries
        if one.last_identity == identity and one.last_owner is not None
    ]
    # Two records of one drive have no order that could be trusted.
    return found[0] if len(found) == 1 else None
