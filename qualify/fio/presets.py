"""What can be run by name."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from qualify.fio.workload import GIB, KIB, MIB, Cell, Load, matrix

SOURCE_JOBS: Final = 32
SOURCE_FILE: Final = 64 * MIB
"""Each of the source's jobs has a file of its own."""


@dataclass(frozen=True)
class Preset:
    """A plan: which cells, how long each, and how many rounds of all of them."""

    name: str
    help: str
    cells: tuple[Cell, ...]
    seconds: int
    """Each cell's, in each round."""
    rounds: tuple[int, int]
    """Least and most. More than the least only until the target is steady."""
    size: int
    """Bytes of the target that are worked on."""
    source: str = ""
    """``randread`` or ``randwrite`` where fio's line is the source's own."""

    @property
    def tracked(self) -> Cell:
        """The cell by which steady state is judged: PTS takes 4K random writes."""
        return min(self.cells, key=lambda cell: (cell.reads, cell.block))


def source_options(access: str, stem: str) -> tuple[str, ...]:
    """The source's fio line, word for word; ``stem`` is ``/mnt/test`` there."""
    # Not made of SOURCE_LOAD: a quotation does not change with numbers of ours.
    return (
        "--bs=4k",
        "--direct=1",
        f"--rw={access}",
        "--randrepeat=0",
        "--ioengine=libaio",
        "--iodepth=32",
        "--runtime=120",
        "--group_reporting",
        "--time_based",
        "--filesize=64m",
        "--numjobs=32",
        f"--name={stem}",
    )


SOURCE_LOAD: Final = Load("libaio", 32, SOURCE_JOBS)

_CORNERS: Final = tuple(
    Cell(size, reads) for reads in (100, 70, 0) for size in (1024 * KIB, 4 * KIB)
)

PRESETS: Final = {
    preset.name: preset
    for preset in (
        Preset(
            "quick",
            "4K and 1M blocks, three mixes, five short rounds; under two minutes",
            _CORNERS,
            seconds=2,
            rounds=(5, 5),
            size=GIB,
        ),
        Preset(
            "matrix",
            "seven block sizes, seven mixes, a minute each, 5 to 25 rounds until steady: hours",
            matrix(),
            seconds=60,
            rounds=(5, 25),
            size=10 * GIB,
        ),
        Preset(
            "i1-read",
            "the source's fio line for 4k random reads, in a directory; two minutes",
            (Cell(4 * KIB, 100),),
            seconds=120,
            rounds=(1, 1),
            size=SOURCE_JOBS * SOURCE_FILE,
            source="randread",
        ),
        Preset(
            "i1-write",
            "the source's fio line for 4k random writes, in a directory; two minutes",
            (Cell(4 * KIB, 0),),
            seconds=120,
            rounds=(1, 1),
            size=SOURCE_JOBS * SOURCE_FILE,
            source="randwrite",
        ),
    )
}
