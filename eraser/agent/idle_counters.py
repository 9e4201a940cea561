"""Has the drives of owners that are off read: level-triggered on the gate's book and on sysfs.

A child of its own reads each drive, as for tickets: one that is mute must not keep the worker.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from eraser.agent.tickets import MAX_RUNNING, TicketLooks
from eraser.errors import EraserError
from eraser.host.sysfs import Host, PciFunction
from eraser.ownership import atrest
from eraser.ownership import store as books
from eraser.ownership.atrest import IdleAction
from eraser.ownership.model import Book, Owner

LOOK_SECONDS = 5.0
"""Between two looks at the drivers of all slots that somebody has."""

SETTLE_SECONDS = 10.0
"""A guest that is rebooted hard is back by then: the lock of our look would refuse its start. And
the drive has counted the guest's last writes."""

RETRY_SECONDS = (5.0, 30.0, 300.0)
"""Pauses before a slot is tried again; the last one repeats."""


@dataclass
class _IdleWatch:
    """What is remembered of one slot; all of it may be forgotten."""

    owner: Owner
    action: IdleAction
    due: float
    starts: int = 0


@dataclass
class IdleRounds:
    """One host's drives at rest. :meth:`turn` does a round and returns."""

    state_dir: Path
    host: Host
    looks: TicketLooks
    clock: Callable[[], float] = time.monotonic
    _next: float = 0.0
    _mark: tuple[int, int] | None = None
    _book: Book = field(default_factory=lambda: Book(""))
    _watches: dict[str, _IdleWatch] = field(default_factory=dict)

    def turn(self) -> None:
        """One round, mostly nothing. Raises ``EraserError`` for a book that cannot be read, and
        what one slot met, once all others had their look."""
        now = self.clock()
        if now < self._next:
            return
        self._next = now + LOOK_SECONDS
        self._read()
        trouble: Exception | None = None
        for address in [entry.address for entry in self._book.entries]:
            try:
                self._look(address, now)
            except (EraserError, OSError) as error:
                # The first one is raised once all have had their look.
                trouble = trouble or error
        if trouble is not None:
            raise trouble

    def _read(self) -> None:
        try:
            stat = books.book_file(self.state_dir).stat()
        except FileNotFoundError:
            # No gate on this host, or none yet.
            self._book, self._mark = Book(""), None
            return
        # Replaced as a whole with every change, so its number is another one.
        mark = (stat.st_ino, stat.st_mtime_ns)
        if mark != self._mark:
            self._book = books.load(self.state_dir)
            self._mark = mark

    def _look(self, address: str, now: float) -> None:
        owner = self._book.entry(address).owner
        function = PciFunction(self.host, address)
        driver = None if owner is None else function.driver
        unread = owner is not None and owner.identity is None
        place = function.place if unread else ""
        action = atrest.idle_action(owner, driver, self._book.incarnation, place)
        if action is None or owner is None:
            self._watches.pop(address, None)
            return
        watch = self._watches.get(address)
        if watch is None or (watch.owner, watch.action) != (owner, action):
            # Only before the drive is read; the other two actions touch no drive.
            settle = SETTLE_SECONDS if action is IdleAction.NOTE else 0.0
            watch = self._watches[address] = _IdleWatch(owner, action, now + settle)
        # A look that is stuck counts too, so mute drives never fill the host with processes.
        busy = sum(self.looks.running(each) for each in self._watches)
        if now < watch.due or busy >= MAX_RUNNING or self.looks.running(address):
            return
        watch.due = now + RETRY_SECONDS[min(watch.starts, len(RETRY_SECONDS) - 1)]
        watch.starts += 1
        self.looks.start(address)
