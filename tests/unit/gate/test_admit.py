"""The gate at work: locks, files and the book; the drives say what a test wants."""

from __future__ import annotations

import dataclasses
import errno
import os
import resource
import shutil
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from eraser.clock import MACHINE
from eraser.controller.lock import SlotLock
from eraser.errors import InUseError
from eraser.gate import accept_ticket, admit, by_person, intake
from eraser.gate.admit import GateRefusedError
from eraser.gate.rules import AdmittedBy
from eraser.host.sysfs import PciFunction
from eraser.ownership import audit, pending, revocation, turned_away
from eraser.ownership import revoke as ownership_revoke
from eraser.ownership import store as books
from eraser.ownership.cases import read_case
from eraser.ownership.facts import CaseSeen, CaseStanding, DriveSeen
from eraser.ownership.model import PciIds, SlotEntry
from eraser.protocol.report import Outcome, Verdict
from eraser.protocol.ticket import Counters, TicketReceipt, TicketState
from eraser.state import answers, hostcard, notes
from eraser.state.answers import OrderAnswer
from eraser.state.case_dir import CaseEnding
from eraser.state.case_files import CaseFiles
from tests.unit.gate.world import World, domain, world
from tests.unit.ownership.parts import (
    ADDRESS,
    ALLOWED,
    ANOTHER,
    DRIVE,
    KEPT,
    MINE,
    ORDER_ID,
    OTHER_ADDRESS,
    OWNER,
    REPORTED,
    SEEN,
    THEIRS,
    TICKET,
    owner,
)

__all__ = ["world"]

BOTH = domain(ADDRESS, OTHER_ADDRESS)


def refused(world: World, document: bytes, *words: str) -> str:
    with pytest.raises(GateRefusedError) as found:
        world.check(document)
    for word in words:
        assert word in str(found.value), str(found.value)
    assert "\n" not in str(found.value)
    return str(found.value)


def state_of(world: World, address: str = ADDRESS) -> TicketState:
    kept = world.book.entry(address).ticket
    assert kept is not None
    return kept.state


def test_a_guest_gets_all_its_drives_once(world: World) -> None:
    for address in (ADDRESS, OTHER_ADDRESS):
        world.certified(address)
        assert state_of(world, address) is TicketState.VALID
    passed = world.check(BOTH)
    assert [(each.address, each.way) for each in passed.admissions] == [
        (ADDRESS, AdmittedBy.TICKET),
        (OTHER_ADDRESS, AdmittedBy.TICKET),
    ]
    for address in (ADDRESS, OTHER_ADDRESS):
        assert state_of(world, address) is TicketState.USED
        found = world.book.entry(address).owner
        assert found is not None
        assert (found.domain, found.identity) == (MINE, DRIVE)
    again = world.check(BOTH)
    assert {each.way for each in again.admissions} == {AdmittedBy.OWNER}
    refused(world, domain(ADDRESS, uuid=THEIRS, name="other"), "'other'", "'instance-1'", MINE)


@pytest.mark.parametrize("way", AdmittedBy)
def test_who_was_let_in_and_is_asked_about_again_is_let_in(world: World, way: AdmittedBy) -> None:
    """A hook that was killed as it decided is called again by the next start."""
    if way is AdmittedBy.TICKET:
        world.certified()
    else:
        world.slot(ADDRESS)
        word = SlotEntry(ADDRESS, allowance=ALLOWED)
        world.know(SlotEntry(ADDRESS, owner=OWNER) if way is AdmittedBy.OWNER else word)
    (first,) = world.check(domain(ADDRESS)).admissions
    assert first.way is way
    given = world.book.entry(ADDRESS)
    (again,) = world.check(domain(ADDRESS)).admissions
    assert again.way is AdmittedBy.OWNER
    assert given.owner is not None
    entry = world.book.entry(ADDRESS)
    assert entry.owner == dataclasses.replace(
        given.owner, let_in=entry.owner and entry.owner.let_in
    )
    assert dataclasses.replace(entry, owner=None) == dataclasses.replace(given, owner=None)
    assert len(world.book.used_allowances) == (way is AdmittedBy.ALLOWANCE)
    refused(world, domain(ADDRESS, uuid=THEIRS, name="other"), MINE)


