"""First installation: guests that are there keep their drives, and nobody else gets them."""

from __future__ import annotations

import dataclasses
import json
import os
from pathlib import Path
from typing import Any

import pytest

from eraser.errors import BadInputError, InUseError
from eraser.gate import accept_ticket, intake, rules
from eraser.gate.adoption import Adopted
from eraser.gate.by_person import adopt_all, allow, forget
from eraser.gate.rules import AdmittedBy, StartAdmission, Starting
from eraser.host.sysfs import PciFunction
from eraser.ownership import audit, revoke
from eraser.ownership import store as books
from eraser.ownership.facts import CaseSeen, CaseStanding, DriveSeen, SlotFacts
from eraser.ownership.model import Allowance, Owner, PciIds, SlotEntry, SteadyTime
from eraser.ownership.store import BookError
from eraser.protocol import codec
from eraser.protocol.identity import ControllerIdentity
from eraser.protocol.report import Outcome
from eraser.protocol.ticket import LastOwner, TicketState
from eraser.state.hostcard import CARD_FILE
from tests.unit.gate.test_admit import refused
from tests.unit.gate.world import World, domain, world
from tests.unit.ownership.parts import (
    ADDRESS,
    ANOTHER,
    AT,
    DRIVE,
    KEPT,
    LATER,
    MINE,
    OTHER_ADDRESS,
    OWNER,
    SEEN,
    STARTING,
    THEIRS,
    kept,
    owner,
    ticket,
)

__all__ = ["world"]


def define(world: World, name: str, document: bytes, *, running: bool = False) -> None:
    place = "run" if running else "etc"
    path = world.fake.path(f"/{place}/libvirt/qemu/{name}.xml")
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(document)


def adopt(world: World, *, plan: bool = False, renew: bool = False) -> Adopted:
    return adopt_all(world.state, world.host, "op", plan=plan, renew=renew)


def test_guests_that_are_there_are_recorded_and_start_again(world: World) -> None:
    world.slot(ADDRESS)
    world.slot(OTHER_ADDRESS, DriveSeen("vfio-pci"))
    world.slot("0000:0a:00.0", code="0x030000")
    define(world, "off", domain(ADDRESS, "0000:0a:00.0"))
    define(world, "on", domain(OTHER_ADDRESS, uuid=THEIRS, name="on"))
    define(world, "on", domain(OTHER_ADDRESS, uuid=THEIRS, name="on"), running=True)
    refused(world, domain(ADDRESS), "gate adopt")
    assert adopt(world, plan=True).owners
    assert not books.exists(world.state), "a plan changes nothing"
    found = adopt(world)
    assert found.conflicts == ()
    assert {(a, o.domain, o.identity) for a, o in found.owners} == {
        (ADDRESS, MINE, DRIVE),
        (OTHER_ADDRESS, THEIRS, None),
    }
    lines = [json.loads(line) for line in audit.audit_file(world.state).read_text().splitlines()]
    assert [(line["what"], line["domain"], line["by"]) for line in lines] == [
        ("adopt", MINE, "op"),
        ("adopt", THEIRS, "op"),
    ]
    before = world.book
    assert adopt(world).owners == (), "again is the same as once"
    assert world.book == before
    (admission,) = world.check(domain(ADDRESS)).admissions
    assert admission.way is AdmittedBy.OWNER
    refused(world, domain(OTHER_ADDRESS), "'on'")
    world.slot(OTHER_ADDRESS, dataclasses.replace(SEEN, identity=ANOTHER))
    assert world.check(domain(OTHER_ADDRESS, uuid=THEIRS)).admissions
    filled = world.book.entry(OTHER_ADDRESS).owner
    assert filled is not None
    assert (filled.identity, filled.adopted) == (ANOTHER, True)


def test_pci_ids_of_a_drive_that_is_with_its_guest(world: World) -> None:
    world.fake.put("/proc/sys/kernel/random/boot_id", "boot-1")
    world.slot(ADDRESS, DriveSeen("vfio-pci"))
    define(world, "on", domain(ADDRESS), running=True)
    ((_address, found),) = adopt(world).owners
    assert found.pci == PciIds(0x1B36, 0x0010, 0x1AF4, 0x1100), "of the made-up host"
    assert found.place == PciFunction(world.host, ADDRESS).place != ""
    assert codec.load(Owner, codec.canonical(found), "owner") == found
    world.slot(ADDRESS)
    refused(world, domain(ADDRESS), "PCI ids")


