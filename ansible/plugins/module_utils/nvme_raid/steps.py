"""What can be done to a machine: each step as a value that says itself in words."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Union


@dataclass(frozen=True)
class CreateArray:
    """Make the array on drives that hold nothing."""

    node: str
    name: str
    chunk: int
    devices: tuple[str, ...]

    @property
    def text(self) -> str:
        """In words."""
        return f"create {self.node}: RAID 0 of {', '.join(self.devices)}"


@dataclass(frozen=True)
class Assemble:
    """Start an array that exists; stop what the kernel made of its members before."""

    node: str
    uuid: str
    devices: tuple[str, ...]
    stop: str = ""

    @property
    def text(self) -> str:
        """In words."""
        first = f"stop {self.stop}, which is not {self.node}, and " if self.stop else ""
        return f"{first}assemble {self.node} of {', '.join(self.devices)}"


@dataclass(frozen=True)
class Relink:
    """Ask udev for the array's lasting name again."""

    node: str
    device: str

    @property
    def text(self) -> str:
        """In words."""
        return f"make the link {self.node} to {self.device} again"


@dataclass(frozen=True)
class MakeXfs:
    """Make the filesystem. Lengths in bytes; no stripe on a single drive."""

    device: str
    label: str
    stripe_unit: int = 0
    stripe_count: int = 0
    unfinished: bool = False
    """Whether one is there that was cut short."""

    @property
    def text(self) -> str:
        """In words."""
        if self.unfinished:
            return f"make the unfinished XFS labelled {self.label} on {self.device} anew"
        return f"make an XFS labelled {self.label} on {self.device}"


@dataclass(frozen=True)
class Relabel:
    """Give the filesystem its label back, mounted (at ``point``) or not."""

    device: str
    label: str
    point: str = ""

    @property
    def text(self) -> str:
        """In words."""
        return f"label the XFS on {self.device} {self.label}"


@dataclass(frozen=True)
class WriteFile:
    """Replace a file, in one stroke. ``voids``: a file that says no longer what is so, removed
    first; an interrupted run leaves none that lies."""

    path: str
    before: str | None
    after: str
    voids: str = ""

    @property
    def text(self) -> str:
        """In words."""
        return f"write {self.path}"


@dataclass(frozen=True)
class RebuildInitramfs:
    """Make the initramfs with the present mdadm.conf; the stamp says which one that was."""

    command: tuple[str, ...]
    stamp: str

    @property
    def text(self) -> str:
        """In words."""
        return f"rebuild the initramfs ({' '.join(self.command)})"


@dataclass(frozen=True)
class MakeDirectory:
    """Make the mount point."""

    path: str

    @property
    def text(self) -> str:
        """In words."""
        return f"make the directory {self.path}"


@dataclass(frozen=True)
class Mount:
    """Mount by the line in fstab."""

    point: str

    @property
    def text(self) -> str:
        """In words."""
        return f"mount {self.point}"


@dataclass(frozen=True)
class Remount:
    """Bring the mount options to what they should be."""

    point: str
    options: tuple[str, ...]

    @property
    def text(self) -> str:
        """In words."""
        return f"remount {self.point} with {','.join(self.options)}"


@dataclass(frozen=True)
class EnableTrim:
    """Enable the weekly fstrim."""

    @property
    def text(self) -> str:
        """In words."""
        return "enable fstrim.timer"


Step = Union[
    CreateArray,
    Assemble,
    Relink,
    MakeXfs,
    Relabel,
    WriteFile,
    RebuildInitramfs,
    MakeDirectory,
    Mount,
    Remount,
    EnableTrim,
]
