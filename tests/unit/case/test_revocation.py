"""An erase takes the slot from its owner first, and says in its report who that was."""

from __future__ import annotations

import dataclasses
import errno
import os
from pathlib import Path

import pytest

from eraser.host import domains
from eraser.host.sysfs import PciFunction
from eraser.ownership import store as books
from eraser.ownership.cases import read_case
from eraser.ownership.facts import CaseStanding
from eraser.ownership.model import Book, PciIds, SlotEntry
from eraser.protocol.identity import Slot
from eraser.protocol.report import Outcome, Verdict
from eraser.protocol.ticket import LastOwner, TicketState
from eraser.state.case_files import CaseFiles, by_hand
from tests.unit.case.bed import Bed, bed
from tests.unit.case.fakes import IDENTITY, REQUEST, SLOT, Crash, Plug, ordered
from tests.unit.ownership.parts import ALLOWED, KEPT, OWNER, THEIRS

__all__ = ["bed"]

ENTRY = SlotEntry(
    SLOT.address,
    owner=dataclasses.replace(OWNER, identity=IDENTITY, incarnation="", let_in=None),
    ticket=KEPT,
    allowance=ALLOWED,
)


@pytest.fixture
def state(bed: Bed) -> Path:
    """The bed's state directory with an owned slot, and a host without domains."""
    state = bed.directory / "state"
    state.mkdir()
    with books.opened(state) as book:
        book.write(Book("").with_entry(ENTRY))
    return state


def defined(bed: Bed, file: str, uuid: str, address: str = "", *, running: bool = False) -> None:
    """libvirt's files have the domain, with a drive that is passed through to it."""
    names = f"<name>{file}</name><uuid>{uuid}</uuid>"
    bus = address.split(":")[1] if address else ""
    source = f'<source><address domain="0" bus="0x{bus}" slot="0" function="0"/></source>'
    devices = f"<devices><hostdev>{source}</hostdev></devices>" if address else ""
    found = f"<domain>{names}{devices}</domain>"
    for directory in domains.DIRECTORIES:
        path = bed.kernel.root / directory.lstrip("/") / f"{file}.xml"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.unlink(missing_ok=True)
        if directory != domains.RUNNING:
            path.write_text(found)
        elif running:
            path.write_text(f'<domstatus state="running">{found}</domstatus>')


def exists(bed: Bed) -> None:
    defined(bed, "i", OWNER.domain)


def test_the_last_owner_stands_in_the_report(bed: Bed, state: Path) -> None:
    report = bed.run()
    assert (report.verdict, report.fit) == (Verdict.ERASED, True)
    assert report.last_owner is not None
    assert (report.last_owner.domain, report.last_owner.name) == (OWNER.domain, OWNER.name)
    entry = books.load(state).entry(SLOT.address)
    assert (entry.owner, entry.allowance) == (None, None)
    assert entry.ticket is not None
    assert entry.ticket.state is TicketState.VOID


def test_nothing_is_sent_while_the_owners_domain_exists(bed: Bed, state: Path) -> None:
    exists(bed)
    report = bed.run()
    assert report.outcome is Outcome.IN_USE
    assert "i.xml" in report.reasons[0]
    assert bed.started == []
    assert report.last_owner is None
    assert books.load(state).entry(SLOT.address) == ENTRY


def test_nothing_is_sent_to_a_drive_that_came_here_from_its_owners_slot(
    bed: Bed, state: Path
) -> None:
    """The guest is off, and its definition names an address that another drive has by now."""
    exists(bed)
    with books.opened(state) as book:
        book.write(Book("").with_entry(dataclasses.replace(ENTRY, address="0000:02:00.0")))
    report = bed.run()
    assert report.outcome is Outcome.IN_USE
    assert "0000:02:00.0" in report.reasons[0]
    assert bed.started == []


@pytest.mark.parametrize("after", [False, True])
def test_killed_at_every_act_the_report_names_the_owner(bed: Bed, state: Path, after: bool) -> None:
    for at in range(60):
        with books.opened(state) as book:
            book.write(Book("").with_entry(ENTRY))
        try:
            report = bed.run(Plug(at, after))
        except Crash:
            if bed.started:
                entry = books.load(state).entry(SLOT.address)
                assert entry.owner is None, "before anything destructive"
            report = bed.run()
        else:
            return
        assert isinstance(report.last_owner, LastOwner), at
        bed.files.clear()
        bed.anew()
    pytest.fail("expected a case of less than 60 acts")


