"""Which file mdadm reads here.

Of two that it knows it reads the first that is there, and never the other (mdadm.conf(5), FILES):
/etc/mdadm.conf and then /etc/mdadm/mdadm.conf. Debian's mdadm is built the other way round.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path

PLACES = ("/etc/mdadm.conf", "/etc/mdadm/mdadm.conf")
_DEBIAN = frozenset({"debian", "ubuntu"})
_ARRAY = re.compile(r"^arr(?:a|ay)?[ \t](.*(?:\n[ \t].*)*)", re.IGNORECASE | re.MULTILINE)
"""Three letters of a keyword are enough, in either case, and an indented line goes on with the one
before (mdadm.conf(5))."""


def place(root: Path) -> str:
    """A file that is there is kept to: one before it would take the host's arrays from mdadm."""
    order = PLACES[::-1] if _debian(root) else PLACES
    return next((each for each in order if (root / each.lstrip("/")).exists()), order[0])


def parts(root: Path, conf: str) -> tuple[str, ...]:
    """What mdadm reads besides ``conf``."""
    found = (root / f"{conf.lstrip('/')}.d").glob("*.conf")
    return tuple(sorted(f"{conf}.d/{each.name}" for each in found))


def unnamed(texts: Iterable[str], running: str) -> tuple[str, ...]:
    """Of the arrays that run those that no ARRAY line names, by their UUID, or a line without any
    by their device; ``running`` is /run/mdadm/map: name, metadata, UUID and device of each."""
    named = set[str]()
    for line in (line for text in texts for line in _ARRAY.findall(text)):
        words = line.lower().split()
        uuids = {word.removeprefix("uuid=") for word in words if word.startswith("uuid=")}
        named |= uuids or {_device(word) for word in words[:1]}
    arrays = (line.split() for line in running.splitlines())
    return tuple(
        each[0]
        for each in arrays
        if len(each) >= 3
        and named.isdisjoint({each[2].lower(), *(map(_device, each[:1] + each[3:]))})
    )


def _device(name: str) -> str:
    return name.lower().removeprefix("/dev/").removeprefix("md/")


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
