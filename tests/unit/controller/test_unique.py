"""Uniqueness: twins, nameless drives and second ways to a drive are held."""

from __future__ import annotations

import contextlib
import dataclasses
import errno
import os
import shutil
from pathlib import Path

import pytest

from eraser.controller import unique
from eraser.errors import IdentityError
from eraser.protocol.identity import ControllerIdentity
from eraser.protocol.report import Outcome
from tests.unit.case.bed import Bed, bed
from tests.unit.case.test_latecomers import changed
from tests.unit.host.fakehost import ADDRESS, FakeHost

__all__ = ["bed"]

IDENTITY = ControllerIdentity(1, 2, 3, 4, "SERIAL1", "MODEL", "nqn")


def test_an_only_drive_is_unique(tmp_path: Path) -> None:
    fake = FakeHost(tmp_path)
    fake.seen("nvme6", "0000:02:00.0", "SERIAL2", "MODEL")
    fake.seen("nvme7", "0000:03:00.0", "SERIAL1", "OTHER")
    unique.check_unique(fake.host, IDENTITY, ADDRESS)


@pytest.mark.parametrize("serial", ["SERIAL1", "SERIAL1   "])
def test_twins_are_held(tmp_path: Path, serial: str) -> None:
    fake = FakeHost(tmp_path)
    fake.seen("nvme6", "0000:02:00.0", serial, "MODEL")
    with pytest.raises(IdentityError, match=r"another at 0000:02:00\.0"):
        unique.check_unique(fake.host, IDENTITY, ADDRESS)


@pytest.mark.parametrize(("nqn", "held"), [("nqn.mine", True), ("nqn.other", False), ("", False)])
def test_a_second_way_to_the_same_subsystem_is_held(
    tmp_path: Path, nqn: str, *, held: bool
) -> None:
    """Other serial, same NQN: the kernel would join the namespaces of two drives."""
    fake = FakeHost(tmp_path)
    fake.seen("nvme6", "0000:02:00.0", "SERIAL2", "MODEL")
    fake.put("/sys/class/nvme/nvme5/subsysnqn", nqn and "nqn.mine")
    fake.put("/sys/class/nvme/nvme6/subsysnqn", nqn)
    expected = pytest.raises(IdentityError, match="same NQN") if held else contextlib.nullcontext()
    with expected:
        unique.check_unique(fake.host, IDENTITY, ADDRESS)


@pytest.mark.parametrize(("number", "held"), [(errno.ENODEV, False), (errno.EIO, True)])
def test_a_controller_that_goes_while_it_is_read_is_no_twin(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int, *, held: bool
) -> None:
    """libvirt takes another guest's drive at that moment: the kernel answers ENODEV."""
    fake = FakeHost(tmp_path)
    fake.seen("nvme6", "0000:02:00.0", "SERIAL2", "MODEL")

    def read(_host: object, _path: str) -> str:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(unique, "_attribute", read)
    expected = pytest.raises(IdentityError) if held else contextlib.nullcontext()
    with expected:
        unique.check_unique(fake.host, IDENTITY, ADDRESS)


@pytest.mark.parametrize("serial", ["", "   ", "\0x"])
def test_an_empty_serial_is_held(tmp_path: Path, serial: str) -> None:
    nameless = dataclasses.replace(IDENTITY, serial=serial)
    with pytest.raises(IdentityError, match="empty one"):
        unique.check_unique(FakeHost(tmp_path).host, nameless, ADDRESS)


@pytest.mark.parametrize("shared", ["serial", "subsysnqn"])
def test_a_case_of_one_that_cannot_be_told_from_another_sends_nothing(
    bed: Bed, shared: str
) -> None:
    mine = bed.kernel.root / "sys/class/nvme" / bed.kernel.name
    other = mine.with_name("nvme9")
    shutil.copytree(mine, other)
    (other / "address").write_text("0000:02:00.0\n")
    for name in {"serial", "subsysnqn"} - {shared}:
        (other / name).write_text("another's\n")
    before = changed(bed.drive)
    report = bed.run()
    assert (report.outcome, report.fit) == (Outcome.WRONG_DRIVE, False)
    assert "0000:02:00.0 (nvme9)" in report.reasons[0]
    assert "hold both" in report.reasons[0]
    assert (changed(bed.drive), bed.started) == (before, [])
