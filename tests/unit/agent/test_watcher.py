"""The watcher: each way in which a drive can leave its slot is seen, and libvirt's is none."""

from __future__ import annotations

import errno
import fcntl
import shutil
import socket
import threading
from collections.abc import Callable, Iterable
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest

from eraser.agent import watcher
from eraser.agent.hoststate import keygen
from eraser.clock import MACHINE
from eraser.defences import assessment, facts, setup
from eraser.errors import BadInputError, BusyError, DriveError
from eraser.host import slotwatch
from eraser.host.slotwatch import KnownSlot, Memory, SlotAction, compare
from eraser.host.sysfs import Host, PciFunction
from eraser.ownership import store as books
from eraser.ownership.model import Book, SlotEntry
from eraser.protocol.ticket import TicketState
from tests.unit.ownership.parts import KEPT, OWNER

A = "0000:01:00.0"
B = "0000:02:00.0"
IDS = "144d:a824:144d:a801"
WAS = KnownSlot(A, 70, "nvme", IDS, "drive-1")
AWAY = KnownSlot(A, 0, "", "", "")


@pytest.mark.parametrize(
    ("now", "void", "ring"),
    [
        (WAS, "", False),
        (replace(WAS, driver=""), "", True),
        (replace(WAS, driver="vfio-pci", drive=""), "", True),
        (AWAY, "vanished", True),
        (replace(WAS, directory=71), "vanished from its slot and came back", True),
        (replace(WAS, directory=71, drive="drive-2"), "another drive", True),
        (replace(WAS, drive="drive-2"), "another drive", True),
        (replace(WAS, ids="8086:0a54:8086:0"), "another drive", True),
        (replace(WAS, drive=""), "", False),
    ],
)
def test_what_a_change_means(now: KnownSlot, void: str, ring: bool) -> None:
    change, kept = compare(WAS, now, same_boot=True)
    assert (bool(change.void), change.ring) == (bool(void), ring)
    assert void in change.void
    assert kept.directory == now.directory
    assert kept.driver == now.driver


@pytest.mark.parametrize(
    ("now", "void"),
    [
        (replace(WAS, directory=3), ""),
        (AWAY, ""),
        (replace(WAS, directory=3, drive="drive-2"), "another drive"),
        (replace(WAS, directory=3, ids="8086:0a54:8086:0", drive=""), "another drive"),
    ],
)
def test_after_a_reboot_only_another_drive_counts(now: KnownSlot, void: str) -> None:
    change, _ = compare(WAS, now, same_boot=False)
    assert bool(change.void) == bool(void)
    assert void in change.void


def test_what_is_known_of_a_drive_outlives_vfio_and_absence() -> None:
    _, kept = compare(WAS, replace(WAS, driver="vfio-pci", drive=""), same_boot=True)
    assert compare(kept, replace(WAS, drive="drive-2"), same_boot=True)[0].void
    assert compare(kept, WAS, same_boot=True)[0] == SlotAction(ring=True)
    _, kept = compare(WAS, AWAY, same_boot=False)
    change, kept = compare(kept, replace(WAS, directory=9), same_boot=True)
    assert change == SlotAction(ring=True)
    assert compare(kept, replace(kept, drive="drive-2"), same_boot=True)[0].void


def test_a_successor_inherits_nothing() -> None:
    _, kept = compare(WAS, replace(WAS, directory=71, drive=""), same_boot=True)
    assert kept.drive == ""
    assert compare(kept, replace(kept, drive="drive-2"), same_boot=True)[0] == SlotAction()


def test_a_slot_seen_for_the_first_time_is_only_remembered() -> None:
    assert compare(None, WAS, same_boot=True) == (SlotAction(), WAS)


