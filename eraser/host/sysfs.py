"""This host as its kernel describes it: PCI functions, NVMe controllers, their block devices.

Everything is found by PCI address. Names such as nvme0 are only ever read from below the address,
because the kernel deals them out by order of appearance.
"""

from __future__ import annotations

import errno
import fcntl
import os
import re
import stat
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from eraser.clock import MACHINE, Clock
from eraser.errors import BadInputError, DriveError
from eraser.host.children import CHILDREN, Processes
from eraser.protocol.identity import pci_address

POLL = 0.02
"""Seconds between two looks at sysfs while waiting for the kernel."""

_CONTROLLER = re.compile(r"nvme\d+")
_DISK = re.compile(r"nvme\d+n\d+")
_HIDDEN = re.compile(r"(nvme\d+)c\d+(n\d+)")
_GENERIC = re.compile(r"ng\d+n\d+")


class AbsentError(DriveError):
    """No NVMe controller answers at the slot."""


@dataclass(frozen=True, order=True)
class Node:
    """A device node of a drive: its name below /dev, its numbers, and what it is."""

    name: str
    major: int
    minor: int
    block: bool
    """A disk or partition; otherwise a character device."""

    @property
    def rdev(self) -> int:
        """As ``os.stat_result.st_rdev`` has it."""
        return os.makedev(self.major, self.minor)

    @property
    def device(self) -> tuple[bool, int]:
        """Block or not, and ``st_rdev``: block and character devices share their numbers."""
        return self.block, self.rdev

    @property
    def numbers(self) -> str:
        """``259:0``, as in mountinfo."""
        return f"{self.major}:{self.minor}"


class Devices:
    """The door to device nodes, and to the calls that are made on them."""

    def open(self, path: Path, node: Node, flags: int) -> int:
        """A descriptor of a node that really is the device. Raises ``OSError``,
        :class:`DriveError`."""
        # O_CLOEXEC: a program that we start must not keep the drive open.
        descriptor = os.open(path, flags | os.O_CLOEXEC)
        found = os.fstat(descriptor)
        kind = stat.S_ISBLK if node.block else stat.S_ISCHR
        # Checked on the descriptor: a check of the path could be of another node than the open.
        if not kind(found.st_mode) or found.st_rdev != node.rdev:
            os.close(descriptor)
            raise DriveError(
                f"expected device {node.numbers} at {path}, found another; is udev running?"
            )
        return descriptor

    def ioctl(self, descriptor: int, request: int, argument: bytearray) -> int:
        """ioctl(2), which may change ``argument``. Raises ``OSError``."""
        return int(fcntl.ioctl(descriptor, request, argument, True))


DEVICES: Final = Devices()


@dataclass(frozen=True)
class Host:
    """The machine, and the doors to all of it: one for each kind of input and output.

    By default they are this machine's own. Made once by each entry point and handed on from there;
    a simulator makes its own, and everything below runs on it: tests/lab/nvme/linux is one. Beside
    it stand the doors of single rooms: a namespace's blocks (:mod:`eraser.media.reader`), durable
    files (:mod:`eraser.state.journal`), the bell, the broker and the kernel's events
    (:mod:`eraser.agent`).
    """

    root: Path = Path("/")
    """Where its file systems are: / on a real host, a directory of samples in tests."""
    nvme: str = "nvme"
    """Which nvme-cli it has."""
    clock: Clock = MACHINE
    processes: Processes = CHILDREN
    devices: Devices = DEVICES
    chance: Callable[[int], bytes] = os.urandom
    """So many bytes that nobody can foresee."""

    def path(self, absolute: str) -> Path:
        """``/sys/...`` below the root."""
        return self.root / absolute.lstrip("/")

    def text(self, absolute: str) -> str:
        """A small file without its line end. Raises ``OSError``."""
        return self.path(absolute).read_bytes().decode("utf-8", "surrogateescape").rstrip("\n")

    def firmware_text(self, absolute: str) -> str:
        """As :meth:`text`, of what a drive's firmware says: any bytes, as Latin-1 as everywhere."""
        return self.path(absolute).read_bytes().decode("latin-1").rstrip("\n")

    def children(self, absolute: str) -> list[str]:
        """Names in a directory, sorted; none where it does not exist. Raises other ``OSError``."""
        try:
            return sorted(os.listdir(self.path(absolute)))
        except FileNotFoundError:
            return []

    def link(self, absolute: str) -> str | None:
        """The last component that a link points to; None where there is none."""
        try:
            return os.path.basename(os.readlink(self.path(absolute)))
        except FileNotFoundError:
            return None

    def boot_id(self) -> str:
        """Which boot this is. Raises ``OSError``."""
        return self.text("/proc/sys/kernel/random/boot_id").strip()

    def wait_for(self, what: str, timeout: float, ready: Callable[[], bool]) -> None:
        """Polls until ``ready``. Raises :class:`DriveError` after ``timeout`` seconds."""
        deadline = self.clock.monotonic() + timeout
        while not ready():
            if self.clock.monotonic() >= deadline:
                raise DriveError(f"expected {what} within {timeout:g} s, found nothing of it")
            self.clock.sleep(POLL)


