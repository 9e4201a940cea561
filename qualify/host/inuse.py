"""Why a device or a file may not be written to: who uses it, and what it holds.

The kernel's own answer (``O_EXCL``) decides for a device; the rest names who it is, and finds what
the kernel does not count as use: signatures, partitions, and programs that just have it open.
"""

from __future__ import annotations

import contextlib
import errno
import os
import stat
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

from qualify.errors import TargetInUseError
from qualify.host.system import System, unescape

_NVMET: Final = "/sys/kernel/config/nvmet/subsystems"
_GONE: Final = (errno.ENOENT, errno.ESRCH, errno.EINVAL, errno.ESTALE)
_TIMEOUT: Final = 60.0
_SETTLE: Final = 10
"""Seconds."""

_Test = Callable[[os.stat_result], bool]
"""Whether what a path leads to is the target."""


def device_reasons(system: System, name: str, device: int) -> Iterator[str]:
    """One reason per use of the block device ``name`` (``nvme0n1``); ``device`` is its st_rdev.

    Raises :class:`TargetInUseError` where that cannot be seen.
    """
    partitions = _partitions(system, name)
    for partition in partitions:
        yield f"it has the partition {partition}"
    others = _others(system, name)
    nodes = {name: f"{os.major(device)}:{os.minor(device)}"}
    nodes.update({o: system.text(f"/sys/class/block/{o}/dev") for o in (*partitions, *others)})
    for node, numbers in nodes.items():
        for mount in system.mounts():
            # By either: a file system (btrfs) may have device numbers of its own in mountinfo.
            if mount.numbers == numbers or mount.source == f"/dev/{node}":
                yield f"{node} is mounted at {mount.point}"
        for holder in system.children(f"/sys/class/block/{node}/holders"):
            yield f"{node} is part of {_holder(system, holder)}"
    devices = {
        os.makedev(int(major), int(minor))
        for major, _, minor in (numbers.partition(":") for numbers in nodes.values())
        if major.isdecimal() and minor.isdecimal()
    }
    generic = {_generic(system, node) for node in (name, *others)} - {None}
    yield from _swaps(system, lambda status: _is_device(status, devices))
    yield from _loops(system, lambda status: _is_device(status, devices))
    yield from _exports(system, lambda status: _is_device(status, devices))
    yield from _openers(
        system,
        lambda status: (
            _is_device(status, devices)
            or (stat.S_ISCHR(status.st_mode) and status.st_rdev in generic)
        ),
    )


def _partitions(system: System, name: str) -> list[str]:
    directory = f"/sys/class/block/{name}"
    return [
        entry
        for entry in system.children(directory)
        if system.path(f"{directory}/{entry}/partition").exists()
    ]


def _others(system: System, name: str) -> list[str]:
    """Devices by which the same blocks are used past every claim on this one: the disk that it is a
    partition of, and where each path to a namespace is a disk of its own (nvme_core.multipath=N)
    those of the other paths, with their partitions."""
    directory = system.path(f"/sys/class/block/{name}")
    if (directory / "partition").exists():
        return [directory.resolve().parent.name]
    wwid = system.text(f"/sys/class/block/{name}/wwid")
    same = [
        other
        for other in system.children("/sys/class/block")
        if wwid and other != name and system.text(f"/sys/class/block/{other}/wwid") == wwid
    ]
    return [node for other in same for node in (other, *_partitions(system, other))]


def file_reasons(system: System, path: Path) -> Iterator[str]:
    """One reason per use of a regular file. Raises :class:`TargetInUseError`, ``OSError``."""
    ours = os.stat(path)

    def same(status: os.stat_result) -> bool:
        return (status.st_dev, status.st_ino) == (ours.st_dev, ours.st_ino)

    yield from _swaps(system, same)
    yield from _loops(system, same)
    yield from _exports(system, same)
    yield from _openers(system, same)


def settle() -> None:
    """Lets udev look at a device that was written to a moment ago: it opens it, and is no user.

    Where there is no udev nobody has to be waited for; one that takes longer is then seen in use.
    """
    with contextlib.suppress(OSError, subprocess.TimeoutExpired):
        subprocess.run(
            ["udevadm", "settle", f"--timeout={_SETTLE}"],
            capture_output=True,
            timeout=_SETTLE + 5,
            check=False,
        )


def signatures(path: str) -> tuple[str, ...]:
    """What wipefs and blkid find on a device: file systems, RAID, LVM, LUKS, ZFS, tables.

    Two readers, because each of them has missed what the other knew. Raises
    :class:`TargetInUseError` where one of them cannot be asked.
    """
    wiped = _tool(["wipefs", "--no-act", "--noheadings", "--output=TYPE", path], (0,))
    # blkid ends with 2 where it finds nothing.
    probed = _tool(["blkid", "--probe", "--output=value", "--match-tag=TYPE", path], (0, 2))
    table = _tool(["blkid", "--probe", "--output=value", "--match-tag=PTTYPE", path], (0, 2))
    found = (wiped + "\n" + probed + "\n" + table).split()
    return tuple(dict.fromkeys(found))


