"""What a drive remembers without power: one JSON file beside the backing file, replaced whole."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from tests.lab.nvme.errors import DriveError
from tests.lab.nvme.fill import FillMap, Span
from tests.lab.nvme.jsonform import from_json, to_json
from tests.lab.nvme.profile import DriveProfile, NamespaceProfile
from tests.lab.nvme.spec import SanitizeStatus


@dataclass
class Registrant:
    """A host that registered a key with a namespace (Base 8.19)."""

    host: str  # 16 bytes, hex
    key: int


@dataclass
class ReservationState:
    """Reservations of a namespace. ``holder`` is the host id of who holds it, if anybody does."""

    generation: int = 0
    kind: int = 0  # RTYPE 1 to 6, 0 is none
    holder: str = ""
    persist: bool = False  # PTPLS: outlives a power loss
    registrants: list[Registrant] = field(default_factory=list)


@dataclass
class FirmwareState:
    """Firmware slots (log 03h). ``revisions`` by slot; slot 1 is the first, "" is an empty one."""

    revisions: list[str]
    active: int = 1
    next: int = 0  # slot that a reset of the subsystem or a power cycle activates, 0 is no change
    by_controller: bool = False  # a reset of the controller does so too

    @property
    def waits(self) -> bool:
        """Whether another slot is to be activated."""
        return self.next not in (0, self.active)

    def activate(self) -> None:
        """Run what was waiting."""
        self.active, self.next = self.next or self.active, 0


@dataclass
class SecurityState:
    """What Level 0 discovery shows of a TCG drive, and protocol EFh of its ATA password."""

    owned: bool = False  # the SID's PIN is no longer the one printed by the factory
    enabled: bool = False
    locked: bool = False
    shadowed: bool = False  # MBR shadowing enabled, and not done
    sid_blocked: bool = False
    password: bool = False  # a user password of ATA is set
    password_locked: bool = False  # and was not given since the last power cycle

    @property
    def denies(self) -> bool:
        """Whether data is kept from every host."""
        return self.locked or self.password_locked


@dataclass
class NamespaceState:
    """A namespace: bytes ``base`` to ``base + size`` of the media, seen in blocks of a format."""

    nsid: int
    base: int
    size: int
    lba_format: int
    write_protect: int = 0  # feature 84h: 0 none, 1 on, 2 until power cycle, 3 for ever
    attached: bool = True
    made: int = 0  # 0 from the factory, else the number of the command that created it
    reservation: ReservationState = field(default_factory=ReservationState)
    sanitizing: int = 0  # looks that see a sanitize of this namespace alone, until it ends
    sanitize_verifying: bool = False  # it waits in the Media Verification state
    sanitize_stuck: bool = False  # it never ends
    csi: int = 0  # I/O command set: 0 NVM, 2 Zoned Namespace


@dataclass
class SanitizeState:
    """The sanitize machine (Base 8.21). ``locked`` is one of its two failure states."""

    status: int = SanitizeStatus.NEVER
    progress: float = 0.0
    cdw10: int = 0
    pattern: int = 0
    passes_done: int = 0
    locked: bool = False
    restricted: bool = False
    verifying: bool = False  # Media Verification state: done, and kept for whoever wants to look
    data_erased: bool = True  # Global Data Erased; true from the factory

    @property
    def running(self) -> bool:
        """Whether an operation is under way."""
        return self.status == SanitizeStatus.RUNNING


@dataclass
class SavedFeature:
    """A feature value that a reset brings back."""

    value: int
    data: str = ""  # hex, for features that carry a data structure


@dataclass
class SmartState:
    """Health values that are reported as they are set."""

    critical_warning: int
    temperature_kelvin: int
    spare_percent: int
    spare_threshold_percent: int
    percentage_used: int


@dataclass
class FlexibleState:
    """Flexible resources of the primary controller, now and after the reset that comes next;
    ``lent`` are those of secondary controllers. Queues first, then interrupts, as RT counts."""

    now: list[int]
    next: list[int]
    lent: list[int] = field(default_factory=lambda: [0, 0])

    def activate(self) -> None:
        """Any Controller Level Reset other than a Controller Reset."""
        self.now = list(self.next)


@dataclass
class DriveState:
    """All of it."""

    size: int
    namespaces: list[NamespaceState]
    spans: list[Span]
    smart: SmartState
    firmware: FirmwareState
    flexible: FlexibleState | None = None
    security: SecurityState = field(default_factory=SecurityState)
    lockdown: list[int] = field(default_factory=list)
    """Admin opcodes that a Lockdown command prohibits until the next power cycle."""
    locked_features: list[int] = field(default_factory=list)
    """Likewise features that Set Features cannot set."""
    boot: list[str] = field(default_factory=lambda: ["vendor image 0", "vendor image 1"])
    """What the contents of both boot partitions are made from."""
    serial: str = ""
    """What Identify says in place of the profile's serial number, if anything."""
    namespaces_made: int = 0
    erases: int = 0
    """Sanitizes and Formats that ended."""
    sanitize: SanitizeState = field(default_factory=SanitizeState)
    features: dict[str, SavedFeature] = field(default_factory=dict)
    changed_namespaces: list[int] = field(default_factory=list)

    @property
    def unallocated(self) -> int:
        """Bytes of the media that belong to no namespace."""
        return self.size - sum(namespace.size for namespace in self.namespaces)

    def namespace(self, nsid: int) -> NamespaceState | None:
        """The allocated namespace with this id, if there is one; it may be detached."""
        for namespace in self.namespaces:
            if namespace.nsid == nsid:
                return namespace
        return None

    @property
    def attached(self) -> list[NamespaceState]:
        """The active namespaces."""
        return [namespace for namespace in self.namespaces if namespace.attached]

    def active(self, nsid: int) -> NamespaceState | None:
        """The namespace with this id, if it is attached."""
        found = self.namespace(nsid)
        return found if found and found.attached else None

    def gaps(self) -> list[tuple[int, int]]:
        """Start and end of the parts of the media that belong to no namespace."""
        found, at = [], 0
        for namespace in sorted(self.namespaces, key=lambda namespace: namespace.base):
            if namespace.base > at:
                found.append((at, namespace.base))
            at = namespace.base + namespace.size
        return [*found, (at, self.size)] if at < self.size else found


