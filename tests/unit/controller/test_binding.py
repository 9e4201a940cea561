"""Binding: a free drive comes to the nvme driver, a used one stays where it is."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from eraser.controller import binding
from eraser.controller.binding import ensure_nvme_driver
from eraser.errors import DriveError, InUseError
from eraser.host.sysfs import AbsentError
from tests.unit.host.fakehost import ADDRESS, CONTROLLER, FUNCTION, FakeHost


def bus(fake: FakeHost, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The PCI bus as far as binding writes to it."""
    writes: list[str] = []

    def write(_host: object, path: str, value: str) -> None:
        writes.append(f"{path.rsplit('/', 1)[1]}={value.strip()}")
        if path.endswith("unbind"):
            fake.driver(None)
        elif path.endswith("drivers_probe"):
            fake.driver("nvme")

    monkeypatch.setattr(binding, "_write", write)
    monkeypatch.setattr("eraser.host.idle.refused_claims", lambda *_arguments: ())
    return writes


def test_a_free_drive_is_bound_to_nvme(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fake = FakeHost(tmp_path)
    writes = bus(fake, monkeypatch)
    fake.driver("vfio-pci")
    fake.put(f"{FUNCTION}/driver_override", "vfio-pci")
    assert ensure_nvme_driver(fake.host, ADDRESS, timeout=5)
    assert writes == ["driver_override=", f"unbind={ADDRESS}", f"drivers_probe={ADDRESS}"]
    fake.put(f"{FUNCTION}/driver_override", "(null)")
    assert not ensure_nvme_driver(fake.host, ADDRESS, timeout=5)
    assert len(writes) == 3


def test_a_drive_in_use_is_not_unbound(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fake = FakeHost(tmp_path)
    writes = bus(fake, monkeypatch)
    fake.driver("vfio-pci")
    fake.domain("/etc/libvirt/qemu/off.xml")
    with pytest.raises(InUseError, match="'guest'"):
        ensure_nvme_driver(fake.host, ADDRESS, timeout=5)
    assert writes == []


def test_what_is_no_drive_stays_on_its_driver(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A card more in the host, and a boot gives the slot's address to another's adapter: let go by
    VFIO it would come to the host's own driver, with all that lies behind it."""
    fake = FakeHost(tmp_path)
    writes = bus(fake, monkeypatch)
    fake.driver("vfio-pci")
    fake.put(f"{FUNCTION}/driver_override", "vfio-pci")
    fake.put(f"{FUNCTION}/class", "0x010700")
    with pytest.raises(AbsentError, match="PCI class 0x010700"):
        ensure_nvme_driver(fake.host, ADDRESS, timeout=5)
    assert writes == []


def test_binding_an_absent_or_dead_drive(tmp_path: Path) -> None:
    fake = FakeHost(tmp_path)
    with pytest.raises(AbsentError):
        ensure_nvme_driver(fake.host, "0000:55:00.0", timeout=1)
    fake.put(f"{CONTROLLER}/state", "dead")
    with pytest.raises(DriveError, match="live NVMe controller"):
        ensure_nvme_driver(fake.host, ADDRESS, timeout=0.05)


def test_writing_where_nothing_is_names_the_file(tmp_path: Path) -> None:
    fake = FakeHost(tmp_path)
    with pytest.raises(DriveError, match="/sys/nowhere/bind"):
        binding._write(fake.host, "/sys/nowhere/bind", "x")
    assert not os.path.exists(fake.path("/sys/nowhere"))