def _tool(argv: list[str], fine: tuple[int, ...]) -> str:
    try:
        done = subprocess.run(
            argv,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=_TIMEOUT,
            check=False,
            env={"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "LC_ALL": "C"},
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise TargetInUseError(
            f"cannot prove that {argv[-1]} holds nothing: {argv[0]} {error}; install util-linux"
        ) from error
    if done.returncode not in fine:
        # blkid answers 8 where signatures contradict each other: that is not nothing.
        raise TargetInUseError(
            f"cannot prove that {argv[-1]} holds nothing: {argv[0]} ended with exit code "
            f"{done.returncode}; {done.stderr.strip()[:200] or 'look at it with wipefs'}"
        )
    return done.stdout


def _holder(system: System, holder: str) -> str:
    name = system.text(f"/sys/class/block/{holder}/dm/name")
    return f"{holder} ({name})" if name else holder


def _is_device(status: os.stat_result, devices: set[int]) -> bool:
    return stat.S_ISBLK(status.st_mode) and status.st_rdev in devices


def _generic(system: System, name: str) -> int | None:
    """The number of a namespace's character device, by which a program uses it past every claim on
    the disk:
    ``ng0n1`` of ``nvme0n1`` (nvme_add_ns_cdev in drivers/nvme/host/core.c, since Linux 5.13)."""
    node = name.replace("nvme", "ng", 1)
    major, _, minor = system.text(f"/sys/class/nvme-generic/{node}/dev").partition(":")
    if not (name.startswith("nvme") and major.isdecimal() and minor.isdecimal()):
        return None
    return os.makedev(int(major), int(minor))


def _swaps(system: System, ours: _Test) -> Iterator[str]:
    for line in system.text("/proc/swaps").splitlines()[1:]:
        path = unescape(line.split()[0]) if line.split() else ""
        if _matches(system, path, ours):
            yield f"{path} is swap space"


def _loops(system: System, ours: _Test) -> Iterator[str]:
    for loop in system.children("/sys/block"):
        backing = system.text(f"/sys/block/{loop}/loop/backing_file")
        if backing and _matches(system, backing, ours):
            yield f"it is behind the loop device {loop}"


def _exports(system: System, ours: _Test) -> Iterator[str]:
    """What nvmet gives to other machines: it opens a device without a claim to it, and no process
    has it open."""
    subsystems = system.path(_NVMET)
    for path in sorted(subsystems.glob("*/namespaces/*/device_path")):
        if _matches(system, system.text(f"/{path.relative_to(system.root)}"), ours):
            yield f"nvmet exports it (namespace {path.parent.name} of {path.parents[2].name})"


def _matches(system: System, path: str, ours: _Test) -> bool:
    try:
        return ours(os.stat(system.path(path)))
    except OSError:
        return False  # a name of nothing that is here now


def _openers(system: System, ours: _Test) -> Iterator[str]:
    """Every process but this one that has it open."""
    processes = [name for name in system.children("/proc") if name.isdecimal()]
    if not processes:
        raise TargetInUseError("cannot see who has it open: found no processes in /proc; mount it")
    # Mounted with hidepid=invisible it lists nobody else's processes, and tells of no error.
    if not system.path("/proc/1").exists():
        raise TargetInUseError(
            "cannot see who has it open: /proc hides the processes of others (hidepid); run as "
            "root, or name a directory to have a file made"
        )
    for process in processes:
        # Our own descriptor is the claim on the device (target.held).
        if int(process) == os.getpid():
            continue
        try:
            if any(_held(path, ours) for path in _descriptors(system, process)):
                command = system.text(f"/proc/{process}/comm")
                yield f"process {process} ({command}) has it open"
        except OSError as error:
            # Who ended meanwhile has nothing open; who may not be looked into may have.
            if error.errno not in _GONE:
                raise TargetInUseError(
                    f"cannot see what process {process} has open: {error.strerror}; run as root, "
                    "or name a directory to have a file made"
                ) from error


def _descriptors(system: System, process: str) -> Iterator[Path]:
    """Of a process. Where its first thread has ended, the process shows none: its threads do."""
    directory = system.path(f"/proc/{process}/fd")
    numbers = os.listdir(directory)
    yield from (directory / number for number in numbers)
    for thread in () if numbers else system.children(f"/proc/{process}/task"):
        directory = system.path(f"/proc/{process}/task/{thread}/fd")
        try:
            yield from (directory / number for number in os.listdir(directory))
        except OSError as error:
            # A thread that has ended keeps nobody from looking at the next.
            if error.errno not in _GONE:
                raise


def _held(link: Path, ours: _Test) -> bool:
    try:
        # Only what has a path can be a file or a device: a look at the rest may wait for ever.
        return os.readlink(link).startswith("/") and ours(os.stat(link))
    except OSError as error:
        if error.errno in (errno.EACCES, errno.EPERM):
            raise
        return False
