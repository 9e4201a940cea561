"""Images that initramfs-tools made for this host's kernels: which lack host-setup's files.

The program's exit code does not tell: it is 0 as well where ``/boot`` is mounted read-only, where
``update_initramfs=no`` is set, and where no version is found (update-initramfs, ``ro_boot_check``,
``update``). So the images themselves are looked at.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from pathlib import Path

UPDATE = "update-initramfs -u -k all"
"""Without ``-k all`` only the newest kernel's is made anew, and an older one may be booted."""
UPDATE_NEWEST = "update-initramfs -u"
"""What earlier releases ran, and may have left undone."""

_PREFIX = "initrd.img-"
_KNOWN = "var/lib/initramfs-tools"
"""A file for each version that is meant by "all" (update-initramfs, ``get_sorted_versions``): an
image that was made otherwise has none."""

Images = Mapping[str, tuple[int, int, int]]
"""By name: inode, st_ctime_ns and st_mtime_ns."""


def images(root: Path) -> Images:
    """Those of kernels in /boot: one whose kernel is gone boots nothing, and is made no more."""
    boot, found = root / "boot", dict[str, tuple[int, int, int]]()
    for kernel in (*boot.glob("vmlinuz-*"), *boot.glob("vmlinux-*")):
        image = boot / f"{_PREFIX}{kernel.name.partition('-')[2]}"
        if image.exists():
            status = image.stat()
            found[image.name] = status.st_ino, status.st_ctime_ns, status.st_mtime_ns
    return found


def older(root: Path, files: Iterable[str]) -> tuple[str, ...]:
    """The images that were made before one of ``files`` was written."""
    places = [root / file.lstrip("/") for file in files]
    written = max((place.stat().st_mtime_ns for place in places if place.exists()), default=0)
    return tuple(name for name, (_, _, made) in sorted(images(root).items()) if made < written)


def unmade(before: Images, root: Path, files: Iterable[str]) -> str:
    """Why :data:`UPDATE` is not done, though it ended with 0; empty where each image has ``files``.

    One that is another than ``before`` was made just now, whatever the clock says.
    """
    now = images(root)
    left = [name for name in older(root, files) if now[name] == before.get(name)]
    if not left:
        return ""
    unknown = [
        version
        for version in (name.removeprefix(_PREFIX) for name in left)
        if not (root / _KNOWN / version).exists()
    ]
    told = [
        f"'all' does not name {version}: update-initramfs -c -t -k {version}" for version in unknown
    ]
    if len(unknown) < len(left):
        told.append(
            "is /boot mounted read-only, or update_initramfs=no in "
            "/etc/initramfs-tools/update-initramfs.conf?"
        )
    return "; ".join([f"exit code 0, but not made anew: {', '.join(left)}", *told])


def date_back(root: Path, file: str) -> None:
    """To be called where :func:`unmade` has found nothing: each image has ``file``, which is dated
    no later than they are. Written while the clock was ahead, it would have them count as older."""
    path = root / file.lstrip("/")
    made = min((each for _, _, each in images(root).values()), default=None)
    if made is not None and path.exists() and path.stat().st_mtime_ns > made:
        os.utime(path, ns=(made, made))
