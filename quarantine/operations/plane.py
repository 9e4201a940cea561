"""What an operation acts on: a control plane, as its configuration describes it."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from quarantine.doors import MACHINE, Doors
from quarantine.record.store import Store
from quarantine.service.parts import Parts

if TYPE_CHECKING:
    from quarantine.service.assembly import Assembly

P = TypeVar("P", bound=Parts)


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
        from quarantine.service.assembly import Assembly

        assembly = Assembly(self.files, self.doors)
        try:
            yield assembly
        finally:
            assembly.close()


class ServingPlane(Plane):
    """One that answers many times: its configuration is read once, its connections are kept.

    Keys, and connections to the cloud and the broker, are made anew for each operation: they may
    be replaced meanwhile. A process that was forked off opens the record for itself.
    """

    def __init__(self, files: Sequence[Path] = (), doors: Doors = MACHINE) -> None:
        """Reads the configuration. Raises ``BadInputError``."""
        super().__init__(files, doors)
        self.conf = Parts(self.files, doors).conf
        self._lock = threading.Lock()
        self._kept: tuple[int, Store] | None = None

    @contextmanager
    def parts(self) -> Iterator[Parts]:
        """As of any plane. Raises ``UnavailableError``."""
        yield self._serving(Parts(self.files, self.doors))

    @contextmanager
    def assembly(self) -> Iterator[Assembly]:
        """As of any plane. Raises ``UnavailableError``."""
        from quarantine.service.assembly import Assembly

        assembly = self._serving(Assembly(self.files, self.doors))
        try:
            yield assembly
        finally:
            del assembly.store  # it stays open
            assembly.close()

    def _serving(self, parts: P) -> P:
        parts.conf, parts.store = self.conf, self._store()
        # Each time: another release may have upgraded the record since.
        parts.store.require_schema()
        return parts

    def _store(self) -> Store:
        with self._lock:
            # A server may fork after it was loaded: two processes on one connection would read each
            # other's answers.
            if self._kept is None or self._kept[0] != os.getpid():
                self._kept = os.getpid(), self.open_store()
            return self._kept[1]

    def open_store(self) -> Store:
        """The record, by connections that are the caller's. Raises ``UnavailableError``."""
        return Store.open(self.conf.database.url, clock=self.doors.now)
