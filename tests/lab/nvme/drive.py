"""One drive: its media, its memory, its power. Functions on several sockets may share it."""

from __future__ import annotations

import json
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Protocol

from tests.lab.nvme import spared
from tests.lab.nvme.acts import Act, Kind, Reset
from tests.lab.nvme.commandlog import CommandLog, log_path
from tests.lab.nvme.counters import Counter, Counters
from tests.lab.nvme.faults import HEALTHY, EraseFault, Faults
from tests.lab.nvme.features import Features
from tests.lab.nvme.fill import CHUNK, Fill, FillMap
from tests.lab.nvme.formatting import Formatter
from tests.lab.nvme.jsonform import to_json
from tests.lab.nvme.logs import ErrorEntry
from tests.lab.nvme.media import Media
from tests.lab.nvme.namespaces import NamespaceManager
from tests.lab.nvme.nature import Method, Nature, Store
from tests.lab.nvme.profile import METADATA_SHIFT, DriveProfile
from tests.lab.nvme.pulling import Puller
from tests.lab.nvme.reservations import Reservations
from tests.lab.nvme.sanitize import Sanitizer
from tests.lab.nvme.security import Security
from tests.lab.nvme.spec import Command
from tests.lab.nvme.state import NamespaceState, load_state, save_state, state_path
from tests.lab.nvme.veil import Veil

_RECENT_LIMIT = 65536


class Listener(Protocol):
    """A function of the drive, told about what concerns all of them."""

    def power_lost(self) -> None:
        """Power is gone: forget registers and queues."""

    def subsystem_reset(self) -> None:
        """The whole subsystem is reset: registers and queues go (Base 3.7.1)."""

    def sanitize_ended(self) -> None:
        """A sanitize operation ended: raise the event (Base 5.2, type 6h)."""


