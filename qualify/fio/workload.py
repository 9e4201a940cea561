"""What fio is asked to do: cells of the matrix, and the command lines for them. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

KIB: Final = 1024
MIB: Final = 1024 * KIB
GIB: Final = 1024 * MIB

BLOCK_SIZES: Final = tuple(size * KIB for size in (4, 8, 16, 32, 64, 128, 1024))
"""Bytes. The source's bench without its 512 byte blocks."""

MIXES: Final = (100, 95, 65, 50, 35, 5, 0)
"""Percent of reads."""

EXTRA_MIX: Final = 70
"""The fleet bench's mix."""


def size_text(count: int) -> str:
    """``4K``, ``1M``: bytes as block sizes are written."""
    for unit, letter in ((GIB, "G"), (MIB, "M"), (KIB, "K")):
        if count >= unit and count % unit == 0:
            return f"{count // unit}{letter}"
    return str(count)


@dataclass(frozen=True)
class Cell:
    """One square of the matrix: random access with blocks of one size, so many of them reads."""

    block: int
    """Bytes."""
    reads: int
    """Percent."""

    def __str__(self) -> str:
        return f"{size_text(self.block)} {self.mix}"

    @property
    def mix(self) -> str:
        """``65/35``: reads, writes."""
        return f"{self.reads}/{100 - self.reads}"

    @property
    def writes(self) -> bool:
        """Whether it changes what is on the target."""
        return self.reads < 100


@dataclass(frozen=True)
class Load:
    """How hard the target is pressed."""

    engine: str = "libaio"
    depth: int = 32
    """Commands under way, for each job."""
    jobs: int = 4


@dataclass(frozen=True)
class Place:
    """Where fio works: one file or device, and how much of it from the start."""

    path: str
    size: int
    """Bytes."""
    readonly: bool = False


def matrix(extra: bool = False, sizes: tuple[int, ...] = BLOCK_SIZES) -> tuple[Cell, ...]:
    """All cells in the order in which a round takes them: large blocks first, as in PTS.

    ``extra`` adds the 70/30 mix.
    """
    mixes = sorted({*MIXES, EXTRA_MIX}, reverse=True) if extra else MIXES
    return tuple(Cell(size, reads) for reads in mixes for size in sorted(sizes, reverse=True))


def cell_options(cell: Cell, place: Place, load: Load, seconds: int) -> tuple[str, ...]:
    """fio's options for one cell.

    Raises ``ValueError`` for a cell that writes at a place that may only be read.
    """
    if cell.writes and place.readonly:
        raise ValueError(f"{cell} writes, and {place.path} may only be read")
    if cell.reads in (0, 100):
        access = ["--rw=randread" if cell.reads else "--rw=randwrite"]
    else:
        access = ["--rw=randrw", f"--rwmixread={cell.reads}"]
    return (
        "--name=cell",
        *_place(place),
        *access,
        f"--bs={cell.block}",
        f"--ioengine={load.engine}",
        f"--iodepth={load.depth}",
        f"--numjobs={load.jobs}",
        "--direct=1",
        # Every round draws other addresses, and nobody keeps a map of what was touched.
        "--randrepeat=0",
        "--norandommap",
        "--time_based",
        f"--runtime={seconds}",
        "--group_reporting",
    )


def fill_options(place: Place, load: Load) -> tuple[str, ...]:
    """fio's options to write all of the place once, in order.

    After an erase every block is deallocated, and a drive answers a read of one without a look at
    its flash: what is to be measured must have been written. It lays out a file as well.
    """
    if place.readonly:
        raise ValueError(f"{place.path} may only be read")
    return (
        "--name=fill",
        *_place(place),
        "--rw=write",
        f"--bs={MIB}",
        f"--ioengine={load.engine}",
        "--iodepth=8",
        # Each further job would write all of the place once more.
        "--numjobs=1",
        "--direct=1",
        # New content in each block: a drive that compresses would else keep next to nothing.
        "--refill_buffers",
        "--group_reporting",
    )


def _place(place: Place) -> tuple[str, ...]:
    # A colon parts file names, a backslash takes its meaning away (fio's manual, "filename").
    name = place.path.replace("\\", "\\\\").replace(":", "\\:")
    # The place is there. Where a drive has vanished meanwhile, fio would make a file of that name
    # in /dev, and fill the machine's memory with it.
    options = (f"--filename={name}", f"--size={place.size}", "--allow_file_create=0")
    return (*options, "--readonly") if place.readonly else options
