"""The commands that make host-setup's files count: run, or plainly said to be left."""

from __future__ import annotations

import shlex
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from eraser.defences import bootimages, hostrules
from eraser.errors import DriveError
from eraser.host import command

SECONDS = 1200.0
"""For one of them: an initramfs for each kernel is packed on a slow disk."""


@dataclass(frozen=True)
class Reloads:
    """What was run, and what was not or failed: each with why, for people."""

    done: tuple[str, ...] = ()
    failed: tuple[tuple[str, str], ...] = ()

    @property
    def pending(self) -> tuple[str, ...]:
        """The commands that are still to be run."""
        return tuple(line for line, _why in self.failed)


def run(lines: Iterable[str], root: Path = Path("/")) -> Reloads:
    """Runs each command line, the later ones also where an earlier one fails."""
    done: list[str] = []
    failed: list[tuple[str, str]] = []
    for line in lines:
        before = bootimages.images(root)
        why = _run(shlex.split(line))
        if line == bootimages.UPDATE and not why:
            why = bootimages.unmade(before, root, hostrules.IN_INITRAMFS)
            if not why:
                bootimages.date_back(root, hostrules.UDEV_RULES)
        if why:
            failed.append((line, why))
        else:
            done.append(line)
    return Reloads(tuple(done), tuple(failed))


def _run(argv: list[str]) -> str:
    try:
        found = command.run(argv, timeout=SECONDS)
    except (DriveError, OSError) as error:
        return str(error)
    if found.exit_code is None:
        return f"no end within {SECONDS:g} s"
    if found.exit_code:
        said = found.stderr.strip().rpartition("\n")[2]
        return f"exit code {found.exit_code}{said and f': {said}'}"
    return ""
