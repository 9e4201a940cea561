"""Looks that may never come back: each in a thread of its own, waited for no longer than agreed.

A command to a drive that is mute, or a file of a process that is stuck in the kernel, cannot be
taken back. Whoever asks goes on without it, and asks again only when the last look has come back.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Mapping
from typing import Generic, TypeVar

from eraser.errors import EraserError

LOG = logging.getLogger(__name__)

T = TypeVar("T")


class _Look(Generic[T]):
    """One thread and what it found."""

    def __init__(self, name: str, work: Callable[[], T]) -> None:
        self._work = work
        self.found: list[T] = []
        self.trouble = ""
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


class Looks(Generic[T]):
    """Takes looks by name, all at once; at most one of each name is under way."""

    def __init__(self) -> None:
        self._under_way: dict[str, _Look[T]] = {}

    def take(self, works: Mapping[str, Callable[[], T]], seconds: float) -> dict[str, T]:
        """What was found within ``seconds``; a name is missing whose look failed or is late."""
        deadline = time.monotonic() + seconds
        begun: dict[str, _Look[T]] = {}
        for name, work in works.items():
            last = self._under_way.get(name)
            if last is not None and last.thread.is_alive():
                # What it may yet find was true when it was asked, not now.
                LOG.warning("%s: the last look has not come back yet", name)
            else:
                begun[name] = self._under_way[name] = _Look(name, work)
        found = {}
        for name, look in begun.items():
            look.thread.join(max(0.0, deadline - time.monotonic()))
            if look.thread.is_alive():
                LOG.warning("%s: no answer within %g s", name, seconds)
                continue
            del self._under_way[name]
            if look.trouble:
                LOG.warning("%s: %s", name, look.trouble)
            else:
                found[name] = look.found[0]
        return found
