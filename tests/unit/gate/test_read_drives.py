"""Drives are read at once and by a deadline; a mute one holds up nobody."""

from __future__ import annotations

import contextlib
import os
import time
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import NoReturn

import pytest

from eraser.clock import Clock
from eraser.controller import held
from eraser.controller.lock import SlotLock
from eraser.errors import DriveError, IdentityError
from eraser.gate import read_drives as looking
from eraser.gate.read_drives import look, read_drive
from eraser.host.sysfs import Host, PciFunction
from eraser.ownership.facts import DriveSeen
from tests.unit.host.fakehost import ADDRESS, FakeHost
from tests.unit.ownership.parts import DRIVE, OTHER_ADDRESS, SEEN


def reads(monkeypatch: pytest.MonkeyPatch, seconds: dict[str, float]) -> None:
    def read(_host: Host, address: str, _seconds: float) -> DriveSeen:
        time.sleep(seconds[address])
        return SEEN

    monkeypatch.setattr(looking, "read_drive", read)


def awaited(*paths: Path) -> None:
    """Waits until each is there; in vain, if nobody makes it beside this one."""
    deadline = time.monotonic() + 30
    while not all(path.exists() for path in paths):
        assert time.monotonic() < deadline, f"expected {paths}, found {os.listdir(paths[0].parent)}"
        time.sleep(0.01)


