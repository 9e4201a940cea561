"""Checking what the tenant asks for, before anything is looked at."""

from __future__ import annotations

import re

from .errors import Refusal
from .model import Wish

_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_-]{0,30}\Z")
_DIGITS = re.compile(r"md_?d?[0-9]+\Z")
_LABEL = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,11}\Z")
_MOUNT = re.compile(r"(/[A-Za-z0-9_.@+-]+)+\Z")
_OPTION = re.compile(r"[A-Za-z0-9_.=:@/%+-]+\Z")
_UNIT = re.compile(r"[A-Za-z0-9_.@:\\-]+\.(service|socket|target|mount|timer|path|slice)\Z")
_SYSTEM = (
    *("/bin", "/boot", "/dev", "/efi", "/etc", "/lib", "/lib32", "/lib64", "/libx32", "/proc"),
    *("/run", "/sbin", "/sys", "/usr", "/var/lock", "/var/run"),
    *("/var/lib/cloud", "/var/lib/dpkg", "/var/lib/nvme-raid", "/var/lib/rpm", "/var/lib/systemd"),
)
"""With all below them."""
_SYSTEM_ITSELF = frozenset(
    {"/", "/root", "/tmp", "/var", "/var/cache", "/var/lib"}  # noqa: S108
    | {"/var/log", "/var/spool", "/var/tmp"}  # noqa: S108
)
"""The system lives there, or needs its own mode there; directories below are anybody's. /home is a
legitimate wish: the system starts without it, and files that the mount would hide are told of."""
_CHUNK_MINIMUM = 4 << 10
_CHUNK_MAXIMUM = 64 << 20
_MOST_DRIVES = 64


def of_the_system(path: str) -> bool:
    """Whether a directory is no place for a filesystem that comes and goes with the drives."""
    below = any(path == top or path.startswith(top + "/") for top in _SYSTEM)
    return below or path in _SYSTEM_ITSELF


def checked(wish: Wish) -> Wish:
    """The wish, when each part of it can be had. Raises :class:`Refusal` with all that cannot."""
    wrong = []
    if not 1 <= wish.drives <= _MOST_DRIVES:
        wrong.append(f"drives: expected 1 to {_MOST_DRIVES}, found {wish.drives}")
    if not _NAME.match(wish.name) or _DIGITS.match(wish.name):
        wrong.append(
            f"name: expected a letter and up to 30 letters, digits, - or _, and no number like "
            f"md0 (the kernel's own), found {wish.name!r}"
        )
    if not _LABEL.match(wish.label):
        wrong.append(f"label: expected 1 to 12 letters, digits, . - or _, found {wish.label!r}")
    if not _MOUNT.match(wish.mount) or {".", ".."} & set(wish.mount.split("/")):
        wrong.append(f"mount: expected an absolute path of plain characters, found {wish.mount!r}")
    elif of_the_system(wish.mount):
        wrong.append(f"mount: expected a directory for data, found the system's own {wish.mount}")
    if not _CHUNK_MINIMUM <= wish.chunk <= _CHUNK_MAXIMUM or wish.chunk & (wish.chunk - 1):
        wrong.append(
            f"chunk: expected a power of two from 4 to 65536 KiB, found {wish.chunk // 1024} KiB"
        )
    wrong += [
        f"mount option: expected one plain option each, found {option!r}"
        for option in wish.options
        if not _OPTION.match(option)
    ]
    # The next boot mounts its autofs there: the mount table would show no filesystem of ours.
    wrong += [
        f"mount option: expected a mount at boot, found {option!r}"
        for option in wish.options
        if option == "x-systemd.automount"
    ]
    wrong += [
        f"before: expected the full name of a systemd unit, found {unit!r}"
        for unit in wish.before
        if not _UNIT.match(unit)
    ]
    if not 1 <= wish.device_timeout <= 3600:
        wrong.append(f"device timeout: expected 1 to 3600 s, found {wish.device_timeout}")
    if wrong:
        raise Refusal(tuple(wrong))
    return wish
