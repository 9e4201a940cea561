"""The facts and the wish, as plain values. Nothing here looks at a machine."""

from __future__ import annotations

import enum
from dataclasses import dataclass


class Content(enum.Enum):
    """What the sampled parts of a device hold."""

    UNIFORM = "blank"
    """One short pattern over and over in every sampled block: zeros, ones, an overwrite's."""
    NOISE = "random bytes"
    """Some blocks look random, all others are uniform: what a crypto erase leaves."""
    DATA = "data"
    """At least one block is neither."""
    UNREADABLE = "unreadable"


@dataclass(frozen=True)
class Sampled:
    """The verdict over the samples. ``where`` is the byte offset of the first block behind it."""

    content: Content
    where: int = 0


@dataclass(frozen=True)
class Member:
    """The md superblock of one drive (version 1.2), numbers as the kernel keeps them."""

    uuid: str
    """In mdadm's notation: four groups of eight digits."""
    name: str
    """As stored: with the home host before a colon where there is one."""
    level: int
    devices: int
    chunk: int
    """Bytes."""
    role: int
    """Its place in the array, from 0; 0xfffe and up are spares and the like."""

    @property
    def local_name(self) -> str:
        """The name without a home host."""
        return self.name.rpartition(":")[2]


@dataclass(frozen=True)
class Filesystem:
    """An XFS, from its superblock. Lengths in bytes; stripe lengths are 0 where none was given."""

    uuid: str
    label: str
    stripe_unit: int
    stripe_width: int
    log_stripe_unit: int
    unfinished: bool = False
    """Whether mkfs.xfs was cut short: no kernel mounts it, so nobody ever wrote to it."""


@dataclass(frozen=True)
class Device:
    """What is the same for a drive and an array."""

    name: str
    """The kernel's present name, without /dev."""
    partitions: tuple[str, ...] = ()
    holders: tuple[str, ...] = ()
    """Kernel names of what is built on it: md arrays, device mapper."""
    swap: bool = False
    read_only: bool = False
    busy: bool = False
    """Whether an exclusive open was refused."""
    exports: tuple[str, ...] = ()
    """What the kernel has built on it without a claim: loop devices, nvmet's namespaces."""
    openers: tuple[str, ...] = ()
    """Programs that have it open and keep nobody out; asked only where something may be made."""
    signatures: tuple[str, ...] = ()
    """What blkid, wipefs and mdadm recognise, but for an md 1.2 superblock and for one XFS."""
    filesystem: Filesystem | None = None
    sampled: Sampled = Sampled(Content.UNIFORM)
    """Meaningless where there is a member, a filesystem or a signature: nobody asks then."""

    @property
    def bare(self) -> bool:
        """Whether no filesystem is on it that anybody could have used."""
        return self.filesystem is None or self.filesystem.unfinished

    @property
    def path(self) -> str:
        """The device node."""
        return f"/dev/{self.name}"


@dataclass(frozen=True)
class Drive(Device):
    """One NVMe namespace of the machine."""

    address: str = ""
    """PCI address."""
    model: str = ""
    serial: str = ""
    size: int = 0
    """Bytes."""
    system: bool = False
    """Whether the running system is on it: /, /boot, /usr, /var or the EFI system partition."""
    member: Member | None = None

    @property
    def title(self) -> str:
        """How a person finds it."""
        return f"{self.path} ({self.address}, serial {self.serial or 'none'})"


@dataclass(frozen=True)
class Running(Device):
    """An md array that the kernel has now, made of at least one of the NVMe drives."""

    members: tuple[str, ...] = ()
    """Kernel names of its devices."""
    active: bool = True
    linked: tuple[str, ...] = ()
    """Names below /dev/md that lead to it."""
    given: str = ""
    """The name that mdadm gave it, which udev makes the link from."""


@dataclass(frozen=True)
class Mounted:
    """One line of the mount table."""

    point: str
    device: str
    """Kernel name of the block device, or the source where there is none."""
    options: tuple[str, ...]


@dataclass(frozen=True)
class Platform:
    """Where this distribution keeps things."""

    mdadm_conf: str
    rebuild: tuple[str, ...] = ()
    """The command that makes the initramfs anew; none where the machine has no such program."""
    dracut: bool = False
    systemd: bool = False
    """Whether systemctl is there."""


@dataclass(frozen=True)
class Machine:
    """All facts, looked at once."""

    platform: Platform
    drives: tuple[Drive, ...]
    arrays: tuple[Running, ...]
    mounts: tuple[Mounted, ...]
    taken_nodes: tuple[str, ...] = ()
    """Names below /dev/md that lead to arrays of other drives."""
    files: tuple[tuple[str, str], ...] = ()
    """Text of each managed file that exists, by path."""
    point: str = ""
    """The mount point without links, as the mount table has it."""
    directories: tuple[str, ...] = ()
    """Which of the mount point and its like exist."""
    crowded: bool = False
    """Whether the mount point is a directory with files in it and nothing mounted on it."""
    no_directory: str = ""
    """What is found in place of the mount point, where that cannot be a directory."""
    trim_enabled: bool = False
    initramfs_stamp: str = ""

    def text(self, path: str) -> str | None:
        """The text of a managed file, or None where there is none."""
        return dict(self.files).get(path)


@dataclass(frozen=True)
class Wish:
    """What the tenant wants. Checked by :func:`wish.checked`."""

    drives: int
    name: str = "nvme"
    label: str = "nvme"
    mount: str = "/mnt/nvme"
    chunk: int = 512 << 10
    """Bytes."""
    only: tuple[str, ...] = ()
    """Patterns over PCI address, serial and model; none means every drive."""
    require_blank: bool = False
    device_timeout: int = 30
    """Seconds that systemd waits for the device at boot."""
    options: tuple[str, ...] = ("noatime",)
    before: tuple[str, ...] = ()
    """systemd units that start after the mount and need it."""
    trim: bool = True
    initramfs: bool = True

    @property
    def node(self) -> str:
        """The array's lasting name."""
        return f"/dev/md/{self.name}"
