"""A slot is taken from its owner before its drive is erased, or not at all."""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Mapping
from typing import Any

import pytest

from eraser.ownership import revocation
from eraser.ownership.facts import HostSeen, NewErase
from eraser.ownership.model import Book, Owner, PciIds, SlotEntry, SteadyTime
from eraser.ownership.revocation import (
    START_GRACE_SECONDS,
    Revocation,
    StillOwned,
    known_elsewhere,
    void,
)
from eraser.protocol.identity import ControllerIdentity
from eraser.protocol.ticket import LastOwner, TicketState
from tests.unit.ownership.parts import (
    ADDRESS,
    ALLOWED,
    ANOTHER,
    AT,
    DRIVE,
    EMPTY,
    KEPT,
    LATER,
    MINE,
    NOW,
    OTHER_ADDRESS,
    OWNER,
    THEIRS,
    kept,
    owner,
    ticket,
)

ANOTHER_KIND = dataclasses.replace(DRIVE, device_id=1)
KEPT_ANOTHER = kept(ticket=ticket(identity=ANOTHER))
LONG_AFTER = SteadyTime(NOW.boot, NOW.seconds + START_GRACE_SECONDS + 1)
OWNED = EMPTY.with_entry(SlotEntry(ADDRESS, owner=OWNER)).with_entry(
    SlotEntry(OTHER_ADDRESS, owner=owner(identity=ANOTHER), ticket=KEPT, allowance=ALLOWED)
)


def revoke(
    book: Book,
    address: str,
    identity: ControllerIdentity,
    domains: Mapping[str, str],
    now: SteadyTime,
    at: str,
    running: Mapping[str, Collection[str]] | None = None,
    *,
    places: Mapping[str, str] | None = None,
    **erase: Any,
) -> Revocation | StillOwned:
    """As an erase with these facts does."""
    return revocation.revoke(
        book,
        NewErase(address, identity, at, **erase),
        HostSeen(now, domains, running or {}, places or {}),
    )


def test_the_owner_is_the_last_one_from_now_on() -> None:
    found = revoke(OWNED, ADDRESS, DRIVE, {THEIRS: "x"}, LONG_AFTER, LATER)
    assert isinstance(found, Revocation)
    assert found.last_owner == LastOwner(MINE, "instance-1", AT, LATER)
    entry = found.book.entry(ADDRESS)
    assert (entry.owner, entry.last_owner, entry.last_identity) == (None, found.last_owner, DRIVE)
    assert found.book.entry(OTHER_ADDRESS) == OWNED.entry(OTHER_ADDRESS), "no other slot"
    again = revoke(found.book, ADDRESS, DRIVE, {}, LONG_AFTER, "later still")
    assert again == found, "a resumed case changes nothing and knows the same last owner"


def test_an_owner_whose_domain_exists_keeps_the_drive() -> None:
    """A suspended server's domain does not name the address, but it comes back for its drive."""
    found = revoke(OWNED, ADDRESS, DRIVE, {MINE: "/etc/libvirt/qemu/i.xml"}, LONG_AFTER, LATER)
    assert isinstance(found, StillOwned)
    assert "/etc/libvirt/qemu/i.xml" in found.found


SINCE = owner(identity=ANOTHER, let_in=SteadyTime(NOW.boot, NOW.seconds + 5))
MOVED = EMPTY.with_entry(SlotEntry(ADDRESS, owner=OWNER)).with_entry(
    SlotEntry(OTHER_ADDRESS, owner=SINCE)
)
BEFORE_BOOT = owner(let_in=SteadyTime("boot-0", NOW.seconds + 900))
OTHERS_BEFORE_BOOT = dataclasses.replace(BEFORE_BOOT, identity=ANOTHER)


@pytest.mark.parametrize("before", [OWNER, owner(let_in=None), BEFORE_BOOT])
def test_an_owner_that_runs_with_other_drives_since_has_left_this_one(before: Owner) -> None:
    """An unshelve to the same host: its domain has the same uuid, and may live for years."""
    book = MOVED.with_entry(SlotEntry(ADDRESS, owner=before))
    found = revoke(book, ADDRESS, DRIVE, {MINE: "x"}, LONG_AFTER, LATER, {MINE: {OTHER_ADDRESS}})
    assert isinstance(found, Revocation)
    assert found.last_owner is not None
    assert found.book.entry(OTHER_ADDRESS) == book.entry(OTHER_ADDRESS)


