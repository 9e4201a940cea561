"""How fast passwords can be tried here: some at a time, each name the slower the more fail from one
address."""

from __future__ import annotations

import contextlib
import hashlib
import ipaddress
import threading
import unicodedata
from collections import Counter, OrderedDict
from collections.abc import Callable, Iterator
from typing import Final

AT_ONCE: Final = 4
"""Logins. Others are told to come back: the threads of the process are the API's too. One address
never has the last turn."""
SLEEPERS: Final = 4
"""Refused logins that sleep. They have no turn any more; those above are answered at once: a flood
of them would else have all threads."""
FREE: Final = 5
"""Tries of a name from an address before it has to wait there."""
LONGEST: Final = 60.0
"""Seconds between two tries of a name from an address, at most. Who tries a name from one address
makes nobody wait at another; there is no bound of the name over all addresses, for it would lock
the name out. Who shares the address (all do, behind a proxy whose server does not say whose the
request is) waits along."""
FORGOTTEN: Final = 900.0
"""Seconds after a name's last try from there."""
NAMES: Final = 10_000
"""That are remembered, each with its address."""
_NETWORK: Final = 64
"""Bits of an IPv6 address that one customer of a provider cannot choose."""


def key(domain: str, user: str) -> str:
    """What counts as one name: more than Keystone takes for one, whatever its database is. The
    collations of MySQL tell neither case nor accents apart, and skip what has no width."""
    return hashlib.sha256(f"{_plain(domain)}\0{_plain(user)}".encode()).hexdigest()


def address_of(remote: str | None) -> str:
    """What counts as one address: REMOTE_ADDR as the server gives it; of IPv6 the network. Never
    what a header says: anybody can send one."""
    try:
        found = ipaddress.ip_address((remote or "").partition("%")[0])
    except ValueError:
        return ""
    if isinstance(found, ipaddress.IPv4Address):
        return str(found)
    # A socket that takes both kinds shows IPv4 callers so.
    if found.ipv4_mapped is not None:
        return str(found.ipv4_mapped)
    return str(ipaddress.ip_network((found, _NETWORK), strict=False))


def _plain(text: str) -> str:
    # NFKD takes accents off their letters, and what is left of them is not alphanumeric. A name of
    # such signs alone stays as it is.
    spelt = unicodedata.normalize("NFKD", text.casefold())
    return "".join(sign for sign in spelt if sign.isalnum()) or text


class LoginPatience:
    """Of one process."""

    def __init__(self, monotonic: Callable[[], float]) -> None:
        self._now = monotonic
        self._lock = threading.Lock()
        self._turns = Counter[str]()
        """That are taken, by address."""
        self._sleepers = threading.BoundedSemaphore(SLEEPERS)
        self._tries: OrderedDict[tuple[str, str], tuple[int, float]] = OrderedDict()
        """By name and address: how many, and when the last was. The longest ago first."""

    @contextlib.contextmanager
    def turn(self, address: str) -> Iterator[bool]:
        """To ask Keystone: whether there is one now."""
        with self._lock:
            got = self._turns.total() < AT_ONCE and self._turns[address] < AT_ONCE - 1
            if got:
                self._turns[address] += 1
        try:
            yield got
        finally:
            with self._lock:
                # A bool counts as 0 or 1.
                self._turns[address] -= got
                self._turns += Counter()  # without those that have none

    @contextlib.contextmanager
    def sleeper(self) -> Iterator[bool]:
        """To sleep after a refusal: whether there is one now."""
        got = self._sleepers.acquire(blocking=False)
        try:
            yield got
        finally:
            if got:
                self._sleepers.release()

    def tried(self, name: str, address: str) -> float:
        """Counts a try of a name from an address; seconds that it has to wait, 0 where it may go
        on. One that has to wait counts for nothing."""
        which, now = (name, address), self._now()
        with self._lock:
            count, last = self._tries.get(which, (0, now))
            # Long ago: it begins anew.
            if now - last > FORGOTTEN:
                count = 0
            # 1, 2, 4 ... seconds; the exponent is bounded, for tries are not.
            pause = min(LONGEST, 2.0 ** min(count - FREE, 10)) if count >= FREE else 0.0
            left = last + pause - now
            if pause and left > 0:
                return left
            self._tries[which] = count + 1, now
            self._tries.move_to_end(which)
            # Whoever makes up names must not fill the memory. What is dropped is the longest ago.
            while len(self._tries) > NAMES:
                self._tries.popitem(last=False)
            return 0.0

    def give_back(self, name: str, address: str) -> None:
        """Nobody said whether the last try was right. Those before it stay: who can make Keystone
        fail would else begin anew."""
        which = name, address
        with self._lock:
            count, last = self._tries.get(which, (0, 0.0))
            if count > 1:
                self._tries[which] = count - 1, last
            else:
                self._tries.pop(which, None)

    def forget(self, name: str, address: str) -> None:
        """It was right. What others tried elsewhere still counts there."""
        with self._lock:
            self._tries.pop((name, address), None)
