"""The lab itself, without our gate: a managed hostdev goes to vfio-pci and comes back."""

from __future__ import annotations

from tests.lab.libvirt.libvirt import HOOKS
from tests.libvirt.host import Host

DRIVES = 2


def test_a_drive_goes_to_its_guest_and_back(host: Host) -> None:
    drive, other = host.drives
    domain = host.domain("tenant", drive)
    assert host.bound(drive, other) == ["nvme", "nvme"]

    host.libvirt.started(domain)
    assert host.libvirt.state(domain) == "paused"
    assert host.bound(drive, other) == ["vfio-pci", "nvme"]
    group = host.compute.sh(f"readlink /sys/bus/pci/devices/{drive.address}/iommu_group").stdout
    held = host.compute.sh(f"ls -l /proc/{host.libvirt.pid(domain)}/fd").stdout
    assert f"/dev/vfio/{group.strip().rpartition('/')[2]}\n" in held

    host.libvirt.destroy(domain)
    assert host.libvirt.state(domain) == "shut off"
    assert host.bound(drive, other) == ["nvme", "nvme"]


def test_the_daemon_calls_hooks_once_it_has_looked_for_them(host: Host) -> None:
    domain = host.domain("tenant")
    file = f"{HOOKS}/50-refuse"
    host.compute.put(file, "#!/bin/sh\n[ $2 != prepare ] || { echo no >&2; exit 1; }\n", mode=0o755)

    host.libvirt.started(domain)
    assert host.libvirt.hook_calls() == []
    pid = host.libvirt.pid(domain)
    host.libvirt.reload()
    host.libvirt.virsh("destroy", "tenant")
    assert not host.libvirt.alive(pid)

    refused = host.libvirt.start(domain)
    assert refused.returncode == 1
    assert refused.stderr.rstrip().endswith("unexpected exit status 1: no")
    calls = [(call.file, call.operation) for call in host.libvirt.hook_calls()]
    # The release of the first guest, then the refused start, which is cleaned up after.
    ended = [(file, "stopped"), (file, "release")]
    assert calls == [*ended, (file, "prepare"), *ended]
    host.compute.sh(f"rm {file}")


def test_a_guest_lives_on_while_the_daemon_restarts(host: Host) -> None:
    drive = host.drives[0]
    domain = host.domain("tenant", drive)
    host.libvirt.started(domain)
    pid = host.libvirt.pid(domain)
    host.libvirt.restart()
    assert (host.libvirt.pid(domain), host.libvirt.alive(pid)) == (pid, True)
    assert host.libvirt.state(domain) == "paused"

    host.libvirt.kill_qemu(domain)
    host.libvirt.settle(domain)
    assert host.libvirt.state(domain) == "shut off"
    assert host.bound(drive) == ["nvme"]
