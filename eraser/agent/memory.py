"""Memory that a worker and its runners need, against what their unit may have.

Beyond its limit the kernel ends one of them: a drive's erase is then begun anew, and again, for
ever. So a worker that could come to that does not start.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from eraser.errors import BadInputError
from eraser.host.sysfs import Host

MIB = 1 << 20

WORKER_MIB = 64
"""The worker itself: Python, Celery and its looks at drives."""

RUNNER_MIB = 32
"""One erase: Python, 26 MiB at the most while it reads a drive, and the child that asks it."""

_GROUPS = "/sys/fs/cgroup"


def needed(max_running: int) -> int:
    """Bytes for a worker that erases ``max_running`` drives at once."""
    return (WORKER_MIB + RUNNER_MIB * max_running) * MIB


def limit(host: Host) -> int | None:
    """Bytes that this process's cgroups allow, the least of all; None where none of them does, or
    nothing can be read of it."""
    found = [value for path in _files(host) if (value := _number(path)) is not None]
    return min(found, default=None)


def check(host: Host, max_running: int) -> None:
    """Raises :class:`BadInputError` where the limit is below what is needed."""
    allowed, wanted = limit(host), needed(max_running)
    if allowed is not None and allowed < wanted:
        raise BadInputError(
            f"expected {wanted // MIB} MiB of memory for max_running = {max_running} "
            f"({WORKER_MIB} + {RUNNER_MIB} each), found that the unit may have "
            f"{allowed // MIB} MiB: raise MemoryMax= (systemctl edit nvme-eraser-worker), or lower "
            "[worker]max_running"
        )


def _files(host: Host) -> Iterator[Path]:
    """The files with limits, of the process's own group and of those around it: cgroup version 2,
    and 1 (proc(5), cgroups(7))."""
    try:
        lines = host.text("/proc/self/cgroup").splitlines()
    except OSError:
        return
    for line in lines:
        # HIERARCHY:CONTROLLERS:PATH, with no controllers for version 2.
        _hierarchy, controllers, path = (*line.split(":", 2), "", "")[:3]
        if not controllers:
            top, name = _GROUPS, "memory.max"
        elif "memory" in controllers.split(","):
            top, name = f"{_GROUPS}/memory", "memory.limit_in_bytes"
        else:
            continue
        for group in (Path(path), *Path(path).parents):
            yield host.path(f"{top}/{str(group).lstrip('/')}") / name


def _number(path: Path) -> int | None:
    try:
        return int(path.read_text())
    except (OSError, ValueError):
        return None  # "max", or no such group here
