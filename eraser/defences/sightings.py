"""When host-setup saw libvirt's hook, on a clock that nobody can set.

It proves to the self-check that a daemon is younger than the hook. The time of day does not: it may
be behind at boot until NTP sets it, or have been ahead when the hook was written, and a daemon
that is taken for an older one costs the host its free slots.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from eraser.host.proc import Process
from eraser.ownership.model import SteadyTime
from eraser.state import notes


@dataclass(frozen=True)
class Sighting:
    """This very file was there: its inode, its st_ctime_ns, and a moment after the look."""

    inode: int
    changed: int
    moment: SteadyTime

    def precedes(self, process: Process, boot: str) -> bool:
        """It was there before ``process``, which runs in ``boot``, started."""
        # All that runs started in this boot, so what was seen in another one was there before it.
        # The kernel gives the start in whole ticks and rounds it down, which errs to the safe side.
        return (
            self.moment.boot != boot
            or process.start / os.sysconf("SC_CLK_TCK") >= self.moment.seconds
        )


@dataclass(frozen=True)
class Sightings:
    """The newest host-setup's, of each hook file that it found."""

    hooks: tuple[Sighting, ...] = ()

    def renewed(self, found: Iterable[tuple[int, int]], now: SteadyTime) -> Sightings:
        """With what is there ``now``; of a file that was seen before the first sighting counts."""
        known = {(each.inode, each.changed): each for each in self.hooks}
        return Sightings(
            tuple(known.get(file) or Sighting(*file, now) for file in sorted(set(found)))
        )


def sightings_file(state_dir: Path) -> Path:
    """Where they are kept: not in host-setup's record, which earlier releases would refuse then."""
    return state_dir / "gate" / "hook-seen.json"


def save(state_dir: Path, sightings: Sightings) -> None:
    """Raises ``OSError``."""
    notes.save(sightings_file(state_dir), sightings)


def load(state_dir: Path) -> Sightings:
    """None of them where host-setup was last run by an earlier release.

    Raises :class:`BadInputError`.
    """
    return notes.load(sightings_file(state_dir), Sightings())
