"""What is measured: a block device, a file, or a new file in a directory; held while it lasts."""

from __future__ import annotations

import contextlib
import errno
import os
import secrets
import stat
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from qualify.errors import BadInputError, TargetInUseError
from qualify.fio.presets import SOURCE_JOBS
from qualify.fio.workload import MIB, Place, size_text
from qualify.host import inuse
from qualify.host.system import System

DEVICE: Final = "device"
FILE: Final = "file"
DIRECTORY: Final = "directory"

_SPARE: Final = 0.05
"""Share of a file system that stays free: a full one has figures of its own."""


@dataclass(frozen=True)
class Target:
    """What the path is. Nothing was touched for it."""

    path: str
    """With every link followed."""
    kind: str
    capacity: int
    """Bytes of the device, of the file, or of the directory's file system."""
    description: str
    """The drive's model, the array's level, or the file system: for people."""
    members: tuple[str, ...] = ()
    """Disks below a device or a file system, as far as /sys tells."""


def look(path: str, system: System | None = None) -> Target:
    """Raises :class:`BadInputError` for what cannot be measured."""
    system = system or System()
    resolved = os.path.realpath(path)
    try:
        status = os.stat(resolved)
    except OSError as error:
        raise BadInputError(
            f"target: expected a block device, a file or a directory, found {error.strerror} at "
            f"{path}"
        ) from error
    if stat.S_ISBLK(status.st_mode):
        name = os.path.basename(resolved)
        numbers = f"{os.major(status.st_rdev)}:{os.minor(status.st_rdev)}"
        known = system.text(f"/sys/class/block/{name}/dev")
        # A container's /dev may call a drive by another's name: what /sys tells of that name (size,
        # partitions, who is built on it) would be of the other one.
        if known and known != numbers:
            raise BadInputError(
                f"target: expected {resolved} to be the device {known} that /sys calls {name}, "
                f"found {numbers} there; name it as /sys/dev/block/{numbers} does"
            )
        sectors = system.text(f"/sys/class/block/{name}/size")
        if not sectors.isdecimal() or sectors == "0":
            raise BadInputError(f"target: expected a device with a size, found none for {path}")
        return Target(
            resolved,
            DEVICE,
            # The kernel counts in 512 byte sectors whatever the device's blocks are.
            int(sectors) * 512,
            _device(system, name),
            tuple(_members(system, name)),
        )
    mount = system.mount_of(status.st_dev)
    below: tuple[str, ...] = ()
    kind = mount.kind if mount else "file system unknown"
    if mount and mount.source.startswith("/dev/"):
        below = tuple(_members(system, os.path.basename(os.path.realpath(mount.source))))
    if stat.S_ISREG(status.st_mode):
        return Target(resolved, FILE, status.st_size, f"file on {kind}", below)
    if stat.S_ISDIR(status.st_mode):
        room = os.statvfs(resolved)
        return Target(resolved, DIRECTORY, room.f_blocks * room.f_frsize, kind, below)
    raise BadInputError(
        f"target: expected a block device, a file or a directory, found something else at {path}; "
        "a drive's namespace is named /dev/nvme0n1, not /dev/nvme0 or /dev/ng0n1"
    )


def identity(target: Target, system: System | None = None) -> str:
    """What the device itself, or the array, is known by; empty where /sys tells nothing of it.

    A name is given anew at each start of the machine: /dev/nvme0n1 may be another drive then.
    """
    if target.kind != DEVICE:
        return ""
    system = system or System()
    directory = f"/sys/class/block/{os.path.basename(target.path)}"
    # NVMe and SCSI, virtio, md, device mapper; what is above a partition is its disk.
    places = ("wwid", "device/wwid", "serial", "device/serial", "md/uuid", "dm/uuid", "../wwid")
    found = (system.text(f"{directory}/{place}") for place in places)
    return next((text for text in found if text), "")


def _device(system: System, name: str) -> str:
    directory = f"/sys/class/block/{name}"
    level = system.text(f"{directory}/md/level")
    if level:
        return f"md {level} of {system.text(f'{directory}/md/raid_disks')}"
    model = system.text(f"{directory}/device/model") or system.text(f"{directory}/dm/name")
    return "".join(c if c.isprintable() else "?" for c in model)[:64] or "block device"


def _members(system: System, name: str, depth: int = 8) -> Iterator[str]:
    """The disks that a device stands on, itself where there is nothing below."""
    slaves = system.children(f"/sys/class/block/{name}/slaves")
    if not slaves or depth == 0:
        if system.path(f"/sys/class/block/{name}").exists():
            yield name
        return
    for slave in slaves:
        yield from _members(system, slave, depth - 1)


def working_size(target: Target, wanted: int, given: bool) -> int:
    """Bytes to work on: ``wanted``, or less on a smaller device that nobody gave a size for.

    Whole MiB. Raises :class:`BadInputError`.
    """
    # The fill goes in steps of 1 MiB and leaves the rest unwritten: reads of that are too fast.
    whole = wanted // MIB * MIB
    if whole == 0:
        raise BadInputError(f"expected a --size of at least 1M, found {wanted} bytes")
    if target.kind == DIRECTORY:
        room = os.statvfs(target.path)
        free = room.f_bavail * room.f_frsize - int(target.capacity * _SPARE)
        if whole > free:
            raise BadInputError(
                f"expected {size_text(whole)} free in {target.path} beside a reserve of 5 %, "
                f"found {max(free, 0) // MIB}M; give a smaller --size or another directory"
            )
        return whole
    if wanted > target.capacity and given:
        raise BadInputError(
            f"expected a --size of at most {target.capacity // MIB}M, found {wanted // MIB}M"
        )
    size = min(whole, target.capacity) // MIB * MIB
    if size == 0:
        raise BadInputError(
            f"expected at least 1 MiB at {target.path}, found {target.capacity} bytes; "
            "name a directory to have a file made"
        )
    return size


