"""Which processes have a drive open, in whatever mount namespace they live.

A descriptor is judged by the device behind it, because QEMU and containers have a /dev of their own
where names mean nothing; the text of the link is a second witness for VFIO and PCI resources, where
the kernel does not tell that it is something else.

The kernel's own memory answers, never a file server (:mod:`eraser.host.statx`), and it is a child
that asks: whatever keeps it, keeps no case. Not seen: files that an io_uring holds without a
descriptor, and closed ones that are still mapped; an exclusive claim or a bound driver shows most.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from eraser.errors import InUseError
from eraser.host import kcmp, proc, statx
from eraser.host.bounded import StuckError, done_alone
from eraser.host.sysfs import Host, PciFunction, numbers

_GONE = (errno.ENOENT, errno.ESRCH, errno.EINVAL)
"""A process or descriptor that ended while we looked (EINVAL: a zombie has no mounts)."""
NO_NODE = (errno.ESTALE, errno.ENOTCONN, errno.EACCES, errno.EIO, errno.EHOSTDOWN, errno.ETIMEDOUT)
"""What a file server says, or somebody in its place. The type of a device node that a process has
open is in the kernel's memory: looking it up meets none of these."""
_VFIO = "/vfio/"
_VFIO_DEVICE = "anon_inode:[vfio-device]"
_DEVICE = "vfio-device"
LOOK_SECONDS = 30.0
"""For all descriptors of a host: a few microseconds each."""


@dataclass(frozen=True)
class Opener:
    """One process with one descriptor that leads to the drive."""

    pid: int
    command: str
    target: str
    device: tuple[bool, int] | None
    """Block or not, and st_rdev; None where only the link's text told."""


Found = tuple[int, str, str, tuple[bool, int] | None]
"""An :class:`Opener` as a child tells it."""


@dataclass(frozen=True)
class MountLine:
    """One line of somebody's mountinfo."""

    pid: int
    numbers: str
    point: str
    kind: str
    source: str


def pids(host: Host) -> list[int]:
    """Every process of the host. Raises :class:`InUseError` where they are not all seen."""
    if why := proc.blind(host):
        raise InUseError(f"cannot prove idle: {why}")
    found = [int(name) for name in host.children("/proc") if name.isdecimal()]
    if not found:
        raise InUseError("cannot prove idle: expected processes in /proc, found none; mount /proc")
    return found


def command(host: Host, pid: int) -> str:
    """The process's short name, for people; empty where it has ended."""
    try:
        name = host.text(f"/proc/{pid}/comm")
    except OSError:
        return ""
    # A process may give itself any: neither lines of its own nor what a terminal would obey. What
    # is no UTF-8 is told as such by the error that it goes into.
    return "".join(c if c.isprintable() or "\udc80" <= c <= "\udcff" else "?" for c in name)


def mounts(host: Host, processes: list[int]) -> dict[int, tuple[MountLine, ...]]:
    """What each process sees mounted; processes of one namespace and root are read once.

    Raises :class:`InUseError` where a process's mounts cannot be read.
    """
    seen: dict[tuple[str, str], tuple[MountLine, ...]] = {}
    found: dict[int, tuple[MountLine, ...]] = {}
    for pid in processes:
        try:
            place = f"/proc/{pid}"
            key = (
                os.readlink(host.path(f"{place}/ns/mnt")),
                os.readlink(host.path(f"{place}/root")),
            )
            # Hundreds of processes share a mount namespace; a chroot in it may see other mounts.
            if key not in seen:
                seen[key] = tuple(_mountinfo(pid, host.text(f"{place}/mountinfo")))
            found[pid] = seen[key]
        except OSError as error:
            if error.errno in _GONE:
                continue
            raise _unreadable(host, pid, error) from error
    return found


