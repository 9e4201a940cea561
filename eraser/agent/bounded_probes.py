"""Looks that may never come back: each in a thread of its own, waited for no longer than agreed.

A command to a drive that is mute, or a file of a process that is stuck in the kernel, cannot be
taken back. Whoever asks goes on without it, and asks again only when the last look has come back.
"""

from __future__ import annotations

import logging
import queue
import threading
import time
from collections.abc import Callable, Mapping
from typing import Final, Generic, TypeVar

from eraser.errors import EraserError

LOG = logging.getLogger(__name__)

AT_ONCE: Final = 8
"""Looks that run at the same time. All at once, each is late on a busy host with many drives."""

T = TypeVar("T")


class _Look(Generic[T]):
    """One thread and what it found."""

    def __init__(
        self, name: str, work: Callable[[], T], over: queue.SimpleQueue[str], begun: float
    ) -> None:
        self.begun = begun
        self._name = name
        self._work = work
        self._over = over
        self.found: list[T] = []
        self.trouble = ""
        self.wanted = True
        """Each call since has asked for it; else its late answer does not count."""
        self.thread = threading.Thread(target=self._run, name=f"look {name}", daemon=True)
        self.thread.start()

    def _run(self) -> None:
        try:
            self.found.append(self._work())
        except (EraserError, OSError) as error:
            self.trouble = str(error)
        except Exception as error:
            # Whatever it met: a look that fails is an answer that is missing, and nothing more.
            LOG.exception("a look failed")
            self.trouble = repr(error)
        self._over.put(self._name)


class BoundedProbes(Generic[T]):
    """Takes looks by name, some at a time; at most one of each name is under way."""

    def __init__(self, fresh: float = 0.0, *, clock: Callable[[], float] = time.monotonic) -> None:
        """``fresh``: seconds from its question on for which an answer counts that came too late;
        by default it never does."""
        self._fresh = fresh
        self._now = clock
        self._under_way: dict[str, _Look[T]] = {}
        self._begun: dict[str, int] = {}
        """In which turn a look of each name was begun last."""
        self._turn = 0

    def take(self, works: Mapping[str, Callable[[], T]], seconds: float) -> dict[str, T]:
        """What was found within ``seconds``; a name is missing whose look failed or is late.

        Where the time does not suffice for all, those go first the next time that were not begun
        this time: each name has its turn, whatever the others do. Where a look is late again, what
        the last one came back with counts while it is fresh.
        """
        deadline = self._now() + seconds
        # First: looks that have ended since are replaced below, and what they found with them.
        late = self._came_late(works)
        # A queue for each call: a look of an earlier one answers into a queue that nobody reads.
        over: queue.SimpleQueue[str] = queue.SimpleQueue()
        waiting = [name for name in self._in_turn(works) if not self._stuck(name)]
        running: dict[str, _Look[T]] = {}
        found: dict[str, T] = {}
        at_once = AT_ONCE
        while waiting or running:
            while waiting and len(running) < at_once:
                name = waiting.pop(0)
                self._begun[name] = self._turn
                running[name] = self._under_way[name] = _Look(name, works[name], over, self._now())
            left = deadline - self._now()
            try:
                # A quarter of the time without any answer tells that those at work may all be mute.
                name = over.get(timeout=max(0.0, min(left, seconds / 4)))
            except queue.Empty:
                # That was the last quarter.
                if left <= seconds / 4:
                    break
                at_once += AT_ONCE  # those may be mute: the others do not wait for them
                continue
            look = running.pop(name)
            del self._under_way[name]
            if look.trouble:
                LOG.warning("%s: %s", name, look.trouble)
                # It failed now, so what it found before is no answer any more.
                late.pop(name, None)
            else:
                found[name] = look.found[0]
        for name in running:
            LOG.warning("%s: no answer within %g s", name, seconds)
        if waiting:
            LOG.warning("not asked within %g s, and first the next time: %s", seconds, waiting)
        return late | found

    def _came_late(self, works: Mapping[str, Callable[[], T]]) -> dict[str, T]:
        """What came back since the last time, of those that are asked for all the while."""
        for name in self._under_way.keys() - works.keys():
            # Nor is it asked again before it has come back.
            self._under_way[name].wanted = False
        return {
            name: look.found[0]
            for name, look in self._under_way.items()
            if look.wanted and look.found and self._now() - look.begun < self._fresh
        }

    def _in_turn(self, works: Mapping[str, Callable[[], T]]) -> list[str]:
        self._turn += 1
        # Names that are not asked for any more are forgotten: drives come and go.
        self._begun = {name: turn for name, turn in self._begun.items() if name in works}
        return sorted(works, key=lambda name: self._begun.get(name, 0))

    def _stuck(self, name: str) -> bool:
        last = self._under_way.get(name)
        if last is None or not last.thread.is_alive():
            return False
        # What it may yet find was true when it was asked, not now.
        LOG.warning("%s: the last look has not come back yet", name)
        return True