class Rig:
    """A directory as /sys, two drives in it, and what the watcher did."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.host = Host(root)
        self.state = root / "state"
        self.run = root / "run"
        self.voided: list[tuple[str, str]] = []
        self.rung: list[str] = []
        self.failing = False
        self.boot("boot-1")
        for address, serial in ((A, "S1"), (B, "S2")):
            self.plug(address, serial)

    def void(self, state: Path, address: str, reason: str, place: str) -> bool:
        assert state == self.state
        assert bool(place) == ("came back" in reason)
        if self.failing:
            raise BusyError("the book is locked")
        self.voided.append((address, reason))
        return True

    def boot(self, name: str) -> None:
        self._put("proc/sys/kernel/random/boot_id", name)

    def _put(self, path: str, text: str) -> None:
        file = self.root / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text + "\n")

    def place(self, address: str) -> Path:
        return self.root / "sys/bus/pci/devices" / address

    def plug(self, address: str, serial: str) -> None:
        """The kernel finds a function; its directory is another one than the last."""
        place = self.place(address)
        old = place.with_name("gone")
        if place.exists():
            place.rename(old)
        for name in ("vendor", "device", "subsystem_vendor", "subsystem_device"):
            self._put(f"sys/bus/pci/devices/{address}/{name}", "0x1234")
        self._put(f"sys/bus/pci/devices/{address}/class", "0x010802")
        self.bind(address, "nvme", serial)
        shutil.rmtree(old, ignore_errors=True)

    def bind(self, address: str, driver: str, serial: str = "", state: str = "live") -> None:
        place = self.place(address)
        (place / "driver").unlink(missing_ok=True)
        (place / "driver").symlink_to(f"../../drivers/{driver}")
        shutil.rmtree(place / "nvme", ignore_errors=True)
        if serial:
            known = (("serial", serial), ("model", "M"), ("subsysnqn", "nqn.x"))
            for name, value in (*known, ("state", state)):
                self._put(f"sys/bus/pci/devices/{address}/nvme/nvme0/{name}", value)

    def pull(self, address: str) -> None:
        shutil.rmtree(self.place(address))

    def ring(self, run_dir: Path, addresses: Iterable[str]) -> None:
        assert run_dir == self.run
        self.rung += addresses

    def watcher(self) -> watcher.Watcher:
        return watcher.Watcher(self.state, self.run, self.host, self.void, self.ring)


@pytest.fixture
def rig(tmp_path: Path) -> Rig:
    return Rig(tmp_path)


def test_a_pulled_drive_voids_its_ticket_once(rig: Rig) -> None:
    watching = rig.watcher()
    watching.look()
    watching.look()
    assert (rig.voided, rig.rung) == ([], [])
    rig.pull(A)
    watching.look()
    watching.look()
    assert rig.voided == [(A, "the drive vanished from its slot")]
    assert rig.rung == [A]
    rig.plug(A, "S1")
    watching.look()
    assert len(rig.voided) == 1
    assert rig.rung == [A, A]


def test_a_serial_of_any_bytes_keeps_nobody_from_being_watched(rig: Rig) -> None:
    """A tenant chooses it, by the drive's firmware, and so does whoever sells the drive."""
    watching = rig.watcher()
    watching.look()
    for serial in (b"S1\xff\xfe\n", b"S1\xfe\xff\n"):
        (rig.place(A) / "nvme/nvme0/serial").write_bytes(serial)
        watching.look()
    rig.pull(B)
    watching.look()
    assert rig.voided == [
        (A, "another drive appeared in the slot"),
        (A, "another drive appeared in the slot"),
        (B, "the drive vanished from its slot"),
    ]
    rig.watcher().look()


