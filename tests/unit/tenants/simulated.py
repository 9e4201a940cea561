"""A stand-in for a tenant's machine: facts that steps change as the real programs would.

What the real programs do is seen in tests/tenants; this is for the decisions' many cases.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from nvme_raid import files
from nvme_raid.model import (
    Drive,
    Filesystem,
    Machine,
    Member,
    Mounted,
    Platform,
    Running,
    Wish,
)
from nvme_raid.steps import (
    Assemble,
    CreateArray,
    EnableTrim,
    MakeDirectory,
    MakeXfs,
    Mount,
    RebuildInitramfs,
    Relabel,
    Relink,
    Remount,
    Step,
    WriteFile,
)

DEBIAN = Platform("/etc/mdadm/mdadm.conf", ("update-initramfs", "-u"), systemd=True)
LIVE = ("rw", "noatime")


def drive(number: int, **facts: Any) -> Drive:
    """A free drive."""
    return Drive(
        f"nvme{number}n1",
        **{
            "address": f"0000:{number + 1:02x}:00.0",
            "model": "LAB DRIVE",
            "serial": f"LAB{number}",
            "size": 1 << 30,
            **facts,
        },
    )


def fresh(count: int, **facts: Any) -> Machine:
    """A machine with free drives."""
    mounts = (Mounted("/", "vda1", LIVE),)
    given = {"platform": DEBIAN, "arrays": (), "mounts": mounts, **facts}
    return Machine(drives=tuple(drive(number) for number in range(count)), **given)


class Simulated:
    """Give ``look`` and ``act`` to ``converge``."""

    def __init__(self, machine: Machine) -> None:
        self.machine = machine
        self.made = 0
        self.initramfs: str | None = None
        """mdadm.conf as it was when the initramfs was made."""

    def look(self, wish: Wish) -> Machine:
        """The facts."""
        return self.machine

    def set(self, **facts: Any) -> None:
        """Change facts."""
        self.machine = replace(self.machine, **facts)

    def set_drive(self, name: str, **facts: Any) -> None:
        """Change facts of one drive."""
        self.set(
            drives=tuple(
                replace(drive, **facts) if drive.name == name else drive
                for drive in self.machine.drives
            )
        )

    def set_array(self, **facts: Any) -> None:
        """Change facts of the array."""
        self.set(arrays=tuple(replace(array, **facts) for array in self.machine.arrays))

    def unmount(self) -> None:
        """Only the system stays mounted."""
        self.set(mounts=self.machine.mounts[:1])

    def reboot(self) -> None:
        """The array is assembled by udev under its name; nothing is mounted yet."""
        self.unmount()

    def other_drives(self) -> None:
        """Stop and start: the root disk is the same, the drives are free ones."""
        self.unmount()
        self.set(
            arrays=(), drives=tuple(drive(number) for number in range(len(self.machine.drives)))
        )

    def act(self, step: Step) -> None:
        """Do as the programs would."""
        machine = self.machine
        match step:
            case CreateArray():
                self._create(step)
            case Assemble():
                names = tuple(path.rpartition("/")[2] for path in step.devices)
                name = step.node.rpartition("/")[2]
                array = machine.arrays[0] if machine.arrays else Running("md127")
                array = replace(array, members=names, active=True, linked=(name,), given=name)
                self.set(arrays=(replace(array, filesystem=self._kept),))
            case Relink():
                self.set_array(linked=(machine.arrays[0].given,))
            case MakeXfs():
                self.made += 1
                unit = step.stripe_unit
                made = Filesystem(
                    f"uuid-{self.made}", step.label, unit, unit * step.stripe_count, 0
                )
                self._kept = made
                if machine.arrays:
                    self.set_array(filesystem=made)
                else:
                    self.set_drive(step.device.rpartition("/")[2], filesystem=made)
            case Relabel():
                found = machine.arrays[0].filesystem
                assert found is not None
                self.set_array(filesystem=replace(found, label=step.label))
            case WriteFile():
                assert machine.text(step.path) == step.before
                if step.voids:
                    assert step.voids == files.STAMP
                    self.set(initramfs_stamp="")
                    machine = self.machine
                self.set(files=tuple({**dict(machine.files), step.path: step.after}.items()))
            case RebuildInitramfs():
                self.initramfs = machine.text(machine.platform.mdadm_conf)
                self.set(initramfs_stamp=step.stamp)
            case MakeDirectory():
                self.set(directories=(*machine.directories, step.path))
            case Mount() | Remount():
                self._mount(step.point)
            case EnableTrim():
                self.set(trim_enabled=True)

    _kept: Filesystem | None = None

    def _create(self, step: CreateArray) -> None:
        self.made += 1
        self._kept = None
        uuid = ":".join([f"{self.made:08x}"] * 4)
        names = [path.rpartition("/")[2] for path in step.devices]
        for role, name in enumerate(names):
            member = Member(uuid, step.name, 0, len(names), step.chunk, role)
            self.set_drive(name, member=member, holders=("md127",), busy=True)
        array = Running("md127", members=tuple(names), linked=(step.name,), given=step.name)
        self.set(arrays=(array,))

    def _mount(self, point: str) -> None:
        machine = self.machine
        fields = [
            line.split()
            for line in (machine.text("/etc/fstab") or "").splitlines()
            if line.split()[1:2] == [point]
        ]
        assert point in machine.directories
        assert len(fields) == 1
        devices = machine.arrays or machine.drives
        found = {f"UUID={one.filesystem.uuid}": one for one in devices if one.filesystem}
        here = found[fields[0][0]]
        self.unmount()
        options = ("rw", *fields[0][3].split(","))
        self.set(mounts=(*self.machine.mounts, Mounted(point, here.name, options)))
