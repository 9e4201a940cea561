"""What udev has looked at of a drive's disks.

It puts off the event of a disk or partition while somebody holds a flock on the whole disk, and
passes it by after three minutes (worker_lock_whole_disk and EVENT_RETRY_TIMEOUT_USEC in systemd's
src/udev): such a disk has no mark of host-setup's rules, and the host looks into it.
"""

from __future__ import annotations

import contextlib

from eraser.errors import DriveError
from eraser.host.sysfs import POLL, Host, Node, PciFunction

_DATA = "/run/udev/data"
"""A file for each device that udev has been through with (device_update_db)."""


def unseen(host: Host, address: str) -> tuple[Node, ...]:
    """Disks and partitions of the drive that udev has not been through with.

    None where no udev runs, and where the drive cannot be looked at.
    """
    if not host.path(_DATA).is_dir():
        return ()
    try:
        nodes = PciFunction(host, address).nodes()
    except (DriveError, OSError):
        return ()
    return tuple(
        node for node in nodes if node.block and not host.path(f"{_DATA}/b{node.numbers}").exists()
    )


def wait(host: Host, address: str, patience: float) -> float:
    """Waits until udev has seen all disks, ``patience`` seconds at most; what is left of them."""
    began = host.clock.monotonic()
    while unseen(host, address):
        if host.clock.monotonic() - began >= patience:
            return 0.0
        host.clock.sleep(POLL)
    return max(0.0, patience - (host.clock.monotonic() - began))


def announce(host: Host, address: str) -> None:
    """Tells udev anew of what it has not seen (Documentation/ABI/testing/sysfs-uevent)."""
    for node in unseen(host, address):
        # It may be gone by now; and a case has ended, whatever udev does.
        with contextlib.suppress(OSError):
            place = host.path(f"/sys/dev/block/{node.numbers}/uevent")
            with place.open("r+b", buffering=0) as file:
                file.write(b"add")
