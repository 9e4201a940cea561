"""Carrying out steps. Each is safe to be cut short: the next look finds what is missing."""

from __future__ import annotations

import contextlib
import os
import stat
import tempfile
from functools import singledispatch

from . import command, files, fstab
from .errors import RaidError
from .steps import (
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

_REBUILD_S = 900.0
_MAKE_S = 900.0
_LOG_UNIT = 32 << 10
"""Bytes. The largest that XFS takes is 256 KiB, less than a usual chunk; mkfs.xfs falls back to
this with a warning, so it is asked for."""
_RUNNING_SYSTEMD = "/run/systemd/system"
_SECURITY_LABEL = "security.selinux"


def act(step: Step) -> None:
    """Do it. Raises :class:`RaidError`."""
    _act(step)


@singledispatch
def _act(step: Step) -> None:
    raise RaidError(f"expected a step, found {step!r}")


@_act.register
def _create(step: CreateArray) -> None:
    command.must(
        [
            *("mdadm", "--create", step.node, "--run", "--level=0", "--metadata=1.2"),
            *(f"--raid-devices={len(step.devices)}", f"--chunk={step.chunk // 1024}"),
            # Any home host: the array keeps its name on a machine whose host name came later.
            *(f"--name={step.name}", "--homehost=any", *step.devices),
        ],
        seconds=_MAKE_S,
    )
    # udev makes the link some time after mdadm has ended.
    command.settle()


@_act.register
def _assemble(step: Assemble) -> None:
    if step.stop:
        command.must(["mdadm", "--stop", step.stop])
        command.settle()
    command.must(
        [*("mdadm", "--assemble", step.node, f"--uuid={step.uuid}", "--run"), *step.devices]
    )
    command.settle()


@_act.register
def _relink(step: Relink) -> None:
    command.must(["udevadm", "trigger", "--action=change", step.device])
    command.settle()


@_act.register
def _make_xfs(step: MakeXfs) -> None:
    # No -f but over what it did not finish: mkfs.xfs refuses by itself where it sees a filesystem.
    # No discard (-K): the drives come erased, and fstrim.timer tells them later what is free.
    argv = ["mkfs.xfs", "-q", "-K", *(["-f"] if step.unfinished else []), "-L", step.label]
    if step.stripe_unit:
        unit = step.stripe_unit // 1024
        argv += ["-d", f"su={unit}k,sw={step.stripe_count}"]
        argv += ["-l", f"su={min(step.stripe_unit, _LOG_UNIT) // 1024}k"]
    command.must([*argv, step.device], seconds=_MAKE_S)
    command.settle()


@_act.register
def _relabel(step: Relabel) -> None:
    if step.point:
        command.must(["xfs_io", "-c", f"label -s {step.label}", step.point])
    else:
        command.must(["xfs_admin", "-L", step.label, step.device])
    if command.udev():
        command.run(["udevadm", "trigger", "--action=change", os.path.realpath(step.device)])
        command.settle()


@_act.register
def _write(step: WriteFile) -> None:
    if step.voids:
        try:
            os.unlink(step.voids)
        except FileNotFoundError:
            pass
        except OSError as error:
            raise RaidError(f"expected to remove {step.voids}, found {error.strerror}") from error
    write_file(step.path, step.after)
    if step.path == fstab.PATH:
        _reload()


@_act.register
def _rebuild(step: RebuildInitramfs) -> None:
    command.must(step.command, seconds=_REBUILD_S)
    write_file(files.STAMP, step.stamp + "\n")


@_act.register
def _make_directory(step: MakeDirectory) -> None:
    try:
        os.makedirs(step.path, mode=0o755, exist_ok=True)
    except OSError as error:
        raise RaidError(f"expected to make {step.path}, found {error.strerror}") from error


@_act.register
def _mount(step: Mount) -> None:
    # A run that was killed after it wrote fstab left the unit of earlier drives, and as theirs are
    # gone systemd would take the mount away again.
    _reload()
    command.must(["mount", step.point])


def _reload() -> None:
    """Tell systemd, where it runs, of the lines in fstab."""
    if os.path.isdir(_RUNNING_SYSTEMD):
        command.must(["systemctl", "daemon-reload"])


@_act.register
def _remount(step: Remount) -> None:
    command.must(["mount", "-o", "remount," + ",".join(step.options), step.point])


@_act.register
def _enable_trim(step: EnableTrim) -> None:
    now = ["--now"] if os.path.isdir(_RUNNING_SYSTEMD) else []
    command.must(["systemctl", "enable", *now, "fstrim.timer"])


def write_file(path: str, text: str) -> None:
    """Replace a file so that a power cut leaves the old or the new one; mode, owner and SELinux
    label stay. Raises :class:`RaidError`."""
    # A link (Debian's /etc/mdadm.conf may be one) stays a link.
    target = os.path.realpath(path)
    directory = os.path.dirname(target)
    try:
        os.makedirs(directory, mode=0o755, exist_ok=True)
        fd, part = tempfile.mkstemp(dir=directory, prefix=".nvme-raid-")
        try:
            with os.fdopen(fd, "wb") as handle:
                handle.write(text.encode("utf-8", "surrogateescape"))
                _take_over(target, handle.fileno())
                handle.flush()
                os.fsync(handle.fileno())
            os.replace(part, target)
        except BaseException:
            with contextlib.suppress(OSError):
                os.unlink(part)
            raise
        sync = os.open(directory, os.O_RDONLY)
        try:
            os.fsync(sync)
        finally:
            os.close(sync)
    except OSError as error:
        raise RaidError(f"expected to write {path}, found {error.strerror}") from error


def _take_over(old: str, fd: int) -> None:
    """Give the new file what the old one had."""
    try:
        had = os.stat(old)
    except FileNotFoundError:
        os.fchmod(fd, 0o644)
        return
    os.fchown(fd, had.st_uid, had.st_gid)
    os.fchmod(fd, stat.S_IMODE(had.st_mode))
    with contextlib.suppress(OSError):
        # Not every machine has SELinux, nor every filesystem labels.
        os.setxattr(fd, _SECURITY_LABEL, os.getxattr(old, _SECURITY_LABEL))
