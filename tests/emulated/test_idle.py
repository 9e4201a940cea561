"""A drive in use is never touched: each use made for real, seen, and gone again."""

from __future__ import annotations

import json
import time
from collections.abc import Callable

import pytest

from tests.lab.rack import Rack
from tests.lab.rack.guests import ComputeGuest

ADDRESS = "0000:01:00.0"
PROVE = """
import json, os, sys
from eraser.host.idle import prove_idle
from eraser.host.sysfs import Host
from eraser.errors import EraserError
try:
    proof = prove_idle(Host(), sys.argv[1], own_pids=frozenset({os.getpid()}), patience=0.2)
    print(json.dumps({"idle": True, "said": proof.address}))
except EraserError as error:
    print(json.dumps({"idle": False, "said": f"{type(error).__name__}: {error}"}))
"""


def prove(compute: ComputeGuest, address: str = ADDRESS) -> tuple[bool, str]:
    """What :func:`eraser.host.idle.prove_idle` says in the guest."""
    done = compute.run(["python3", "-c", PROVE, address], env={"PYTHONPATH": "/opt/src"})
    said = json.loads(done.stdout)
    return said["idle"], said["said"]


def refuse(compute: ComputeGuest, *words: str) -> None:
    """The drive is in use, and what is said names the use."""
    idle, said = prove(compute)
    assert not idle, words
    assert said.startswith("InUseError"), said
    for word in words:
        assert word in said, said


HOLD = """
import os, sys, time
descriptor = os.open(sys.argv[1], os.O_RDONLY)
open(sys.argv[2], "w").close()
time.sleep(3600)
"""


def hold_open(compute: ComputeGuest, path: str, *prefix: str) -> Callable[[], object]:
    """A process that has ``path`` open; returns what ends it."""
    process = compute.spawn([*prefix, "python3", "-c", HOLD, path, "/tmp/holding"])
    compute.wait_for("/tmp/holding")
    compute.sh("rm /tmp/holding")
    return process.kill


@pytest.mark.rack
def test_uses_of_the_host(rack: Rack) -> None:
    for slot in range(2):
        rack.drive(slot, preset="honest", size=512 << 20)
    compute = rack.compute()
    disk = compute.block_device(ADDRESS)
    other = compute.block_device("0000:02:00.0")
    char = f"/dev/{compute.controller(ADDRESS)}"
    assert prove(compute) == (True, ADDRESS)

    def refused(make: str, undo: str, *words: str) -> None:
        compute.sh(make)
        refuse(compute, *words)
        compute.sh(undo)

    compute.sh(f"mkfs.xfs -q -f {disk}; mkdir -p /mnt/a")
    refused(f"mount {disk} /mnt/a", "umount /mnt/a", "mounted", "/mnt/a")
    refused(f"mkdir -p /boot; mount {disk} /boot", "umount /boot", "boot drive")
    refused(f"mkswap -f {disk}; swapon {disk}", f"swapoff {disk}", "swap")
    refused(f"losetup /dev/loop7 {disk}", "losetup -d /dev/loop7", "loop7")
    # By a name that is gone since, as one in a container is.
    by_another = f"cp -a {disk} /tmp/node; losetup /dev/loop7 /tmp/node; rm /tmp/node"
    refused(by_another, "losetup -d /dev/loop7", "loop7")
    refused(
        f"mdadm --create /dev/md7 --run --level 0 --raid-devices 2 {disk} {other}",
        f"mdadm --stop /dev/md7; mdadm --zero-superblock {disk} {other}",
        "md7 (md)",
    )
    refused(
        f"pvcreate -q -y {disk}; vgcreate -q vgx {disk}; lvcreate -q -y -n lvx -L 16M vgx",
        f"vgremove -q -f vgx; pvremove -q -f {disk}",
        "LVM vgx-lvx",
    )
    refused(
        "mkdir -p /etc/libvirt/qemu; cat > /etc/libvirt/qemu/off.xml <<E\n"
        "<domain type='kvm'><name>off</name><devices><hostdev mode='subsystem' type='pci'>"
        "<source><address domain='0x0000' bus='0x01' slot='0x00' function='0x0'/></source>"
        "</hostdev></devices></domain>\nE",
        "rm /etc/libvirt/qemu/off.xml",
        "libvirt domain 'off'",
    )
    for path in (disk, char, disk.replace("nvme", "ng")):
        end = hold_open(compute, path)
        refuse(compute, path)
        end()
    # A name of its own in a mount namespace of its own: only the device tells.
    numbers = compute.sh(f"stat -c '%t %T' {disk}").stdout.split()
    compute.sh(f"mknod /tmp/innocent b 0x{numbers[0]} 0x{numbers[1]}")
    end = hold_open(compute, "/tmp/innocent", "unshare", "-m")
    refuse(compute, "/tmp/innocent")
    end()
    compute.sh(f"mkfs.xfs -q -f {disk}")
    process = compute.spawn(
        ["unshare", "-m", "sh", "-c", f"mount {disk} /mnt/a && touch /tmp/in && exec sleep 3600"]
    )
    compute.wait_for("/tmp/in")
    refuse(compute, "mounted")
    process.kill()
    assert prove(compute) == (True, ADDRESS)


