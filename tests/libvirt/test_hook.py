"""What opens the gate, and that the host tells of it."""

from __future__ import annotations

import pytest

from eraser.protocol.ticket import Defence, DefenceSeen, DefenceStanding
from tests.lab.libvirt.libvirt import HOOKS
from tests.lab.services.process import wait_until
from tests.libvirt.host import OUR_HOOK, PATIENCE, Host

DRIVES = 3


@pytest.fixture
def gate(host: Host) -> None:
    """Whatever an earlier test did to the hook, it is there now, and called."""
    host.install_gate()


def test_guests_of_before_are_adopted(host: Host) -> None:
    """The gate comes to a host with guests: they go on and restart, and nobody else gets in."""
    drive, off, free = host.drives
    running, shut = host.domain("running", drive), host.domain("shut-off", off)
    host.libvirt.define(shut)
    host.libvirt.started(running)
    pid = host.libvirt.pid(running)
    host.install_gate()
    host.patient_hook()
    assert host.libvirt.alive(pid)
    assert "gate adopt" in host.refused(shut)
    host.libvirt.define(shut)
    assert not host.recorded("running")

    host.gate("adopt")
    assert host.recorded("running")
    host.libvirt.destroy(running)
    host.libvirt.started(running)
    host.libvirt.started(shut)
    host.libvirt.destroy(running)
    host.refused(host.domain("thief", drive))
    host.refused(host.domain("stranger", free))


@pytest.mark.usefixtures("gate")
def test_hot_plug_passes_by_and_is_told(host: Host) -> None:
    own, added, _ = host.drives
    host.patient_hook()
    domain = host.tenant("tenant", own)
    assert host.recorded("tenant")
    calls = len(host.libvirt.hook_calls())

    assert host.libvirt.attach(domain, added.address).returncode == 0
    assert host.bound(added) == ["vfio-pci"]
    assert len(host.libvirt.hook_calls()) == calls
    seen = host.seen("tenant")
    assert (seen.recorded, set(seen.addresses)) == (False, {own.address, added.address})


@pytest.mark.usefixtures("gate")
@pytest.mark.parametrize("spoiled", ["removed", "not executable", "emptied"])
def test_a_hook_that_is_not_called_is_told(host: Host, spoiled: str) -> None:
    """libvirt says nothing of it and starts every guest: the only defence is that we say it."""
    drive = host.drives[0]
    assert host.standing(Defence.HOOK) is DefenceStanding.PRESENT
    assert host.standing(Defence.LOADED) is DefenceStanding.PRESENT
    host.patient_hook()
    host.used(drive)
    domain = host.domain("tenant", drive)
    host.refused(domain)
    if spoiled == "not executable":
        host.compute.sh(f"chmod 644 {OUR_HOOK}")
    else:
        host.compute.sh(f"rm {OUR_HOOK}")
    if spoiled == "emptied":
        host.libvirt.restart()

    assert host.standing(Defence.HOOK) is DefenceStanding.ABSENT
    host.libvirt.started(domain)
    assert not host.recorded("tenant")


@pytest.mark.usefixtures("gate")
def test_a_hook_that_came_after_the_daemon_looked_is_told(host: Host) -> None:
    """The directory was empty when libvirtd started: no file there is called before a HUP."""
    drive = host.drives[0]
    host.used(drive)
    domain = host.domain("tenant", drive)
    host.compute.sh(f"mv {OUR_HOOK} /etc/libvirt/kept")
    host.libvirt.restart()
    host.compute.sh(f"mv /etc/libvirt/kept {OUR_HOOK}")
    assert host.standing(Defence.HOOK) is DefenceStanding.PRESENT
    assert host.standing(Defence.LOADED) is DefenceStanding.ABSENT
    host.libvirt.started(domain)
    host.libvirt.destroy(domain)

    host.patient_hook()
    host.libvirt.reload()
    host.refused(domain)
    assert host.standing(Defence.LOADED) is DefenceStanding.PRESENT


@pytest.mark.usefixtures("gate")
def test_the_hello_carries_it(host: Host) -> None:
    host.compute.sh(f"rm -r {HOOKS}")
    standing: dict[Defence, DefenceSeen] = {}

    def is_known() -> bool:
        testimony = host.control.hello().gate
        assert testimony is not None
        standing.update((seen.defence, seen) for seen in testimony.defences)
        return standing[Defence.HOOK].standing is not DefenceStanding.UNKNOWN

    # A busy machine leaves the look no time, and then it says so.
    wait_until(is_known, "a word on the hook", PATIENCE)
    assert standing[Defence.HOOK].standing is DefenceStanding.ABSENT
    assert "host-setup" in standing[Defence.HOOK].detail