def numbers(text: str, what: str) -> tuple[int, int]:
    """``259:0`` to a pair. Raises :class:`DriveError`."""
    match = re.fullmatch(r"(\d+):(\d+)", text.strip())
    if match is None:
        raise DriveError(f"{what}: expected device numbers such as 259:0, found {text!r}")
    return int(match[1]), int(match[2])


GONE = frozenset({errno.ENOENT, errno.ENODEV, errno.ENXIO})
"""What reading in sysfs meets where the device is just being removed (fs/kernfs/file.c: ENODEV
where the attribute was still found)."""


NVME_CLASS = "0x010802"
"""PCI class code: mass storage, non-volatile memory, NVM Express (PCI Code and ID, 1.1)."""


class PciFunction:
    """One PCI function, read anew with every question: nothing here is remembered."""

    def __init__(self, host: Host, address: str) -> None:
        """Raises :class:`BadInputError` for what is no PCI address."""
        try:
            self.address = pci_address(address)
        except ValueError as error:
            raise BadInputError(str(error)) from error
        self.host = host
        self.directory = f"/sys/bus/pci/devices/{self.address}"

    @property
    def present(self) -> bool:
        """The kernel sees a function at the address."""
        return self.host.path(self.directory).exists()

    @property
    def other_class(self) -> str:
        """The class code of a function that is no NVMe controller; empty where it is one, and where
        that cannot be told. Raises ``OSError``."""
        try:
            found = self.host.text(f"{self.directory}/class")
        except OSError as error:
            if error.errno not in GONE:
                raise
            return ""
        return "" if found == NVME_CLASS else found

    @property
    def number(self) -> int:
        """Of its directory (st_ino): the kernel numbers what it finds, no number twice in one boot.

        So it is another one once the function was gone. 0 where there is none.
        """
        try:
            return self.host.path(self.directory).stat().st_ino
        except FileNotFoundError:
            return 0

    @property
    def place(self) -> str:
        """``BOOT/NUMBER`` (:attr:`number`). Empty where that cannot be read."""
        try:
            boot, number = self.host.boot_id(), self.number
        except OSError:
            return ""
        return f"{boot}/{number}" if number else ""

    @property
    def driver(self) -> str | None:
        """The bound driver's name."""
        return self.host.link(f"{self.directory}/driver")

    @property
    def iommu_group(self) -> str | None:
        """The group's number as text."""
        return self.host.link(f"{self.directory}/iommu_group")

    @property
    def driver_override(self) -> str:
        """The driver that alone may bind, empty where any may."""
        try:
            value = self.host.text(f"{self.directory}/driver_override").strip()
        except FileNotFoundError:
            return ""
        # The kernel prints this where no override is set.
        return "" if value == "(null)" else value

    def pci_id(self, name: str) -> int:
        """``vendor``, ``device``, ``subsystem_vendor`` or ``subsystem_device``: 16 bits.

        Raises :class:`AbsentError` or :class:`DriveError`.
        """
        try:
            value = int(self.host.text(f"{self.directory}/{name}"), 16)
        except FileNotFoundError as error:
            raise AbsentError(
                f"expected a PCI function at {self.address}, found none; is the drive in its slot?"
            ) from error
        except (OSError, ValueError) as error:
            raise DriveError(
                f"expected a PCI id in {self.directory}/{name}, found {error}"
            ) from error
        if not 0 <= value <= 0xFFFF:
            raise DriveError(f"expected 16 bits in {self.directory}/{name}, found {value:#x}")
        return value

    @property
    def controllers(self) -> tuple[str, ...]:
        """Names (nvme0) of the NVMe controllers that the driver made of the function."""
        return tuple(
            n for n in self.host.children(f"{self.directory}/nvme") if _CONTROLLER.fullmatch(n)
        )

    def controller_directory(self, name: str) -> str:
        """Where the controller's attributes are."""
        return f"{self.directory}/nvme/{name}"

    def state(self, name: str) -> str:
        """``live``, ``resetting``, ...; ``gone`` where the controller is no more."""
        try:
            return self.host.text(f"{self.controller_directory(name)}/state").strip()
        except FileNotFoundError:
            return "gone"

    def subsystem_directory(self, name: str) -> str | None:
        """The NVM subsystem that the controller belongs to."""
        for entry in self.host.children("/sys/class/nvme-subsystem"):
            directory = f"/sys/class/nvme-subsystem/{entry}"
            if self.host.path(f"{directory}/{name}").exists():
                return directory
        return None

    def disks(self, name: str) -> tuple[str, ...]:
        """Directories of the controller's visible disks.

        With native multipath the controller's own disk (nvme0c1n1) is hidden and cannot be opened;
        its head (nvme0n1) hangs below the subsystem. Raises :class:`DriveError` where a hidden
        disk has no head that fits.
        """
        own = self.controller_directory(name)
        found: list[str] = []
        for entry in self.host.children(own):
            if _DISK.fullmatch(entry):
                found.append(f"{own}/{entry}")
            elif match := _HIDDEN.fullmatch(entry):
                found.append(self._head(name, f"{own}/{entry}", match[1] + match[2]))
        return tuple(found)

    def _head(self, name: str, hidden: str, head_name: str) -> str:
        subsystem = self.subsystem_directory(name)
        head = f"{subsystem}/{head_name}"
        try:
            fits = subsystem is not None and self.nsid(head) == self.nsid(hidden)
        except OSError:
            fits = False
        if not fits:
            raise DriveError(
                f"{self.address}: expected a multipath head {head_name} with the NSID of {hidden}, "
                "found none; rescan the controller"
            )
        return head

    def nsid(self, disk: str) -> int:
        """The namespace id of a disk's directory. Raises ``OSError`` or :class:`DriveError`."""
        value = self.host.text(f"{disk}/nsid")
        if not value.isdecimal():
            raise DriveError(f"expected a namespace id in {disk}/nsid, found {value!r}")
        return int(value)

    def nodes(self) -> tuple[Node, ...]:
        """Every node through which the drive can be reached: controllers, disks, partitions.

        Heads and generic devices of the whole subsystem count, also those that belong to another
        controller of it. Raises ``OSError`` or :class:`DriveError`.
        """
        found: set[Node] = set()
        for name in self.controllers:
            own = self.controller_directory(name)
            found.add(self._node(own, name, block=False))
            places = [own]
            # A multipath head hangs below the subsystem: who has it open has the drive open.
            if subsystem := self.subsystem_directory(name):
                places.append(subsystem)
            for place in places:
                found.update(self._nodes_below(place))
        return tuple(sorted(found))

    def _nodes_below(self, place: str) -> Iterator[Node]:
        for entry in self.host.children(place):
            directory = f"{place}/{entry}"
            if _GENERIC.fullmatch(entry):
                yield self._node(directory, entry, block=False)
            elif _DISK.fullmatch(entry):
                yield self._node(directory, entry, block=True)
                yield from (
                    self._node(f"{directory}/{part}", part, block=True)
                    # Partitions are told by their attribute, for other directories of a disk may
                    # begin with its name.
                    for part in self.host.children(directory)
                    if part.startswith(entry)
                    and self.host.path(f"{directory}/{part}/partition").exists()
                )

    def _node(self, directory: str, name: str, *, block: bool) -> Node:
        major, minor = numbers(self.host.text(f"{directory}/dev"), f"{directory}/dev")
        return Node(name, major, minor, block)


def open_node(host: Host, node: Node, flags: int) -> int:
    """Opens ``/dev/<name>`` and makes sure that it is this very node: /dev names can be stale.

    Raises ``OSError`` as ``open`` does, :class:`DriveError` for another device.
    """
    return host.devices.open(host.path(f"/dev/{node.name}"), node, flags)
