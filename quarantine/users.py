"""Users of this machine: what they are called, and whose a file is that we make."""

from __future__ import annotations

import os
import pwd
from pathlib import Path


def name(uid: int) -> str:
    """What the machine calls a user; the number where it has no name."""
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return f"uid {uid}"


def hand_over(descriptor: int, path: Path) -> str:
    """Root's new file to whom its directory belongs, the service's user; the owner's name.

    Raises ``OSError``.
    """
    if os.geteuid() == 0:
        there = path.parent.stat()
        os.fchown(descriptor, there.st_uid, there.st_gid)
    return name(os.fstat(descriptor).st_uid)