@pytest.mark.parametrize(
    ("book", "running"),
    [
        # Suspended: it does not run. Or resuming, and its drives come back one by one.
        (MOVED, {}),
        (MOVED, {MINE: ()}),
        (
            MOVED.with_entry(SlotEntry(OTHER_ADDRESS, owner=owner(identity=ANOTHER))),
            {MINE: {OTHER_ADDRESS}},
        ),
        (MOVED, {MINE: {ADDRESS, OTHER_ADDRESS}}),
        (MOVED, {THEIRS: {OTHER_ADDRESS}}),
        # The other drive is nobody's, another's, or was let in at a time that says nothing.
        (MOVED.with_entry(SlotEntry(OTHER_ADDRESS)), {MINE: {OTHER_ADDRESS}}),
        (
            MOVED.with_entry(
                SlotEntry(OTHER_ADDRESS, owner=dataclasses.replace(SINCE, domain=THEIRS))
            ),
            {MINE: {OTHER_ADDRESS}},
        ),
        (
            MOVED.with_entry(SlotEntry(OTHER_ADDRESS, owner=OTHERS_BEFORE_BOOT)),
            {MINE: {OTHER_ADDRESS}},
        ),
        (
            MOVED.with_entry(SlotEntry(OTHER_ADDRESS, owner=owner(identity=ANOTHER, let_in=None))),
            {MINE: {OTHER_ADDRESS}},
        ),
    ],
)
def test_an_owner_that_may_come_back_has_not(
    book: Book, running: dict[str, Collection[str]]
) -> None:
    found = revoke(book, ADDRESS, DRIVE, {MINE: "x"}, LONG_AFTER, LATER, running)
    assert isinstance(found, StillOwned)


@pytest.mark.parametrize(
    ("now", "kept_back"),
    [
        (NOW, True),
        (SteadyTime(NOW.boot, NOW.seconds + START_GRACE_SECONDS), True),
        (LONG_AFTER, False),
        (SteadyTime("boot-2", NOW.seconds + 1), False),
    ],
)
def test_a_start_that_was_let_in_a_moment_ago(now: SteadyTime, kept_back: bool) -> None:
    """A transient domain stands in no file until its QEMU runs."""
    found = revoke(OWNED, ADDRESS, DRIVE, {}, now, LATER)
    assert isinstance(found, StillOwned) is kept_back


ELSEWHERE = EMPTY.with_entry(SlotEntry(OTHER_ADDRESS, owner=OWNER))
"""The drive's owner got it in another slot than the one that it is erased in."""


def test_a_drive_that_moved_is_still_its_owners() -> None:
    """Its addresses were dealt out anew at a boot, or somebody plugged it in elsewhere, while its
    guest was off: the guest's definition names the old address."""
    found = revoke(ELSEWHERE, ADDRESS, DRIVE, {MINE: "/etc/libvirt/qemu/i.xml"}, LONG_AFTER, LATER)
    assert isinstance(found, StillOwned)
    assert (found.owner, found.address) == (OWNER, OTHER_ADDRESS)
    assert "/etc/libvirt/qemu/i.xml" in found.found
    assert isinstance(revoke(ELSEWHERE, ADDRESS, DRIVE, {}, NOW, LATER), StillOwned)
    another = revoke(ELSEWHERE, ADDRESS, ANOTHER, {MINE: "x"}, LONG_AFTER, LATER)
    assert isinstance(another, Revocation), "the owner's drive is not this one"
    assert another.book.entry(OTHER_ADDRESS) == ELSEWHERE.entry(OTHER_ADDRESS)


def test_a_drive_that_moved_from_an_owner_that_is_gone() -> None:
    found = revoke(ELSEWHERE, ADDRESS, DRIVE, {THEIRS: "x"}, LONG_AFTER, LATER, place="here")
    assert isinstance(found, Revocation)
    assert found.book.entry(ADDRESS).place == "here"
    left = found.book.entry(OTHER_ADDRESS)
    assert (left.owner, left.last_identity) == (None, DRIVE)
    back = revoke(found.book, ADDRESS, DRIVE, {MINE: "x"}, LONG_AFTER, "later still")
    assert isinstance(back, Revocation), "unshelved to this host, it has other drives now"


THIRD = "0000:03:00.0"


