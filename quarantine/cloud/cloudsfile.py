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
    """Without those of ``here``, the working directory, that others may write to.

    ``files`` are in openstacksdk's order, so what it lists twice is the working directory's first.
    The second one stays: there the site or the user put it.
    """
    kept = list(files)
    directory_is_ours = _is_ours(Path(here))
    for file in dict.fromkeys(files):
        if os.path.dirname(file) != here or (directory_is_ours and _nobody_elses(file)):
            continue
        kept.remove(file)
        if file not in kept and os.path.lexists(file):
            LOG.warning(
                "%s is passed over: others may write to it, to its directory, or above it", file
            )
    return kept


def _is_ours(directory: Path) -> bool:
    """Nobody but root and we can put anything there, nor another directory in its place."""
    for place in (directory, *directory.parents):
        try:
            found = os.stat(place)
        except OSError:
            return False  # gone, or not for us
        # Of a directory with the sticky bit nobody takes away what is another's.
        shares = place == directory or not found.st_mode & stat.S_ISVTX
        if found.st_uid not in (0, os.geteuid()) or (shares and _others_write(found)):
            return False
    return True


def _nobody_elses(file: str) -> bool:
    """Only root and we can write to the file, or there is none."""
    try:
        found = os.stat(file)
    except FileNotFoundError:
        return not os.path.lexists(file)  # a link may lead to where others make one
    except OSError:
        return False
    return found.st_uid in (0, os.geteuid()) and not _others_write(found)


def _others_write(found: os.stat_result) -> bool:
    by_group = found.st_mode & stat.S_IWGRP and found.st_gid not in (0, os.getegid())
    return bool(by_group or found.st_mode & stat.S_IWOTH)
