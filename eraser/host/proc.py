"""Processes of this host, and libvirt's daemons among them.

Read from /proc alone, which in a PID namespace of its own, as a container has one by default, does
not list what runs on the host: :func:`blind`. A daemon may live in a container with an /etc of its
own: what it sees is looked at through its own root.
"""

from __future__ import annotations

import errno
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from eraser.host.sysfs import Host

LIBVIRT_DAEMONS = ("libvirtd", "virtqemud")
"""Those that start guests: the one for all, or the modular one for QEMU."""

ALL_PIDS = f"pid:[{0xEFFFFFFC}]"
"""The initial PID namespace, from which every process is seen. Its number is the same in each
kernel since Linux 3.8 (PROC_PID_INIT_INO in include/linux/proc_ns.h; PID_NS_INIT_INO)."""

_GONE = frozenset({errno.ENOENT, errno.ESRCH})
"""What reading in the directory of a process meets that ends just then (proc(5))."""

_ENDED = ("Z", "X")
"""States of a process that runs no more, reaped or not yet (proc(5), stat)."""


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


FIRST: Final = Process(1, "init", 0)
"""Sees this host's files, whatever we see."""


def blind(host: Host) -> str:
    """Why /proc does not list every process of the host; empty where it does."""
    try:
        found = host.link("/proc/self/ns/pid")
        # A kernel without PID namespaces (CONFIG_PID_NS) has one for all, and shows none.
        if found == ALL_PIDS or (found is None and host.link("/proc/self/ns/mnt") is not None):
            return ""
    except OSError as error:
        found = str(error)
    return (
        f"expected to see every process of this host (/proc/self/ns/pid is {ALL_PIDS}), found "
        f"{found or 'none'}: a container needs the host's PID namespace (--pid=host)"
    )


def processes(host: Host) -> Iterator[Process]:
    """Every process that has not ended. Raises ``OSError`` where one cannot be looked at: it might
    be a daemon that serves guests."""
    for entry in host.children("/proc"):
        if not entry.isdecimal():
            continue
        try:
            # From the last parenthesis: a process may have parentheses and blanks in its name.
            head, _, rest = host.text(f"/proc/{entry}/stat").rpartition(")")
            fields = rest.split()
            if fields[0] not in _ENDED:
                yield Process(int(entry), head.partition("(")[2], int(fields[19]))
        except OSError as error:
            if error.errno not in _GONE:
                raise
        except (ValueError, IndexError):
            continue  # it ended while we looked


def is_alive(host: Host, pid: int) -> bool:
    """Whether a process runs; one that nobody has reaped yet does not. Raises ``OSError``."""
    try:
        stat = host.text(f"/proc/{pid}/stat")
    except (FileNotFoundError, ProcessLookupError):
        return False
    return stat.rpartition(")")[2].split()[0] not in _ENDED


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
    except OSError as error:
        if error.errno not in _GONE:
            raise
    except (ValueError, IndexError):
        pass
    return None


def view(host: Host, process: Process) -> str:
    """What to put before a path to see it as the process does; empty where it sees what we see, and
    where it has ended. Raises ``OSError`` where that cannot be told."""
    try:
        theirs = host.link(f"{process.directory}/ns/mnt")
        ours = host.link("/proc/self/ns/mnt")
    except OSError as error:
        # The first process has all capabilities, and who lacks one may not ask of it (ptrace(2)):
        # a service of the host sees what it sees.
        if process == FIRST and error.errno == errno.EACCES:
            return ""
        # Of one that has ended the kernel may say EACCES too (proc_ns_readlink in
        # fs/proc/namespaces.c).
        if error.errno not in _GONE and is_alive(host, process.pid):
            raise
        return ""
    return "" if theirs in (None, ours) or ours is None else f"{process.directory}/root"
