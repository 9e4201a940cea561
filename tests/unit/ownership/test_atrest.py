"""An owner's drive at rest: who notes its counters, when, and what a vanish leaves."""

from __future__ import annotations

import contextlib
import errno
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest

from eraser.agent.idle_counters import LOOK_SECONDS, RETRY_SECONDS, SETTLE_SECONDS, IdleRounds
from eraser.agent.tickets import MAX_RUNNING
from eraser.controller.lock import SlotLock
from eraser.errors import BusyError, InUseError
from eraser.gate import read_idle
from eraser.gate.admit import GateRefusedError
from eraser.host import slotwatch
from eraser.host.sysfs import PciFunction
from eraser.ownership import atrest, revoke
from eraser.ownership import store as books
from eraser.ownership.atrest import IdleAction, idle_action
from eraser.ownership.facts import DriveSeen
from eraser.ownership.model import Book, Owner, PciIds, SlotEntry, SteadyTime
from eraser.protocol.ticket import Counters, TicketState
from tests.unit.gate.world import World, domain, world
from tests.unit.ownership.parts import (
    ADDRESS,
    ANOTHER,
    DRIVE,
    EMPTY,
    INCARNATION,
    KEPT,
    OTHER_ADDRESS,
    OWNER,
    REPORTED,
    SEEN,
    THEIRS,
    owner,
)

__all__ = ["world"]

RESTED = owner(rest=REPORTED)


@pytest.mark.parametrize(
    ("given", "driver", "expected"),
    [
        (OWNER, "nvme", IdleAction.NOTE),
        (OWNER, "vfio-pci", None),
        (OWNER, "", None),
        (OWNER, None, None),
        (RESTED, "nvme", None),
        (RESTED, "vfio-pci", IdleAction.FORGET),
        (RESTED, "", None),
        (RESTED, None, None),
        (owner(left="it vanished"), "nvme", None),
        (owner(identity=None), "nvme", None),
        (owner(incarnation="2" * 32), "nvme", None),
        (None, "nvme", None),
    ],
)
def test_what_a_slot_needs(
    given: Owner | None, driver: str | None, expected: IdleAction | None
) -> None:
    assert idle_action(given, driver, INCARNATION) is expected


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (OWNER, owner(left="it vanished")),
        (RESTED, RESTED),
        (owner(left="before"), owner(left="before")),
        (None, None),
    ],
)
def test_what_a_vanish_leaves(given: Owner | None, expected: Owner | None) -> None:
    book = EMPTY.with_entry(SlotEntry(ADDRESS, owner=given, ticket=KEPT))
    found = atrest.left(book, ADDRESS, "it vanished")
    assert found == EMPTY.with_entry(SlotEntry(ADDRESS, owner=expected, ticket=KEPT))
    assert atrest.left(EMPTY, ADDRESS, "it vanished") == EMPTY


def test_a_slot_that_nobody_has_cannot_rest() -> None:
    book = EMPTY.with_entry(SlotEntry(ADDRESS, ticket=KEPT))
    assert atrest.rested(book, ADDRESS, REPORTED) == book
    assert atrest.placed(book, ADDRESS, "boot-1/7") == book


def watch(world: World) -> None:
    """What the watcher writes down of the slot as it is now."""
    known = slotwatch.see(world.host, ADDRESS)
    slotwatch.save(world.state, slotwatch.Memory("boot-1", (known,)))


def note(world: World) -> str:
    return read_idle.note(world.state, world.run, world.host, ADDRESS)


def owner_of(world: World) -> Owner:
    found = world.book.entry(ADDRESS).owner
    assert found is not None
    return found


def running(world: World, document: bytes) -> None:
    path = world.fake.path("/run/libvirt/qemu/i.xml")
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(document)


@pytest.fixture
def off(world: World) -> World:
    """A slot whose owner is off, and a watcher that has seen it."""
    world.fake.put("/proc/sys/kernel/random/boot_id", "boot-1")
    world.slot(ADDRESS)
    world.know(SlotEntry(ADDRESS, owner=OWNER))
    watch(world)
    return world


