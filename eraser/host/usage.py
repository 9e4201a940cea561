"""What of this host itself uses a drive: mounts, swap, stacked devices, exports, the boot drive."""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Collection, Iterable, Iterator
from pathlib import Path

from eraser.host.openers import MountLine, unescape
from eraser.host.sysfs import Host, Node

SYSTEM_POINTS = ("/", "/boot", "/boot/efi", "/efi", "/usr", "/var")
"""Where the running system itself lives, as process 1 sees it."""

_KERNEL_DEVICES = ("root=", "resume=", "pstore_blk.blkdev=")
_TAGS = {
    "UUID=": "/dev/disk/by-uuid/",
    "PARTUUID=": "/dev/disk/by-partuuid/",
    "LABEL=": "/dev/disk/by-label/",
    "PARTLABEL=": "/dev/disk/by-partlabel/",
}
_STACKED = ("LVM-", "mpath-", "CRYPT-", "RAID-")
_LOOP_GET_STATUS64 = 0x4C05
_LOOP_INFO64_BYTES = 232
"""include/uapi/linux/loop.h. lo_rdevice stands at byte 16: the device that is behind one, 0 for a
file."""
_EXPORTS = (
    # (directory, where below it the device's path stands, who it is)
    ("/sys/kernel/config/nvmet/subsystems", "namespaces/*/device_path", "nvmet"),
    ("/sys/kernel/config/nvmet/subsystems", "passthru/device_path", "nvmet passthrough"),
    ("/sys/kernel/config/target/core", "*/udev_path", "LIO"),
)


def names_node(host: Host, path: str, nodes: Iterable[Node]) -> bool:
    """``path`` (of any spelling) is one of ``nodes``: by its name, or by the device behind it."""
    known = tuple(nodes)
    # A link such as by-id leads to the node.
    resolved = os.path.realpath(host.path(path))
    names = {f"/dev/{node.name}" for node in known}
    # By name first: it counts also where the node cannot be looked at.
    if path in names or "/" + os.path.relpath(resolved, host.root) in names:
        return True
    try:
        status = os.stat(resolved)
    except OSError:
        return False  # a name of nothing that is here now: not of this drive
    if not (stat.S_ISBLK(status.st_mode) or stat.S_ISCHR(status.st_mode)):
        return False
    return (stat.S_ISBLK(status.st_mode), status.st_rdev) in {node.device for node in known}


def system_disks(host: Host, mounts: Iterable[MountLine]) -> frozenset[str]:
    """Names of the physical disks below the system's own file systems and its kernel's devices.

    Raises ``OSError``.
    """
    starts: set[str] = set()
    for mount in mounts:
        if mount.point in SYSTEM_POINTS:
            starts.add(mount.numbers)
            if mount.source.startswith("/dev/"):  # btrfs and overlays have numbers of no device
                starts.update(_numbers_of(host, mount.source))
    # The kernel's own devices need not be mounted: it resumes from one and stores panics on one.
    for option in host.text("/proc/cmdline").split():
        for prefix in _KERNEL_DEVICES:
            if option.startswith(prefix):
                starts.update(_numbers_of(host, _untag(option.removeprefix(prefix))))
    for path in ("/sys/power/resume", "/sys/module/pstore_blk/parameters/blkdev"):
        starts.update(_numbers_of(host, _small(host, path)))
    found: set[str] = set()
    for start in starts:
        found.update(_physical(host, start))
    return frozenset(found)


def _small(host: Host, path: str) -> str:
    try:
        return host.text(path).strip()
    except FileNotFoundError:
        return ""


def _untag(value: str) -> str:
    for tag, directory in _TAGS.items():
        if value.startswith(tag):
            return directory + value.removeprefix(tag).strip('"')
    return value


def _numbers_of(host: Host, device: str) -> Iterator[str]:
    """``259:0`` of a device named by numbers, or by a path that sysfs knows."""
    if ":" in device and device.replace(":", "").isdecimal():
        yield device
    elif device.startswith("/dev/"):
        resolved = os.path.realpath(host.path(device))
        try:
            yield host.text(f"/sys/class/block/{os.path.basename(resolved)}/dev")
        except FileNotFoundError:
            try:
                status = os.stat(resolved)
            except FileNotFoundError:
                return
            if stat.S_ISBLK(status.st_mode):
                yield f"{os.major(status.st_rdev)}:{os.minor(status.st_rdev)}"


def _physical(host: Host, numbers: str) -> Iterator[str]:
    """Down through partitions and slaves (md, dm, loop is not followed) to the disks below."""
    directory = os.path.realpath(host.path(f"/sys/dev/block/{numbers}"))
    if not os.path.isdir(directory):
        return
    # A partition's directory lies within its disk's.
    if os.path.exists(f"{directory}/partition"):
        directory = os.path.dirname(directory)
    yield os.path.basename(directory)
    for slave in (
        sorted(os.listdir(f"{directory}/slaves")) if os.path.isdir(f"{directory}/slaves") else ()
    ):
        yield from _physical(host, host.text(f"/sys/class/block/{slave}/dev"))


