"""A made-up machine in a directory: one drive on the nvme driver, used by nobody.

The drive's character nodes carry the numbers of /dev/null and /dev/zero, so that a descriptor in
the made-up /proc can lead to a device that really exists, without being root.
"""

from __future__ import annotations

import os
from pathlib import Path

from eraser.clock import Clock
from eraser.host.proc import ALL_PIDS
from eraser.host.sysfs import Host

ADDRESS = "0000:01:00.0"
FUNCTION = f"/sys/bus/pci/devices/{ADDRESS}"
CONTROLLER = f"{FUNCTION}/nvme/nvme5"
DISK = f"{CONTROLLER}/nvme5n1"
NULL, ZERO = "1:3", "1:5"

DOMAIN = """<domain type='kvm'><name>{name}</name><devices>
<hostdev mode='subsystem' type='pci' managed='yes'>
<source><address domain='0x0000' bus='{bus}' slot='0x00' function='0x0'/></source>
<address type='pci' domain='0x0000' bus='0x01' slot='0x00' function='0x0'/>
</hostdev></devices></domain>"""


class LongUp(Clock):
    """Booted a day before the machine of the tests, which may have been up for a minute."""

    def boottime(self) -> float:
        return super().boottime() + 86400.0


class FakeHost:
    """Builds and changes the tree; :attr:`host` is what the code under test sees."""

    def __init__(self, root: Path, nvme: str = "nvme") -> None:
        self.root = root
        self.host = Host(root, nvme, clock=LongUp())
        self._function()
        self._disk(DISK, "259:0", nsid="1")
        self._disk(f"{DISK}/nvme5n1p1", "259:1", partition="1")
        self.put(f"{CONTROLLER}/ng5n1/dev", ZERO)
        self.put("/sys/devices/sda/dev", "8:0")
        self.put("/sys/devices/sda/sda1/dev", "8:1")
        self.put("/sys/devices/sda/sda1/partition", "1")
        self.link("/sys/dev/block/8:1", "/sys/devices/sda/sda1")
        self.link("/sys/class/block/sda1", "/sys/devices/sda/sda1")
        self.link("/proc/self/ns/pid", ALL_PIDS)
        self.put("/proc/swaps", "Filename\tType\tSize\tUsed\tPriority")
        self.put("/proc/cmdline", "root=/dev/sda1 ro")
        self.put("/proc/sys/kernel/random/boot_id", "boot-1")
        self.process(1, "init", mountinfo="22 1 8:1 / / rw - ext4 /dev/sda1 rw")
        self.process(40, "sshd", mountinfo="22 1 8:1 / / rw - ext4 /dev/sda1 rw")

    def path(self, absolute: str) -> Path:
        return self.root / absolute.lstrip("/")

    def put(self, absolute: str, text: str) -> None:
        path = self.path(absolute)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text + "\n")

    def link(self, absolute: str, target: str) -> None:
        """``target`` is below our root, except for a descriptor's and a namespace's."""
        path = self.path(absolute)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.symlink_to(self.path(target) if target.startswith("/sys/") else target)

    def process(self, pid: int, name: str, *, mountinfo: str, fds: tuple[str, ...] = ()) -> None:
        place = f"/proc/{pid}"
        self.put(f"{place}/comm", name)
        self.put(f"{place}/mountinfo", mountinfo)
        self.link(f"{place}/ns/mnt", f"mnt:[{pid}]")
        self.link(f"{place}/root", "/")
        self.path(f"{place}/fd").mkdir()
        for number, target in enumerate(fds):
            self.link(f"{place}/fd/{number}", target)

    def driver(self, name: str | None) -> None:
        path = self.path(f"{FUNCTION}/driver")
        path.unlink(missing_ok=True)
        if name is not None:
            self.link(f"{FUNCTION}/driver", f"../../../bus/pci/drivers/{name}")

    def domain(self, path: str, bus: str = "0x01", name: str = "guest") -> None:
        self.put(path, DOMAIN.format(bus=bus, name=name))

    def _function(self) -> None:
        ids = {"vendor": "0x1b36", "device": "0x0010"}
        ids |= {"subsystem_vendor": "0x1af4", "subsystem_device": "0x1100"}
        for name, value in ids.items():
            self.put(f"{FUNCTION}/{name}", value)
        self.driver("nvme")
        self.link(f"{FUNCTION}/iommu_group", "../../../kernel/iommu_groups/9")
        self.put(f"{FUNCTION}/resource0", "")
        self.put(f"{CONTROLLER}/dev", NULL)
        self.put(f"{CONTROLLER}/state", "live")
        self.path("/dev").mkdir(parents=True)
        self.path("/dev/nvme5").symlink_to("/dev/null")
        self.seen("nvme5", ADDRESS, "SERIAL1", "MODEL")

    def seen(self, name: str, address: str, serial: str, model: str) -> None:
        """A controller as /sys/class/nvme shows it."""
        for attribute, value in (("address", address), ("serial", serial), ("model", model)):
            self.put(f"/sys/class/nvme/{name}/{attribute}", value)

    def _disk(self, directory: str, numbers: str, **attributes: str) -> None:
        self.put(f"{directory}/dev", numbers)
        self.path(f"{directory}/holders").mkdir()
        for name, value in attributes.items():
            self.put(f"{directory}/{name}", value)
        name = os.path.basename(directory)
        self.link(f"/sys/class/block/{name}", directory)
        self.link(f"/sys/dev/block/{numbers}", directory)