@pytest.mark.parametrize(
    ("here", "driver", "expected"),
    [
        ("boot-1/7", "nvme", IdleAction.NOTE),
        ("boot-1/7", "vfio-pci", None),
        ("boot-1/8", "nvme", None),
        ("boot-2/7", "nvme", None),
        ("", "nvme", None),
    ],
)
def test_a_drive_that_was_adopted_unread_is_read_in_its_place_alone(
    here: str, driver: str, expected: IdleAction | None
) -> None:
    unread = owner(identity=None, place="boot-1/7")
    assert idle_action(unread, driver, INCARNATION, here) is expected
    assert idle_action(replace(unread, left="it vanished"), driver, INCARNATION, here) is None


@pytest.mark.parametrize(
    ("driver", "here", "expected"),
    [
        ("vfio-pci", "boot-1/7", IdleAction.PLACE),
        ("vfio-pci", "", None),
        ("nvme", "boot-1/7", None),
        ("", "boot-1/7", None),
        (None, "", None),
    ],
)
def test_where_an_earlier_release_adopted_unread_the_place_is_wanted(
    driver: str | None, here: str, expected: IdleAction | None
) -> None:
    unread = owner(identity=None)
    assert idle_action(unread, driver, INCARNATION, here) is expected
    assert idle_action(replace(unread, left="it vanished"), driver, INCARNATION, here) is None
    assert idle_action(replace(unread, place="boot-1/8"), driver, INCARNATION, here) is None


@pytest.fixture
def unread(off: World) -> World:
    """Its owner was adopted while it ran, and is off now for the first time."""
    place = PciFunction(off.host, ADDRESS).place
    assert place.startswith("boot-1/")
    off.slot(ADDRESS, replace(SEEN, place=place))
    off.know(SlotEntry(ADDRESS, owner=replace(UNREAD, place=place)))
    return off


UNREAD = owner(identity=None, pci=PciIds.of(DRIVE), adopted=True, let_in=None)


def test_an_owner_that_was_adopted_unread_is_known_by_its_first_rest(unread: World) -> None:
    """From then on its drive is its own wherever a boot puts it."""
    assert note(unread) == ""
    assert owner_of(unread) == owner(adopted=True, let_in=None)
    assert note(unread) == "", "its counters come next"
    assert owner_of(unread).rest == REPORTED
    assert "no need" in note(unread)


@pytest.mark.parametrize(
    ("seen", "said"),
    [
        ({"identity": None, "trouble": "mute"}, "mute"),
        ({"place": "boot-1/99"}, "left its slot"),
        ({"identity": replace(DRIVE, device_id=1)}, "not its owner's"),
    ],
)
def test_a_drive_that_may_be_another_is_not_taken_for_it(
    unread: World, seen: dict[str, Any], said: str
) -> None:
    before = owner_of(unread)
    unread.slot(ADDRESS, replace(unread.drives[ADDRESS], **seen))
    assert said in note(unread)
    assert owner_of(unread) == before


def test_an_owner_who_changed_while_the_drive_was_read_stays_as_he_is(
    unread: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A person, or a start, was quicker: what was read is another owner's then."""
    changed, real = owner(identity=None, incarnation="2" * 32), read_idle.look

    def slow(*given: Any) -> Any:
        found = real(*given)
        unread.know(SlotEntry(ADDRESS, owner=changed))
        return found

    monkeypatch.setattr(read_idle, "look", slow)
    assert note(unread) == "its owner's record changed meanwhile"
    assert owner_of(unread) == changed


OF_THE_WORLD = PciIds(0x1B36, 0x0010, 0x1AF4, 0x1100)
PLACELESS = replace(UNREAD, pci=OF_THE_WORLD)


@pytest.fixture
def placeless(off: World) -> World:
    """Adopted unread by a release that did not keep the place, and it runs to this day."""
    off.fake.driver("vfio-pci")
    off.know(SlotEntry(ADDRESS, owner=PLACELESS))
    return off


def test_the_place_of_an_owner_that_runs_is_written_down(placeless: World) -> None:
    """So its drive is read at its first rest, and no honest erase waits for its next start."""
    running(placeless, domain(ADDRESS))
    assert note(placeless) == ""
    place = PciFunction(placeless.host, ADDRESS).place
    assert owner_of(placeless) == replace(PLACELESS, place=place)
    assert "no need" in note(placeless)
    assert placeless.looked == [], "nobody can read a drive that its guest has"


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda world: None, "does not run with it"),
        (lambda world: running(world, domain(OTHER_ADDRESS)), "does not run with it"),
        (lambda world: running(world, domain(ADDRESS, uuid=THEIRS)), "does not run with it"),
        (
            lambda world: (
                running(world, domain(ADDRESS)),
                world.know(SlotEntry(ADDRESS, owner=UNREAD)),
            ),
            "not its owner's",
        ),
    ],
)
def test_a_place_that_may_be_anothers_is_not(
    placeless: World, change: Callable[[World], object], said: str
) -> None:
    change(placeless)
    assert said in note(placeless)
    assert owner_of(placeless).place == ""