@pytest.mark.rack
def test_ghost_guest_and_rebinding(rack: Rack) -> None:
    """Bound to vfio-pci proves nothing: held it is in use, free it may be bound again."""
    drive = rack.drive(0, preset="honest", size=512 << 20)
    compute = rack.compute()
    compute.hand_over(ADDRESS)
    group = compute.sh(f"basename $(readlink /sys/bus/pci/devices/{ADDRESS}/iommu_group)").stdout
    ensure = (
        "import sys; from eraser.controller.binding import ensure_nvme_driver\n"
        "from eraser.host.sysfs import Host\n"
        "print(ensure_nvme_driver(Host(), sys.argv[1], timeout=20))"
    )
    sent = len(drive.commands())
    end = hold_open(compute, f"/dev/vfio/{group.strip()}", "unshare", "-m")
    refuse(compute, "vfio user")
    rebinding = compute.run(
        ["python3", "-c", ensure, ADDRESS], env={"PYTHONPATH": "/opt/src"}, check=False
    )
    assert compute.driver(ADDRESS) == "vfio-pci"
    end()
    assert rebinding.returncode != 0
    assert "vfio user" in rebinding.stderr
    assert len(drive.commands()) == sent
    assert prove(compute) == (True, ADDRESS)
    for expected in ("True", "False"):
        done = compute.run(["python3", "-c", ensure, ADDRESS], env={"PYTHONPATH": "/opt/src"})
        assert done.stdout.strip() == expected
    assert compute.driver(ADDRESS) == "nvme"
    assert compute.sh(f"cat /sys/bus/pci/devices/{ADDRESS}/driver_override").stdout == "(null)\n"


SETUP = """
import sys
from eraser.defences import hostrules
changes = hostrules.plan(sys.argv[1:])
print("".join(change.diff() for change in changes))
commands = hostrules.apply(changes)
assert hostrules.check(sys.argv[1:]) == (), hostrules.check(sys.argv[1:])
print(";".join(commands))
"""


@pytest.mark.rack
@pytest.mark.parametrize("rules", [False, True], ids=["without-host-setup", "with-host-setup"])
def test_what_a_tenant_left(rack: Rack, rules: bool) -> None:
    """An md member, a volume group and partitions come back with the drive: nothing acts on them.

    Without the rules Debian assembles them, which shows that the test would see it.
    """
    slots = ["0000:01:00.0", "0000:02:00.0", "0000:03:00.0"]
    for number in range(3):
        rack.drive(number, preset="honest", size=512 << 20)
    compute = rack.compute()
    array, volumes, table = (compute.block_device(slot) for slot in slots)
    compute.sh(
        f"mdadm --create /dev/md/left --run --level 0 --force --raid-devices 1 {array};"
        "mkfs.xfs -q -f /dev/md/left; mdadm --stop /dev/md/left;"
        f"pvcreate -q -y {volumes}; vgcreate -q hostvg {volumes};"
        "lvcreate -q -y -n root -L 16M hostvg; vgchange -q -an hostvg;"
        f"echo ',,L' | sfdisk -q --no-reread {table}; udevadm settle;"
        f"mkfs.xfs -q -f -L LEFTOVER {table}p1; udevadm settle"
    )
    if rules:
        done = compute.run(["python3", "-c", SETUP, *slots], env={"PYTHONPATH": "/opt/src"})
        print(done.stdout)
        for line in done.stdout.splitlines()[-1].split(";"):
            if "initramfs" not in line:
                compute.sh(line)
    for slot in slots:
        compute.hand_over(slot)
        compute.take_back(slot)
    compute.sh("udevadm settle")
    traces = ("active", "hostvg-root", "LEFTOVER", "ID_FS_TYPE", "ID_PART_TABLE")
    # udev may hear of a partition later, and LVM's rule starts a service: nobody can wait for them.
    deadline = time.monotonic() + (0 if rules else 60)
    while True:
        seen = compute.sh(
            "set +e; cat /proc/mdstat; ls /dev/mapper /dev/disk/by-label /dev/disk/by-uuid "
            "2>/dev/null; for d in /sys/class/block/nvme*; do udevadm info -q property $d; done; "
            "true"
        ).stdout
        if all(trace in seen for trace in traces) or time.monotonic() > deadline:
            break
        time.sleep(1)
    by_hand = compute.sh(
        "set +e; mdadm --assemble --scan 2>&1; vgs 2>&1; vgchange -ay 2>&1; true"
    ).stdout
    after = compute.sh("cat /proc/mdstat; ls /dev/mapper").stdout
    # The host's own volume group of that name: LVM must see no other.
    own = compute.sh(
        "truncate -s 64M /tmp/own.img; losetup /dev/loop6 /tmp/own.img;"
        "pvcreate -q -y /dev/loop6 && vgcreate hostvg /dev/loop6 && vgs --noheadings -o vg_name",
        check=False,
    )
    if not rules:
        for trace in traces:
            assert trace in seen
        assert "already exists" in own.stderr
        return
    for trace in traces:
        assert trace not in seen, (trace, seen)
    assert seen.count("SYSTEMD_READY=0") == 4
    assert "hostvg" not in by_hand, by_hand
    assert own.stdout.split()[-1] == "hostvg", own.stderr
    assert own.stdout.split().count("hostvg") == 1, own.stdout
    assert "active" not in after, (by_hand, after)
    assert "hostvg" not in after, (by_hand, after)
    assert all(prove(compute, slot)[0] for slot in slots)