@pytest.mark.parametrize("rebooted", [False, True])
def test_a_power_cut_in_mid_erase_waits_for_no_guest_that_was_adopted_unread(
    bed: Bed, rebooted: bool
) -> None:
    """Another guest ran with its own drive when the erase began, and is off when it goes on."""
    elsewhere = "0000:02:00.0"
    (bed.kernel.function.parent / elsewhere).mkdir()
    unread = dataclasses.replace(
        OWNER,
        domain=THEIRS,
        identity=None,
        pci=PciIds.of(IDENTITY),
        adopted=True,
        let_in=None,
        place=PciFunction(bed.machine.host, elsewhere).place,
    )
    state = bed.directory / "state"
    state.mkdir()
    with books.opened(state) as book:
        book.write(Book("").with_entry(SlotEntry(elsewhere, owner=unread)))
    defined(bed, "other", THEIRS, elsewhere, running=True)
    bed.request = ordered(bed.request)
    bed.crash_after("Sent")
    if rebooted:
        boot = bed.kernel.root / "proc/sys/kernel/random/boot_id"
        boot.write_text("4f0c5f5e-0f0a-4d8e-9c39-5a3a8b9a2f01\n")
    defined(bed, "other", THEIRS, elsewhere)
    report = bed.run()
    assert (report.outcome, report.verdict) == (Outcome.COMPLETED, Verdict.ERASED), report.reasons
    assert books.load(state).entry(elsewhere).owner == unread


def test_a_machine_without_a_gate_is_erased_as_ever(bed: Bed) -> None:
    report = bed.run()
    assert report.verdict is Verdict.ERASED
    assert report.last_owner is None
    assert not books.exists(bed.directory / "state")


def test_an_erase_by_hand_speaks_against_an_older_ticket_and_an_ordered_one_does_not(
    bed: Bed, state: Path
) -> None:
    bed.run()
    assert "by hand" in books.load(state).entry(SLOT.address).away
    bed.request = ordered(bed.request)
    bed.run()
    assert books.load(state).entry(SLOT.address).away == ""


@pytest.mark.parametrize("by_order", [True, False])
def test_an_erase_that_a_person_broke_off_is_over_when_another_begins(
    bed: Bed, state: Path, by_order: bool
) -> None:
    """Unfinished it kept every guest from the drive that the other one had certified."""
    with pytest.raises(Crash):
        bed.run(Plug(12))
    broken_off = bed.files
    elsewhere = dataclasses.replace(REQUEST, slot=Slot(SLOT.host, "0000:02:00.0"))
    other_slot = CaseFiles.of(state, elsewhere)
    other_slot.make()
    other_slot.write_request(elsewhere)
    other_slot.journal.write_bytes(b"x")
    assert [files.key for files in by_hand(state, SLOT.address)] == [broken_off.key]
    here = dataclasses.replace(bed.request, slot=Slot("another-name", SLOT.address))
    bed.request = ordered(bed.request) if by_order else here
    with pytest.raises(Crash):
        bed.run(Plug(12))
    going_on = [] if by_order else [bed.files.key]
    assert [files.key for files in by_hand(state, SLOT.address)] == going_on
    assert not broken_off.journal.exists()
    assert bed.run().verdict is Verdict.ERASED
    assert read_case(state, SLOT.address).standing is not CaseStanding.OPEN
    assert other_slot.journal.exists(), "another slot's is none of its business"


def test_a_case_that_cannot_be_read_keeps_no_other_erase(
    bed: Bed, state: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A damaged directory on the host's disk: each slot of the host raised before its erase."""
    elsewhere = dataclasses.replace(REQUEST, slot=Slot(SLOT.host, "0000:02:00.0"))
    damaged = CaseFiles.of(state, elsewhere)
    damaged.make()
    plain = Path.stat

    def stat(path: Path, **options: bool) -> os.stat_result:
        if path.parent == damaged.directory:
            raise OSError(errno.EUCLEAN, "Structure needs cleaning", str(path))
        return plain(path, **options)

    monkeypatch.setattr(Path, "stat", stat)
    assert bed.run().verdict is Verdict.ERASED
    assert damaged.directory.is_dir(), "it is a person's to look at"
    with pytest.raises(OSError, match="Structure"):
        damaged.finished()