def of_kind(world: World, address: str, identity: ControllerIdentity | None) -> None:
    """What configuration space tells of the function."""
    for name in ("vendor", "device", "subsystem_vendor", "subsystem_device") if identity else ():
        number = getattr(PciIds.of(identity), f"{name}_id")
        world.fake.put(f"/sys/bus/pci/devices/{address}/{name}", hex(number))


def erased_at(world: World, boot: str) -> str:
    """Where an erase of that boot found the slot's drive."""
    world.fake.put("/proc/sys/kernel/random/boot_id", boot)
    place = PciFunction(world.host, ADDRESS).place
    world.fake.put("/proc/sys/kernel/random/boot_id", "boot-2")
    return place


OF_ANOTHER_KIND = dataclasses.replace(DRIVE, device_id=1)
OF_THE_OTHER = owner(domain=THEIRS, name="off", identity=ANOTHER, adopted=True, let_in=None)


@pytest.mark.parametrize(
    ("given", "boot", "identity", "doubted"),
    [
        ({"ticket": KEPT}, "boot-1", DRIVE, True),
        ({"ticket": KEPT}, "boot-2", DRIVE, False),  # it has not left its place since its erase
        ({"ticket": kept(ticket=ticket(identity=OF_ANOTHER_KIND))}, "boot-1", DRIVE, False),
        ({"owner": owner(domain=THEIRS, adopted=True, let_in=None)}, "", DRIVE, True),
        ({}, "boot-1", DRIVE, True),  # its erase is not at its end yet
        ({}, "boot-2", DRIVE, False),
        ({"owner": OF_THE_OTHER}, "", ANOTHER, False),  # seen in its slot just now
        ({"owner": OF_THE_OTHER, "ticket": KEPT}, "boot-1", ANOTHER, True),  # but not this one
    ],
)
def test_what_was_known_of_drives_is_doubted_once_a_guest_has_one_that_nobody_read(
    world: World, given: dict[str, Any], boot: str, identity: ControllerIdentity, doubted: bool
) -> None:
    """A boot dealt the addresses out anew, and a guest got the certified drive past the gate."""
    world.slot(OTHER_ADDRESS, DriveSeen("vfio-pci"))
    define(world, "on", domain(OTHER_ADDRESS), running=True)
    world.slot(ADDRESS, dataclasses.replace(SEEN, identity=identity))
    if identity == ANOTHER:
        define(world, "off", domain(ADDRESS, uuid=THEIRS, name="off"))
    of_kind(world, OTHER_ADDRESS, DRIVE)
    place = erased_at(world, boot) if boot else ""
    world.know(SlotEntry(ADDRESS, place=place, **given), adopted_at="")
    found = dict(adopt(world).owners)
    assert (found[OTHER_ADDRESS].identity, found[OTHER_ADDRESS].pci) == (None, PciIds.of(DRIVE))
    assert world.book.entry(ADDRESS).doubted is doubted
    assert not world.book.entry(OTHER_ADDRESS).doubted


def test_two_guests_on_one_drive_are_named_and_neither_gets_it(world: World) -> None:
    world.slot(ADDRESS)
    world.slot(OTHER_ADDRESS)
    define(world, "a", domain(ADDRESS, OTHER_ADDRESS, name="first"))
    define(world, "b", domain(ADDRESS, uuid=THEIRS, name="second"))
    found = adopt(world)
    (conflict,) = found.conflicts
    assert "'first'" in conflict
    assert "'second'" in conflict
    assert [address for address, _owner in found.owners] == [OTHER_ADDRESS]
    refused(world, domain(ADDRESS), ADDRESS)


def test_another_owner_is_never_overwritten(world: World) -> None:
    world.slot(ADDRESS)
    world.know(SlotEntry(ADDRESS, owner=owner(domain=THEIRS, name="old")))
    define(world, "a", domain(ADDRESS))
    found = adopt(world)
    assert found.owners == ()
    assert "'old'" in found.conflicts[0]
    assert world.book.entry(ADDRESS).owner == owner(domain=THEIRS, name="old")


