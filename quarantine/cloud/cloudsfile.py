"""Which files openstacksdk may read a cloud from.

It looks into the working directory first, for ``clouds.yaml``, ``secure.yaml`` and
``clouds-public.yaml``. Whoever may write there answers as Placement and Nova, and is sent our
password: root who decides something in ``/tmp`` would believe any user of the machine.
"""

from __future__ import annotations

import logging
import os
import stat
from collections.abc import Sequence
from pathlib import Path

LOG = logging.getLogger(__name__)


def believed(files: Sequence[str], here: str) -> list[str]:
    """Without those of ``here``, the working directory, where others may write to it."""
    if _is_ours(Path(here)):
        return list(files)
    for file in files:
        if os.path.dirname(file) == here and os.path.lexists(file):
            LOG.warning("%s is passed over: others may write to its directory, or above it", file)
    return [file for file in files if os.path.dirname(file) != here]


def _is_ours(directory: Path) -> bool:
    """Nobody but root and we can put anything there, nor another directory in its place."""
    for place in (directory, *directory.parents):
        try:
            found = os.stat(place)
        except OSError:
            return False  # gone, or not for us
        # Of a directory with the sticky bit nobody takes away what is another's.
        shares = place == directory or not found.st_mode & stat.S_ISVTX
        by_group = found.st_mode & stat.S_IWGRP and found.st_gid not in (0, os.getegid())
        if found.st_uid not in (0, os.geteuid()):
            return False
        if shares and (by_group or found.st_mode & stat.S_IWOTH):
            return False
    return True