def _mountinfo(pid: int, text: str) -> Iterator[MountLine]:
    """proc(5), /proc/pid/mountinfo: fields before and after a lone hyphen."""
    # Not splitlines(): the kernel escapes blanks, tabs, line feeds and backslashes alone. Python
    # ends a line also at a form feed or U+2028, which may be in the name of a mount point.
    for line in filter(None, text.split("\n")):
        fields = line.split(" ")
        try:
            # Optional fields, any number of them, stand before the hyphen.
            rest = fields[fields.index("-", 6) + 1 :]
            yield MountLine(pid, fields[2], unescape(fields[4]), rest[0], unescape(rest[1]))
        except (ValueError, IndexError) as error:
            raise InUseError(
                f"cannot prove idle: expected a mount in /proc/{pid}/mountinfo, found {line[:80]!r}"
            ) from error


def unescape(field: str) -> str:
    """The kernel writes blanks and backslashes in a path as octal (\\040)."""
    # The backslash comes last, or what it makes would be read as a code again.
    for code in ("040", "011", "012", "134"):
        field = field.replace(f"\\{code}", chr(int(code, 8)))
    return field


def openers(
    host: Host,
    processes: list[int],
    devices: frozenset[tuple[bool, int]],
    names: frozenset[str],
    seconds: float = LOOK_SECONDS,
) -> list[Opener]:
    """Descriptors on one of ``devices`` (block or not, st_rdev), or whose link ends in ``names``.

    Raises :class:`InUseError` where a process's descriptors cannot be read, or not in time.
    """
    try:
        # A child looks, because a file server that is gone can keep whoever asks for a file of it.
        found = done_alone(
            host.processes, lambda at: _openers(host, processes, devices, names, at), seconds
        )
    except StuckError as stuck:
        raise InUseError(
            "cannot prove idle: expected to see what all processes have open within "
            f"{seconds:g} s, found no end at process {stuck.at} ({command(host, stuck.at)}); "
            "has it a file of a server that is gone?"
        ) from None
    # The child can hand back JSON alone: an error comes as its words.
    if isinstance(found, str):
        raise InUseError(found)
    return [
        Opener(pid, name, target, node and (node[0], node[1])) for pid, name, target, node in found
    ]


def _openers(
    host: Host,
    processes: list[int],
    devices: frozenset[tuple[bool, int]],
    names: frozenset[str],
    at: Callable[[int], None],
) -> list[Found] | str:
    """As :func:`openers`, which tells where it is; in words what could not be read."""
    found: list[Found] = []
    majors = vfio_majors(host)
    for pid in processes:
        at(pid)
        try:
            for table in _tables(host, pid):
                for number in _descriptors(host, table):
                    opener = _opener(host, pid, table, number, devices, tuple(names), majors)
                    if opener is not None:
                        found.append(opener)
        except OSError as error:
            if error.errno not in _GONE:
                # What cannot be read may be the drive: the whole look counts as failed.
                return str(_unreadable(host, pid, error))
    return found


def _tables(host: Host, pid: int) -> Iterator[str]:
    """The directory of each table of descriptors: threads may have one of their own."""
    yield f"/proc/{pid}/fd"
    for thread in host.children(f"/proc/{pid}/task"):
        if int(thread) != pid and not kcmp.same_files(pid, int(thread)):
            yield f"/proc/{pid}/task/{thread}/fd"


def _descriptors(host: Host, table: str) -> list[str]:
    """None of a thread that has ended: those after it are looked at all the same."""
    try:
        return os.listdir(host.path(table))
    except OSError as error:
        if error.errno in _GONE:
            return []
        raise


def _opener(
    host: Host,
    pid: int,
    table: str,
    number: str,
    devices: frozenset[tuple[bool, int]],
    suffixes: tuple[str, ...],
    majors: frozenset[int] | None,
) -> Found | None:
    path = host.path(f"{table}/{number}")
    try:
        target = os.readlink(path)
        if target == _VFIO_DEVICE:
            target = _vfio_device(host.text(f"{table}info/{number}"))
            return (pid, command(host, pid), target, None) if target.endswith(suffixes) else None
    except OSError as error:
        if error.errno in _GONE:
            return None
        raise
    if not target.startswith("/"):
        return None  # socket:[1], pipe:[2]
    # A node that was removed and is still open holds the drive all the same.
    plain = target.removesuffix(" (deleted)")
    named = next(filter(plain.endswith, suffixes), "")
    device: tuple[bool, int] | None = None
    try:
        device = statx.device(path)
        # Anybody may call a file of his own /tmp/vfio/9, and keep the drive from its erase by that.
        if named and _is_other(host, table, number, device, named, majors):
            named = ""
    except OSError as error:
        if error.errno not in (*_GONE, *NO_NODE):
            raise
    if device in devices or named:
        return pid, command(host, pid), target, device
    return None