@pytest.mark.parametrize(
    "entry",
    [
        SlotEntry(ADDRESS, ticket=KEPT),
        SlotEntry(ADDRESS, last_owner=LastOwner(THEIRS, "old", AT, AT)),
        SlotEntry(ADDRESS, place="boot-1/5"),
        SlotEntry(ADDRESS, took=DRIVE),
        SlotEntry(ADDRESS, away="its drive was pulled"),
    ],
)
def test_a_slot_that_the_gate_handled_is_not_adopted_later(world: World, entry: SlotEntry) -> None:
    """A domain that was refused stands defined: adopting must not let it in."""
    world.slot(ADDRESS)
    world.know(entry)
    define(world, "a", domain(ADDRESS))
    assert "never had to do with" in adopt(world).conflicts[0]
    assert adopt(world).owners == ()


def test_a_slot_that_was_erased_is_adopted_the_first_time_only(world: World) -> None:
    """A host that was upgraded: its guests got their drives before there was a gate."""
    for address in (ADDRESS, OTHER_ADDRESS):
        world.slot(address)
        world.end(world.order(address, order_id=f"order-0000-0000-00{address[5:7]}"))
    define(world, "a", domain(ADDRESS))
    assert adopt(world).conflicts == ()
    define(world, "b", domain(OTHER_ADDRESS, uuid=THEIRS))
    assert adopt(world).conflicts != ()
    assert world.book.entry(OTHER_ADDRESS).owner is None


@pytest.mark.parametrize("first", [True, False])
def test_an_erase_at_work_is_not_adopted_over(world: World, first: bool) -> None:
    world.slot(ADDRESS)
    world.order()
    if not first:
        world.know()
    define(world, "a", domain(ADDRESS))
    assert "an erase" in adopt(world).conflicts[0]


def test_an_order_answered_in_use_hinders_no_adoption(world: World) -> None:
    world.slot(ADDRESS)
    world.end(world.order(), outcome=Outcome.IN_USE)
    world.know()
    define(world, "a", domain(ADDRESS))
    assert adopt(world).conflicts == ()


def test_after_a_new_installation_owners_are_recorded_anew(world: World) -> None:
    world.slot(ADDRESS)
    define(world, "a", domain(ADDRESS))
    adopt(world)
    card = world.state / CARD_FILE
    card.write_bytes(card.read_bytes().replace(b"1" * 32, b"2" * 32))
    refused(world, domain(ADDRESS), "earlier installation", "gate adopt")
    assert len(adopt(world).owners) == 1
    assert world.check(domain(ADDRESS)).admissions


def test_a_damaged_book_is_put_aside_when_asked(world: World) -> None:
    world.slot(ADDRESS)
    define(world, "a", domain(ADDRESS))
    with pytest.raises(BadInputError, match="leave out --renew"):
        adopt(world, renew=True)
    adopt(world)
    books.book_file(world.state).write_bytes(b"damage")
    with pytest.raises(BookError):
        adopt(world)
    assert len(adopt(world, renew=True).owners) == 1
    (aside,) = books.directory(world.state).glob("book.damaged.*")
    assert aside.read_bytes() == b"damage"
    assert world.check(domain(ADDRESS)).admissions


def test_a_used_ticket_is_not_taken_in_again_after_the_book_was_put_aside(world: World) -> None:
    """What its guest wrote may be less than the erase did, and its domain is gone."""
    world.certified()
    world.check(domain(ADDRESS))
    books.book_file(world.state).write_bytes(b"damage")
    adopt(world, renew=True)
    with pytest.raises(BadInputError, match="found none"):
        accept_ticket.take_in(world.state, world.run, world.host, ADDRESS)
    refused(world, domain(ADDRESS, uuid=THEIRS), "no ticket")