def test_all_or_none(world: World) -> None:
    world.certified(ADDRESS)
    world.slot(OTHER_ADDRESS)
    world.slot("0000:03:00.0")
    before = world.book
    said = refused(world, domain(ADDRESS, OTHER_ADDRESS, "0000:03:00.0"), OTHER_ADDRESS)
    assert "0000:03:00.0" in said, "every refused drive is named"
    assert f"{ADDRESS}:" not in said
    assert world.book == before


def test_a_drive_that_is_slow_to_become_ready_has_most_of_the_time(world: World) -> None:
    """After its guest ended it is reset: some take 8 s and more. The book needs the rest."""
    world.certified(ADDRESS)
    admit.check(world.state, world.run, world.host, domain(ADDRESS), 3000.0)
    assert 2000.0 < world.patience < 3000.0


def test_what_is_not_ours_passes_without_a_look(world: World) -> None:
    world.slot("0000:0a:00.0", code="0x030000")
    assert world.check(domain("0000:0a:00.0")).admissions == ()
    assert world.check(domain()).admissions == ()
    assert world.looked == []


def test_an_exempt_drive_needs_nothing_until_it_is_taken_back(world: World) -> None:
    world.slot(ADDRESS)
    people_args = (world.state, ADDRESS, "scratch", "op", MACHINE)
    audit.exempt(*people_args)
    assert world.check(domain(ADDRESS)).admissions == ()
    audit.include(*people_args)
    refused(world, domain(ADDRESS), ADDRESS)
    lines = audit.audit_file(world.state).read_text().splitlines()
    assert ["exempt" in lines[0], "include" in lines[1], len(lines)] == [True, True, 2]


@pytest.mark.parametrize(
    "more",
    [
        "<interface type='hostdev'><source><address type='pci' bus='1' slot='0'/></source>"
        "</interface>",
        "<disk type='nvme'><source type='pci' namespace='1'><address bus='1' slot='0'/></source>"
        "</disk>",
        "<q:commandline xmlns:q='http://libvirt.org/schemas/domain/qemu/1.0'>"
        "<q:arg value='vfio-pci,host=01:00.0'/></q:commandline>",
        "<q:override xmlns:q='http://libvirt.org/schemas/domain/qemu/1.0'>"
        "<q:device alias='hostdev0'><q:frontend>"
        "<q:property name='host' type='string' value='0000:01:00.0'/></q:frontend>"
        "</q:device></q:override>",
    ],
)
def test_every_way_to_name_a_drive_counts(world: World, more: str) -> None:
    world.slot(ADDRESS)
    refused(world, domain(more=more), ADDRESS)


def test_a_drive_that_is_not_there_is_refused(world: World) -> None:
    refused(world, domain(ADDRESS), "no PCI function")


def test_a_domain_without_uuid_or_sense_is_refused(world: World) -> None:
    world.slot(ADDRESS)
    refused(world, domain(ADDRESS, uuid=""), "uuid")
    refused(world, b"<network/>", "libvirt domain")
    refused(world, b"rubbish", "libvirt domain")