def _is_other(
    host: Host,
    table: str,
    number: str,
    device: tuple[bool, int] | None,
    named: str,
    majors: frozenset[int] | None,
) -> bool:
    """Whether what is open is something else than its name says. Raises ``OSError``."""
    if named.startswith(_VFIO):
        return not may_be_vfio(device, majors)
    # A PCI resource is a plain file of sysfs. Where the mount is not told, as of one that was taken
    # away since, the name counts.
    return device is not None or _kind_of_mount(host, table, number) not in ("sysfs", "")


def may_be_vfio(device: tuple[bool, int] | None, majors: frozenset[int] | None) -> bool:
    """Whether a device (block or not, and st_rdev; None for any other file) has one of the numbers
    of VFIO. Any character device may be one where these are not known (``majors`` is None)."""
    block, rdev = device or (True, 0)
    return not block and (majors is None or os.major(rdev) in majors)


def vfio_majors(host: Host) -> frozenset[int] | None:
    """The numbers that the kernel gave to VFIO's groups and devices (``vfio`` and ``vfio-dev`` in
    drivers/vfio/group.c and device_cdev.c); None where they cannot be read."""
    try:
        lines = host.text("/proc/devices").partition("Block devices:")[0].splitlines()
    except OSError:
        return None
    pairs = (line.split(maxsplit=1) for line in lines)
    return frozenset(int(pair[0]) for pair in pairs if pair[1:] and pair[1].startswith("vfio"))


def _kind_of_mount(host: Host, table: str, number: str) -> str:
    """The kind of file system that a descriptor's file is on, as its process sees it; empty where
    that is not told. From the kernel's memory alone. Raises ``OSError``."""
    told = dict(
        line.split(":", 1)
        for line in host.text(f"{table}info/{number}").splitlines()
        if ":" in line
    )
    mount = told.get("mnt_id", "").strip()
    for line in host.text(f"{os.path.dirname(table)}/mountinfo").split("\n"):
        # As in _mountinfo: what stands behind the lone hyphen begins with the kind.
        if mount and line.startswith(f"{mount} "):
            return line.partition(" - ")[2].partition(" ")[0]
    return ""


def _vfio_device(told: str) -> str:
    """The function's directory with a name of ours below it, as Linux 6.18 and later tell it in
    fdinfo (Documentation/filesystems/proc.rst, "VFIO Device files"); empty from older ones, where
    the group's descriptor tells, or that of ``/dev/vfio/devices``."""
    for line in told.splitlines():
        name, _, directory = line.partition(": ")
        if name == "vfio-device-syspath":
            return f"{directory.strip()}/{_DEVICE}"
    return ""


def vfio_handles(
    function: PciFunction,
) -> tuple[frozenset[tuple[bool, int]], frozenset[str]]:
    """Devices and link texts by which a process can hold the function past any driver.

    Raises ``OSError`` or :class:`DriveError`.
    """
    host, names, places = function.host, set[str](), list[str]()
    if (group := function.iommu_group) is not None:
        # Everybody who has the group can have the function, by whichever device of the group.
        names |= {f"{_VFIO}{group}", f"{_VFIO}noiommu-{group}"}
        places += [f"/sys/class/vfio/{group}", f"/sys/class/vfio/noiommu-{group}"]
    names.add(f"/{function.address}/{_DEVICE}")
    for entry in host.children(f"{function.directory}/vfio-dev"):
        names.add(f"{_VFIO}devices/{entry}")
        places.append(f"{function.directory}/vfio-dev/{entry}")
    for entry in host.children(function.directory):
        # resourceN maps the function's registers past any driver.
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
