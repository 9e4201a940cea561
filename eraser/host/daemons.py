"""What the gate wants to know of processes: nova-compute and its patch, guests, their times.

Read from /proc alone.
"""

from __future__ import annotations

import contextlib
import os
import signal
from pathlib import Path

from eraser.host import openers, statx
from eraser.host.proc import Process
from eraser.host.sysfs import Host

PATCH_MARK = "/memfd:nvme-quarantine-patch:"
"""nova_patch holds a memfd of this name open in every nova-compute that it was applied to."""


def nova_computes(host: Host, running: tuple[Process, ...]) -> tuple[Process, ...]:
    """Every nova-compute, however it was started."""
    return tuple(process for process in running if _is_nova_compute(host, process))


def _is_nova_compute(host: Host, process: Process) -> bool:
    if process.name == "nova-compute":
        return True
    # nova-compute runs as a Python program, or under a name of its own.
    if not process.name.startswith(("python", "nova")):
        return False
    try:
        words = host.text(f"{process.directory}/cmdline").split("\0")
    except OSError:
        return False
    if words[0].startswith("nova-compute"):
        return True  # it set its own title
    options = iter(words[1:])
    for word in options:
        if word == "-m":
            return next(options, "") == "nova.cmd.compute"
        # These options of Python take a word of their own.
        if word in ("-W", "-X"):
            next(options, "")
        elif not word.startswith("-"):
            return os.path.basename(word) == "nova-compute"
    return False


def patches(host: Host, process: Process) -> tuple[str, ...]:
    """The names of our patch's marks in a process. Raises ``OSError``."""
    return tuple(
        target.removeprefix("/memfd:").removesuffix(" (deleted)")
        for target in sorted(target for _path, target in _open_files(host, process))
        if target.startswith(PATCH_MARK)
    )


def vfio_guests(host: Host, running: tuple[Process, ...]) -> tuple[int, ...]:
    """QEMU processes that hold a VFIO group or device: guests with PCI functions of this host.

    Raises ``OSError``.
    """
    majors = openers.vfio_majors(host)
    return tuple(
        process.pid
        for process in running
        if process.name.startswith(("qemu", "kvm"))
        and any(
            target.startswith("/dev/vfio/") and _may_be_vfio(path, majors)
            for path, target in _open_files(host, process)
        )
    )


def _may_be_vfio(path: Path, majors: frozenset[int] | None) -> bool:
    """Any user can have a file of such a name: the device behind it counts. Raises ``OSError``."""
    try:
        return openers.may_be_vfio(statx.device(path), majors)
    except FileNotFoundError:
        return True  # the kernel does not tell any more that it was something else
    except OSError as error:
        if error.errno in openers.NO_NODE:
            return False
        raise


def _open_files(host: Host, process: Process) -> list[tuple[Path, str]]:
    """The process's descriptors in /proc, and what each leads to; none where it has ended."""
    directory = f"{process.directory}/fd"
    found = []
    for number in host.children(directory):
        path = host.path(f"{directory}/{number}")
        with contextlib.suppress(FileNotFoundError):
            found.append((path, os.readlink(path)))
    return found


def age(host: Host, process: Process) -> float:
    """Seconds since it started, on the clock that nobody can set."""
    return host.clock.boottime() - process.start / os.sysconf("SC_CLK_TCK")


def started_at(host: Host, process: Process) -> float:
    """When it started, seconds since the epoch on the present clock. Raises ``OSError``."""
    for line in host.text("/proc/stat").splitlines():
        if line.startswith("btime "):
            return int(line.split()[1]) + process.start / os.sysconf("SC_CLK_TCK")
    raise OSError("expected a line btime in /proc/stat, found none")


def tell_to_look(process: Process) -> None:
    """SIGHUP: libvirt reads its configuration and looks for hooks; guests do not notice."""
    os.kill(process.pid, signal.SIGHUP)
