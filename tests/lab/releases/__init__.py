"""Former releases: their eraser, whole, what it installed, and a record that each wrote.

Each archive is ``git archive COMMIT eraser`` (``tests/unit/lab/test_releases.py`` compares them
where the history is there; a clone without history has them all the same). A record is a control
plane's database with its keys, its certificates and what its host had signed and not sent yet, as
that release's own code wrote them; ``life.txt`` says how.
"""

from __future__ import annotations

import lzma
import tarfile
from pathlib import Path
from typing import Final

_HERE: Final = Path(__file__).parent
_HOOKS: Final = _HERE.parents[1] / "unit" / "gate" / "samples"

COMMITS: Final = {"0ea6932": "0ea6932", "before-rooms": "20b09e8"}
"""Each release's name and its commit: the first that hosts ran, and the last of flat modules."""
NAMES: Final = tuple(COMMITS)


def archive(name: str) -> bytes:
    """Its packages as an uncompressed ``tar``: guests have no ``xz``."""
    return lzma.decompress((_HERE / f"{name}.tar.xz").read_bytes())


def hook(name: str) -> str:
    """The file that its ``host-setup`` wrote for libvirt, with placeholders for the paths."""
    return (_HOOKS / f"hook-{name}.txt").read_text()


def starts(name: str) -> list[str]:
    """What its units call: the text of each ``ExecStart``, in the order of the units' names."""
    lines = (_HERE / f"units-{name}.txt").read_text().splitlines()
    return [line.removeprefix("ExecStart=") for line in lines]


def record(name: str, into: Path) -> None:
    """Lays out the record that it wrote, in every state of a slot."""
    with tarfile.open(_HERE / f"record-{name}.tar.xz") as tar:
        tar.extractall(into, filter="data")
