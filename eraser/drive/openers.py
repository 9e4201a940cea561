"""Which processes have a drive open, in whatever mount namespace they live.

A descriptor is judged by the device behind it, because QEMU and containers have a /dev of their own
where names mean nothing; the text of the link is a second witness for VFIO and PCI resources.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterator
from dataclasses import dataclass

from eraser.drive.sysfs import Host, PciFunction, numbers
from eraser.errors import InUseError

_GONE = (errno.ENOENT, errno.ESRCH, errno.EINVAL)
"""A process or descriptor that ended while we looked (EINVAL: a zombie has no mounts)."""
_NETWORK = ("nfs", "cifs", "smb", "ceph", "fuse", "9p", "afs", "glusterfs", "lustre", "gpfs")
"""A look at a file there may wait for a server that is gone; no device node of ours lives there."""


@dataclass(frozen=True)
class Opener:
    """One process with one descriptor that leads to the drive."""

    pid: int
    command: str
    target: str
    device: tuple[bool, int] | None
    """Block or not, and st_rdev; None where only the link's text told."""


@dataclass(frozen=True)
class Mount:
    """One line of somebody's mountinfo."""

    pid: int
    numbers: str
    point: str
    kind: str
    source: str


def pids(host: Host) -> list[int]:
    """Every process of the host."""
    found = [int(name) for name in host.children("/proc") if name.isdecimal()]
    if not found:
        raise InUseError("cannot prove idle: expected processes in /proc, found none; mount /proc")
    return found


def command(host: Host, pid: int) -> str:
    """The process's short name; empty where it has ended."""
    try:
        return host.text(f"/proc/{pid}/comm")
    except OSError:
        return ""


def mounts(host: Host, processes: list[int]) -> dict[int, tuple[Mount, ...]]:
    """What each process sees mounted; processes of one namespace and root are read once.

    Raises :class:`InUseError` where a process's mounts cannot be read.
    """
    seen: dict[tuple[str, str], tuple[Mount, ...]] = {}
    found: dict[int, tuple[Mount, ...]] = {}
    for pid in processes:
        try:
            place = f"/proc/{pid}"
            key = (
                os.readlink(host.path(f"{place}/ns/mnt")),
                os.readlink(host.path(f"{place}/root")),
            )
            if key not in seen:
                seen[key] = tuple(_mountinfo(pid, host.text(f"{place}/mountinfo")))
            found[pid] = seen[key]
        except OSError as error:
            if error.errno in _GONE:
                continue
            raise _unreadable(host, pid, error) from error
    return found


def _mountinfo(pid: int, text: str) -> Iterator[Mount]:
    """proc(5), /proc/pid/mountinfo: fields before and after a lone hyphen."""
    for line in text.splitlines():
        fields = line.split(" ")
        try:
            rest = fields[fields.index("-", 6) + 1 :]
            yield Mount(pid, fields[2], unescape(fields[4]), rest[0], unescape(rest[1]))
        except (ValueError, IndexError) as error:
            raise InUseError(
                f"cannot prove idle: expected a mount in /proc/{pid}/mountinfo, found {line[:80]!r}"
            ) from error


def unescape(field: str) -> str:
    """The kernel writes blanks and backslashes in a path as octal (\\040)."""
    for code in ("040", "011", "012", "134"):
        field = field.replace(f"\\{code}", chr(int(code, 8)))
    return field


def openers(
    host: Host,
    seen_mounts: dict[int, tuple[Mount, ...]],
    processes: list[int],
    devices: frozenset[tuple[bool, int]],
    names: frozenset[str],
) -> list[Opener]:
    """Descriptors on one of ``devices`` (block or not, st_rdev), or whose link ends in ``names``.

    Raises :class:`InUseError` where a process's descriptors cannot be read.
    """
    found: list[Opener] = []
    suffixes = tuple(names)
    for pid in processes:
        remote = tuple(
            f"{mount.point.rstrip('/')}/"
            for mount in seen_mounts.get(pid, ())
            if mount.kind.startswith(_NETWORK)
        )
        try:
            for number in os.listdir(host.path(f"/proc/{pid}/fd")):
                opener = _opener(host, pid, number, devices, suffixes, remote)
                if opener is not None:
                    found.append(opener)
        except OSError as error:
            if error.errno not in _GONE:
                raise _unreadable(host, pid, error) from error
    return found


def _opener(
    host: Host,
    pid: int,
    number: str,
    devices: frozenset[tuple[bool, int]],
    suffixes: tuple[str, ...],
    remote: tuple[str, ...],
) -> Opener | None:
    path = host.path(f"/proc/{pid}/fd/{number}")
    try:
        target = os.readlink(path)
    except OSError as error:
        if error.errno in _GONE:
            return None
        raise
    if not target.startswith("/"):
        return None  # socket:[1], pipe:[2], anon_inode:[vfio-device]: the group's descriptor tells
    plain = target.removesuffix(" (deleted)")
    device: tuple[bool, int] | None = None
    if not (remote and plain.startswith(remote)):
        try:
            status = os.stat(path)
            if stat.S_ISCHR(status.st_mode) or stat.S_ISBLK(status.st_mode):
                device = (stat.S_ISBLK(status.st_mode), status.st_rdev)
        except OSError as error:
            if error.errno not in (*_GONE, errno.ESTALE, errno.ENOTCONN):
                raise
    if device in devices or (suffixes and plain.endswith(suffixes)):
        return Opener(pid, command(host, pid), target, device)
    return None


def vfio_handles(
    function: PciFunction,
) -> tuple[frozenset[tuple[bool, int]], frozenset[str]]:
    """Devices and link texts by which a process can hold the function past any driver.

    Raises ``OSError`` or :class:`DriveError`.
    """
    host, names, places = function.host, set[str](), list[str]()
    if (group := function.iommu_group) is not None:
        names |= {f"/vfio/{group}", f"/vfio/noiommu-{group}"}
        places += [f"/sys/class/vfio/{group}", f"/sys/class/vfio/noiommu-{group}"]
    for entry in host.children(f"{function.directory}/vfio-dev"):
        names.add(f"/vfio/devices/{entry}")
        places.append(f"{function.directory}/vfio-dev/{entry}")
    for entry in host.children(function.directory):
        if entry.startswith("resource") and entry != "resource":
            names.add(f"/{function.address}/{entry}")
    devices = set[tuple[bool, int]]()
    for place in places:
        try:
            text = host.text(f"{place}/dev")
        except FileNotFoundError:
            continue  # a group without a VFIO driver, or a kernel without VFIO devices
        devices.add((False, os.makedev(*numbers(text, f"{place}/dev"))))
    return frozenset(devices), frozenset(names)


def _unreadable(host: Host, pid: int, error: OSError) -> InUseError:
    return InUseError(
        f"cannot prove idle: expected to read what process {pid} ({command(host, pid)}) has open, "
        f"found {error.strerror}; run as root"
    )
