"""Memory of the worker and all its runners: one cgroup of their own in the compute guest."""

from __future__ import annotations

from typing import Final

from tests.lab.rack.guests import ComputeGuest

_GROUP: Final = "/sys/fs/cgroup/nvme-eraser"

_MAKE: Final = f"""
mkdir -p /sys/fs/cgroup
mountpoint -q /sys/fs/cgroup || mount -t cgroup2 none /sys/fs/cgroup
echo +memory >/sys/fs/cgroup/cgroup.subtree_control
mkdir -p {_GROUP}
"""

INSIDE: Final = ("/bin/sh", "-c", f'echo $$ >{_GROUP}/cgroup.procs && exec "$@"', "sh")
"""Before a command line: it and its children are counted."""

_SAMPLE: Final = f"""
top=0
while [ ! -e /run/stop-sampling ]; do
    while read -r name value; do
        if [ "$name" = anon ] && [ "$value" -gt "$top" ]; then top=$value; fi
    done <{_GROUP}/memory.stat
    echo "$top" >/run/anonymous.new && mv /run/anonymous.new /run/anonymous
    sleep 0.2
done
"""


def make(compute: ComputeGuest, limit: int | None = None) -> None:
    """The cgroup (version 2, memory controller), with a limit in bytes or none. Raises
    ``LabError`` where the kernel has none."""
    compute.sh(_MAKE)
    if limit is not None:
        compute.sh(f"echo {limit} >{_GROUP}/memory.max")


def ended_by_kernel(compute: ComputeGuest) -> int:
    """Processes that the kernel ended because the limit was reached (cgroup v2, memory.events)."""
    events = compute.sh(f"cat {_GROUP}/memory.events").stdout.split()
    return int(dict(zip(events[::2], events[1::2], strict=True))["oom_kill"])


def current(compute: ComputeGuest) -> int:
    """Bytes charged now, page cache included."""
    return _number(compute, f"{_GROUP}/memory.current")


def peak(compute: ComputeGuest) -> int:
    """The most bytes that were ever charged, page cache included."""
    return _number(compute, f"{_GROUP}/memory.peak")


def anonymous(compute: ComputeGuest) -> int:
    """Bytes now without page cache, which the kernel drops where memory is wanted."""
    stat = dict(
        line.split() for line in compute.sh(f"cat {_GROUP}/memory.stat").stdout.splitlines()
    )
    return int(stat["anon"])


def start_sampling(compute: ComputeGuest) -> None:
    """Note the most anonymous memory from now on, looked at five times a second."""
    compute.sh("rm -f /run/stop-sampling; echo 0 >/run/anonymous")
    compute.spawn(["/bin/sh", "-ec", _SAMPLE])


def stop_sampling(compute: ComputeGuest) -> int:
    """The most anonymous memory since then, in bytes."""
    compute.sh("touch /run/stop-sampling")
    return _number(compute, "/run/anonymous")


def _number(compute: ComputeGuest, path: str) -> int:
    return int(compute.get(path))