def mounted(
    nodes: Iterable[Node], mounts: Iterable[MountLine], without_device: Collection[str]
) -> Iterator[str]:
    """One reason per mount of a node in any mount namespace; ``without_device`` are kinds of file
    systems (:func:`kinds_without_device`)."""
    numbers = {node.numbers: node.name for node in nodes if node.block}
    # btrfs shows numbers of its own in mountinfo; its source still names the device.
    names = {f"/dev/{name}" for name in numbers.values()}
    for mount in mounts:
        # To a tmpfs or an overlay the source is a word like any other, which any user may choose in
        # a namespace of his own. FUSE tells a kind of its own behind a dot.
        by_source = mount.source in names and mount.kind.partition(".")[0] not in without_device
        if mount.numbers in numbers or by_source:
            name = numbers.get(mount.numbers, mount.source)
            yield f"{name} is mounted at {mount.point} (process {mount.pid})"


def kinds_without_device(host: Host) -> frozenset[str]:
    """Kinds of file systems that need no device (proc(5), /proc/filesystems); none where that is
    not told, so that each source counts."""
    try:
        lines = host.text("/proc/filesystems").splitlines()
    except OSError:
        return frozenset()
    return frozenset(line.split()[1] for line in lines if line.startswith("nodev\t"))


def swapping(host: Host, nodes: Iterable[Node]) -> Iterator[str]:
    """One reason per swap area. Raises ``OSError``."""
    known = tuple(nodes)
    # By the kernel's own separators, as a mount (openers): a path may have other blanks in it.
    for line in host.text("/proc/swaps").split("\n")[1:]:
        path = unescape(line.partition(" ")[0])
        if path.startswith("/dev/") and names_node(host, path, known):
            yield f"{path} is swap space"


def stacked(host: Host, nodes: Iterable[Node]) -> Iterator[str]:
    """One reason per md, dm, bcache, loop or btrfs device on top. Raises ``OSError``."""
    known = tuple(node for node in nodes if node.block)
    yield from held(host, known)
    for loop in host.children("/sys/block"):
        backing = _small(host, f"/sys/block/{loop}/loop/backing_file")
        # A loop device over the drive is no holder in sysfs.
        if backing and _is_behind(host, loop, backing, known):
            yield f"{backing} is behind the loop device {loop}"


def held(host: Host, nodes: Iterable[Node]) -> Iterator[str]:
    """Those of :func:`stacked` that sysfs alone tells. Raises ``OSError``."""
    known = tuple(node for node in nodes if node.block)
    for node in known:
        directory = f"/sys/class/block/{node.name}"
        for holder in host.children(f"{directory}/holders"):
            yield f"{node.name} is part of {_holder(host, holder)}"
        if host.path(f"{directory}/bcache").exists():
            yield f"{node.name} is part of bcache"
    names = {node.name for node in known}
    for volume in host.children("/sys/fs/btrfs"):
        # btrfs registers no holders for its members, only this list.
        for member in names & set(host.children(f"/sys/fs/btrfs/{volume}/devices")):
            yield f"{member} is part of the btrfs volume {volume}"


def _is_behind(host: Host, loop: str, backing: str, nodes: Iterable[Node]) -> bool:
    """By what the kernel holds, for ``backing`` is a name in somebody's own file system, and may be
    of nothing here or of something else; by that name where there is no such device to ask."""
    known = tuple(nodes)
    try:
        major, minor = map(int, host.text(f"/sys/block/{loop}/dev").split(":"))
        path = host.path(f"/dev/{loop}")
        descriptor = host.devices.open(path, Node(loop, major, minor, True), os.O_RDONLY)
    except FileNotFoundError:
        return names_node(host, backing, known)
    info = bytearray(_LOOP_INFO64_BYTES)
    try:
        host.devices.ioctl(descriptor, _LOOP_GET_STATUS64, info)
    except OSError as error:
        if error.errno != errno.ENXIO:
            raise
        return False  # it was taken down meanwhile
    finally:
        os.close(descriptor)
    return int.from_bytes(info[16:24], "little") in {node.rdev for node in known}


def _holder(host: Host, holder: str) -> str:
    uuid = _small(host, f"/sys/class/block/{holder}/dm/uuid")
    if uuid:
        name = _small(host, f"/sys/class/block/{holder}/dm/name")
        kind = next((prefix.rstrip("-") for prefix in _STACKED if uuid.startswith(prefix)), "dm")
        return f"{holder} ({kind} {name})"
    if holder.startswith("md"):
        return f"{holder} (md)"
    return holder


def exported(host: Host, nodes: Iterable[Node]) -> Iterator[str]:
    """One reason per target that serves a node to other machines. Raises ``OSError``."""
    known = tuple(nodes)
    for directory, below, name in _EXPORTS:
        for entry in host.children(directory):
            for path in sorted(host.path(f"{directory}/{entry}").glob(below)):
                device = path.read_text(errors="surrogateescape").strip()
                if not device.startswith("/"):
                    continue
                if names_node(host, device, known):
                    yield f"{device} is exported by {name} ({entry})"
                elif _is_on(path) and not os.path.lexists(host.path(device)):
                    # In a container's own file system it may be any drive, and nothing tells which.
                    yield f"{name} ({entry}) exports {device}, which nothing is here: cannot prove"


def _is_on(path: Path) -> bool:
    """Whether nvmet serves what stands at its ``device_path``; LIO claims what it serves."""
    try:
        return (path.parent / "enable").read_text().strip() == "1"
    except FileNotFoundError:
        return False
