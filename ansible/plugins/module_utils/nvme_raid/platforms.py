"""Debian's places and Enterprise Linux's: mdadm.conf and the initramfs."""

from __future__ import annotations

import shutil
from collections.abc import Callable

from . import command
from .model import Platform

_OS_RELEASE = "/etc/os-release"
_DEBIAN = frozenset({"debian", "ubuntu"})


def platform() -> Platform:
    """The platform of this machine."""
    try:
        with open(_OS_RELEASE, encoding="utf-8", errors="replace") as handle:
            text = handle.read()
    except OSError:
        text = ""
    path = command.ENVIRONMENT["PATH"]
    return of(text, lambda name: shutil.which(name, path=path) is not None)


def of(os_release: str, has: Callable[[str], bool]) -> Platform:
    """The platform that os-release(5) and the programs that are there speak of.

    Debian and Ubuntu keep /etc/mdadm/mdadm.conf, everybody else /etc/mdadm.conf (mdadm.conf(5)
    reads both). A Debian may have dracut in place of initramfs-tools.
    """
    names = _identities(os_release)
    debian = bool(names & _DEBIAN) or (not names and has("update-initramfs"))
    rebuild: tuple[str, ...] = ()
    dracut = False
    if has("update-initramfs"):
        rebuild = ("update-initramfs", "-u")
    elif has("dracut"):
        rebuild, dracut = ("dracut", "--force"), True
    conf = "/etc/mdadm/mdadm.conf" if debian else "/etc/mdadm.conf"
    return Platform(conf, rebuild, dracut, has("systemctl"))


def _identities(os_release: str) -> frozenset[str]:
    """ID and ID_LIKE."""
    words: list[str] = []
    for line in os_release.splitlines():
        key, _, value = line.partition("=")
        if key in ("ID", "ID_LIKE"):
            words += value.strip().strip("\"'").lower().split()
    return frozenset(words)
