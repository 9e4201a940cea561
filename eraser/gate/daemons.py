"""Processes of this host that the gate depends on: libvirt's daemon, nova-compute, guests.

Read from /proc alone. A daemon may live in a container with an /etc of its own: what it sees is
looked at through its own root.
"""

from __future__ import annotations

import contextlib
import os
import signal
import time
from collections.abc import Iterator
from dataclasses import dataclass

from eraser.drive.sysfs import Host

LIBVIRT_DAEMONS = ("libvirtd", "virtqemud")
"""Those that start guests: the one for all, or the modular one for QEMU."""

PATCH_MARK = "/memfd:nvme-quarantine-patch:"
"""nova_patch holds a memfd of this name open in every nova-compute that it was applied to."""


@dataclass(frozen=True)
class Process:
    """``start`` is in clock ticks since boot (proc(5), stat, field 22): with the pid, who it is."""

    pid: int
    name: str
    start: int

    @property
    def directory(self) -> str:
        """Its place in /proc."""
        return f"/proc/{self.pid}"


def processes(host: Host) -> Iterator[Process]:
    """Every process that has not ended."""
    for entry in host.children("/proc"):
        if not entry.isdecimal():
            continue
        try:
            head, _, rest = host.text(f"/proc/{entry}/stat").rpartition(")")
            fields = rest.split()
            if fields[0] not in ("Z", "X"):
                yield Process(int(entry), head.partition("(")[2], int(fields[19]))
        except (OSError, ValueError, IndexError):
            continue  # it ended while we looked


def libvirt_daemons(host: Host, running: tuple[Process, ...]) -> tuple[Process, ...]:
    """The daemons that serve the system: root's own. A user's session daemon passes no drives."""
    return tuple(
        process
        for process in running
        if process.name in LIBVIRT_DAEMONS and _uid(host, process) == 0
    )


def _uid(host: Host, process: Process) -> int | None:
    try:
        for line in host.text(f"{process.directory}/status").splitlines():
            if line.startswith("Uid:"):
                return int(line.split()[2])  # the effective one
    except (OSError, ValueError, IndexError):
        pass
    return None


def view(host: Host, process: Process) -> str:
    """What to put before a path to see it as the process does; empty where it sees what we see."""
    try:
        theirs = host.link(f"{process.directory}/ns/mnt")
        ours = host.link("/proc/self/ns/mnt")
    except OSError:
        return ""
    return "" if theirs in (None, ours) or ours is None else f"{process.directory}/root"


def nova_computes(host: Host, running: tuple[Process, ...]) -> tuple[Process, ...]:
    """Every nova-compute, however it was started."""
    return tuple(process for process in running if _is_nova_compute(host, process))


def _is_nova_compute(host: Host, process: Process) -> bool:
    if process.name == "nova-compute":
        return True
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
        if word in ("-W", "-X"):
            next(options, "")
        elif not word.startswith("-"):
            return os.path.basename(word) == "nova-compute"
    return False


def patches(host: Host, process: Process) -> tuple[str, ...]:
    """The names of our patch's marks in a process. Raises ``OSError``."""
    return tuple(
        target.removeprefix("/memfd:").removesuffix(" (deleted)")
        for target in sorted(_open_files(host, process))
        if target.startswith(PATCH_MARK)
    )


def vfio_guests(host: Host, running: tuple[Process, ...]) -> tuple[int, ...]:
    """QEMU processes that hold a VFIO group: guests with PCI functions of this host.

    Raises ``OSError``.
    """
    return tuple(
        process.pid
        for process in running
        if process.name.startswith(("qemu", "kvm"))
        and any(target.startswith("/dev/vfio/") for target in _open_files(host, process))
    )


def _open_files(host: Host, process: Process) -> list[str]:
    """What its descriptors lead to; nothing where it has ended."""
    directory = f"{process.directory}/fd"
    found = []
    for number in host.children(directory):
        with contextlib.suppress(FileNotFoundError):
            found.append(os.readlink(host.path(f"{directory}/{number}")))
    return found


def age(process: Process) -> float:
    """Seconds since it started, on the clock that nobody can set."""
    return time.clock_gettime(time.CLOCK_BOOTTIME) - process.start / os.sysconf("SC_CLK_TCK")


def started_at(host: Host, process: Process) -> float:
    """When it started, seconds since the epoch on the present clock. Raises ``OSError``."""
    for line in host.text("/proc/stat").splitlines():
        if line.startswith("btime "):
            return int(line.split()[1]) + process.start / os.sysconf("SC_CLK_TCK")
    raise OSError("expected a line btime in /proc/stat, found none")


def boot_id(host: Host) -> str:
    """Which boot this is. Raises ``OSError``."""
    return host.text("/proc/sys/kernel/random/boot_id").strip()


def tell_to_look(process: Process) -> None:
    """SIGHUP: libvirt reads its configuration and looks for hooks; guests do not notice."""
    os.kill(process.pid, signal.SIGHUP)