def test_a_crash_while_it_is_put_aside_leaves_owners_their_drives(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without any book a suspended server's drive would be erased: its domain does not name it."""
    world.slot(ADDRESS)
    define(world, "a", domain(ADDRESS))
    adopt(world)
    books.book_file(world.state).write_bytes(b"damage")

    def crash(_path: Path, _data: bytes) -> None:
        raise OSError("the power went")

    monkeypatch.setattr(books, "replace_whole", crash)
    with pytest.raises(OSError, match="power"):
        adopt(world, renew=True)
    assert books.book_file(world.state).read_bytes() == b"damage"


def test_a_machine_that_is_no_host_is_told_what_to_do(world: World) -> None:
    (world.state / CARD_FILE).unlink()
    for change in (
        lambda: adopt(world),
        lambda: allow(world.state, world.host, [ADDRESS], "why", "op", ""),
    ):
        with pytest.raises(BadInputError, match="keygen"):
            change()
    world.slot(ADDRESS)
    refused(world, domain(ADDRESS), ADDRESS)


def test_a_persons_word_passes_once_and_is_accounted_for(world: World) -> None:
    world.slot(ADDRESS)
    world.slot(OTHER_ADDRESS)
    document = domain(ADDRESS, OTHER_ADDRESS)
    allow(world.state, world.host, [ADDRESS, OTHER_ADDRESS], "tenant waits", "alice (sudo)", "")
    assert {each.way for each in world.check(document).admissions} == {AdmittedBy.ALLOWANCE}
    assert {used.by for used in world.book.used_allowances} == {"alice (sudo)"}
    assert {used.domain for used in world.book.used_allowances} == {STARTING.uuid}
    lines = audit.audit_file(world.state).read_text().splitlines()
    assert len(lines) == 2
    assert all("tenant waits" in line for line in lines)
    refused(world, domain(ADDRESS, uuid=THEIRS), "has it since")


@pytest.mark.parametrize("call", ["write", "fsync"])
def test_without_an_account_nothing_is_allowed(
    world: World, monkeypatch: pytest.MonkeyPatch, call: str
) -> None:
    world.slot(ADDRESS)
    known = books.load(world.state)
    real = getattr(audit.os, call)

    def fail(descriptor: int, *rest: object) -> object:
        if os.readlink(f"/proc/self/fd/{descriptor}") == str(audit.audit_file(world.state)):
            raise OSError("disk full")
        return real(descriptor, *rest)

    monkeypatch.setattr(audit.os, call, fail)
    with pytest.raises(OSError, match="disk full"):
        allow(world.state, world.host, [ADDRESS], "why", "op", "")
    assert books.load(world.state) == known


def test_a_line_that_was_cut_short_spoils_no_later_one(world: World) -> None:
    world.slot(ADDRESS)
    allow(world.state, world.host, [ADDRESS], "first", "op", "")
    with audit.audit_file(world.state).open("ab") as file:
        file.write(b'{"address":"0000')
    allow(world.state, world.host, [ADDRESS], "second", "op", "")
    allow(world.state, world.host, [ADDRESS], "third", "op", "")
    lines = audit.audit_file(world.state).read_text().splitlines()
    assert [json.loads(lines[at])["reason"] for at in (0, 2, 3)] == ["first", "second", "third"]


def test_a_word_of_before_does_not_outlive_an_erase(world: World) -> None:
    from eraser.ownership import revoke

    world.slot(ADDRESS)
    allow(world.state, world.host, [ADDRESS], "why", "op", "")
    revoke.revoke(world.state, world.host, ADDRESS, DRIVE)
    assert world.book.entry(ADDRESS).allowance is None


UNREAD = owner(identity=None, pci=PciIds.of(DRIVE), adopted=True, let_in=None)


def test_an_owner_whose_drive_is_gone_is_forgotten_by_a_persons_word(world: World) -> None:
    """Adopted while it ran, its drive died: no start of its can tell which one it was, and erases
    of drives of that kind would wait for it for ever."""
    from eraser.ownership import revoke

    word = Allowance("operator", "why", AT, "")
    world.know(SlotEntry(OTHER_ADDRESS, owner=UNREAD, ticket=KEPT, allowance=word))
    define(world, "off", domain(OTHER_ADDRESS))
    with pytest.raises(InUseError, match=r"gate forget"):
        revoke.revoke(world.state, world.host, ADDRESS, DRIVE)
    found = forget(world.state, world.host, OTHER_ADDRESS, "it is dead", "op")
    assert found == UNREAD
    entry = world.book.entry(OTHER_ADDRESS)
    assert entry.owner is None
    assert (entry.last_owner and entry.last_owner.domain, entry.last_identity) == (MINE, None)
    assert entry.allowance is None
    assert entry.ticket is not None
    assert entry.ticket.state is TicketState.VOID, "nobody else starts by what was there before"
    revoke.revoke(world.state, world.host, ADDRESS, DRIVE)
    world.slot(OTHER_ADDRESS)
    refused(world, domain(OTHER_ADDRESS), "its owner was forgotten")
    (line,) = audit.audit_file(world.state).read_text().splitlines()
    said = json.loads(line)
    assert (said["what"], said["address"], said["domain"], said["reason"], said["by"]) == (
        "forget",
        OTHER_ADDRESS,
        MINE,
        "it is dead",
        "op",
    )


def test_whose_drive_never_left_its_slot_is_not_forgotten(world: World) -> None:
    """A suspended server's definition does not name the address: this record is all it has."""
    world.fake.put("/proc/sys/kernel/random/boot_id", "boot-1")
    world.slot(OTHER_ADDRESS)
    place = PciFunction(world.host, OTHER_ADDRESS).place
    world.know(SlotEntry(OTHER_ADDRESS, owner=dataclasses.replace(UNREAD, place=place)))
    before = world.book
    with pytest.raises(BadInputError, match="never left"):
        forget(world.state, world.host, OTHER_ADDRESS, "it is dead", "op")
    assert world.book == before


@pytest.mark.parametrize(
    ("seen", "kind", "others", "forgotten"),
    [
        (SEEN, DRIVE, None, False),
        (DriveSeen("vfio-pci"), DRIVE, None, False),
        (SEEN, DRIVE, SlotEntry(ADDRESS, ticket=KEPT), True),  # it is known as another slot's
        (SEEN, DRIVE, SlotEntry(ADDRESS, ticket=KEPT, doubted=True), False),
        (SEEN, OF_ANOTHER_KIND, None, True),
        (DriveSeen(""), DRIVE, None, True),  # dead: the driver gave it up
        (DriveSeen("nvme", trouble="no answer"), DRIVE, None, True),
        (DriveSeen(None), None, None, True),
    ],
)
def test_whose_kind_of_drive_is_in_the_slot_is_not_forgotten(
    world: World,
    seen: DriveSeen,
    kind: ControllerIdentity | None,
    others: SlotEntry | None,
    forgotten: bool,
) -> None:
    """A release that wrote no place adopted it, or a boot was since: it may be the owner's."""
    world.slot(OTHER_ADDRESS, seen)
    of_kind(world, OTHER_ADDRESS, kind)
    world.know(SlotEntry(OTHER_ADDRESS, owner=UNREAD), *([others] if others else []))
    if forgotten:
        assert forget(world.state, world.host, OTHER_ADDRESS, "it is dead", "op") == UNREAD
        return
    with pytest.raises(BadInputError, match="of its kind"):
        forget(world.state, world.host, OTHER_ADDRESS, "it is dead", "op")
    assert world.book.entry(OTHER_ADDRESS).owner == UNREAD


@pytest.mark.parametrize(
    ("entry", "running", "said"),
    [
        (SlotEntry(OTHER_ADDRESS), False, "nobody has it"),
        (SlotEntry(OTHER_ADDRESS, owner=OWNER), False, "a known drive"),
        (SlotEntry(OTHER_ADDRESS, owner=UNREAD), True, "it stops"),
    ],
)
def test_whose_drive_is_not_gone_is_not_forgotten(
    world: World, entry: SlotEntry, running: bool, said: str
) -> None:
    world.know(entry)
    define(world, "it", domain(OTHER_ADDRESS), running=running)
    before = world.book
    with pytest.raises(BadInputError, match=said):
        forget(world.state, world.host, OTHER_ADDRESS, "it is dead", "op")
    assert world.book == before
    assert not audit.audit_file(world.state).exists()


def test_who_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(audit.os, "getuid", lambda: 0)
    monkeypatch.setenv("SUDO_USER", "alice")
    assert audit.who() == "alice (sudo)"
    monkeypatch.delenv("SUDO_USER")
    assert audit.who() == "root"


def test_owner_of_the_world_is_the_parts(world: World) -> None:
    world.know(SlotEntry(ADDRESS, owner=dataclasses.replace(OWNER, let_in=None)))
    world.slot(ADDRESS, SEEN)
    assert world.check(domain(ADDRESS)).admissions


# A drive that a boot moved to another slot, where a guest that nobody asked about resumed with it.


def resumed_elsewhere(world: World, entry: SlotEntry, place: str = "boot-1/7") -> None:
    """The book knew DRIVE at ADDRESS; now ANOTHER is there, and a guest runs with DRIVE."""
    world.fake.put("/proc/sys/kernel/random/boot_id", "boot-2")
    world.slot(OTHER_ADDRESS, DriveSeen("vfio-pci"))
    of_kind(world, OTHER_ADDRESS, DRIVE)
    world.slot(ADDRESS, dataclasses.replace(SEEN, identity=ANOTHER))
    of_kind(world, ADDRESS, ANOTHER)
    world.know(dataclasses.replace(entry, place=place), adopted_at="")
    define(world, "g", domain(OTHER_ADDRESS))
    define(world, "g", domain(OTHER_ADDRESS), running=True)
    adopt(world)
    assert world.book.entry(ADDRESS).doubted


def lost_power(world: World) -> None:
    """The guest is off, and nobody noted its rest; its drive is where it was, and can be read."""
    world.fake.put("/proc/sys/kernel/random/boot_id", "boot-3")
    world.fake.path("/run/libvirt/qemu/g.xml").unlink()
    world.slot(OTHER_ADDRESS, SEEN)


LAST = LastOwner(THEIRS, "A", AT, LATER)


@pytest.mark.parametrize("is_erased", [False, True])
@pytest.mark.parametrize(
    "entry",
    [
        SlotEntry(ADDRESS, ticket=kept(state=TicketState.USED)),
        SlotEntry(ADDRESS, ticket=KEPT),
        SlotEntry(ADDRESS, ticket=KEPT, last_owner=LAST, last_identity=DRIVE),
    ],
)
def test_a_doubted_paper_of_a_drive_that_left_proves_nothing_after_the_next_erase(
    world: World, entry: SlotEntry, is_erased: bool
) -> None:
    """The erase ends the doubt: what was doubted goes with it, or it would be believed again, and
    ``forget`` would give the guest's drive to an erase."""
    resumed_elsewhere(world, entry)
    if is_erased:
        revoke.revoke(world.state, world.host, ADDRESS, ANOTHER)
        assert not world.book.entry(ADDRESS).doubted
    lost_power(world)
    with pytest.raises(BadInputError, match="of its kind"):
        forget(world.state, world.host, OTHER_ADDRESS, "an order waits", "op")
    with pytest.raises(InUseError):
        revoke.revoke(world.state, world.host, OTHER_ADDRESS, DRIVE)
    if is_erased:
        assert world.check(domain(OTHER_ADDRESS)), "its guest starts on it"


@pytest.mark.parametrize("tenant_of_now", [None, ANOTHER], ids=["alone", "with another owner"])
def test_what_the_last_owner_had_is_doubted_too(
    world: World, tenant_of_now: ControllerIdentity | None
) -> None:
    """An erase elsewhere took owner, ticket and place of the slot that the drive had left, and
    not who had it last: by that alone ``forget`` gave the guest's drive to an erase."""
    entry = SlotEntry(ADDRESS, last_owner=LAST, last_identity=DRIVE)
    if tenant_of_now is not None:
        entry = dataclasses.replace(entry, owner=owner(identity=tenant_of_now, let_in=None))
    resumed_elsewhere(world, entry, place="")
    lost_power(world)
    with pytest.raises(BadInputError, match="of its kind"):
        forget(world.state, world.host, OTHER_ADDRESS, "an order waits", "op")
    with pytest.raises(InUseError):
        revoke.revoke(world.state, world.host, OTHER_ADDRESS, DRIVE)


@pytest.mark.parametrize(
    "entry",
    [
        SlotEntry(ADDRESS, last_owner=LAST, last_identity=DRIVE),
        SlotEntry(ADDRESS, ticket=kept(state=TicketState.USED)),
        SlotEntry(ADDRESS, ticket=KEPT, last_owner=LAST, last_identity=DRIVE),
    ],
    ids=["last owner", "ticket", "both"],
)
def test_a_drive_that_stays_in_its_place_speaks_for_no_other_one(
    world: World, entry: SlotEntry
) -> None:
    """DRIVE had left the slot when an erase took ANOTHER there, which is still in its place; what
    the slot's papers tell of is DRIVE, with which a guest resumes elsewhere."""
    world.fake.put("/proc/sys/kernel/random/boot_id", "boot-2")
    world.slot(ADDRESS, dataclasses.replace(SEEN, identity=ANOTHER))
    of_kind(world, ADDRESS, ANOTHER)
    world.know(entry, adopted_at="")
    revoke.revoke(world.state, world.host, ADDRESS, ANOTHER)
    place = world.book.entry(ADDRESS).place
    assert place
    resumed_elsewhere(world, world.book.entry(ADDRESS), place)
    lost_power(world)
    with pytest.raises(BadInputError, match="of its kind"):
        forget(world.state, world.host, OTHER_ADDRESS, "an order waits", "op")
    with pytest.raises(InUseError):
        revoke.revoke(world.state, world.host, OTHER_ADDRESS, DRIVE)


def not_given_away(world: World) -> None:
    """The drive of the guest that is off now: neither by ``forget`` nor by an order."""
    lost_power(world)
    with pytest.raises(BadInputError, match="of its kind"):
        forget(world.state, world.host, OTHER_ADDRESS, "an order waits", "op")
    with pytest.raises(InUseError):
        revoke.revoke(world.state, world.host, OTHER_ADDRESS, DRIVE)


@pytest.mark.parametrize("has_stayed", [True, False])
def test_a_start_by_a_ticket_ends_no_doubt_of_another_drives_owner(
    world: World, has_stayed: bool
) -> None:
    """The ticket speaks for the drive that it is of, not for the one that had left before."""
    world.fake.put("/proc/sys/kernel/random/boot_id", "boot-2")
    world.slot(ADDRESS, dataclasses.replace(SEEN, identity=ANOTHER))
    place = PciFunction(world.host, ADDRESS).place if has_stayed else ""
    paper = kept(ticket=ticket(identity=ANOTHER))
    entry = SlotEntry(ADDRESS, ticket=paper, last_owner=LAST, last_identity=DRIVE)
    resumed_elsewhere(world, entry, place)
    start = StartAdmission(address=ADDRESS, identity=ANOTHER, way=AdmittedBy.TICKET)
    whose = Starting("33333333-3333-4333-8333-333333333333", "h")
    after = rules.consume(world.book, [start], whose, SteadyTime.now(world.host), AT)
    assert not after.entry(ADDRESS).doubted
    world.know(*after.entries)
    not_given_away(world)


def test_a_ticket_that_comes_too_late_is_no_paper_of_its_drive(world: World) -> None:
    """A newer order took another drive there, which ended the doubt; then the older one's ticket
    came, void from the first."""
    resumed_elsewhere(world, SlotEntry(ADDRESS))
    revoke.revoke(world.state, world.host, ADDRESS, ANOTHER)
    late = ticket(identity=DRIVE)
    case = CaseSeen(CaseStanding.OPEN, "another-order", late.generation + 1)
    seen = dataclasses.replace(SEEN, identity=ANOTHER)
    facts = SlotFacts(ADDRESS, world.book.entry(ADDRESS), seen, case, world.book.incarnation)
    after = intake.take_ticket(world.book, late, facts, AT)
    found = after.entry(ADDRESS).ticket
    assert found is not None
    assert found.state is TicketState.VOID
    world.know(*after.entries)
    not_given_away(world)


def test_a_drive_that_stays_where_its_erase_took_it_is_not_doubted(world: World) -> None:
    """No domain names the slot, so nobody looks into it; the case that began there goes on."""
    world.fake.put("/proc/sys/kernel/random/boot_id", "boot-2")
    world.slot(ADDRESS)
    of_kind(world, ADDRESS, DRIVE)
    world.know(SlotEntry(ADDRESS, last_owner=LAST, last_identity=DRIVE), adopted_at="")
    revoke.revoke(world.state, world.host, ADDRESS, DRIVE)
    world.slot(OTHER_ADDRESS, DriveSeen("vfio-pci"))
    of_kind(world, OTHER_ADDRESS, DRIVE)
    define(world, "g", domain(OTHER_ADDRESS))
    define(world, "g", domain(OTHER_ADDRESS), running=True)
    adopt(world)
    assert not world.book.entry(ADDRESS).doubted
    world.fake.put("/proc/sys/kernel/random/boot_id", "boot-3")
    world.fake.path("/run/libvirt/qemu/g.xml").unlink()
    assert revoke.revoke(world.state, world.host, ADDRESS, DRIVE, again=True)


def test_a_drive_that_a_guest_has_in_its_place_is_not_doubted(world: World) -> None:
    """Nobody can read it, and nobody need: it has not left since its erase."""
    world.fake.put("/proc/sys/kernel/random/boot_id", "boot-2")
    place = PciFunction(world.host, ADDRESS).place
    for address in (ADDRESS, OTHER_ADDRESS):
        world.slot(address, DriveSeen("vfio-pci"))
        of_kind(world, address, DRIVE)
    mine = SlotEntry(ADDRESS, owner=owner(identity=ANOTHER), ticket=KEPT, place=place)
    world.know(mine, adopted_at="")
    define(world, "g", domain(OTHER_ADDRESS, uuid=THEIRS))
    define(world, "g", domain(OTHER_ADDRESS, uuid=THEIRS), running=True)
    assert dict(adopt(world).owners)[OTHER_ADDRESS].identity is None
    assert not world.book.entry(ADDRESS).doubted


def test_an_erase_by_hand_of_another_drive_lets_no_older_case_go_on(world: World) -> None:
    """The slot's case took DRIVE; a guest got that elsewhere, and a boot brings it back."""
    world.fake.put("/proc/sys/kernel/random/boot_id", "boot-1")
    world.slot(ADDRESS)
    of_kind(world, ADDRESS, DRIVE)
    world.know()
    revoke.revoke(world.state, world.host, ADDRESS, DRIVE)
    resumed_elsewhere(world, world.book.entry(ADDRESS))
    revoke.revoke(world.state, world.host, ADDRESS, ANOTHER, by_hand=True)
    lost_power(world)
    with pytest.raises(InUseError, match="adopted"):
        revoke.revoke(world.state, world.host, ADDRESS, DRIVE, again=True)


@pytest.mark.parametrize("by_hand", [True, False])
def test_no_case_goes_on_whose_slots_newest_erase_took_another_drive(
    world: World, by_hand: bool
) -> None:
    """As before, but what ended the doubt about the slot is an erase of ANOTHER by order; or by
    hand, with the case of DRIVE by order: that leaves the doubt, and so it is refused too."""
    world.fake.put("/proc/sys/kernel/random/boot_id", "boot-1")
    world.slot(ADDRESS)
    of_kind(world, ADDRESS, DRIVE)
    world.know()
    revoke.revoke(world.state, world.host, ADDRESS, DRIVE, by_hand=by_hand)
    resumed_elsewhere(world, world.book.entry(ADDRESS))
    revoke.revoke(world.state, world.host, ADDRESS, ANOTHER, by_hand=not by_hand)
    assert world.book.entry(ADDRESS).doubted is not by_hand
    lost_power(world)
    with pytest.raises(InUseError, match="adopted"):
        revoke.revoke(world.state, world.host, ADDRESS, DRIVE, by_hand=by_hand, again=True)


@pytest.mark.parametrize("by_hand", [True, False])
def test_nor_where_the_other_drive_stayed_and_so_nothing_was_doubted(
    world: World, by_hand: bool
) -> None:
    """A guest got DRIVE elsewhere, past the gate, while ANOTHER was erased and stayed here."""
    world.fake.put("/proc/sys/kernel/random/boot_id", "boot-2")
    world.slot(ADDRESS)
    of_kind(world, ADDRESS, DRIVE)
    world.know()
    revoke.revoke(world.state, world.host, ADDRESS, DRIVE, by_hand=not by_hand)
    world.slot(ADDRESS, dataclasses.replace(SEEN, identity=ANOTHER))
    of_kind(world, ADDRESS, ANOTHER)
    revoke.revoke(world.state, world.host, ADDRESS, ANOTHER, by_hand=by_hand)
    world.slot(OTHER_ADDRESS, DriveSeen("vfio-pci"))
    of_kind(world, OTHER_ADDRESS, DRIVE)
    define(world, "g", domain(OTHER_ADDRESS))
    define(world, "g", domain(OTHER_ADDRESS), running=True)
    adopt(world)
    assert not world.book.entry(ADDRESS).doubted
    lost_power(world)
    with pytest.raises(InUseError, match="adopted"):
        revoke.revoke(world.state, world.host, ADDRESS, DRIVE, by_hand=not by_hand, again=True)
