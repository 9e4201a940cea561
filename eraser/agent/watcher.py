"""``nvme-eraser watcher``: notices when a slot's drive vanishes, appears or is exchanged.

The kernel's events only say when to look; what happened is read from sysfs and compared with the
last look, so an event that was lost delays and loses nothing. A ticket of a drive that vanished or
was exchanged is void, and the control plane's bell is rung. Binding to vfio-pci and back is what
libvirt does with every guest: it rings and voids nothing.
"""

from __future__ import annotations

import errno
import fcntl
import logging
import os
import socket
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Protocol

import pyudev

from eraser.agent import bell
from eraser.clock import Clock
from eraser.defences import setup
from eraser.defences.facts import WATCHER_LOCK
from eraser.errors import BadInputError, BusyError, EraserError
from eraser.host import slotwatch
from eraser.host.functions import nvme_functions
from eraser.host.slotwatch import KnownSlot, Memory, SlotAction
from eraser.host.sysfs import Host, PciFunction
from eraser.ownership import revoke
from eraser.ownership import store as books

LOG = logging.getLogger(__name__)

LOOK_SECONDS = 10.0
"""Between two looks where no event comes; also between two signs of life."""

SETTLE_SECONDS = 0.05
"""After an event, for those that belong to it."""

RECEIVE_BYTES = 1 << 20
"""Of the kernel's buffer for events: a whole shelf that vanishes at once fits in."""

LOCK_PATIENCE = 2.0
"""Seconds. The self-check holds the lock for moments."""

SUBSYSTEMS = ("pci", "nvme")


class Events(Protocol):
    """The kernel's events about drives."""

    def wait(self, seconds: float) -> bool:
        """Whether one came, or may have been lost, within ``seconds``."""


class KernelEvents:
    """Events from netlink, through libudev. ``source``: ``kernel``, or ``udev`` for its own."""

    def __init__(self, source: str, clock: Clock) -> None:
        self._clock = clock
        self._monitor = pyudev.Monitor.from_netlink(pyudev.Context(), source=source)
        for subsystem in SUBSYSTEMS:
            self._monitor.filter_by(subsystem)
        self._monitor.set_receive_buffer_size(RECEIVE_BYTES)
        self._monitor.start()

    def wait(self, seconds: float) -> bool:
        """Takes all that have come."""
        try:
            if self._monitor.poll(seconds) is None:
                return False
            # One drive that goes is a row of events, and one look is enough for all of them.
            deadline = self._clock.monotonic() + SETTLE_SECONDS
            while (left := deadline - self._clock.monotonic()) > 0:
                self._monitor.poll(left)
        except OSError as error:
            # Events that did not fit are lost, and a look at all slots finds what they told of.
            if (error.errno or self._pending_error()) != errno.ENOBUFS:
                raise
            LOG.warning("more events than fit: looking at all slots")
        return True

    def _pending_error(self) -> int:
        """What poll(2) saw: pyudev raises it without its number, and leaves it pending."""
        with socket.socket(fileno=os.dup(self._monitor.fileno())) as netlink:
            return netlink.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)


class Watcher:
    """Looks at all slots of one host, and does what follows from the change."""

    def __init__(
        self,
        state_dir: Path,
        run_dir: Path,
        host: Host,
        void: Callable[[Path, str, str, str], bool] = revoke.vanished,
        ring: Callable[[Path, Iterable[str]], None] = bell.ring,
    ) -> None:
        self._state_dir = state_dir
        self._run_dir = run_dir
        self._host = host
        self._ring = ring
        self._void = void
        try:
            self._memory = slotwatch.load(state_dir)
        except BadInputError as error:
            LOG.error("%s; beginning anew: the gate looks at each drive itself", error)
            self._memory = Memory()

    def look(self) -> None:
        """One look at every slot. What could not be done about one is tried again next time."""
        boot = self._host.boot_id()
        # Numbers of directories in sysfs mean something within one boot alone.
        same_boot = boot == self._memory.boot
        before = {known.address: known for known in self._memory.slots}
        after: dict[str, KnownSlot] = {}
        rung = []
        for address in sorted({*before, *self._slots()}):
            try:
                change, known = slotwatch.compare(
                    before.get(address), slotwatch.see(self._host, address), same_boot=same_boot
                )
                self._act(address, change)
            except (EraserError, OSError) as error:
                LOG.error("%s: %s; trying again", address, error)
                # Unless it is of another boot: there it would be compared as if of this one.
                if same_boot and address in before:
                    after[address] = before[address]
                continue
            after[address] = known
            if change.ring:
                rung.append(address)
        memory = Memory(boot, tuple(after.values()))
        if memory != self._memory:
            # Only now: a ticket that was not voided must be voided by the next look.
            self._keep(memory)
        if rung:
            self._ring(self._run_dir, rung)

    def _keep(self, memory: Memory) -> None:
        try:
            slotwatch.save(self._state_dir, memory)
        except OSError as error:
            # The next look compares with the former one again, and does the same once more.
            LOG.error("expected to keep the last look, found %s; trying again", error.strerror)
            return
        self._memory = memory

    def _act(self, address: str, change: SlotAction) -> None:
        if change.void:
            LOG.warning("%s: %s", address, change.void)
            # By its place the book tells whether it was back before its newest erase.
            place = PciFunction(self._host, address).place if change.returned else ""
            if self._void(self._state_dir, address, change.void, place):
                LOG.warning("%s: its ticket is void", address)

    def _slots(self) -> set[str]:
        """Those that host-setup was told, that the gate knows, and every NVMe function besides."""
        found = set(nvme_functions(self._host))
        try:
            made = setup.load(self._state_dir)
            # Empty slots too: what is put into one of them is noticed.
            found.update(() if made is None else made.slots)
            found.update(entry.address for entry in books.load(self._state_dir).entries)
        except (EraserError, OSError) as error:
            LOG.error("%s", error)
        return found

    def run(self, events: Events) -> None:
        """Watches until a signal. Raises :class:`BusyError` where another watcher runs."""
        descriptor = self._lock()
        try:
            while True:
                # Before each look, so a watcher that is stuck in one shows by its age.
                self._live(descriptor)
                self.look()
                # A look may have taken long, and who looks at us now need not wait for the next.
                self._live(descriptor)
                events.wait(LOOK_SECONDS)
        finally:
            os.close(descriptor)

    def _lock(self) -> int:
        path = self._run_dir / WATCHER_LOCK
        self._run_dir.mkdir(mode=0o755, parents=True, exist_ok=True)
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        deadline = self._host.clock.monotonic() + LOCK_PATIENCE
        while True:
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                return descriptor
            except BlockingIOError as error:
                if self._host.clock.monotonic() >= deadline:
                    os.close(descriptor)
                    raise BusyError(
                        f"{path}: expected to be the only watcher, found another one running"
                    ) from error
            self._host.clock.sleep(0.05)

    def _live(self, descriptor: int) -> None:
        """A sign of life for the self-check, on the clock that nobody can set."""
        data = f"{os.getpid()} {self._host.clock.monotonic():.0f}\n".encode()
        try:
            os.ftruncate(descriptor, len(data))
            os.pwrite(descriptor, data, 0)
        except OSError as error:
            # A full /run costs the sign alone, which the self-check misses; drives are looked at.
            LOG.error("expected to give a sign of life, found %s; trying again", error.strerror)
