"""Who may start on which drive: the last gate, asked by a real libvirtd."""

from __future__ import annotations

import pytest

from eraser.protocol.report import Outcome
from eraser.protocol.ticket import TicketState
from tests.lab.libvirt.domains import Domain
from tests.libvirt.host import Host

DRIVES = 4


@pytest.fixture(scope="module", autouse=True)
def gate(host: Host) -> None:
    """Every test here is about a host whose gate is up."""
    host.install_gate()
    host.patient_hook()
    host.start_watcher()
    host.gate("adopt")


def test_a_certified_drive_starts_one_guest_once(host: Host) -> None:
    """A ticket is used up by its start; the guest's own restarts need none; nobody else gets in."""
    drive = host.drive()
    first, second = host.domain("first", drive), host.domain("second", drive)

    said = host.refused(first)
    assert drive.address in said
    assert "nvme-quarantine slot release" in said
    assert host.bound(drive) == ["nvme"]

    (certified,) = host.control.erase(drive)
    host.refused(first)
    receipt = host.control.hand(certified.ticket)
    assert (receipt.state, receipt.reason) == (TicketState.VALID, "")
    host.libvirt.started(first)
    assert host.bound(drive) == ["vfio-pci"]
    assert host.control.hand(certified.ticket).state is TicketState.USED

    pid = host.libvirt.pid(first)
    host.libvirt.restart()
    assert host.libvirt.alive(pid)
    assert host.libvirt.state(first) == "paused"

    host.libvirt.destroy(first)
    assert "'first'" in host.refused(second)
    host.libvirt.started(first)  # a hard reboot

    # The guest's end, as the kernel brings it about when memory is short.
    host.libvirt.kill_qemu(first)
    host.libvirt.settle(first)
    assert "'first'" in host.refused(second)
    host.libvirt.started(first)
    host.libvirt.destroy(first)

    host.libvirt.undefine(first)
    assert "'first'" in host.refused(second)
    (certified,) = host.control.erase(drive)
    assert certified.report.last_owner is not None
    assert certified.report.last_owner.domain == first.uuid
    assert host.control.hand(certified.ticket).state is TicketState.VALID
    host.libvirt.started(second)
    host.libvirt.destroy(second)
    assert "'second'" in host.refused(first)


def test_no_erase_while_the_owner_exists(host: Host) -> None:
    """A suspended server's domain no longer names its drive, and still has it."""
    drive = host.drive()
    owner = host.tenant("owner", drive)
    host.libvirt.destroy(owner)
    host.libvirt.define(Domain(owner.name, (), owner.uuid))

    order = host.control.order(drive)
    host.control.send(order)
    report = host.control.report(order)
    assert (report.outcome, report.methods) == (Outcome.IN_USE, ())
    assert f"{owner.name}.xml" in report.reasons[0]

    host.libvirt.started(owner)


def test_nobody_starts_on_a_drive_that_is_being_erased(host: Host) -> None:
    drive = host.drive()
    domain = host.domain("early", drive)
    (certified,) = host.control.erase(drive)
    assert host.control.hand(certified.ticket).state is TicketState.VALID

    host.slow(drive)
    sent = drive.commands()[-1].seq
    order = host.control.order(drive)
    host.control.send(order)
    host.wait_sanitizing(drive, sent)
    assert "erase" in host.refused(domain)
    assert host.bound(drive) == ["nvme"]

    # Neither does a dead worker's case leave the drive open.
    assert host.control.worker.signal(9)
    host.refused(domain)
    host.control.worker = host.control.start_worker()
    host.mend_drives()
    ended = host.control.certified(order)
    assert host.control.hand(ended.ticket).state is TicketState.VALID
    host.libvirt.started(domain)


def test_a_drive_that_was_written_to_is_refused(host: Host) -> None:
    drive = host.drive()
    (certified,) = host.control.erase(drive)
    assert host.control.hand(certified.ticket).state is TicketState.VALID
    host.used(drive)
    domain = host.domain("tenant", drive)

    assert "used since it was certified" in host.refused(domain)
    assert host.bound(drive) == ["nvme"]
    assert host.control.hand(certified.ticket).state is TicketState.VOID


def test_both_drives_or_none(host: Host) -> None:
    """One of two drives is bad: nothing is used up, nothing is unbound."""
    good, bad = host.drive(), host.drive()
    (certified,) = host.control.erase(good)
    assert host.control.hand(certified.ticket).state is TicketState.VALID
    pair = host.domain("pair", good, bad)

    said = host.refused(pair)
    assert bad.address in said
    assert f"{good.address}:" not in said
    assert host.bound(good, bad) == ["nvme", "nvme"]
    assert host.control.hand(certified.ticket).state is TicketState.VALID

    (other,) = host.control.erase(bad)
    assert host.control.hand(other.ticket).state is TicketState.VALID
    host.libvirt.started(pair)
    assert host.bound(good, bad) == ["vfio-pci", "vfio-pci"]


def test_a_person_lets_one_guest_in_once(host: Host) -> None:
    drive = host.drive()
    host.used(drive)
    domain, other = host.domain("urgent", drive), host.domain("other", drive)
    host.refused(domain)

    host.gate("allow", "--once", "--pci", drive.address, "--reason", "3 a.m., ticket 4711")
    host.libvirt.started(domain)
    host.libvirt.destroy(domain)
    host.refused(other)
    testimony = host.control.hello().gate
    assert testimony is not None
    used = testimony.allowances[-1]
    assert (used.address, used.domain) == (drive.address, domain.uuid)
    assert used.reason == "3 a.m., ticket 4711"


def test_a_file_of_somebody_else_refuses_beside_ours(host: Host) -> None:
    """All files run although one has failed: the drive is given, the guest's next try gets it."""
    drive = host.drive()
    (certified,) = host.control.erase(drive)
    assert host.control.hand(certified.ticket).state is TicketState.VALID
    domain, other = host.domain("tenant", drive), host.domain("other", drive)

    with host.hook_file("10-other", "#!/bin/sh\n[ $2 != prepare ] || exit 3\n"):
        assert "10-other" in host.refused(domain)
    assert host.bound(drive) == ["nvme"]
    host.refused(other)
    host.libvirt.started(domain)


def test_a_guest_without_nvme_is_not_asked(host: Host) -> None:
    """Also where our own program is broken; a guest with a drive is then refused in one line."""
    drive = host.drive()
    plain, tenant = host.domain("plain"), host.tenant("tenant", drive)
    host.libvirt.destroy(tenant)
    with host.without_eraser():
        host.libvirt.started(plain)
        said = host.refused(tenant)
    assert len(said.splitlines()) == 1
    assert "an answer from the gate in" in said
    host.libvirt.started(tenant)