class Drive:
    """What all functions of one drive share. ``lock`` guards everything, also their queues."""

    def __init__(
        self,
        profile: DriveProfile,
        backing: Path,
        faults: Faults = HEALTHY,
        nature: Nature | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Open or make the drive and switch it on. Raises DriveError on unusable files.

        ``clock`` tells seconds to what waits for a reset; an erase takes those of the machine.
        """
        self.profile = profile
        self.faults = faults
        self.clock = clock
        self.nature = nature or Nature()
        self.buffer_enabled = False
        self.lock = threading.RLock()
        self.listeners: list[Listener] = []
        self.errors: deque[ErrorEntry] = deque(maxlen=64)
        self.recent: deque[tuple[int, int]] = deque(maxlen=_RECENT_LIMIT)
        self.powered = False
        self.backing = backing
        self._state_path = state_path(backing)
        self._on_since = 0.0
        self._reported: Mapping[Counter, int] = {}
        self._reported_at = 0.0
        self.state = load_state(self._state_path, profile)
        self.media = Media(backing, self.state.size, FillMap(self.state.spans))
        self.metadata = self.buffer = None
        if profile.metadata_formats:
            size = -(-(self.state.size >> METADATA_SHIFT) // CHUNK) * CHUNK
            self.metadata = Media(backing.with_name(backing.name + ".metadata"), size)
        if profile.buffer:
            self.buffer = Media(backing.with_name(backing.name + ".buffer"), profile.buffer.size)
        self.veil = Veil(self.media)
        self.puller = Puller(self)
        self.counters = Counters(backing.with_name(backing.name + ".counters"))
        self.log = CommandLog(log_path(backing))
        self.features = Features(self)
        self.sanitizer = Sanitizer(self)
        self.formatter = Formatter(self)
        self.manager = NamespaceManager(self)
        self.reservations = Reservations(self)
        self.security = Security(self)
        self.nature.joins(self)
        self.power_on()

    # Power

    def power_on(self) -> None:
        """Power comes: volatile state is fresh, an interrupted sanitize goes on."""
        with self.lock:
            if self.powered:
                return
            self.powered = True
            self._on_since = time.monotonic()
            self.counters.add(Counter.POWER_CYCLES)
            if self.counters[Counter.POWERED_UNCLEANLY]:
                self.counters.add(Counter.UNSAFE_SHUTDOWNS)
                self.counters[Counter.POWERED_UNCLEANLY] = 0
            for namespace in self.state.namespaces:
                if namespace.write_protect == 2:
                    namespace.write_protect = 0
            self.reservations.power_on()
            self.state.lockdown.clear()
            self.state.locked_features.clear()
            self.state.security.password_locked = self.state.security.password
            self.state.firmware.activate()
            self.features.power_on()
            self.veil.lift()
            self.errors.clear()
            self.save()
            self.note("power_on")
            self.nature.hears(Act(Kind.RESET, reset=Reset.POWER))
            self.sanitizer.resume()

    def power_off(self) -> None:
        """Power goes, at any moment, without notice."""
        with self.lock:
            if not self.powered:
                return
            self.tick()
            self.powered = False
            self.sanitizer.halt()
            self.formatter.halt()
            for listener in self.listeners:
                listener.power_lost()
            self.buffer_enabled = False
            if self.buffer and self.profile.buffer and not self.profile.buffer.persistent:
                self.buffer.empty(0, self.buffer.size)
            self.note("power_off")

    def power_cycle(self) -> None:
        """Off and on."""
        with self.lock:
            self.power_off()
            self.power_on()

    def subsystem_reset(self) -> None:
        """NVM Subsystem Reset (Base 3.7.1): every function of it at once."""
        with self.lock:
            self.note("subsystem_reset")
            self.state.firmware.activate()
            self.save()
            for listener in self.listeners:
                listener.subsystem_reset()
            self.nature.hears(Act(Kind.RESET, reset=Reset.SUBSYSTEM))

    def close(self) -> None:
        """Switch off and release the files."""
        with self.lock:
            self.power_off()
            self.nature.close()
            for store in (self.media, self.metadata, self.buffer):
                if store:
                    store.close()
            self.counters.close()
            self.log.close()

    # Memory

    def save(self) -> None:
        """Write the state file."""
        self.state.spans = self.media.fills.spans
        save_state(self._state_path, self.state)

    def tick(self) -> None:
        """Bring the power-on time up to date."""
        now = time.monotonic()
        self.counters.add(Counter.POWER_ON_MILLISECONDS, int((now - self._on_since) * 1000))
        self._on_since = now

    def reported_counters(self) -> Mapping[Counter, int]:
        """What log 02h is made from: the counters, or an older copy of them."""
        now = self.clock()
        if now - self._reported_at >= self.profile.smart.lag_seconds or not self._reported:
            self._reported_at = now
            self._reported = {counter: self.counters[counter] for counter in Counter}
        return self._reported

    def note(self, event: str, detail: str = "") -> None:
        """Put an event into the command log."""
        self.log.event(event, detail, self.counters[Counter.POWER_CYCLES])

    def set_faults(self, faults: Faults) -> None:
        """Replace all faults at once."""
        with self.lock:
            self.faults = faults
            wanted, healthy = to_json(faults), to_json(HEALTHY)
            changed = {name: value for name, value in wanted.items() if value != healthy[name]}
            self.note("faults", json.dumps(changed))

    def error(self, command: Command, queue: int, status: int) -> None:
        """Put an error into log 01h."""
        count = self.counters.add(Counter.ERROR_LOG_ENTRIES)
        self.errors.appendleft(
            ErrorEntry(count, queue, command.cid, status, command.slba, command.nsid)
        )

    # Namespaces

    def shift(self, namespace: NamespaceState) -> int:
        """log2 of a namespace's block size in bytes."""
        return self.profile.shifts[namespace.lba_format]

    def write_protect(self, namespace: NamespaceState) -> int:
        """Write protection state of a namespace as feature 84h has it; 0 is none, 3 for ever."""
        return 3 if namespace.nsid in self.faults.write_protected else namespace.write_protect

    def namespace_changed(self, nsid: int) -> None:
        """Remember a namespace for log 04h."""
        if nsid not in self.state.changed_namespaces:
            self.state.changed_namespaces.append(nsid)

    # Data

    def written(self, start: int, end: int) -> None:
        """User data went to [start, end) of the media."""
        self.nature.written(Store.DATA, start, end)
        self.recent.append((start, end))
        if self.state.sanitize.data_erased:
            self.state.sanitize.data_erased = False
            self.save()

    def erase(self, fault: EraseFault, method: Method, start: int, end: int, fill: Fill) -> None:
        """Erase [start, end) as honestly as ``fault`` lets the drive be; the caller saves."""
        if fault in (EraseFault.LIE, EraseFault.STALE):
            return
        if fault is EraseFault.NONE and self.nature.erases(method, start, end, fill):
            return
        if self.metadata:
            self.metadata.empty(start >> METADATA_SHIFT, end >> METADATA_SHIFT)
        if fault is EraseFault.PARTIAL:
            self.media.empty_scattered(start, end, fill, keep=self.faults.survivors)
        elif fault is EraseFault.RECENT:
            for write_start, write_end in list(self.recent)[-self.faults.recent_writes :]:
                at, to = max(start, write_start), min(end, write_end)
                if to > at:
                    self.media.empty(at, to, fill)
        elif fault is EraseFault.HIDE:
            self.veil.hide(start, end, fill)
        elif fault is EraseFault.SPARE:
            for at, to in spared.outside(self.state, self.faults.spared, start, end):
                self.media.empty(at, to, fill)
        else:
            self.media.empty(start, end, fill)

    def erase_buffer(self) -> None:
        """What a sanitize does to a CMB or PMR (Base 8.21), as honestly as it does the rest."""
        honest = self.faults.sanitize not in (EraseFault.LIE, EraseFault.STALE, EraseFault.HIDE)
        if self.buffer and honest and not self.nature.keeps_buffer():
            self.buffer.empty(0, self.buffer.size)

    def prepare(self, start: int, end: int) -> None:
        """Empty [start, end) for a namespace that is made there."""
        fill = self.profile.deallocated_reads
        if not self.nature.creates(start, end, fill):
            self.media.empty(start, end, fill)
            if self.metadata:
                self.metadata.empty(start >> METADATA_SHIFT, end >> METADATA_SHIFT)

    def begin_erase(self) -> None:
        """Before the first byte of an erase goes."""
        if self.faults.cached_reads:
            self.veil.remember(0, self.media.size)

    def end_erase(self) -> None:
        """After its last."""
        self.state.erases += 1
        self.state.serial = self.faults.renamed or self.state.serial