def test_the_last_owner_is_the_drives_and_not_the_slots() -> None:
    """Its last owner had it in another slot. A certificate named nobody, or whoever had the drive
    before that in the slot where it is erased."""
    first = LastOwner(THEIRS, "old", AT, AT)
    book = ELSEWHERE.with_entry(SlotEntry(ADDRESS, last_owner=first, last_identity=DRIVE))
    last = LastOwner(MINE, OWNER.name, OWNER.since, LATER)
    for place in (ADDRESS, THIRD):
        found = revoke(book, place, DRIVE, {}, LONG_AFTER, LATER)
        assert isinstance(found, Revocation)
        assert found.last_owner == last, place
        assert found.book.entry(ADDRESS).last_owner == first, "the slot's all the same"
        again = revoke(found.book, ADDRESS, DRIVE, {}, LONG_AFTER, "later still")
        assert isinstance(again, Revocation)
        assert again.last_owner == last, "also in its next case, wherever that is"


def test_of_two_that_may_be_the_last_none_is_named() -> None:
    """As in a book of an earlier release. Times of hosts are not compared."""
    book = EMPTY
    for address, domain in ((ADDRESS, MINE), (OTHER_ADDRESS, THEIRS)):
        last = LastOwner(domain, "i", AT, AT)
        book = book.with_entry(SlotEntry(address, last_owner=last, last_identity=DRIVE))
    found = revoke(book, ADDRESS, DRIVE, {}, NOW, LATER)
    assert isinstance(found, Revocation)
    assert found.last_owner is None


def test_a_drive_that_moved_from_an_owner_that_runs_without_it() -> None:
    book = ELSEWHERE.with_entry(SlotEntry(THIRD, owner=SINCE))
    found = revoke(book, ADDRESS, DRIVE, {MINE: "x"}, LONG_AFTER, LATER, {MINE: {THIRD}})
    assert isinstance(found, Revocation)
    assert found.book.entry(THIRD) == book.entry(THIRD)


def test_an_adopted_owner_was_not_let_in() -> None:
    book = EMPTY.with_entry(SlotEntry(ADDRESS, owner=owner(let_in=None)))
    assert isinstance(revoke(book, ADDRESS, DRIVE, {}, NOW, LATER), Revocation)


def test_tickets_and_words_are_void() -> None:
    book = EMPTY.with_entry(SlotEntry(ADDRESS, ticket=KEPT, allowance=ALLOWED))
    found = revoke(book, ADDRESS, DRIVE, {}, NOW, LATER)
    assert isinstance(found, Revocation)
    entry = found.book.entry(ADDRESS)
    assert entry.allowance is None
    assert entry.ticket == dataclasses.replace(
        KEPT, state=TicketState.VOID, reason="an erase began"
    )


def test_the_last_owner_of_another_drive_is_not_this_ones() -> None:
    entry = SlotEntry(ADDRESS, last_owner=LastOwner(MINE, "i", AT, AT), last_identity=ANOTHER)
    book = EMPTY.with_entry(entry)
    found = revoke(book, ADDRESS, DRIVE, {}, NOW, LATER)
    assert isinstance(found, Revocation)
    assert found.last_owner is None
    assert found.book.entry(ADDRESS).last_owner == entry.last_owner, "the slot's all the same"


def test_an_owner_whose_drive_nobody_read_is_the_last_one_of_no_drive() -> None:
    """It was adopted while its guest ran. The drive may be another by now, of the same model."""
    unread = owner(identity=None, pci=PciIds.of(DRIVE), let_in=None)
    found = revoke(EMPTY.with_entry(SlotEntry(ADDRESS, owner=unread)), ADDRESS, DRIVE, {}, NOW, AT)
    assert isinstance(found, Revocation)
    assert found.last_owner is None
    entry = found.book.entry(ADDRESS)
    assert (entry.owner, entry.last_owner) == (None, LastOwner(MINE, "instance-1", AT, AT))


@pytest.mark.parametrize("state", TicketState)
def test_void_only_goes_forward(state: TicketState) -> None:
    book = EMPTY.with_entry(SlotEntry(ADDRESS, ticket=kept(state=state, reason="old")))
    found = void(book, ADDRESS, "it vanished").entry(ADDRESS).ticket
    assert found is not None
    if state is TicketState.VALID:
        assert (found.state, found.reason) == (TicketState.VOID, "it vanished")
    else:
        assert (found.state, found.reason) == (state, "old")


def test_void_of_a_slot_without_a_ticket_changes_nothing() -> None:
    assert void(OWNED, ADDRESS, "it vanished") == OWNED
    assert void(EMPTY, ADDRESS, "it vanished") == EMPTY


UNREAD = owner(identity=None, pci=PciIds.of(DRIVE), adopted=True, let_in=None)
"""Adopted while its guest ran, in another slot than the one of the erase."""