def test_an_owner_who_changed_while_his_guest_was_looked_for_has_no_place_of_the_one_before(
    placeless: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    changed, real = replace(PLACELESS, domain=THEIRS), read_idle.pci_ids

    def slow(*given: Any) -> Any:
        placeless.know(SlotEntry(ADDRESS, owner=changed))
        return real(*given)

    monkeypatch.setattr(read_idle, "pci_ids", slow)
    running(placeless, domain(ADDRESS))
    assert note(placeless) == "its owner's record changed meanwhile"
    assert owner_of(placeless) == changed


def test_a_vanish_that_the_adopted_drive_did_not_take_part_in(unread: World) -> None:
    """The watcher was down; what it sees now is at the place where the drive was adopted."""
    place = PciFunction(unread.host, ADDRESS).place
    revoke.vanished(unread.state, ADDRESS, "it vanished and came back", place)
    assert owner_of(unread).left == ""
    revoke.vanished(unread.state, ADDRESS, "it vanished and came back", "boot-1/99")
    assert owner_of(unread).left != ""


def test_it_is_noted_once_and_tells_of_a_use_elsewhere(off: World) -> None:
    defined = off.fake.path("/etc/libvirt/qemu/i.xml")
    defined.parent.mkdir(parents=True, exist_ok=True)
    defined.write_bytes(domain(ADDRESS))
    assert note(off) == ""
    assert owner_of(off) == RESTED
    off.looked.clear()
    assert "no need" in note(off)
    assert off.looked == []
    off.slot(ADDRESS, replace(SEEN, counters=Counters(9000, 900, 9, False)))
    with pytest.raises(GateRefusedError, match="used while its domain was off"):
        off.check(domain(ADDRESS))
    assert owner_of(off) == RESTED
    off.slot(ADDRESS)
    assert off.check(domain(ADDRESS)).admissions
    assert owner_of(off).rest is None


def test_a_drive_that_counts_nothing_and_was_away_is_not_given_back(off: World) -> None:
    """Its counters at rest would say that nobody used it, whatever the watcher saw."""
    off.slot(ADDRESS, replace(SEEN, counters=Counters(0, 0, 7, None)))
    note(off)
    revoke.vanished(off.state, ADDRESS, "the drive vanished from its slot and came back")
    off.slot(ADDRESS, replace(SEEN, counters=Counters(0, 0, 8, None)))
    with pytest.raises(GateRefusedError, match="vanished"):
        off.check(domain(ADDRESS))


def test_a_drive_that_counts_and_was_away_is_judged_by_that(off: World) -> None:
    used = replace(KEPT, state=TicketState.USED, counters=Counters(900, 30, 7, True))
    off.know(SlotEntry(ADDRESS, owner=OWNER, ticket=used))
    assert note(off) == ""
    revoke.vanished(off.state, ADDRESS, "the drive vanished from its slot and came back")
    assert off.check(domain(ADDRESS)).admissions


def book_of(changed: Owner) -> Callable[[World], None]:
    return lambda world: world.know(SlotEntry(ADDRESS, owner=changed))


def watched(**changes: object) -> Callable[[World], None]:
    def change(world: World) -> None:
        memory = slotwatch.load(world.state)
        known = replace(memory.slots[0], **changes)  # type: ignore[arg-type]
        slotwatch.save(world.state, replace(memory, slots=(known,)))

    return change


NOT_NOW: list[tuple[Callable[[World], object], str]] = [
    (lambda world: world.order(), "erase has not ended"),
    (lambda world: world.slot(ADDRESS, replace(SEEN, identity=ANOTHER)), "not its owner's"),
    (lambda world: world.slot(ADDRESS, DriveSeen("nvme", trouble="mute")), "mute"),
    (lambda world: world.slot(ADDRESS, replace(SEEN, counters=None)), "log 02h"),
    (
        lambda world: world.slot(ADDRESS, replace(SEEN, counters=Counters(0, 0, 9, None))),
        "counts nothing",
    ),
    (lambda world: world.know(SlotEntry(ADDRESS, owner=OWNER, ticket=KEPT)), "counts nothing"),
    # Built when the test runs: a moment of the collection is long ago by then.
    (lambda world: book_of(owner(let_in=SteadyTime.now(world.host)))(world), "a moment ago"),
    (lambda world: running(world, domain()), "its owner runs"),
    (watched(directory=1), "watcher"),
    (lambda world: slotwatch.memory_file(world.state).unlink(), "watcher"),
    (
        lambda world: world.fake.put("/proc/sys/kernel/random/boot_id", "boot-2"),
        "watcher",
    ),
    (book_of(owner(left="it vanished")), "no need"),
    (lambda world: world.fake.driver("vfio-pci"), "no need"),
]


@pytest.mark.parametrize(("change", "said"), NOT_NOW)
def test_when_nothing_is_noted(off: World, change: Callable[[World], object], said: str) -> None:
    change(off)
    before = off.book
    assert said in note(off)
    assert off.book == before


def test_another_domain_that_runs_does_not_matter(off: World) -> None:
    running(off, domain(uuid=THEIRS))
    assert note(off) == ""


def test_a_slot_that_somebody_works_on_is_left_alone(off: World) -> None:
    with SlotLock(ADDRESS, off.run), pytest.raises(BusyError):
        note(off)
    assert off.looked == []


def test_no_start_is_let_in_during_the_look(off: World, monkeypatch: pytest.MonkeyPatch) -> None:
    def look(*arguments: object) -> dict[str, DriveSeen]:
        with pytest.raises(GateRefusedError, match="locked by process"):
            off.check(domain(ADDRESS))
        return {ADDRESS: SEEN}

    monkeypatch.setattr(read_idle, "look", look)
    assert note(off) == ""


WHILE_LOOKING: list[tuple[Callable[[World], object], str]] = [
    (lambda world: revoke.vanished(world.state, ADDRESS, "it vanished"), "changed meanwhile"),
    (lambda world: world.fake.driver("vfio-pci"), "watcher"),
    (lambda world: running(world, domain()), "its owner runs"),
]


@pytest.mark.parametrize(("change", "said"), WHILE_LOOKING)
def test_what_happens_while_it_is_read(
    off: World, monkeypatch: pytest.MonkeyPatch, change: Callable[[World], object], said: str
) -> None:
    def look(*_arguments: object) -> dict[str, DriveSeen]:
        change(off)
        return {ADDRESS: SEEN}

    monkeypatch.setattr(read_idle, "look", look)
    assert said in note(off)
    assert owner_of(off).rest is None


def test_a_file_of_libvirt_that_cannot_be_read_notes_nothing(off: World) -> None:
    running(off, b"rubbish")
    with pytest.raises(InUseError):
        note(off)
    assert owner_of(off) == OWNER


def test_a_drive_that_came_to_its_guest_past_the_gate(off: World) -> None:
    """Suspended, resumed, hot-plugged: it writes again, and no start asked the gate."""
    assert note(off) == ""
    off.fake.driver("vfio-pci")
    assert "does not run" in note(off)
    assert owner_of(off) == RESTED
    running(off, domain())
    off.looked.clear()
    assert note(off) == ""
    assert owner_of(off) == OWNER
    assert off.looked == []


@dataclass
class Children:
    """Processes that a test lets end."""

    alive: set[str] = field(default_factory=set)
    started: list[str] = field(default_factory=list)

    def start(self, address: str) -> None:
        self.started.append(address)
        self.alive.add(address)

    def running(self, address: str) -> bool:
        return address in self.alive


class Rig:
    """The rounds on a host, with a clock that only a test moves."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.now = 1000.0
        self.children = Children()
        self.rounds = IdleRounds(world.state, world.host, self.children, lambda: self.now)

    def after(self, seconds: float, *, ended: bool = True) -> list[str]:
        """What was started in that time."""
        if ended:
            self.children.alive.clear()
        before, end = len(self.children.started), self.now + seconds
        while self.now < end:
            self.now = min(self.now + 1.0, end)
            self.rounds.turn()
        return self.children.started[before:]


@pytest.fixture
def rig(off: World) -> Rig:
    return Rig(off)


def test_the_pump_waits_for_a_guest_that_is_only_rebooted(rig: Rig) -> None:
    assert rig.after(SETTLE_SECONDS) == []
    assert rig.after(LOOK_SECONDS) == [ADDRESS]
    assert rig.after(600, ended=False) == [], "one at a time"


def test_what_one_slot_meets_keeps_no_other_drive_from_being_read(
    rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A drive at rest whose counters were never noted is refused to its own guest for good."""
    seen = PciFunction.driver.fget
    assert seen is not None

    def driver(function: PciFunction) -> str | None:
        if function.address == "0000:00:01.0":
            raise OSError(errno.EIO, "Input/output error")
        return seen(function)

    monkeypatch.setattr(PciFunction, "driver", property(driver))
    rig.world.know(SlotEntry("0000:00:01.0", owner=owner()), SlotEntry(ADDRESS, owner=owner()))
    for _ in range(4):
        rig.now += SETTLE_SECONDS
        with contextlib.suppress(OSError):
            rig.rounds.turn()
    assert ADDRESS in rig.children.started


def test_the_pump_has_a_drive_read_that_was_adopted_unread(unread: World) -> None:
    assert Rig(unread).after(SETTLE_SECONDS + LOOK_SECONDS) == [ADDRESS]
    unread.know(SlotEntry(ADDRESS, owner=UNREAD))
    assert Rig(unread).after(600) == [], "as in a book of an earlier release"


def test_the_pump_tries_again_with_patience(rig: Rig) -> None:
    rig.after(SETTLE_SECONDS + LOOK_SECONDS)
    for pause in (*RETRY_SECONDS, RETRY_SECONDS[-1]):
        assert rig.after(pause - LOOK_SECONDS) == []
        assert rig.after(LOOK_SECONDS) == [ADDRESS]


def test_the_pump_begins_anew_with_every_change(rig: Rig) -> None:
    rig.after(SETTLE_SECONDS + LOOK_SECONDS + sum(RETRY_SECONDS))
    rig.world.know(SlotEntry(ADDRESS, owner=owner(let_in=SteadyTime("boot-1", 2000.0))))
    assert rig.after(SETTLE_SECONDS + 2 * LOOK_SECONDS)[:1] == [ADDRESS]
    rig.world.know(SlotEntry(ADDRESS, owner=RESTED))
    assert rig.after(600) == []
    rig.world.fake.driver("vfio-pci")
    assert rig.after(LOOK_SECONDS) == [ADDRESS], "to forget: the guest may soon be off again"


def test_the_pump_waits_anew_after_each_use(rig: Rig) -> None:
    rig.after(SETTLE_SECONDS)
    rig.world.fake.driver("vfio-pci")
    assert rig.after(LOOK_SECONDS) == []
    rig.world.fake.driver("nvme")
    assert rig.after(SETTLE_SECONDS) == []
    assert rig.after(LOOK_SECONDS) == [ADDRESS]


def test_the_pump_touches_nothing_between_two_looks(rig: Rig) -> None:
    rig.rounds.turn()
    rig.world.fake.path("/sys").rename(rig.world.directory / "away")
    books.book_file(rig.world.state).write_bytes(b"rubbish")
    assert rig.after(LOOK_SECONDS - 1) == []
    with pytest.raises(books.BookError):
        rig.after(1)


def test_the_pump_of_a_host_without_owners_does_nothing(rig: Rig) -> None:
    rig.world.know(SlotEntry(ADDRESS, ticket=KEPT))
    assert rig.after(100) == []
    (rig.world.state / "gate" / "book.json").unlink()
    assert rig.after(100) == []


def test_the_pump_reads_the_book_only_when_it_changed(
    rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    loads: list[object] = []
    load = books.load

    def counted(state_dir: Path) -> Book:
        loads.append(state_dir)
        return load(state_dir)

    monkeypatch.setattr(books, "load", counted)
    rig.after(100)
    assert len(loads) == 1
    rig.world.know(SlotEntry(OTHER_ADDRESS, owner=OWNER))
    loads.clear()
    rig.after(2 * LOOK_SECONDS)
    assert len(loads) == 1


def test_the_pump_reads_few_drives_at_a_time(rig: Rig) -> None:
    for number in range(0x10, 0x10 + MAX_RUNNING + 2):
        address = f"0000:{number:02x}:00.0"
        rig.world.slot(address)
        rig.world.fake.link(
            f"/sys/bus/pci/devices/{address}/driver", "../../../bus/pci/drivers/nvme"
        )
        rig.world.know(SlotEntry(address, owner=OWNER))
    assert len(rig.after(100)) == MAX_RUNNING
