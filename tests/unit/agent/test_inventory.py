"""The drives of a hello: who shares their IOMMU group, which carries the system, who is mute."""

from __future__ import annotations

import errno
import threading
import time
from pathlib import Path

import pytest

from eraser.agent import inventory
from eraser.agent.inventory import DriveWatch
from eraser.errors import DriveError
from eraser.host import sysfs
from eraser.host.functions import nvme_functions
from eraser.protocol.identity import ControllerIdentity
from tests.unit.host.fakehost import ADDRESS, FUNCTION, FakeHost
from tests.unit.ownership.parts import DRIVE

GROUP = "/sys/kernel/iommu_groups/9/devices"
MATES = {
    "0000:00:01.0": "0x060400",  # the port above it
    "0000:00:00.0": "0x060000",  # a host bridge
    "0000:01:00.1": "0x010802",
    "0000:02:00.0": "0x060100",  # an ISA bridge is an endpoint
}


@pytest.fixture
def fake(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> FakeHost:
    made = FakeHost(tmp_path)
    made.put(f"{FUNCTION}/class", "0x010802")
    made.put(f"{GROUP}/{ADDRESS}", "")
    monkeypatch.setattr(DriveWatch, "_identity", lambda _self, _address: DRIVE)
    return made


def test_a_drive_at_rest(fake: FakeHost) -> None:
    (drive,) = DriveWatch(fake.host).drives(())
    assert (drive.address, drive.driver, drive.identity) == (ADDRESS, "nvme", DRIVE)
    assert (drive.group, drive.system) == ((), False)


def test_a_function_that_is_being_removed_ends_nobody(
    fake: FakeHost, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The watcher looks just then: the kernel answers ENODEV for what is still listed."""
    fake.put("/sys/bus/pci/devices/0000:09:00.0/class", "0x010802")
    read = sysfs.Host.text

    def text(host: sysfs.Host, path: str) -> str:
        if "0000:09:00.0" in path:
            raise OSError(errno.ENODEV, "No such device")
        return read(host, path)

    monkeypatch.setattr(sysfs.Host, "text", text)
    assert nvme_functions(fake.host) == (ADDRESS,)


def test_other_endpoints_of_the_group_are_told_and_bridges_are_not(fake: FakeHost) -> None:
    for address, kind in MATES.items():
        fake.put(f"{GROUP}/{address}", "")
        fake.put(f"/sys/bus/pci/devices/{address}/class", kind)
    drive = next(each for each in DriveWatch(fake.host).drives(()) if each.address == ADDRESS)
    assert drive.group == ("0000:01:00.1", "0000:02:00.0")


def test_without_a_group_nothing_is_claimed(fake: FakeHost) -> None:
    fake.path(f"{FUNCTION}/iommu_group").unlink()
    (drive,) = DriveWatch(fake.host).drives(())
    assert drive.group is None


def test_the_systems_own_drive_is_told(fake: FakeHost) -> None:
    mounts = "22 1 259:1 / / rw - ext4 /dev/nvme5n1p1 rw"
    fake.put("/proc/1/mountinfo", mounts)
    (drive,) = DriveWatch(fake.host).drives([ADDRESS])
    assert (drive.system, drive.identity) == (True, None)


def test_what_cannot_be_read_is_not_guessed(fake: FakeHost) -> None:
    fake.path("/proc/1/mountinfo").unlink()
    fake.path("/proc/1/mountinfo").mkdir()
    (drive,) = DriveWatch(fake.host).drives(())
    assert (drive.system, drive.identity) == (None, DRIVE)


@pytest.mark.parametrize(
    ("total", "sriov"), [(None, False), ("0", False), ("32", True), ("", None)]
)
def test_a_drive_that_can_have_virtual_functions(
    fake: FakeHost, total: str | None, sriov: bool | None
) -> None:
    if total is not None:
        fake.put(f"{FUNCTION}/sriov_totalvfs", total)
    (drive,) = DriveWatch(fake.host).drives(())
    assert drive.sriov is sriov


def test_without_process_1_the_systems_drive_is_unknown(fake: FakeHost) -> None:
    fake.path("/proc/1/ns/mnt").unlink()
    (drive,) = DriveWatch(fake.host).drives(())
    assert drive.system is None


@pytest.mark.parametrize("driver", ["vfio-pci", None])
def test_a_drive_that_is_not_at_rest_is_not_spoken_to(fake: FakeHost, driver: str | None) -> None:
    fake.driver(driver)
    (drive,) = DriveWatch(fake.host).drives(())
    assert (drive.driver, drive.identity) == (driver or "", None)


def test_a_mute_drive_costs_its_own_identity_only(
    fake: FakeHost, monkeypatch: pytest.MonkeyPatch
) -> None:
    other, broken = "0000:02:00.0", "0000:03:00.0"
    for address in (other, broken):
        fake.put(f"/sys/bus/pci/devices/{address}/class", "0x010802")
        fake.link(f"/sys/bus/pci/devices/{address}/driver", "../../drivers/nvme")
    go = threading.Event()

    def identity(_self: DriveWatch, address: str) -> ControllerIdentity:
        if address == broken:
            raise DriveError("reset")
        if address == ADDRESS:
            go.wait(30)
        return DRIVE

    monkeypatch.setattr(DriveWatch, "_identity", identity)
    monkeypatch.setattr(inventory, "HELLO_SECONDS", 0.3)
    eyes = DriveWatch(fake.host)
    for _ in range(3):
        began = time.monotonic()
        found = {drive.address: drive.identity for drive in eyes.drives(())}
        assert time.monotonic() - began < 2
        assert found == {ADDRESS: None, other: DRIVE, broken: None}
    go.set()


def test_a_late_word_of_a_drive_that_was_pulled_names_no_other(
    fake: FakeHost, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The drive went to another slot of the host: named in both, both would be held."""
    let = threading.Event()

    def identity(_self: DriveWatch, _address: str) -> ControllerIdentity:
        let.wait(30)
        return DRIVE

    def hello() -> ControllerIdentity | None:
        let.clear()
        (drive,) = eyes.drives(())
        let.set()
        for thread in threading.enumerate():
            if thread.name.startswith("look "):
                thread.join(30)
        return drive.identity

    monkeypatch.setattr(DriveWatch, "_identity", identity)
    monkeypatch.setattr(inventory, "HELLO_SECONDS", 0.0)
    eyes = DriveWatch(fake.host)
    assert hello() is None
    assert hello() == DRIVE
    fake.path(FUNCTION).rename(fake.path("/sys/elsewhere"))
    fake.put(f"{FUNCTION}/class", "0x010802")
    fake.driver("nvme")
    assert hello() is None
    assert hello() == DRIVE