def test_a_drive_that_may_be_of_an_owner_that_was_adopted_unread() -> None:
    """Its guest was stopped, and a boot dealt the addresses out anew: its drive is here now, and
    its definition names the other address. An erase took it."""
    book = EMPTY.with_entry(SlotEntry(OTHER_ADDRESS, owner=UNREAD))
    found = revoke(book, ADDRESS, DRIVE, {MINE: "/etc/i.xml"}, LONG_AFTER, LATER)
    assert isinstance(found, StillOwned)
    assert (found.owner, found.address, found.unread) == (UNREAD, OTHER_ADDRESS, True)
    assert "/etc/i.xml" in found.found


@pytest.mark.parametrize(
    ("domains", "running", "identity"),
    [
        ({}, {}, DRIVE),  # it is gone for good
        ({MINE: "x"}, {MINE: {OTHER_ADDRESS}}, DRIVE),  # it runs with its own
        ({MINE: "x"}, {}, dataclasses.replace(DRIVE, device_id=1)),  # of another kind
    ],
)
def test_a_drive_that_is_not_of_an_owner_that_was_adopted_unread(
    domains: dict[str, str], running: dict[str, set[str]], identity: ControllerIdentity
) -> None:
    book = EMPTY.with_entry(SlotEntry(OTHER_ADDRESS, owner=UNREAD))
    found = revoke(book, ADDRESS, identity, domains, LONG_AFTER, LATER, running)
    assert isinstance(found, Revocation)
    assert found.book.entry(OTHER_ADDRESS).owner == UNREAD, "it keeps the drive that is its own"
    assert found.last_owner is None


BY_ADDRESS_ALONE = owner(adopted=True)
"""Adopted unread, and started since: which drive its slot had by then nobody knows."""


def _with_unread(*entries: SlotEntry) -> Book:
    book = EMPTY.with_entry(SlotEntry(UNREAD_AT, owner=UNREAD_THEIRS))
    for entry in entries:
        book = book.with_entry(entry)
    return book


UNREAD_AT = "0000:03:00.0"
UNREAD_THEIRS = dataclasses.replace(UNREAD, domain=THEIRS, name="B")


@pytest.mark.parametrize("address", [ADDRESS, OTHER_ADDRESS])
@pytest.mark.parametrize(
    "given",
    [
        {"owner": OWNER, "ticket": kept(state=TicketState.USED)},  # by its ticket
        {"owner": owner(adopted=True, let_in=None)},  # read while it was off
        {"ticket": KEPT},
        {"ticket": kept(state=TicketState.USED)},
    ],
)
def test_a_drive_that_was_read_waits_for_no_owner_that_was_adopted_unread(
    address: str, given: dict[str, Any]
) -> None:
    """Its tenant is gone, and an honest drive would wait until a stranger's guest starts."""
    book = _with_unread(SlotEntry(address, **given))
    found = revoke(book, ADDRESS, DRIVE, {THEIRS: "x"}, LONG_AFTER, LATER)
    assert isinstance(found, Revocation)
    assert found.book.entry(UNREAD_AT).owner == UNREAD_THEIRS


@pytest.mark.parametrize(
    "entry",
    [
        SlotEntry(ADDRESS),
        SlotEntry(ADDRESS, owner=OWNER),  # let in by a person, on whatever stood there
        SlotEntry(ADDRESS, owner=BY_ADDRESS_ALONE),
        SlotEntry(ADDRESS, owner=BY_ADDRESS_ALONE, place="boot-1/7"),
        SlotEntry(ADDRESS, owner=owner(identity=ANOTHER), ticket=KEPT_ANOTHER),
        SlotEntry(ADDRESS, ticket=kept(state=TicketState.VOID, reason="it vanished")),
        SlotEntry(ADDRESS, last_owner=LastOwner(MINE, "A", AT, AT), last_identity=DRIVE),
    ],
)
def test_a_drive_that_may_have_been_taken_for_anothers_waits(entry: SlotEntry) -> None:
    book = _with_unread(entry)
    for place in ("", "boot-1/8"):
        found = revoke(book, ADDRESS, DRIVE, {THEIRS: "x"}, LONG_AFTER, LATER, place=place)
        assert isinstance(found, StillOwned)
        assert found.unread
        assert found.owner == UNREAD_THEIRS