def state_path(backing: Path) -> Path:
    """Where the state of the drive with this backing file is."""
    return backing.with_name(backing.name + ".state.json")


def factory_state(profile: DriveProfile) -> DriveState:
    """The state of a drive that was never used."""
    smart, flexible = profile.smart, profile.flexible
    shared = [] if flexible is None else [flexible.queues, flexible.interrupts]
    return DriveState(
        size=profile.size,
        namespaces=laid_out(profile.namespaces, profile.size),
        firmware=FirmwareState([profile.firmware] * profile.firmware_slots),
        flexible=FlexibleState(shared, list(shared)) if shared else None,
        spans=FillMap.uniform(profile.size, profile.deallocated_reads).spans,
        smart=SmartState(
            smart.critical_warning,
            smart.temperature_kelvin,
            smart.spare_percent,
            smart.spare_threshold_percent,
            smart.percentage_used,
        ),
    )


def laid_out(parts: Sequence[NamespaceProfile], size: int) -> list[NamespaceState]:
    """Namespaces side by side on ``size`` bytes. Raises DriveError where they do not fit."""
    namespaces, base = [], 0
    for part in parts:
        length = int(size * part.share) // 4096 * 4096
        namespaces.append(
            NamespaceState(
                part.nsid,
                base,
                length,
                part.lba_format,
                part.write_protect,
                part.attached,
                csi=part.csi,
            )
        )
        base += length
    if base > size:
        raise DriveError(f"namespaces of {base} bytes should fit into {size}: lower shares")
    return namespaces


def load_state(path: Path, profile: DriveProfile) -> DriveState:
    """Read the state, or make that of a new drive. Raises DriveError on a foreign file."""
    try:
        text = path.read_text()
    except FileNotFoundError:
        return factory_state(profile)
    try:
        return from_json(DriveState, json.loads(text))
    except ValueError as error:
        raise DriveError(f"{path} should be a drive's state, is not JSON: {error}") from error


def save_state(path: Path, state: DriveState) -> None:
    """Replace the file. It survives a killed server; no test kills the host, so no fsync."""
    temporary = path.with_name(path.name + ".new")
    temporary.write_text(json.dumps(to_json(state)))
    os.replace(temporary, path)
