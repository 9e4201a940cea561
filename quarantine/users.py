"""Users of this machine: what they are called, who acts, and whose a file is that we make."""

from __future__ import annotations

import os
import pwd
from pathlib import Path
from typing import Final

_LOGIN: Final = Path("/proc/self/loginuid")
_NUMBERS: Final = Path("/proc/self/uid_map")
_NO_LOGIN: Final = 2**32 - 1
"""Of what no login began: a service, a container, a machine without PAM's ``pam_loginuid``."""


def name(uid: int) -> str:
    """What the machine calls a user; the number where it has no name."""
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return f"uid {uid}"


def who() -> str:
    """Who runs this, by the kernel's word: who logged in, and as whom where that is another.

    What the environment says (``LOGNAME``, ``SUDO_USER``) anybody may set. In a user namespace of
    his own anybody is whom he likes, so that is said.
    """
    user, login = os.geteuid(), _login()
    found = name(user) if login in (None, user) else f"{name(login)} as {name(user)}"
    return f"{found} (in a user namespace)" if _has_own_numbers() else found


def _login() -> int | None:
    """Whoever logged in: ``sudo`` and ``su`` leave it as it is (proc(5), ``loginuid``)."""
    try:
        found = int(_LOGIN.read_text("ascii"))
    except (OSError, ValueError):
        return None
    return None if found == _NO_LOGIN else found


def _has_own_numbers() -> bool:
    """Users have other numbers here than outside (user_namespaces(7), ``uid_map``)."""
    try:
        return _NUMBERS.read_text("ascii").split() != ["0", "0", str(_NO_LOGIN)]
    except (OSError, ValueError):
        return False  # a kernel without such namespaces


def hand_over(descriptor: int, path: Path) -> str:
    """Root's new file to whom its directory belongs, the service's user; the owner's name.

    Raises ``OSError``.
    """
    if os.geteuid() == 0:
        there = path.parent.stat()
        os.fchown(descriptor, there.st_uid, there.st_gid)
    return name(os.fstat(descriptor).st_uid)
