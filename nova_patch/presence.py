"""A sign that root can see from outside of nova-compute, without its configuration.

An open memfd: while the process lives, a ``/proc/PID/fd/N`` of it points to
``/memfd:nvme-quarantine-patch:VERSION:RELEASE (deleted)``. It is closed on exec, so a privsep
helper, sudo or qemu-img that nova-compute starts does not show it; a fork without exec does, and
has the patch.
"""

from __future__ import annotations

import os

from . import VERSION

PREFIX = "nvme-quarantine-patch"

_kept: list[int] = []


def announce(release: str) -> None:
    """Shows the sign; ``release`` is Nova's. Once per process."""
    _kept.append(os.memfd_create(f"{PREFIX}:{VERSION}:{release}", os.MFD_CLOEXEC))
