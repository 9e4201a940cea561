"""One at a time looks at the record for all who ask a process for the same, and nobody waits long.

A record that hangs would else be asked by one after the other, each as long as it hangs, until they
had all threads of the process.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from quarantine.doors import Monotonic
from quarantine.errors import QuarantineError, UnavailableError, UnreadableError

WAIT_SECONDS: Final = 5.0
"""How long a caller waits for somebody else's look."""

_OF_ALL: Final = (UnavailableError, UnreadableError)
"""Failures of the record. Others are of what was asked; who waits may have asked for another."""


class SharedTurn:
    """Of one process."""

    def __init__(self, monotonic: Monotonic) -> None:
        self._now = monotonic
        self._lock = threading.Lock()
        self._failed: tuple[float, QuarantineError] | None = None
        """The last look, where the record failed it, and when that was known."""

    @contextmanager
    def turn(self) -> Iterator[None]:
        """To look, or to take what somebody else found meanwhile.

        Raises ``UnavailableError`` where there is none in time, and what the record failed those
        with for whom the caller waited.
        """
        asked = self._now()
        if not self._lock.acquire(timeout=WAIT_SECONDS):
            raise UnavailableError(f"database: expected an answer within {WAIT_SECONDS:g} s")
        try:
            # The record failed somebody while this caller waited: to ask again would hang as long
            # once more.
            if self._failed is not None and asked <= self._failed[0]:
                # Several threads raise the same exception: each would add its frames to the
                # traceback.
                raise self._failed[1].with_traceback(None)
            try:
                yield
            except _OF_ALL as error:
                self._failed = self._now(), error
                raise
            self._failed = None
        finally:
            self._lock.release()