def test_a_drive_of_an_owner_that_never_left_its_place_is_no_other() -> None:
    """Also a dead one that nobody can read: no erase waits for it."""
    stays = dataclasses.replace(UNREAD, place="boot-1/7")
    book = EMPTY.with_entry(SlotEntry(OTHER_ADDRESS, owner=stays))

    def erase(here: dict[str, str]) -> bool:
        found = revoke(book, ADDRESS, DRIVE, {MINE: "x"}, LONG_AFTER, LATER, places=here)
        return isinstance(found, Revocation)

    assert erase({OTHER_ADDRESS: "boot-1/7"})
    for here in ({}, {OTHER_ADDRESS: ""}, {OTHER_ADDRESS: "boot-1/8"}, {OTHER_ADDRESS: "boot-2/7"}):
        assert not erase(here)


@pytest.mark.parametrize("state", [TicketState.VALID, TicketState.USED])
def test_a_ticket_says_nothing_of_a_drive_that_was_adopted_unread_after_it(
    state: TicketState,
) -> None:
    """Certified on a host that was not adopted yet, it went to its guest past the gate; then the
    guest was adopted. After a boot it is elsewhere, and its guest is off."""
    entry = SlotEntry(OTHER_ADDRESS, owner=UNREAD, ticket=kept(state=state))
    found = revoke(EMPTY.with_entry(entry), ADDRESS, DRIVE, {MINE: "x"}, LONG_AFTER, LATER)
    assert isinstance(found, StillOwned)
    assert (found.owner, found.unread) == (UNREAD, True)


def test_an_erase_that_took_the_drive_goes_on_in_the_same_place() -> None:
    """Its owner is gone from the book by then, and so is what said whose the drive was."""
    book = _with_unread(SlotEntry(ADDRESS, owner=owner(adopted=True, let_in=None)))
    first = revoke(book, ADDRESS, DRIVE, {THEIRS: "x"}, LONG_AFTER, LATER, place="boot-1/7")
    assert isinstance(first, Revocation)
    again = revoke(first.book, ADDRESS, DRIVE, {THEIRS: "x"}, LONG_AFTER, LATER, place="boot-1/7")
    assert isinstance(again, Revocation)
    moved = revoke(first.book, ADDRESS, DRIVE, {THEIRS: "x"}, LONG_AFTER, LATER, place="boot-2/7")
    assert isinstance(moved, StillOwned)


@pytest.mark.parametrize(
    "given",
    [
        {"owner": owner(adopted=True, let_in=None)},
        {"ticket": KEPT},
        {"ticket": kept(state=TicketState.USED)},
    ],
)
def test_what_is_doubted_proves_nothing(given: dict[str, Any]) -> None:
    """Whoever is gone by now; and an erase ends the doubt of its own slot alone."""
    book = _with_unread(SlotEntry(OTHER_ADDRESS, doubted=True, **given))
    found = revoke(book, ADDRESS, DRIVE, {THEIRS: "x"}, LONG_AFTER, LATER)
    assert isinstance(found, StillOwned)
    assert found.unread
    for address in (ADDRESS, OTHER_ADDRESS):
        erased = revoke(book, address, ANOTHER_KIND, {}, LONG_AFTER, LATER)
        assert isinstance(erased, Revocation)
        assert erased.book.entry(OTHER_ADDRESS).doubted is (address == ADDRESS)


@pytest.mark.parametrize("state", [TicketState.USED, TicketState.VALID])
@pytest.mark.parametrize("doubted", [True, False])
def test_another_drive_s_erase_ends_what_a_ticket_proved(state: TicketState, doubted: bool) -> None:
    """Its drive left that slot, nobody knows where to: by now a guest may have it, adopted unread.
    An erase of the very drive that it is about keeps it as it is."""
    paper = SlotEntry(OTHER_ADDRESS, ticket=kept(state=state), doubted=doubted)
    book = _with_unread(paper)
    erased = revoke(book, OTHER_ADDRESS, ANOTHER_KIND, {}, LONG_AFTER, LATER)
    assert isinstance(erased, Revocation)
    left = erased.book.entry(OTHER_ADDRESS).ticket
    # The doubt ends with the erase, and what was doubted with it.
    assert left is None if doubted else left is not None and left.state is TicketState.VOID
    found = revoke(erased.book, ADDRESS, DRIVE, {THEIRS: "x"}, LONG_AFTER, LATER)
    assert isinstance(found, StillOwned)
    assert found.unread
    if state is TicketState.USED:
        same = revoke(EMPTY.with_entry(paper), OTHER_ADDRESS, DRIVE, {}, LONG_AFTER, LATER)
        assert isinstance(same, Revocation)
        assert same.book.entry(OTHER_ADDRESS).ticket == paper.ticket


