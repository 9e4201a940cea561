"""Which file mdadm reads here.

Of two that it knows it reads the first that is there, and never the other (mdadm.conf(5), FILES):
/etc/mdadm.conf and then /etc/mdadm/mdadm.conf. Debian's mdadm is built the other way round.
"""

from __future__ import annotations

from pathlib import Path

PLACES = ("/etc/mdadm.conf", "/etc/mdadm/mdadm.conf")
_DEBIAN = frozenset({"debian", "ubuntu"})


def place(root: Path) -> str:
    """A file that is there is kept to: one before it would take the host's arrays from mdadm."""
    order = PLACES[::-1] if _debian(root) else PLACES
    return next((each for each in order if (root / each.lstrip("/")).exists()), order[0])


def _debian(root: Path) -> bool:
    """By ID and ID_LIKE of os-release(5), or without these by the program that makes an initramfs
    there."""
    words: list[str] = []
    for file in ("etc/os-release", "usr/lib/os-release"):
        try:
            text = (root / file).read_text("utf-8", "replace")
        except OSError:
            continue
        for line in text.splitlines():
            key, _, value = line.partition("=")
            if key in ("ID", "ID_LIKE"):
                words += value.strip().strip("\"'").lower().split()
        break
    if not words:
        return (root / "usr/sbin/update-initramfs").exists()
    return not _DEBIAN.isdisjoint(words)
