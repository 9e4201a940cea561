"""A host boots: guests with autostart, and drives that changed places meanwhile."""

from __future__ import annotations

from eraser.protocol.ticket import TicketState
from tests.libvirt.host import Host

DRIVES = 3


def test_autostart_and_swapped_drives(host: Host) -> None:
    """The owner's drive is where it was: started. Two others were swapped: certified and owned ones
    alike are refused, and libvirtd goes on."""
    host.install_gate()
    host.patient_hook()
    stays, swapped, fresh = host.drives
    kept = host.tenant("kept", stays)
    moved = host.tenant("moved", swapped)
    (certified,) = host.control.erase(fresh)
    assert host.control.hand(certified.ticket).state is TicketState.VALID
    new = host.libvirt.define(host.domain("new", fresh))
    for domain in (kept, moved, new):
        host.libvirt.virsh("autostart", domain.name)

    # libvirt does not sync its autostart links, and the lab's sed not the hook.
    host.compute.sh("sync")
    host.rack.power_cut(host.compute)
    host.rack.move(swapped, fresh.slot)
    host.rack.move(fresh, 1)
    host.boot()

    assert host.libvirt.state(kept) == "running"
    assert host.bound(stays, swapped, fresh) == ["vfio-pci", "nvme", "nvme"]
    assert {host.libvirt.state(moved), host.libvirt.state(new)} == {"shut off"}
    assert host.libvirt.log_tail(200).count("Failed to autostart VM") == 2
    assert "another" in host.refused(moved)
    assert "not the certified drive" in host.refused(new)
