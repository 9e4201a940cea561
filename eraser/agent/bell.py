"""The host's bell: whoever saw that a slot may have changed says its address, here and now.

libvirt's hook, the watcher and the patch in nova-compute ring it with one datagram of PCI
addresses; the worker passes it on, and the control plane looks at that slot at once. A bell that is
lost costs the time until the next regular look and nothing else, so nobody waits for one and
nothing is tried twice.
"""

from __future__ import annotations

import logging
import os
import select
import shutil
import socket
import threading
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

from eraser.clock import MACHINE, Clock
from eraser.protocol.identity import pci_address

LOG = logging.getLogger(__name__)

SOCKET = "bell.sock"
"""In the run directory; for root and one group."""

MAX_BYTES = 1024
"""Of one datagram: more addresses than one guest has drives."""

PAUSE = 1.0
"""Seconds between two bells for one slot: the second is passed on later, not dropped."""

MAX_WAITING = 256
"""Slots that are rung for and not passed on yet; more than a host has are no bells."""

_NAP = 0.5
"""Seconds until a listener notices that it is to end."""


def ring(run_dir: Path, addresses: Iterable[str]) -> None:
    """Rings for some slots. Never raises: nobody may be listening."""
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as bell:
            bell.setblocking(False)
            for data in _datagrams(addresses):
                bell.sendto(data, str(run_dir / SOCKET))
    except OSError as error:
        LOG.debug("nobody hears the bell for %s: %s", addresses, error)


def _datagrams(addresses: Iterable[str]) -> Iterator[bytes]:
    """As many in each as it may hold: a whole shelf of drives that goes at once is more."""
    data = b""
    for address in addresses:
        word = address.encode("ascii", "replace")
        if data and len(data) + 1 + len(word) > MAX_BYTES:
            yield data
            data = b""
        data = data + b" " + word if data else word
    if data:
        yield data


def parse(data: bytes) -> tuple[str, ...]:
    """The addresses of a datagram. Raises ``ValueError`` for anything else."""
    if len(data) > MAX_BYTES:
        raise ValueError(f"expected at most {MAX_BYTES} bytes, found more")
    words = data.decode("ascii").split(" ")
    for word in words:
        if pci_address(word) != word:
            raise ValueError(f"expected a PCI address in lower case, found {word!r}")
    return tuple(words)


class Listener:
    """Hears the bell in a thread of its own and calls ``tell`` for each slot."""

    def __init__(
        self,
        run_dir: Path,
        tell: Callable[[str], None],
        group: str = "",
        clock: Clock = MACHINE,
    ) -> None:
        """Takes over from an earlier listener; ``group`` may ring besides root. Raises
        ``OSError``."""
        self._path = run_dir / SOCKET
        self._group = group
        self._tell = tell
        self._clock = clock
        self._waiting: dict[str, float] = {}
        """When each slot that was rung for is due."""
        self._told: dict[str, float] = {}
        self._stop = threading.Event()
        run_dir.mkdir(mode=0o755, parents=True, exist_ok=True)
        self._socket = self._bind()
        self._thread = threading.Thread(target=self._run, name="bell", daemon=True)
        self._thread.start()

    def _bind(self) -> socket.socket:
        """At its final name only once nobody but root and the group may write to it."""
        made = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        temporary = self._path.with_name(f".{SOCKET}.{os.getpid()}")
        try:
            temporary.unlink(missing_ok=True)
            made.bind(str(temporary))
            temporary.chmod(0o600)
            self._admit(temporary)
            temporary.replace(self._path)
            made.setblocking(False)
        except BaseException:
            made.close()
            temporary.unlink(missing_ok=True)
            raise
        return made

    def _admit(self, path: Path) -> None:
        if not self._group:
            return
        try:
            shutil.chown(path, group=self._group)
            path.chmod(0o660)
        # Root's bells, those of the hook and the watcher, are heard all the same.
        except (LookupError, PermissionError) as error:
            LOG.warning("group %s may not ring the bell: %s", self._group, error)

    def _run(self) -> None:
        while not self._stop.is_set():
            try:
                self._turn()
            except Exception:
                # Whatever one datagram did: the next one is a bell again.
                LOG.exception("the bell")
                self._stop.wait(PAUSE)

    def _turn(self) -> None:
        now = self._clock.monotonic()
        next_due = min(self._waiting.values(), default=now + _NAP)
        select.select([self._socket], [], [], min(_NAP, max(0.0, next_due - now)))
        self._drain()
        now = self._clock.monotonic()
        # Only bells of the last moment still delay the next one for their slot.
        self._told = {each: at for each, at in self._told.items() if now - at < PAUSE}
        for address in [each for each, due in self._waiting.items() if due <= now]:
            del self._waiting[address]
            self._told[address] = now
            try:
                self._tell(address)
            except OSError as error:
                LOG.info("a bell for %s is lost: %s", address, error)

    def _drain(self) -> None:
        # Not until nothing more comes: whoever rings without end would keep us from telling.
        for _ in range(MAX_WAITING):
            try:
                # One byte more than is taken shows that a datagram was too long and is cut off.
                data = self._socket.recv(MAX_BYTES + 1)
            except BlockingIOError:
                return
            try:
                for address in parse(data):
                    if len(self._waiting) >= MAX_WAITING and address not in self._waiting:
                        raise ValueError(f"{MAX_WAITING} slots are waiting already")
                    # At once for a slot that was not told of a moment ago.
                    due = self._told.get(address, -PAUSE) + PAUSE
                    self._waiting.setdefault(address, due)
            except ValueError as error:
                LOG.warning("no bell: %s", error)

    def reachable(self) -> bool:
        """Whether there is a socket to ring at, ours or that of whoever took over."""
        return os.path.lexists(self._path)

    def close(self) -> None:
        """Ends the thread; its socket stays for the next one to replace."""
        self._stop.set()
        self._thread.join()
        self._socket.close()
