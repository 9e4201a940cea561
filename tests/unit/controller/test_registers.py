"""What registers tell: memory that a host maps, and boot partitions of drives that are older than
the log which tells of them."""

from __future__ import annotations

import struct
from dataclasses import replace
from pathlib import Path

import pytest

from eraser.controller import registers
from eraser.controller.registers import Registers
from eraser.drive import profile
from eraser.drive.featuresurvey import survey
from eraser.drive.inspect import facts
from eraser.drive.residues import residues
from eraser.host.sysfs import PciFunction
from eraser.protocol.condition import Buffer
from eraser.protocol.policy import Label
from tests.unit.controller.labdrive import FULL, LabController, lab_controller
from tests.unit.host.fakehost import ADDRESS, FUNCTION, FakeHost

OLD = replace(FULL, boot_partition_units=2, boot_log=False)
BPS, PMRS, CMBS = 1 << 45, 1 << 56, 1 << 57


def registers_of(tmp_path: Path, capabilities: int, info: int, size: int = 0) -> Registers | None:
    fake = FakeHost(tmp_path)
    content = struct.pack("<Q52xII", capabilities, size, info).ljust(8192, b"\0")
    fake.path(f"{FUNCTION}/resource0").write_bytes(content)
    return registers.read(PciFunction(fake.host, ADDRESS))


def test_the_register_tells(tmp_path: Path) -> None:
    assert registers_of(tmp_path, BPS | 0x3FFF, 0x8000_0002) == Registers(0x8000_0002)


def test_a_drive_without_them_has_none(tmp_path: Path) -> None:
    assert registers_of(tmp_path, 0x3FFF, 7) == Registers(0)


@pytest.mark.parametrize(
    ("capabilities", "size", "expected"),
    [
        (0, 0, ()),
        (0, 0x19, ()),
        (CMBS, 0, (Buffer.CMB,)),
        (0, 0x1001, (Buffer.CMB,)),
        (PMRS, 0, (Buffer.PMR,)),
        (CMBS | PMRS, 0x1019, (Buffer.CMB, Buffer.PMR)),
    ],
    ids=["none", "of-no-size", "cmb", "older-cmb", "pmr", "both"],
)
def test_memory_that_a_host_maps(
    tmp_path: Path, capabilities: int, size: int, expected: tuple[Buffer, ...]
) -> None:
    found = registers_of(tmp_path, capabilities | 0x3FFF, 0, size)
    assert found == Registers(0, expected)


def test_the_drivers_own_attribute_tells_of_a_buffer(tmp_path: Path) -> None:
    fake = FakeHost(tmp_path)
    function = PciFunction(fake.host, ADDRESS)
    assert registers.by_driver(function, "nvme0") == ()
    fake.put(f"{FUNCTION}/nvme/nvme0/cmb", "cmbloc : 0x00000002\ncmbsz : 0x0001001f\n")
    assert registers.by_driver(function, "nvme0") == (Buffer.CMB,)


def test_an_absent_drive_tells_nothing(tmp_path: Path) -> None:
    assert registers_of(tmp_path, (1 << 64) - 1, 0xFFFF_FFFF) is None


def test_a_kernel_that_refuses_tells_nothing(tmp_path: Path) -> None:
    fake = FakeHost(tmp_path)
    assert registers.read(PciFunction(fake.host, ADDRESS)) is None, "shorter than a page"
    fake.path(f"{FUNCTION}/resource0").unlink()
    assert registers.read(PciFunction(fake.host, ADDRESS)) is None


def test_an_old_drives_boot_partitions_are_seen_and_held_against_the_profile(
    tmp_path: Path,
) -> None:
    controller = lab_controller(tmp_path, OLD)
    found = facts(controller)
    assert found.condition is not None
    assert found.condition.boot is not None
    assert (found.condition.boot.size, found.condition.boot.digests) == (256 << 10, ())
    assert any("they were not read" in line for line in residues(None, found, Label.PURGE))
    identity, rules = controller.identity(), survey(controller)
    wanted = profile.propose(identity, found, rules)
    assert profile.compare(wanted, identity, found, rules) == ()
    assert wanted.condition is not None
    without = replace(wanted, condition=replace(wanted.condition, boot=None))
    [line] = profile.compare(without, identity, found, rules)
    assert line.startswith("profile: expected boot partitions none, found of 262144 bytes")


def test_what_nobody_can_read_is_disclosed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(LabController, "registers", lambda _controller: None)
    found = facts(lab_controller(tmp_path, OLD))
    assert found.condition is not None
    assert found.condition.boot_untold
    lines = residues(None, found, Label.PURGE)
    assert any("whether there are any is unknown" in line for line in lines)


def test_a_host_where_nobody_can_read_them_holds_no_drive_for_that(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its profile was made where the kernel tells."""
    controller = lab_controller(tmp_path, OLD)
    identity, rules = controller.identity(), survey(controller)
    wanted = profile.propose(identity, facts(controller), rules)
    monkeypatch.setattr(LabController, "registers", lambda _controller: None)
    assert profile.compare(wanted, identity, facts(controller), rules) == ()


def test_of_boot_partitions_a_drive_with_the_log_needs_no_register(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(LabController, "registers", lambda _controller: None)
    found = facts(lab_controller(tmp_path, replace(OLD, boot_log=True)))
    assert found.condition is not None
    assert found.condition.boot is not None
    assert not found.condition.boot_untold
    (tmp_path / "newer").mkdir()
    newer = facts(lab_controller(tmp_path / "newer", replace(OLD, version=0x20000)))
    assert newer.condition is not None
    assert newer.condition.boot is None