def test_all_at_once(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Each is read until all of them are."""
    addresses = [f"0000:0{number}:00.0" for number in range(1, 9)]

    def read(_host: Host, address: str, _seconds: float) -> DriveSeen:
        (tmp_path / address).touch()
        awaited(*(tmp_path / each for each in addresses))
        return SEEN

    monkeypatch.setattr(looking, "read_drive", read)
    assert look(Host(), addresses, 40) == dict.fromkeys(addresses, SEEN)


def test_something_else_is_done_while_they_are_read(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    reading, meanwhile = tmp_path / "reading", tmp_path / "meanwhile"

    def read(_host: Host, _address: str, _seconds: float) -> DriveSeen:
        reading.touch()
        awaited(meanwhile)
        return SEEN

    def beside() -> None:
        awaited(reading)
        meanwhile.touch()

    monkeypatch.setattr(looking, "read_drive", read)
    assert look(Host(), [ADDRESS], 40, beside) == {ADDRESS: SEEN}


def test_a_mute_drive_is_left_behind(monkeypatch: pytest.MonkeyPatch) -> None:
    reads(monkeypatch, {ADDRESS: 60, OTHER_ADDRESS: 0})
    began = time.monotonic()
    found = look(Host(), [ADDRESS, OTHER_ADDRESS], 0.5)
    assert time.monotonic() - began < 5
    assert found[OTHER_ADDRESS] == SEEN
    assert "no answer within 0.5 s" in found[ADDRESS].trouble


def test_a_child_that_is_left_behind_holds_nothing_of_ours(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Its copy of a lock would hold the slot, and its standard error would hold up libvirt."""
    kept = tmp_path / "fds"

    def read(_host: Host, _address: str, _seconds: float) -> DriveSeen:
        names = os.listdir("/proc/self/fd")
        links = []
        for name in names:
            try:
                links.append(os.readlink(f"/proc/self/fd/{name}"))
            except OSError:
                continue
        kept.write_text("\n".join(links))
        return SEEN

    monkeypatch.setattr(looking, "read_drive", read)
    with SlotLock(ADDRESS, tmp_path):
        look(Host(), [ADDRESS], 5)
    links = kept.read_text().splitlines()
    assert not [link for link in links if link.endswith(".lock")]
    assert links.count("/dev/null") == 3
    assert len([link for link in links if link.startswith("pipe:")]) == 1


def test_a_reader_that_dies_says_nothing_good(monkeypatch: pytest.MonkeyPatch) -> None:
    def read(_host: Host, _address: str, _seconds: float) -> DriveSeen:
        raise RuntimeError

    monkeypatch.setattr(looking, "read_drive", read)
    found = look(Host(), [ADDRESS], 5)[ADDRESS]
    assert "reader failed" in found.trouble
    assert found.identity is None


def test_what_is_not_on_nvme_is_not_read(tmp_path: Path) -> None:
    fake = FakeHost(tmp_path)
    for driver, seen in (("vfio-pci", "vfio-pci"), (None, "")):
        fake.driver(driver)
        assert read_drive(fake.host, ADDRESS, 1) == DriveSeen(seen)
    assert read_drive(fake.host, OTHER_ADDRESS, 1) == DriveSeen(None)


def test_a_drive_that_answers_no_command_is_in_trouble(tmp_path: Path) -> None:
    fake = FakeHost(tmp_path)  # its node is /dev/null, which takes no admin command
    found = read_drive(fake.host, ADDRESS, 1)
    assert (found.driver, found.identity) == ("nvme", None)
    assert "Identify Controller" in found.trouble


def test_where_the_drive_is_read_is_told(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def reader(_host: Host, _descriptor: int, _address: str, _timeout: float) -> SimpleNamespace:
        return SimpleNamespace(
            identify=lambda: SimpleNamespace(can_sanitize=False), smart_log=lambda: bytes(512)
        )

    held = SimpleNamespace(descriptor=0, identity_of=lambda _found: DRIVE)
    monkeypatch.setattr(looking, "hold", lambda *_a, **_k: contextlib.nullcontext(held))
    monkeypatch.setattr(looking, "AdminReader", reader)
    fake = FakeHost(tmp_path)
    fake.put("/proc/sys/kernel/random/boot_id", "boot-1")
    found = look(fake.host, [ADDRESS], 30)[ADDRESS]
    assert found.identity == DRIVE
    number = fake.path(f"/sys/bus/pci/devices/{ADDRESS}").stat().st_ino
    assert found.place == f"boot-1/{number}"


class Slow(Clock):
    """A drive that the kernel calls live after a number of looks, and its commands' timeouts."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, looks: int) -> None:
        self.now, self.timeouts = 0.0, list[float]()
        self._left = looks
        monkeypatch.setattr(PciFunction, "state", lambda *_: self._state())
        monkeypatch.setattr(held, "open_node", lambda *_: os.open("/dev/null", os.O_RDONLY))
        monkeypatch.setattr(looking, "AdminReader", self._reader)

    def monotonic(self) -> float:
        return self.now

    def sleep(self, _seconds: float) -> None:
        self.now += 1.0

    def _state(self) -> str:
        self._left -= 1
        return "resetting" if self._left > 0 else "live"

    def _reader(self, _host: Host, _descriptor: int, _address: str, timeout: float) -> NoReturn:
        self.timeouts.append(timeout)
        raise DriveError("enough")


def test_a_drive_that_becomes_ready_late_is_waited_for_and_its_commands_are_not(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """As after a hard reboot, when libvirt binds it and starts the guest at once."""
    fake = FakeHost(tmp_path)
    slow = Slow(monkeypatch, looks=9)
    found = read_drive(replace(fake.host, clock=slow), ADDRESS, 20)
    assert (found.trouble, slow.now) == ("enough", 8.0)
    assert slow.timeouts == [looking.COMMAND_SECONDS]
    slow = Slow(monkeypatch, looks=99)
    found = read_drive(replace(fake.host, clock=slow), ADDRESS, 20)
    assert "a live NVMe controller" in found.trouble
    assert (slow.timeouts, 20 <= slow.now < 25) == ([], True)


def test_a_namesake_is_seen_beside_what_the_drive_says(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    fake = FakeHost(tmp_path)
    reads(monkeypatch, {ADDRESS: 0})
    assert look(fake.host, [ADDRESS], 5)[ADDRESS] == SEEN
    fake.seen("nvme7", "0000:07:00.0", DRIVE.serial, DRIVE.model)
    assert "0000:07:00.0 (nvme7)" in look(fake.host, [ADDRESS], 5)[ADDRESS].namesake
    monkeypatch.setattr(looking.unique, "controllers", unreadable)
    assert look(fake.host, [ADDRESS], 5)[ADDRESS].namesake == "cannot say"


def unreadable(_host: Host) -> None:
    raise IdentityError("cannot say")
