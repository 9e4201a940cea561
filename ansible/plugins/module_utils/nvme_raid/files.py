"""The managed files: mdadm.conf, then the initramfs with it, then fstab."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

from . import fstab, mdadmconf
from .model import Machine, Wish
from .steps import RebuildInitramfs, Step, WriteFile

DRACUT = "/etc/dracut.conf.d/50-nvme-raid.conf"
_DRACUT_TEXT = (
    '# Written by nvme_raid: without this dracut leaves mdadm.conf out.\nmdadmconf="yes"\n'
)
STAMP = "/var/lib/nvme-raid/initramfs"
"""Says with which mdadm.conf we made the initramfs last: a run that was cut short between the two
is mended by the next one. Whoever changed mdadm.conf since may have made another initramfs with it,
so the stamp is void as soon as a file has to be written."""


def managed_files(
    machine: Machine,
    wish: Wish,
    array: str,
    uuid: str,
    own: Sequence[str],
    others: Sequence[str],
) -> list[Step]:
    """The steps for all files, none for those that are right. ``array`` is empty without one;
    ``own`` and ``others`` as for :func:`fstab.edited`."""
    steps: list[Step] = []
    if array:
        path = machine.platform.mdadm_conf
        before = machine.text(path)
        wanted = [(path, before, mdadmconf.edited(before, wish.node, array))]
        if machine.platform.dracut:
            wanted.append((DRACUT, machine.text(DRACUT), _DRACUT_TEXT))
        written = [WriteFile(*file, voids=STAMP) for file in wanted if file[1] != file[2]]
        steps += written
        # Read as surrogates: a comment in Latin-1 is no reason to stop.
        content = "\0".join(after for _, _, after in wanted).encode("utf-8", "surrogateescape")
        stamp = hashlib.sha256(content).hexdigest()
        stale = bool(written) or stamp != machine.initramfs_stamp
        if wish.initramfs and machine.platform.rebuild and stale:
            steps.append(RebuildInitramfs(machine.platform.rebuild, stamp))
    before = machine.text(fstab.PATH)
    after = fstab.edited(before or "", wish, uuid, own, others=others, point=machine.point)
    if before != after:
        steps.append(WriteFile(fstab.PATH, before, after))
    return steps