def test_a_full_disk_ends_no_watcher_and_keeps_no_bell(
    rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    watching = rig.watcher()
    watching.look()

    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(slotwatch, "save", full)
        rig.bind(A, "vfio-pci")
        watching.look()
    assert rig.rung == [A]
    watching.look()
    assert rig.rung == [A, A], "compared with what was kept"
    watching.look()
    assert rig.rung == [A, A]


def test_a_guest_that_starts_and_ends_voids_nothing(rig: Rig) -> None:
    watching = rig.watcher()
    watching.look()
    rig.bind(A, "vfio-pci")
    watching.look()
    rig.bind(A, "nvme", "S1")
    watching.look()
    assert rig.voided == []
    assert rig.rung == [A, A]


def test_a_drive_that_is_still_coming_up_is_no_other_one(rig: Rig) -> None:
    """Seen on the rack: until the controller is live the kernel shows an empty serial."""
    watching = rig.watcher()
    watching.look()
    rig.bind(A, "nvme", " ", state="connecting")
    watching.look()
    rig.bind(A, "nvme", "S1")
    watching.look()
    assert rig.voided == []


def test_a_vanish_between_two_looks_is_seen(rig: Rig) -> None:
    """Its events were lost, or the watcher was not running."""
    rig.watcher().look()
    rig.plug(A, "S1")
    rig.watcher().look()
    assert rig.voided == [(A, "the drive vanished from its slot and came back")]


def test_a_drive_exchanged_while_the_host_was_off(rig: Rig) -> None:
    rig.watcher().look()
    rig.boot("boot-2")
    rig.plug(A, "S9")
    rig.plug(B, "S2")
    rig.watcher().look()
    assert rig.voided == [(A, "another drive appeared in the slot")]


def test_what_could_not_be_voided_is_voided_by_the_next_look(rig: Rig) -> None:
    watching = rig.watcher()
    watching.look()
    rig.failing = True
    rig.pull(A)
    rig.pull(B)
    watching.look()
    rig.failing = False
    rig.watcher().look()
    assert [address for address, _ in rig.voided] == [A, B]


def test_a_slot_that_cannot_be_read_stops_no_other(
    rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    watching = rig.watcher()
    watching.look()
    see = slotwatch.see

    def broken(host: Host, address: str) -> KnownSlot:
        if address == A:
            raise DriveError("no")
        return see(host, address)

    monkeypatch.setattr(slotwatch, "see", broken)
    rig.pull(B)
    watching.look()
    assert [address for address, _ in rig.voided] == [B]
    monkeypatch.setattr(slotwatch, "see", see)
    rig.pull(A)
    watching.look()
    assert [address for address, _ in rig.voided] == [B, A]


def test_a_slot_of_host_setup_is_watched_though_it_is_empty(rig: Rig) -> None:
    setup.save(rig.state, setup.Setup(("0000:03:00.0",)))
    watching = rig.watcher()
    watching.look()
    rig.plug("0000:03:00.0", "S3")
    watching.look()
    assert rig.rung == ["0000:03:00.0"]


def test_a_function_that_nobody_told_of_is_watched_once_it_is_there(rig: Rig) -> None:
    watching = rig.watcher()
    watching.look()
    rig.plug("0000:04:00.0", "S4")
    watching.look()
    rig.pull("0000:04:00.0")
    watching.look()
    assert [address for address, _ in rig.voided] == ["0000:04:00.0"]


def test_a_drive_exchanged_while_it_is_read_is_no_mixture(
    rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    read = slotwatch._drive

    def exchanged(function: PciFunction) -> str:
        monkeypatch.setattr(slotwatch, "_drive", read)
        rig.plug(A, "S9")
        return read(function)

    monkeypatch.setattr(slotwatch, "_drive", exchanged)
    assert slotwatch.see(rig.host, A) == AWAY


def test_a_damaged_memory_is_begun_anew(rig: Rig) -> None:
    rig.watcher().look()
    slotwatch.memory_file(rig.state).write_text("{")
    with pytest.raises(BadInputError):
        slotwatch.load(rig.state)
    rig.watcher().look()
    assert {known.address for known in slotwatch.load(rig.state).slots} == {A, B}
    assert rig.voided == []


def test_the_gates_own_book_is_what_is_voided(rig: Rig) -> None:
    card = keygen(rig.state, "cmp1")
    with books.opened(rig.state) as book:
        book.write(
            Book(card.incarnation)
            .with_entry(SlotEntry(A, ticket=KEPT))
            .with_entry(SlotEntry(B, owner=OWNER))
        )
    watching = watcher.Watcher(rig.state, rig.run, rig.host, ring=rig.ring)
    watching.look()
    rig.pull(A)
    watching.look()
    kept = books.load(rig.state).entry(A).ticket
    assert kept is not None
    assert (kept.state, kept.reason) == (TicketState.VOID, "the drive vanished from its slot")
    rig.plug(B, "S2")
    watching.look()
    owner = books.load(rig.state).entry(B).owner
    assert owner is not None
    assert owner.left == "the drive vanished from its slot and came back"


def test_a_drive_that_came_back_before_its_erase_keeps_its_ticket(rig: Rig) -> None:
    """The watcher did not run when it was away, and looks when all is over."""
    rig.watcher().look()
    rig.plug(A, "S1")
    rig.plug(B, "S2")
    card = keygen(rig.state, "cmp1")
    erased, other = (PciFunction(rig.host, each).place for each in (A, B))
    with books.opened(rig.state) as book:
        book.write(
            Book(card.incarnation)
            .with_entry(SlotEntry(A, ticket=KEPT, place=erased))
            .with_entry(SlotEntry(B, ticket=KEPT, place=erased))
        )
    assert erased != other

    def standing(address: str) -> TicketState:
        kept = books.load(rig.state).entry(address).ticket
        assert kept is not None
        return kept.state

    watching = watcher.Watcher(rig.state, rig.run, rig.host, ring=rig.ring)
    watching.look()
    assert [standing(each) for each in (A, B)] == [TicketState.VALID, TicketState.VOID]
    # Another one at the very place is no return, and neither is one that is gone again.
    rig.bind(A, "nvme", "S9")
    watching.look()
    assert standing(A) is TicketState.VOID


def test_a_drive_that_came_back_before_its_erase_and_left_after_it(rig: Rig) -> None:
    rig.watcher().look()
    rig.plug(A, "S1")
    card = keygen(rig.state, "cmp1")
    place = PciFunction(rig.host, A).place
    with books.opened(rig.state) as book:
        book.write(Book(card.incarnation).with_entry(SlotEntry(A, ticket=KEPT, place=place)))
    rig.pull(A)
    watcher.Watcher(rig.state, rig.run, rig.host, ring=rig.ring).look()
    kept = books.load(rig.state).entry(A).ticket
    assert kept is not None
    assert kept.state is TicketState.VOID


class Script:
    """Events as they were recorded: what happens while the watcher waits; then it is ended."""

    def __init__(self, *steps: Callable[[], None]) -> None:
        self._steps = list(steps)

    def wait(self, _seconds: float) -> bool:
        if not self._steps:
            raise KeyboardInterrupt
        self._steps.pop(0)()
        return True


def test_it_looks_after_each_event_and_gives_signs_of_life(rig: Rig) -> None:
    seen: list[assessment.WatcherSeen] = []

    def check() -> None:
        seen.append(facts.look_at_watcher(rig.run))

    with pytest.raises(KeyboardInterrupt):
        rig.watcher().run(Script(lambda: rig.pull(A), check))
    assert rig.voided == [(A, "the drive vanished from its slot")]
    assert assessment.watcher(seen[0]).standing.value == "present"
    assert not facts.look_at_watcher(rig.run).held


def test_a_look_that_took_long_is_followed_by_a_sign_of_life(
    rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The disk stood still: the worker's hello, which hung on it too, looks at us just now."""
    made, signs = rig.watcher(), list[int]()
    live, look = made._live, made.look

    def noted(descriptor: int) -> None:
        signs.append(len(looks))
        live(descriptor)

    looks = list[None]()
    monkeypatch.setattr(made, "_live", noted)
    monkeypatch.setattr(made, "look", lambda: (look(), looks.append(None)))
    with pytest.raises(KeyboardInterrupt):
        made.run(Script())
    assert signs == [0, 1]


def test_a_full_run_directory_costs_signs_of_life_and_no_look(
    rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_arguments: object) -> int:
        raise OSError(errno.ENOSPC, "No space left on device")

    def check() -> None:
        assert rig.voided == [(A, "the drive vanished from its slot")]

    monkeypatch.setattr(watcher.os, "pwrite", full)
    with pytest.raises(KeyboardInterrupt):
        rig.watcher().run(Script(lambda: rig.pull(A), check))


def test_there_is_only_one(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watcher, "LOCK_PATIENCE", 0.2)

    def another() -> None:
        with pytest.raises(BusyError, match="another one running"):
            rig.watcher().run(Script())

    with pytest.raises(KeyboardInterrupt):
        rig.watcher().run(Script(another))


def test_the_self_check_in_passing_does_not_keep_it_from_starting(rig: Rig) -> None:
    rig.run.mkdir()
    with (rig.run / facts.WATCHER_LOCK).open("w") as file:
        fcntl.flock(file, fcntl.LOCK_SH)
        threading.Timer(0.3, lambda: fcntl.flock(file, fcntl.LOCK_UN)).start()
        with pytest.raises(KeyboardInterrupt):
            rig.watcher().run(Script(lambda: None))


class Netlink:
    """A monitor whose buffer ran over."""

    def __init__(self, *results: object) -> None:
        self._results = list(results)

    def poll(self, _seconds: float) -> object:
        result = self._results.pop(0) if self._results else None
        if isinstance(result, OSError):
            raise result
        return result


@pytest.mark.parametrize(
    ("results", "came"),
    [
        ((None,), False),
        ((SimpleNamespace(action="remove"),), True),
        ((OSError(errno.ENOBUFS, "no buffer"),), True),
        ((SimpleNamespace(action="remove"), OSError(errno.ENOBUFS, "no buffer")), True),
    ],
)
def test_an_overflow_is_a_reason_to_look(results: tuple[object, ...], came: bool) -> None:
    events = watcher.KernelEvents.__new__(watcher.KernelEvents)
    events._monitor, events._clock = Netlink(*results), MACHINE
    assert events.wait(0.01) is came


def test_an_overflow_that_poll_saw_first_ends_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """pyudev raises without a number then (seen on the rack)."""
    events = watcher.KernelEvents.__new__(watcher.KernelEvents)
    events._monitor = Netlink(OSError("Error while polling fd: 5"))
    monkeypatch.setattr(events, "_pending_error", lambda: errno.ENOBUFS)
    assert events.wait(0.01)
    events._monitor = Netlink(OSError("Error while polling fd: 5"))
    monkeypatch.setattr(events, "_pending_error", lambda: 0)
    with pytest.raises(OSError, match="while polling"):
        events.wait(0.01)


def test_a_real_overflow_is_one_reason_to_look() -> None:
    """More than fits, from a sender that is no udev, to a real socket."""
    events = watcher.KernelEvents("udev", MACHINE)
    events._monitor.set_receive_buffer_size(4096)
    with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 15) as sender:  # NETLINK_KOBJECT_UEVENT
        try:
            for _ in range(20_000):
                sender.sendto(b"libudev\0" + bytes(200), (0, 2))
        except PermissionError:
            pytest.skip("only root may send to udev's group")
    assert events.wait(0.2)
    assert not events.wait(0.2)


def test_a_socket_in_order_has_no_error_pending() -> None:
    assert watcher.KernelEvents("kernel", MACHINE)._pending_error() == 0


def test_another_error_of_netlink_ends_it() -> None:
    events = watcher.KernelEvents.__new__(watcher.KernelEvents)
    events._monitor = Netlink(OSError(errno.EBADF, "closed"))
    with pytest.raises(OSError, match="closed"):
        events.wait(0.01)


def test_the_kernels_events_can_be_listened_to() -> None:
    """The real libudev; nothing happens to this machine's drives meanwhile."""
    assert watcher.KernelEvents("kernel", MACHINE).wait(0.05) in (False, True)


def test_memory_goes_through_the_disk(tmp_path: Path) -> None:
    assert slotwatch.load(tmp_path) == Memory()
    memory = Memory("boot-1", (WAS, replace(WAS, address=B, directory=1 << 40)))
    slotwatch.save(tmp_path, memory)
    assert slotwatch.load(tmp_path) == memory