def test_a_case_that_took_the_drive_waits_for_nobody_unread_whatever_boot_it_is() -> None:
    """But for who has it in the book by now: a guest may have got it at a start."""
    book = _with_unread(SlotEntry(ADDRESS, ticket=KEPT))

    def again(book: Book) -> object:
        there = {THEIRS: "x"}
        return revoke(book, ADDRESS, DRIVE, there, LONG_AFTER, LATER, place="boot-2/7", again=True)

    first = revoke(book, ADDRESS, DRIVE, {THEIRS: "x"}, LONG_AFTER, LATER, place="boot-1/7")
    assert isinstance(first, Revocation)
    assert isinstance(again(first.book), Revocation)
    has_it = SlotEntry(UNREAD_AT, owner=owner(domain=THEIRS, name="B", let_in=None))
    assert isinstance(again(first.book.with_entry(has_it)), StillOwned)
    doubted = dataclasses.replace(first.book.entry(ADDRESS), doubted=True)
    assert isinstance(again(first.book.with_entry(doubted)), StillOwned)
    assert isinstance(again(_with_unread()), StillOwned), "a book that was put aside since"


def test_whose_a_drive_is_by_another_slot() -> None:
    def of(entry: SlotEntry) -> str:
        return known_elsewhere(EMPTY.with_entry(entry), ADDRESS, DRIVE)

    assert MINE in of(SlotEntry(OTHER_ADDRESS, owner=OWNER))
    last = LastOwner(THEIRS, "old", AT, AT)
    assert THEIRS in of(SlotEntry(OTHER_ADDRESS, last_owner=last, last_identity=DRIVE))
    assert OTHER_ADDRESS in of(SlotEntry(OTHER_ADDRESS, ticket=KEPT))
    assert "gate allow" in of(SlotEntry(OTHER_ADDRESS, ticket=KEPT, doubted=True))
    assert "gate allow" not in of(SlotEntry(OTHER_ADDRESS, ticket=KEPT))
    for entry in (
        SlotEntry(ADDRESS, owner=OWNER, ticket=KEPT),
        SlotEntry(OTHER_ADDRESS, owner=UNREAD),
        SlotEntry(OTHER_ADDRESS, last_owner=last),
        SlotEntry(OTHER_ADDRESS, owner=owner(identity=ANOTHER)),
        SlotEntry(OTHER_ADDRESS, ticket=kept(ticket=ticket(identity=ANOTHER))),
    ):
        assert of(entry) == ""
    with_owner = EMPTY.with_entry(SlotEntry(OTHER_ADDRESS, owner=OWNER))
    assert known_elsewhere(with_owner, ADDRESS, None) == ""


def test_who_lost_a_drive_in_between_is_its_last_owner_or_nobody() -> None:
    """A had it at one address, B at another while A's entry stood; B's slot then went to another
    drive. Back in a third slot, A was named."""
    others = owner(domain=THEIRS, name="A")
    book = EMPTY.with_entry(SlotEntry(OTHER_ADDRESS, owner=others))
    for address in (OTHER_ADDRESS, ADDRESS):
        found = revoke(book, address, DRIVE, {}, LONG_AFTER, LATER)
        assert isinstance(found, Revocation)
        book = found.book
    book = book.with_entry(dataclasses.replace(book.entry(ADDRESS), owner=OWNER))
    found = revoke(book, ADDRESS, ANOTHER, {}, LONG_AFTER, LATER)
    assert isinstance(found, Revocation)
    assert found.last_owner is None, "of the other drive nobody was"
    assert _last(found.book, DRIVE) == MINE
    of_another = owner(domain=THEIRS, name="C", identity=ANOTHER)
    entry = dataclasses.replace(found.book.entry(ADDRESS), owner=of_another)
    found = revoke(found.book.with_entry(entry), ADDRESS, ANOTHER, {}, LONG_AFTER, LATER)
    assert isinstance(found, Revocation)
    assert _last(found.book, DRIVE) == "", "its slot has forgotten who it was"
    assert _last(found.book, ANOTHER) == THEIRS


def _last(book: Book, identity: ControllerIdentity) -> str:
    found = revoke(book, THIRD, identity, {}, LONG_AFTER, LATER)
    assert isinstance(found, Revocation)
    return "" if found.last_owner is None else found.last_owner.domain