def test_a_lock_that_passes_is_waited_for_and_one_that_stays_refuses(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.certified()
    lock = SlotLock(ADDRESS, world.run)
    lock.acquire()
    threading.Timer(0.1, lock.release).start()
    assert world.check(domain(ADDRESS)).admissions
    monkeypatch.setattr(admit, "LOCK_PATIENCE", 0.5)
    with SlotLock(ADDRESS, world.run):
        world.looked.clear()
        began = time.monotonic()
        refused(world, domain(ADDRESS), "locked by process")
        assert time.monotonic() - began < admit.START_SECONDS
        assert world.looked == [], "a drive that somebody works on is left alone"
    assert world.check(domain(ADDRESS)).admissions


def test_the_locks_are_held_until_the_book_is_written(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.certified()
    seen = []

    def look(
        _host: object, _addresses: object, _seconds: float, meanwhile: Callable[[], None]
    ) -> dict[str, DriveSeen]:
        meanwhile()
        probe = SlotLock(ADDRESS, world.run)
        try:
            probe.acquire()
        except Exception as error:
            seen.append(type(error).__name__)
        return {ADDRESS: SEEN}

    monkeypatch.setattr(admit, "look", look)
    world.check(domain(ADDRESS))
    assert seen == ["BusyError"]
    with SlotLock(ADDRESS, world.run):
        pass


@pytest.mark.parametrize("more", ["", "<disk type='nvme'/>"])
def test_a_damaged_list_of_exemptions_keeps_no_guest_without_drives(
    world: World, more: str
) -> None:
    gpu = "0000:05:00.0"
    world.slot(gpu, code="0x030200")
    path = audit.exempt_file(world.state)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(b"")
    assert world.check(domain(more=more) if more else domain(gpu)).admissions == ()


def test_a_damaged_book_refuses_and_says_what_helps(world: World) -> None:
    world.certified()
    books.book_file(world.state).write_bytes(b"{}\n")
    refused(world, domain(ADDRESS), "damaged", "gate adopt --renew")
    assert books.book_file(world.state).read_bytes() == b"{}\n"
    audit.exempt_file(world.state).write_bytes(b"[]")
    refused(world, domain(ADDRESS), "exempt")


def test_a_damaged_order_or_report_refuses(world: World) -> None:
    ticket = world.certified()
    CaseFiles.of_order(world.state, ticket.order_id).report_file.write_bytes(b"{")
    refused(world, domain(ADDRESS), "not ended", "report.json")
    hostcard.order_file(world.state, ADDRESS).write_bytes(b"{")
    refused(world, domain(ADDRESS), "not ended")


def test_a_drive_that_was_used_elsewhere_is_refused_for_good(world: World) -> None:
    """Pulled, used by a tenant of another host, put back: its own counters tell."""
    world.certified()
    used = Counters(9000, 900, 9, False)
    world.slot(ADDRESS, dataclasses.replace(SEEN, counters=used))
    refused(world, domain(ADDRESS), "used since it was certified")
    assert state_of(world) is TicketState.VOID, "the control plane hears of it and erases again"
    world.slot(ADDRESS)
    refused(world, domain(ADDRESS), "void")


def test_a_refusal_that_may_pass_leaves_the_ticket(world: World) -> None:
    world.certified()
    world.slot(ADDRESS, DriveSeen("nvme", trouble="no answer within 4 s"))
    refused(world, domain(ADDRESS), "no answer")
    assert state_of(world) is TicketState.VALID


def test_a_swapped_drive_is_refused(world: World) -> None:
    world.certified()
    world.slot(ADDRESS, dataclasses.replace(SEEN, identity=ANOTHER))
    refused(world, domain(ADDRESS), "'SN2'")


def test_a_host_without_adoption_says_so(world: World) -> None:
    world.slot(ADDRESS)
    refused(world, domain(ADDRESS), "gate adopt")


STANDINGS = [
    ({"outcome": Outcome.IN_USE, "verdict": Verdict.UNKNOWN, "fit": False}, CaseStanding.IN_USE),
    ({"outcome": Outcome.WRONG_DRIVE}, CaseStanding.ENDED),
    ({"verdict": Verdict.UNKNOWN}, CaseStanding.ENDED),
    ({"verdict": Verdict.NOT_ERASED}, CaseStanding.ENDED),
    ({"fit": False}, CaseStanding.ENDED),
    ({}, CaseStanding.ERASED),
]


@pytest.mark.parametrize(("changes", "standing"), STANDINGS)
def test_where_a_case_stands(
    world: World, changes: dict[str, object], standing: CaseStanding
) -> None:
    assert read_case(world.state, ADDRESS) == CaseSeen()
    order = world.order()
    assert read_case(world.state, ADDRESS).standing is CaseStanding.OPEN
    world.end(order, **changes)
    assert read_case(world.state, ADDRESS) == CaseSeen(standing, ORDER_ID, 5, DRIVE)
    assert read_case(world.state, OTHER_ADDRESS) == CaseSeen()


@pytest.mark.parametrize(("changes", "standing"), STANDINGS)
def test_a_case_that_was_lost_after_its_answer_stands_where_it_stood(
    world: World, changes: dict[str, object], standing: CaseStanding
) -> None:
    """Or every owner on the host would be told to wait for an erase that nobody carries out."""
    order = world.order()
    world.end(order, **changes)
    before = read_case(world.state, ADDRESS)
    report = CaseFiles.of_order(world.state, order.order_id).report()
    assert report is not None
    ending = CaseEnding(report.outcome, report.verdict, report.fit, report.identity)
    shutil.rmtree(world.state / "cases")
    for look, found in ((0, standing), (-1, CaseStanding.OPEN)):
        answers.note(world.state, ADDRESS, OrderAnswer(order.order_id, look, ending))
        assert read_case(world.state, ADDRESS).standing is found
    answers.note(world.state, ADDRESS, OrderAnswer(order.order_id, 0, ending))
    assert read_case(world.state, ADDRESS) == before
    answers.note(world.state, ADDRESS, OrderAnswer("another order's id", 0, ending))
    assert read_case(world.state, ADDRESS).standing is CaseStanding.OPEN
    answers.answer_file(world.state, ADDRESS).write_bytes(b"{")
    assert read_case(world.state, ADDRESS).standing is CaseStanding.OPEN


def test_a_book_that_cannot_be_looked_at_is_not_none(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without a book and an order a drive is erased by hand whoever has it."""
    path, plain = books.book_file(world.state), Path.stat

    def stat(self: Path, **options: bool) -> os.stat_result:
        if self == path:
            raise OSError(errno.EIO, "Input/output error", str(self))
        return plain(self, **options)

    monkeypatch.setattr(Path, "stat", stat)
    # As Path.exists is from Python 3.14 on.
    monkeypatch.setattr(Path, "exists", lambda self: os.path.exists(self) and self != path)
    with pytest.raises(OSError, match="Input/output error"):
        ownership_revoke.revoke(world.state, world.host, ADDRESS, DRIVE, by_hand=True)
    with pytest.raises(OSError, match="Input/output error"):
        ownership_revoke.vanished(world.state, ADDRESS, "it was away")


def test_an_interrupted_erase_by_hand_is_open(world: World) -> None:
    world.certified()
    files = world.begin_by_hand()
    assert "by hand" in read_case(world.state, ADDRESS).detail
    assert read_case(world.state, OTHER_ADDRESS).standing is CaseStanding.NONE
    refused(world, domain(ADDRESS), "by hand")
    (files.directory / "request.json").write_bytes(b"{")
    assert read_case(world.state, OTHER_ADDRESS).standing is CaseStanding.NONE


@pytest.mark.parametrize("ordered", [True, False])
def test_a_case_that_cannot_be_read_keeps_its_own_slot_alone(
    world: World, monkeypatch: pytest.MonkeyPatch, ordered: bool
) -> None:
    """A damaged directory on the host's disk; its name tells whose case it is."""
    order = world.order(OTHER_ADDRESS)
    files = CaseFiles.of_order(world.state, order.order_id)
    if ordered:
        files.make()
    else:
        world.end(order)
        files = world.begin_by_hand(OTHER_ADDRESS)
    plain = Path.stat

    def stat(path: Path, **options: bool) -> os.stat_result:
        if path.parent == files.directory:
            raise OSError(errno.EUCLEAN, "Structure needs cleaning", str(path))
        return plain(path, **options)

    monkeypatch.setattr(Path, "stat", stat)
    assert read_case(world.state, ADDRESS) == CaseSeen()
    assert read_case(world.state, OTHER_ADDRESS).standing is CaseStanding.OPEN
    hostcard.order_file(world.state, OTHER_ADDRESS).unlink()
    seen = read_case(world.state, ADDRESS)
    assert seen.standing is CaseStanding.OPEN, "whose it is, nobody can tell any more"
    assert "Structure needs cleaning" in seen.detail


def test_cases_that_cannot_be_listed_are_not_none(world: World) -> None:
    (world.state / "cases").write_text("in the way")
    assert read_case(world.state, ADDRESS).standing is CaseStanding.OPEN


def test_a_ticket_that_cannot_be_looked_at_comes_later(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.slot(ADDRESS, DriveSeen("nvme", trouble="mute"))
    world.end(world.order())
    pending.put(world.state, TICKET)
    found = accept_ticket.take_in(world.state, world.run, world.host, ADDRESS)
    assert isinstance(found, intake.Later)
    assert world.book.entry(ADDRESS).ticket is None
    world.slot(ADDRESS)
    monkeypatch.setattr(admit, "LOCK_PATIENCE", 0.5)
    with SlotLock(ADDRESS, world.run):
        world.looked.clear()
        found = accept_ticket.take_in(world.state, world.run, world.host, ADDRESS)
        assert isinstance(found, intake.Later)
        assert world.looked == []
    found = accept_ticket.take_in(world.state, world.run, world.host, ADDRESS)
    assert isinstance(found, TicketReceipt)
    assert found.state is TicketState.VALID
    world.looked.clear()
    assert accept_ticket.take_in(world.state, world.run, world.host, ADDRESS) == found
    assert world.looked == [], "answered from the book"


def test_void_from_outside(world: World) -> None:
    assert not ownership_revoke.vanished(world.state, ADDRESS, "it vanished")
    assert not books.exists(world.state)
    world.certified()
    with SlotLock(ADDRESS, world.run):
        assert ownership_revoke.vanished(world.state, ADDRESS, "it vanished"), (
            "whoever works on the slot"
        )
    assert not ownership_revoke.vanished(world.state, ADDRESS, "again")
    refused(world, domain(ADDRESS), "it vanished")


def come(world: World) -> TicketState:
    """The ticket of the newest order comes."""
    pending.put(world.state, TICKET)
    found = accept_ticket.take_in(world.state, world.run, world.host, ADDRESS)
    assert isinstance(found, TicketReceipt)
    return found.state


@pytest.mark.parametrize("known", [True, False])
def test_a_drive_that_was_away_before_its_ticket_came(world: World, known: bool) -> None:
    """One without a seal may have been written to, and what it counts might be the case's own."""
    if known:
        world.know(SlotEntry(ADDRESS))
    world.slot(ADDRESS)
    world.end(world.order())
    assert not ownership_revoke.vanished(world.state, ADDRESS, "it vanished"), (
        "there is no ticket yet"
    )
    assert come(world) is TicketState.VOID
    kept = world.book.entry(ADDRESS).ticket
    assert kept is not None
    assert "it vanished" in kept.reason


def test_a_drive_that_was_away_before_its_case_had_ended(world: World) -> None:
    """What the case has read since is what counts."""
    world.know(SlotEntry(ADDRESS))
    world.slot(ADDRESS)
    order = world.order()
    assert not ownership_revoke.vanished(world.state, ADDRESS, "it vanished")
    world.end(order)
    assert come(world) is TicketState.VALID


@pytest.mark.parametrize("known", [False, True])
def test_an_erase_by_hand_outdates_a_ticket_that_has_not_come(world: World, known: bool) -> None:
    """It may have failed, and left the drive otherwise than it is certified."""
    if known:
        world.know(SlotEntry(ADDRESS))
    world.slot(ADDRESS)
    world.end(world.order())
    ownership_revoke.revoke(world.state, world.host, ADDRESS, DRIVE, by_hand=True)
    assert come(world) is TicketState.VOID
    world.end(world.order(order_id="order-0000-0000-0006", generation=6))
    revoke(world)
    world.end(world.order(order_id="order-0000-0000-0006", generation=6))
    assert world.book.entry(ADDRESS).away == ""


def test_an_erase_writes_down_where_the_drive_is(world: World) -> None:
    """Also on a host whose gate knew of nothing so far."""
    world.fake.put("/proc/sys/kernel/random/boot_id", "boot-1")
    world.slot(ADDRESS)
    place = PciFunction(world.host, ADDRESS).place
    assert place.startswith("boot-1/")
    world.end(world.order())
    revoke(world)
    assert world.book.entry(ADDRESS).place == place
    world.slot(ADDRESS, dataclasses.replace(SEEN, place=place))
    assert come(world) is TicketState.VALID
    directory = world.fake.path(f"/sys/bus/pci/devices/{ADDRESS}")
    directory.rename(world.directory / "pulled")
    assert PciFunction(world.host, ADDRESS).place == ""
    world.slot(ADDRESS)
    again = PciFunction(world.host, ADDRESS).place
    assert again not in ("", place)
    world.slot(ADDRESS, dataclasses.replace(SEEN, place=again))
    refused(world, domain(ADDRESS), "left its slot")
    assert state_of(world) is TicketState.VOID


def test_an_erase_by_hand_without_any_order_makes_no_book(world: World) -> None:
    world.slot(ADDRESS)
    ownership_revoke.revoke(world.state, world.host, ADDRESS, DRIVE, by_hand=True)
    assert not books.exists(world.state)


def test_a_full_disk_refuses_and_changes_nothing(world: World) -> None:
    world.certified()
    before = books.book_file(world.state).read_bytes()
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, limits[1]))
    try:
        with pytest.raises(GateRefusedError) as found:
            world.check(domain(ADDRESS))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert str(world.state) in str(found.value)
    assert "is a disk full?" in str(found.value)
    assert books.book_file(world.state).read_bytes() == before
    assert world.check(domain(ADDRESS)).admissions


def test_what_the_next_erase_has_proved_is_not_held_against_the_drive(world: World) -> None:
    world.know(SlotEntry(ADDRESS))
    world.slot(ADDRESS)
    world.end(world.order())
    ownership_revoke.vanished(world.state, ADDRESS, "it vanished")
    revoke(world)
    assert come(world) is TicketState.VALID


def revoke(world: World) -> object:
    return ownership_revoke.revoke(world.state, world.host, ADDRESS, DRIVE)


def test_revocation_asks_libvirts_files_by_uuid(world: World) -> None:
    assert revoke(world) is None
    world.know(SlotEntry(ADDRESS, owner=owner(let_in=None), ticket=KEPT, allowance=ALLOWED))
    before = world.book
    for directory in ("/etc/libvirt/qemu", "/run/libvirt/qemu"):
        path = world.fake.path(f"{directory}/i.xml")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(domain(uuid=MINE.upper()))
        with pytest.raises(InUseError, match=f"'instance-1'.*{directory}/i.xml"):
            revoke(world)
        assert world.book == before
        path.unlink()
    found = revoke(world)
    assert found is not None
    entry = world.book.entry(ADDRESS)
    assert (entry.owner, entry.last_owner, entry.allowance) == (None, found, None)
    assert state_of(world) is TicketState.VOID


def test_a_domain_that_was_just_let_in_is_not_erased_under(world: World) -> None:
    world.certified()
    world.check(domain(ADDRESS))
    with pytest.raises(InUseError, match="a moment ago"):
        revoke(world)


def test_a_domain_that_was_moved_to_another_drive_of_its_host_does_not_keep_its_first(
    world: World,
) -> None:
    """Shelved and unshelved before the first drive's turn came: nobody could have it erased."""
    world.know(SlotEntry(ADDRESS, owner=owner(let_in=None)))
    world.certified(OTHER_ADDRESS)
    # A drive of its own: one that had moved would be its owner's wherever it is.
    other = dataclasses.replace(world.book.entry(OTHER_ADDRESS), owner=owner(identity=ANOTHER))
    world.know(other)
    defined = world.fake.path("/etc/libvirt/qemu/i.xml")
    live = world.fake.path("/run/libvirt/qemu/i.xml")
    for path in (defined, live):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(domain(OTHER_ADDRESS))
    defined.write_bytes(domain(ADDRESS, OTHER_ADDRESS))
    with pytest.raises(InUseError, match=r"i\.xml"):
        revoke(world)
    live.unlink()
    defined.write_bytes(domain(OTHER_ADDRESS))
    with pytest.raises(InUseError, match=r"i\.xml"):
        revoke(world)
    live.write_bytes(domain(OTHER_ADDRESS))
    assert revoke(world) is not None
    assert world.book.entry(ADDRESS).owner is None
    assert world.book.entry(OTHER_ADDRESS).owner is not None


def test_a_drive_that_may_be_of_an_owner_that_was_adopted_unread_is_kept(world: World) -> None:
    """Its guest is off, and nobody knows where its drive is since the last boot."""
    world.slot(ADDRESS)
    unread = owner(identity=None, pci=PciIds.of(DRIVE), adopted=True, let_in=None)
    world.know(SlotEntry(OTHER_ADDRESS, owner=unread))
    defined = world.fake.path("/etc/libvirt/qemu/i.xml")
    defined.parent.mkdir(parents=True, exist_ok=True)
    defined.write_bytes(domain(OTHER_ADDRESS))
    with pytest.raises(InUseError, match=rf"may be the one .*{OTHER_ADDRESS}.* start the domain"):
        revoke(world)
    running = world.fake.path("/run/libvirt/qemu/i.xml")
    running.parent.mkdir(parents=True, exist_ok=True)
    running.write_bytes(domain(OTHER_ADDRESS))
    assert revoke(world) is None
    assert world.book.entry(OTHER_ADDRESS).owner == unread


def test_a_drive_of_another_guest_is_not_the_one_that_was_adopted_unread(world: World) -> None:
    """A boot dealt the addresses out anew; the other guest's drive is where its own was."""
    world.slot(ADDRESS)
    unread = owner(identity=None, pci=PciIds.of(DRIVE), adopted=True, let_in=None)
    world.know(
        SlotEntry(ADDRESS, owner=unread), SlotEntry(OTHER_ADDRESS, owner=owner(domain=THEIRS))
    )
    refused(world, domain(ADDRESS), "that of domain", THEIRS, OTHER_ADDRESS)
    world.know(SlotEntry(OTHER_ADDRESS, owner=owner(domain=THEIRS, identity=ANOTHER)))
    assert world.check(domain(ADDRESS)).admissions


def test_a_book_that_cannot_say_keeps_the_drive(world: World) -> None:
    world.know(SlotEntry(ADDRESS, owner=OWNER))
    books.book_file(world.state).write_bytes(b"{}\n")
    with pytest.raises(InUseError, match="damaged"):
        revoke(world)


def test_people_hear_of_an_owner_that_is_refused_its_own_drive(world: World) -> None:
    """Its counters went back with a power loss, as some drives' do: only a person can help it."""
    back = dataclasses.replace(REPORTED, power_cycles=REPORTED.power_cycles - 1)
    world.slot(ADDRESS, dataclasses.replace(SEEN, counters=back))
    world.slot(OTHER_ADDRESS)
    world.know(SlotEntry(ADDRESS, owner=owner(rest=REPORTED)))
    for _ in range(2):
        refused(world, domain(ADDRESS), "Power Cycles went back")
    (told,) = turned_away.standing(world.state, world.book)
    assert (told.address, told.domain, told.name) == (ADDRESS, MINE, "instance-1")
    assert "Power Cycles went back" in told.found
    assert "gate allow --once" in told.found
    refused(world, domain(ADDRESS, OTHER_ADDRESS, uuid=THEIRS, name="other"), "'instance-1'")
    assert turned_away.standing(world.state, world.book) == (told,), "others are not its owner"
    world.know(dataclasses.replace(world.book.entry(ADDRESS), allowance=ALLOWED))
    world.check(domain(ADDRESS))
    assert turned_away.standing(world.state, world.book) == ()


def test_people_hear_of_counters_that_stay_untold_and_not_of_those_of_one_start(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The next start may pass; where none does, nobody but the syslog would ever say so."""
    clock, at = world.host.clock, world.host.clock.boottime()
    mute = dataclasses.replace(SEEN, counters=None)
    used = dataclasses.replace(REPORTED, host_write_commands=REPORTED.host_write_commands + 1)
    world.know(SlotEntry(ADDRESS, owner=owner(rest=REPORTED)))

    def start(minutes: float, seen: DriveSeen) -> list[str]:
        monkeypatch.setattr(clock, "boottime", lambda: at + 60 * minutes)
        world.slot(ADDRESS, seen)
        refused(world, domain(ADDRESS), ADDRESS)
        return [each.found for each in turned_away.standing(world.state, world.book)]

    assert start(0, mute) == []
    assert start(1, mute) == [], "somebody tries again at once"
    (told,) = start(6, mute)
    assert "log 02h" in told
    assert start(7, mute) == [told]
    # What a drive did tell outranks that it does not now.
    (told,) = start(8, dataclasses.replace(SEEN, counters=used))
    assert "used while its domain was off" in told
    assert start(99, mute) == [told]
    world.slot(ADDRESS)
    world.check(domain(ADDRESS))
    entry = world.book.entry(ADDRESS)
    assert entry.owner is not None
    world.know(dataclasses.replace(entry, owner=dataclasses.replace(entry.owner, rest=REPORTED)))
    assert start(100, mute) == [], "it was let in meanwhile"
    # Another boot's seconds say nothing, but a boot takes its time.
    monkeypatch.setattr(type(world.host), "boot_id", lambda _host: "another")
    (told,) = start(0, mute)
    assert "log 02h" in told


def test_a_refusal_that_cannot_be_noted_says_why_all_the_same(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_words: object) -> None:
        raise OSError(errno.ENOSPC, "no space")

    world.slot(ADDRESS)
    world.know(SlotEntry(ADDRESS, owner=owner(left="it vanished")))
    monkeypatch.setattr(notes, "save", full)
    refused(world, domain(ADDRESS), "it vanished")
    assert turned_away.standing(world.state, world.book) == ()


HBA = "0x010700"
OTHER_DRIVE = dataclasses.replace(DRIVE, serial="A THIRD ONE")


def test_what_took_the_place_of_a_drive_is_given_to_nobody(world: World) -> None:
    """A card more in the host, and a boot gave the slot's address to an adapter: libvirt would take
    that from the host, or from another's guest, with all disks behind it."""
    world.know(SlotEntry(ADDRESS, owner=owner()))
    world.slot(ADDRESS, code=HBA)
    refused(world, domain(ADDRESS), f"found a function of PCI class {HBA}")
    assert world.looked == []
    (told,) = turned_away.standing(world.state, world.book)
    assert (told.address, told.domain) == (ADDRESS, MINE)


def test_what_took_the_place_of_a_drive_on_offer_is_given_to_nobody(world: World) -> None:
    world.certified()
    world.slot(ADDRESS, code=HBA)
    refused(world, domain(ADDRESS), f"found a function of PCI class {HBA}")
    assert turned_away.standing(world.state, world.book) == ()


def test_nor_once_the_watcher_has_seen_that_it_is_no_drive(world: World) -> None:
    """Its look voids the ticket seconds after the boot; a guest may have been placed before."""
    world.certified()
    world.slot(ADDRESS, code=HBA)
    with books.opened(world.state) as book:
        book.write(revocation.void(book.book, ADDRESS, "another function is there"))
    refused(world, domain(ADDRESS), f"found a function of PCI class {HBA}")


def test_a_guest_gets_what_is_no_drive_where_nobody_waits_for_one(world: World) -> None:
    world.slot(ADDRESS, code=HBA)
    # Another guest's drive was there, or its paper: that says nothing of this guest's own device.
    for entry in (
        SlotEntry(ADDRESS, owner=owner(domain=THEIRS)),
        SlotEntry(ADDRESS, ticket=dataclasses.replace(KEPT, state=TicketState.USED)),
    ):
        world.know(entry)
        assert world.check(domain(ADDRESS)).admissions == ()
    books.book_file(world.state).write_bytes(b"damage")
    assert world.check(domain(ADDRESS)).admissions == (), "a broken gate keeps it from nobody"


def test_a_person_may_say_that_it_is_meant(world: World) -> None:
    world.know(SlotEntry(ADDRESS, owner=owner()))
    world.slot(ADDRESS, code=HBA)
    audit.exempt(world.state, ADDRESS, "a GPU now", "op", MACHINE)
    assert world.check(domain(ADDRESS)).admissions == ()


def test_a_word_is_about_the_drive_that_was_there(world: World) -> None:
    """The host gets other addresses, or bays are changed, before the guest starts."""
    world.slot(ADDRESS)
    by_person.allow(world.state, world.host, [ADDRESS], "three at night", "op", "")
    world.slot(ADDRESS, dataclasses.replace(SEEN, identity=ANOTHER))
    refused(world, domain(ADDRESS), "expected the drive that a person allowed, found another")
    world.slot(ADDRESS)
    (passed,) = world.check(domain(ADDRESS)).admissions
    assert passed.way is AdmittedBy.ALLOWANCE


def test_a_word_about_another_drive_hides_nothing(world: World) -> None:
    """People are called for an owner that is refused, and a ticket that is void is so."""
    world.slot(ADDRESS, dataclasses.replace(SEEN, identity=ANOTHER))
    by_person.allow(world.state, world.host, [ADDRESS], "three at night", "op", "")
    world.slot(ADDRESS)
    entry = world.book.entry(ADDRESS)
    world.know(dataclasses.replace(entry, owner=owner(identity=OTHER_DRIVE)))
    refused(world, domain(ADDRESS), "expected the drive that a person allowed")
    (told,) = turned_away.standing(world.state, world.book)
    assert told.domain == MINE
    other = dataclasses.replace(KEPT, ticket=dataclasses.replace(TICKET, identity=OTHER_DRIVE))
    world.know(dataclasses.replace(entry, ticket=other))
    refused(world, domain(ADDRESS), "expected the drive that a person allowed")
    kept = world.book.entry(ADDRESS).ticket
    assert kept is not None
    assert kept.state is TicketState.VOID


def test_a_word_on_a_drive_that_nobody_could_read_gives_nobody_anothers(world: World) -> None:
    world.slot(ADDRESS, DriveSeen("vfio-pci"))
    by_person.allow(world.state, world.host, [ADDRESS], "three at night", "op", "")
    world.slot(ADDRESS)
    world.know(SlotEntry(OTHER_ADDRESS, owner=owner(domain=THEIRS)))
    refused(world, domain(ADDRESS), "nobody could read it when a person allowed the start")
    # Said anew, of the drive that is there.
    by_person.allow(world.state, world.host, [ADDRESS], "it is meant", "op", "")
    (passed,) = world.check(domain(ADDRESS)).admissions
    assert passed.way is AdmittedBy.ALLOWANCE
