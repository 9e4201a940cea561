"""How fast passwords can be tried here: some at a time, each name the slower the more fail."""

from __future__ import annotations

import contextlib
import hashlib
import threading
import unicodedata
from collections import OrderedDict
from collections.abc import Callable, Iterator
from typing import Final

AT_ONCE: Final = 4
"""Logins. Others are told to come back: the threads of the process are the API's too."""
BEDS: Final = 4
"""Refused logins that sleep. They have no turn any more; those above are answered at once: a flood
of them would else have all threads."""
FREE: Final = 5
"""Tries of a name before it has to wait."""
LONGEST: Final = 60.0
"""Seconds between two tries of a name, at most: who knows the password gets in all the same."""
FORGOTTEN: Final = 900.0
"""Seconds after a name's last try."""
NAMES: Final = 10_000
"""That are remembered."""


def key(domain: str, user: str) -> str:
    """What counts as one name: more than Keystone takes for one, whatever its database is. The
    collations of MySQL tell neither case nor accents apart, and skip what has no width."""
    return hashlib.sha256(f"{_plain(domain)}\0{_plain(user)}".encode()).hexdigest()


def _plain(text: str) -> str:
    spelt = unicodedata.normalize("NFKD", text.casefold())
    return "".join(sign for sign in spelt if sign.isalnum()) or text


class LoginPatience:
    """Of one process."""

    def __init__(self, monotonic: Callable[[], float]) -> None:
        self._now = monotonic
        self._lock = threading.Lock()
        self._turns = threading.BoundedSemaphore(AT_ONCE)
        self._beds = threading.BoundedSemaphore(BEDS)
        self._tries: OrderedDict[str, tuple[int, float]] = OrderedDict()
        """By name: how many, and when the last was. The longest ago first."""

    def turn(self) -> contextlib.AbstractContextManager[bool]:
        """To ask Keystone: whether there is one now."""
        return _held(self._turns)

    def bed(self) -> contextlib.AbstractContextManager[bool]:
        """To sleep after a refusal: whether there is one now."""
        return _held(self._beds)

    def tried(self, name: str) -> float:
        """Counts a try; seconds that the name has to wait for it, 0 where it may go on. One that
        has to wait counts for nothing."""
        now = self._now()
        with self._lock:
            count, last = self._tries.get(name, (0, now))
            if now - last > FORGOTTEN:
                count = 0
            pause = min(LONGEST, 2.0 ** (count - FREE)) if count >= FREE else 0.0
            left = last + pause - now
            if pause and left > 0:
                return left
            self._tries[name] = count + 1, now
            self._tries.move_to_end(name)
            while len(self._tries) > NAMES:
                self._tries.popitem(last=False)
            return 0.0

    def give_back(self, name: str) -> None:
        """Nobody said whether the last try was right. Those before it stay: who can make Keystone
        fail would else begin anew."""
        with self._lock:
            count, last = self._tries.get(name, (0, 0.0))
            if count > 1:
                self._tries[name] = count - 1, last
            else:
                self._tries.pop(name, None)

    def forget(self, name: str) -> None:
        """It was right."""
        with self._lock:
            self._tries.pop(name, None)


@contextlib.contextmanager
def _held(places: threading.Semaphore) -> Iterator[bool]:
    """One of them, where one is free now."""
    got = places.acquire(blocking=False)
    try:
        yield got
    finally:
        if got:
            places.release()
