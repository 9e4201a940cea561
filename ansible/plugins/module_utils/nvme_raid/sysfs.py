"""What the kernel says about block devices and mounts, read below a root (``/`` in earnest)."""

from __future__ import annotations

import os
import re
import stat
from pathlib import Path

from .model import Mounted

_SECTOR = 512
_SYSTEM_MOUNTS = ("/", "/boot", "/boot/efi", "/efi", "/usr", "/var")
_DELETED = " (deleted)"
_ESCAPED = re.compile(r"\\([0-7]{3})")


class Sysfs:
    """Readings below ``root``; a test gives a tree of its own."""

    def __init__(self, root: Path = Path("/")) -> None:
        self._root = root
        self._blocks = root / "sys/class/block"

    def text(self, path: Path) -> str:
        """A file's text without its end of line, or nothing where there is no such file."""
        try:
            return path.read_bytes().decode(errors="replace").strip()
        except OSError:
            return ""

    def block(self, name: str) -> Path:
        """The directory of a block device."""
        return self._blocks / name

    def size(self, name: str) -> int:
        """Bytes."""
        return int(self.text(self.block(name) / "size") or 0) * _SECTOR

    def written(self, name: str) -> str:
        """The kernel's count of what was written to a device since it is there (its stat, 7th
        field); the same for ever where nothing is counted."""
        return "".join(self.text(self.block(name) / "stat").split()[6:7])

    def read_only(self, name: str) -> bool:
        """Whether the kernel lets nobody write."""
        return self.text(self.block(name) / "ro") == "1"

    def children(self, name: str, kind: str) -> tuple[str, ...]:
        """The names in ``holders`` or ``slaves``."""
        directory = self.block(name) / kind
        return (
            tuple(sorted(path.name for path in directory.iterdir())) if directory.is_dir() else ()
        )

    def partitions(self, name: str) -> tuple[str, ...]:
        """The partitions that the kernel knows on a disk."""
        return tuple(sorted(path.parent.name for path in self.block(name).glob("*/partition")))

    def number(self, name: str) -> int:
        """Its st_rdev; 0 where there is no such device."""
        return self._number(self.block(name))

    def _number(self, directory: Path) -> int:
        major, _, minor = self.text(directory / "dev").partition(":")
        return os.makedev(int(major), int(minor)) if minor else 0

    def nodes(self, name: str) -> tuple[tuple[bool, int], ...]:
        """By what a program may have it open: block or not, and st_rdev. A namespace has a
        character device, too (``ng0n1`` of ``nvme0n1``, since Linux 5.13)."""
        generic = self._root / "sys/class/nvme-generic" / name.replace("nvme", "ng", 1)
        found = ((True, self.number(name)), (False, self._number(generic)))
        return tuple(node for node in found if node[1])

    def exports(self, name: str) -> tuple[str, ...]:
        """What the kernel itself has built on a device without a claim to it, so that it is among
        no holders: loop devices, and namespaces that nvmet gives to other machines."""
        loops = sorted(self._blocks.glob("loop*/loop/backing_file"))
        backed = [(path.parent.parent.name, path) for path in loops]
        subsystems = self._root / "sys/kernel/config/nvmet/subsystems"
        for path in sorted(subsystems.glob("*/namespaces/*/device_path")):
            subsystem = plain(path.parents[2].name)
            backed.append((f"nvmet's namespace {path.parent.name} of {subsystem}", path))
        return tuple(who for who, path in backed if self._is_node(self.text(path), name))

    def _is_node(self, said: str, name: str) -> bool:
        """Whether a path, as the kernel tells it, is a node of a device. Its own may be gone."""
        path = said[: -len(_DELETED)] if said.endswith(_DELETED) else said
        if not path.startswith("/"):
            return False
        node = self._root / path.lstrip("/")
        if os.path.realpath(node) == os.path.realpath(self._root / "dev" / name):
            return True
        try:
            status = node.stat()
        except OSError:
            return False
        return stat.S_ISBLK(status.st_mode) and status.st_rdev == self.number(name)

    def namespaces(self) -> tuple[str, ...]:
        """The NVMe namespaces that are disks here: on PCI Express, not hidden, not empty."""
        found = []
        for path in sorted(self._blocks.glob("nvme*n*")):
            name = path.name
            whole = re.fullmatch(r"nvme\d+n\d+", name) is not None
            hidden = self.text(path / "hidden") == "1"
            if whole and not hidden and self.size(name) and self._controller(name) is not None:
                found.append(name)
        return tuple(found)

    def describe(self, name: str) -> tuple[str, str, str]:
        """PCI address, model and serial number of a namespace's controller."""
        controller = self._controller(name) or Path("/nonexistent")
        return (
            self.text(controller / "address"),
            plain(self.text(controller / "model")),
            plain(self.text(controller / "serial")),
        )

    def _controller(self, name: str) -> Path | None:
        """The namespace's controller on PCI Express: its parent, or with native multipath one of
        those in its subsystem."""
        device = self.block(name) / "device"
        found = [device, *sorted(device.glob("nvme*"))]
        return next((path for path in found if self.text(path / "transport") == "pcie"), None)

    def arrays(self) -> tuple[str, ...]:
        """The md arrays that the kernel has, active or not."""
        return tuple(sorted(path.parent.name for path in self._blocks.glob("md*/md")))

    def active(self, array: str) -> bool:
        """Whether an array can be read."""
        state = self.text(self.block(array) / "md/array_state")
        return state not in ("", "clear", "inactive")

    def mounts(self) -> tuple[Mounted, ...]:
        """The mount table of this process (proc(5), mountinfo)."""
        found = []
        # The kernel escapes what separates here; splitlines and split know further signs, which a
        # directory's name may have.
        for line in self.text(self._root / "proc/self/mountinfo").split("\n"):
            left, _, right = line.partition(" - ")
            fields, rest = left.split(" "), right.split(" ")
            if len(fields) < 6 or len(rest) < 3:
                continue
            device = self._device(fields[2], _unescape(rest[1]))
            options = tuple(dict.fromkeys((*fields[5].split(","), *rest[2].split(","))))
            found.append(Mounted(_unescape(fields[4]), device, options))
        return tuple(found)

    def _device(self, number: str, source: str) -> str:
        entry = self._root / "sys/dev/block" / number
        if entry.exists():
            return entry.resolve().name
        # A filesystem over several devices (btrfs) has a number of its own.
        node = self._root / source.lstrip("/")
        return node.resolve().name if source.startswith("/dev/") else source

    def swaps(self) -> frozenset[str]:
        """Kernel names of the devices used as swap."""
        lines = self.text(self._root / "proc/swaps").splitlines()[1:]
        paths = [_unescape(line.split()[0]) for line in lines if line.strip()]
        return frozenset((self._root / path.lstrip("/")).resolve().name for path in paths)

    def system(self, mounts: tuple[Mounted, ...]) -> frozenset[str]:
        """Every block device that the running system stands on, down to the disks."""
        found: set[str] = set()
        waiting = [mount.device for mount in mounts if mount.point in _SYSTEM_MOUNTS]
        while waiting:
            name = waiting.pop()
            path = self.block(name)
            if name in found or not path.exists():
                continue
            found.add(name)
            waiting += self.children(name, "slaves")
            if (path / "partition").exists():
                waiting.append(path.resolve().parent.name)
        return frozenset(found)

    def links(self) -> dict[str, str]:
        """The names below /dev/md and the kernel names that they lead to."""
        directory = self._root / "dev/md"
        if not directory.is_dir():
            return {}
        return {path.name: path.resolve().name for path in directory.iterdir() if path.is_symlink()}


def _unescape(field: str) -> str:
    return _ESCAPED.sub(lambda match: chr(int(match.group(1), 8)), field)


def plain(text: str) -> str:
    """A drive's own words: anything may be in them."""
    return "".join(sign if sign.isprintable() and sign.isascii() else "?" for sign in text)[:64]
