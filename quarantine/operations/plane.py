"""What an operation acts on: a control plane, as its configuration describes it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from quarantine.doors import MACHINE, Doors
from quarantine.service.parts import Parts

if TYPE_CHECKING:
    from quarantine.service.container import Assembly


class Plane:
    """One control plane. Threads may share it: every operation makes connections of its own."""

    def __init__(self, files: Sequence[Path] = (), doors: Doors = MACHINE) -> None:
        self.files = tuple(files)
        self.doors = doors

    @contextmanager
    def parts(self) -> Iterator[Parts]:
        """For one operation that needs the record and the keys at most."""
        parts = Parts(self.files, self.doors)
        try:
            yield parts
        finally:
            parts.close()

    @contextmanager
    def assembly(self) -> Iterator[Assembly]:
        """For one operation that asks Placement or Nova, or sends something."""
        # Its libraries take a second to load, and most operations need none of them.
        from quarantine.service.container import Assembly

        assembly = Assembly(self.files, self.doors)
        try:
            yield assembly
        finally:
            assembly.close()