@contextlib.contextmanager
def held(
    target: Target, size: int, *, readonly: bool, overwrite: bool, system: System | None = None
) -> Iterator[Place]:
    """The place to work at, after every check, kept from others as far as the kernel can.

    Raises :class:`TargetInUseError` and :class:`BadInputError`; nothing was written then.
    """
    system = system or System()
    if target.kind == DIRECTORY:
        with _new_file(Path(target.path), size) as path:
            yield Place(path, size)
        return
    # Nothing is written, so a target in use, and what it holds, are nobody's loss.
    if readonly:
        yield Place(target.path, size, readonly=True)
        return
    if target.kind == FILE:
        # The kernel claims devices and no files: this look is all the protection there is.
        reasons = tuple(inuse.file_reasons(system, Path(target.path)))
        _refuse(target, reasons, overwrite)
        yield Place(target.path, size)
        return
    if system.text(f"/sys/class/block/{os.path.basename(target.path)}/ro") == "1":
        raise BadInputError(f"{target.path} is read-only; measure it with --readonly")
    # Before the claim: udev may still look at what somebody has just written.
    inuse.settle()
    with _exclusive(target.path) as (device, busy):
        name = os.path.basename(target.path)
        reasons = tuple(inuse.device_reasons(system, name, device))
        # A user that the kernel knows and nothing of ours finds is a user all the same.
        if busy and not reasons:
            reasons = ("the kernel says that it is in use",)
        if not reasons:
            # A look at what it holds after it is ours: nobody can put anything there now.
            reasons = tuple(f"it holds {kind}" for kind in inuse.signatures(target.path))
        _refuse(target, reasons, overwrite)
        yield Place(target.path, size)


def _refuse(target: Target, reasons: tuple[str, ...], overwrite: bool) -> None:
    if reasons:
        raise TargetInUseError(
            f"expected {target.path} unused and empty, found that {'; '.join(reasons[:5])}; "
            "nothing was written. Measure another, or read only with --readonly"
        )
    if not overwrite:
        raise BadInputError(
            f"the bench overwrites {target.path}: say --overwrite if nothing on it is needed, "
            "or --readonly"
        )


@contextlib.contextmanager
def _exclusive(path: str) -> Iterator[tuple[int, bool]]:
    """Holds a block device so that nothing can mount it or make it a member meanwhile.

    Gives its st_rdev and whether somebody else holds it that way (then it is not ours).
    """
    try:
        # On a block device O_EXCL without O_CREAT claims it (open(2)), with all its partitions.
        descriptor = os.open(path, os.O_RDONLY | os.O_EXCL | os.O_CLOEXEC)
    except OSError as error:
        if error.errno != errno.EBUSY:
            raise BadInputError(f"cannot open {path}: {error.strerror}") from error
        yield os.stat(path).st_rdev, True
        return
    try:
        yield os.fstat(descriptor).st_rdev, False
    finally:
        os.close(descriptor)


@contextlib.contextmanager
def _new_file(directory: Path, size: int) -> Iterator[str]:
    """A file of our own that nobody else had, with room for ``size`` bytes, gone afterwards."""
    path = directory / f"nvme-bench-{secrets.token_hex(6)}.tmp"
    try:
        # O_EXCL, O_NOFOLLOW: no file and no link that somebody put there is written through.
        descriptor = os.open(path, os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_WRONLY, 0o600)
    except OSError as error:
        raise BadInputError(f"cannot make a file in {directory}: {error.strerror}") from error
    try:
        try:
            # The room is taken now, so that no other writer ends the run in its middle.
            os.posix_fallocate(descriptor, 0, size)
        except OSError as error:
            raise BadInputError(
                f"expected room for {size_text(size)} in {directory}, found {error.strerror}; give "
                "a smaller --size or another directory"
            ) from error
        finally:
            os.close(descriptor)
        yield str(path)
    finally:
        path.unlink(missing_ok=True)


@contextlib.contextmanager
def source_files(target: Target) -> Iterator[str]:
    """The stem of the source's file names (``/mnt/test``); what fio made is gone afterwards.

    Raises :class:`BadInputError` where the target is no directory, and :class:`TargetInUseError`
    where one of the names is somebody's.
    """
    if target.kind != DIRECTORY:
        raise BadInputError(
            f"this preset is the source's own line and makes files: expected a directory, found "
            f"the {target.kind} {target.path}"
        )
    stem = Path(target.path) / "test"
    # fio names a job's file after the job, the job's number, and the file's.
    files = [Path(f"{stem}.{job}.0") for job in range(SOURCE_JOBS)]
    there = [path.name for path in files if os.path.lexists(path)]
    if there:
        raise TargetInUseError(
            f"expected none of fio's files in {target.path}, found {', '.join(there[:3])}; "
            "move them, or name another directory"
        )
    try:
        yield str(stem)
    finally:
        for path in files:
            path.unlink(missing_ok=True)
