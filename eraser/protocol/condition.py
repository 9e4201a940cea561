"""What a tenant can change on a drive besides its data and its namespaces, as facts."""

from __future__ import annotations

import enum
from dataclasses import dataclass, field

from eraser.protocol.codec import LATE


@dataclass(frozen=True)
class FirmwareSlots:
    """Firmware Slot Information, log 03h (Base 2.0, 5.16.1.4), and FRMW of Identify Controller."""

    active: int
    """Slot (1 to 7) that the running firmware came from."""
    pending: int
    """Slot that the next Controller Level Reset activates; 0 where none is waiting."""
    revisions: tuple[str, ...]
    """By slot, the first one being slot 1; empty text for a slot that holds nothing."""
    first_read_only: bool = False


@dataclass(frozen=True)
class SecurityState:
    """TCG Level 0 Discovery (TCG Storage Core 2.01, 3.3.6). All false where there is none."""

    sets: tuple[str, ...] = ()
    """Feature sets that the drive has: opal-1, opal-2, pyrite-1, ..."""
    locking_enabled: bool = False
    """Somebody has taken ownership and switched locking on."""
    locked: bool = False
    """At least one range is locked now: reads and writes there fail."""
    shadow_mbr: bool = False
    """MBREnabled: reads may come from the shadow MBR and not from the media."""
    sid_changed: bool = False
    """The owner's password is not the one that the vendor printed into the drive (MSID)."""
    sid_blocked: bool = False
    """Block SID: nobody can take ownership until the next power cycle."""
    owner_untold: bool = field(default=False, metadata=LATE)
    """The drive has feature sets and no descriptor that tells whether the password was changed."""
    password_set: bool = field(default=False, metadata=LATE)
    """There is a user password of ATA (security protocol EFh): the next power cycle locks it."""
    password_locked: bool = field(default=False, metadata=LATE)
    """It is locked by that."""


@dataclass(frozen=True)
class Reservation:
    """A namespace that hosts have registered with or reserved (Reservation Report)."""

    nsid: int
    kind: int
    """RTYPE, 0 where nobody holds it and hosts are only registered."""
    registrants: int
    persistent: bool
    """PTPLS: it outlives a power loss."""


@dataclass(frozen=True)
class WriteProtection:
    """A namespace that cannot be written (feature 84h; Base 2.0, 8.12)."""

    nsid: int
    state: int
    """1 protected, 2 until the next power cycle, 3 for ever."""


@dataclass(frozen=True)
class BootPartitions:
    """Log 15h's header (Base 2.0, 5.16.1.21). Neither Sanitize nor Format reaches them."""

    size: int
    """Bytes of each of the two."""
    active: int
    digests: tuple[str, ...] = ()
    """SHA-256 of both, in order; empty where they are too large, or cannot be read in parts."""


@dataclass(frozen=True)
class Lockdown:
    """What the drive refuses on its admin queue (log 14h; Base 2.0, 5.16.1.20)."""

    opcodes: tuple[int, ...] = ()
    features: tuple[int, ...] = ()


class Buffer(enum.StrEnum):
    """Memory of the drive that a host maps and writes without any command of NVM."""

    CMB = "cmb"
    """Controller Memory Buffer (Base 2.0, 8.5)."""
    PMR = "pmr"
    """Persistent Memory Region (Base 2.0, CAP.PMRS and PMRCAP)."""

    @property
    def words(self) -> str:
        """For people."""
        return {
            Buffer.CMB: "controller memory buffer (CMB)",
            Buffer.PMR: "persistent memory region (PMR)",
        }[self]


@dataclass(frozen=True)
class FlexibleResources:
    """What the physical function of a drive with SR-IOV has of the resources that it may share
    with its virtual ones (Primary Controller Capabilities, CNS 14h; Base 2.0, 5.17.2.13)."""

    queues: int
    """VQRFAP: pairs of queues, besides those that are always its own."""
    interrupts: int
    """VIRFAP: interrupt vectors, likewise."""


@dataclass(frozen=True)
class Condition:
    """Everything of the kind that was found. None: the drive has no such thing, or does not say."""

    firmware: FirmwareSlots | None = None
    controllers: int = 1
    """Controllers of the NVM subsystem: another one may lead somewhere else. 0: the drive says that
    there may be more than one, and does not list them."""
    security: SecurityState | None = None
    boot: BootPartitions | None = None
    lockdown: Lockdown | None = None
    reservations: tuple[Reservation, ...] = ()
    protected: tuple[WriteProtection, ...] = ()
    rpmb_units: int = 0
    """Replay protected memory: only who has its key can clear it, and a tenant can set the key."""
    logs: tuple[str, ...] = ()
    """Logs that the drive keeps over an erase, by name."""
    unreadable: tuple[str, ...] = ()
    """What it answered nonsense about, by name: nothing is known of that, and it is erased all the
    same."""
    boot_untold: bool = field(default=False, metadata=LATE)
    """Boot partitions would be told by a register, which this host's kernel lets nobody read."""
    buffers: tuple[Buffer, ...] = field(default=(), metadata=LATE)
    """Those that it has, as far as anybody could look. Sanitize reaches them, Format does not."""
    buffers_untold: bool = field(default=False, metadata=LATE)
    """Registers tell of them, which this host's kernel lets nobody read: there may be others."""
    flexible: FlexibleResources | None = field(default=None, metadata=LATE)
    """A tenant can give them away for good (Virtualization Management, ACT 1)."""


@dataclass(frozen=True)
class ExpectedCondition:
    """What a profile wants of a :class:`Condition`. Reservations, locks and write protection are
    never wanted, so they have no place here."""

    slot_firmware: tuple[str, ...] = ()
    """Revisions that may come to lie in a firmware slot, besides those that may run."""
    controllers: int = 1
    security: SecurityState = SecurityState()
    boot: BootPartitions | None = None
    lockdown: Lockdown = Lockdown()
    unreadable: tuple[str, ...] = ()
    """What drives of this model never answer sensibly about."""
    flexible: FlexibleResources | None = field(default=None, metadata=LATE)
    """None in an older profile, and of a drive that has none: not compared."""
