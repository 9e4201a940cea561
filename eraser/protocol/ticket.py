"""What lets a certified drive start once, and what the host says of its last gate.

A ticket goes to the host after the certificate and before the slot is given back to Nova's pool;
only the host's signed receipt lets the control plane give it back.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass, field

from eraser.protocol.codec import LATE
from eraser.protocol.identity import ControllerIdentity, Slot, pci_address

TICKET_TYPE = "nvme-quarantine.ticket+json"
RECEIPT_TYPE = "nvme-quarantine.ticket-receipt+json"

_SECTORS_PER_CANARY = 8
"""512-byte sectors of the 4 KiB that one of our own writes has at the most."""

_SECTORS_PER_UNIT = 1000
"""Data Units Written counts thousands of 512 bytes, rounded up (Base 2.0, 5.16.1.3)."""

MAX_DOMAINS = 4096
"""Libvirt domains of one host, defined and running. A host that names more makes them up."""

MAX_ALLOWANCES = 32
"""Used ones that a host tells of: it remembers no more (:mod:`eraser.ownership.model`)."""

MAX_REFUSED = 256
"""Owners of one host that were refused. No host has so many slots."""

MAX_EXEMPTIONS = 256
"""Functions that one host's gate leaves to any guest. No host has so many."""


SCANNERS = "programs here act on what tenants wrote: "
"""How the detail of the rules names what asks no udev (:mod:`eraser.defences.diskscanners`)."""


@dataclass(frozen=True)
class Counters:
    """The drive's own counts (SMART / Health Information, log 02h, and Sanitize Status, log 81h).

    ``global_data_erased`` is SSTAT bit 8; None where the drive has no Sanitize or says nothing.
    """

    host_write_commands: int
    data_units_written: int
    power_cycles: int
    global_data_erased: bool | None


def units_of(own_writes: int) -> int:
    """The data units that so many of a case's own writes count as, at most."""
    return -(-own_writes * _SECTORS_PER_CANARY // _SECTORS_PER_UNIT)


@dataclass(frozen=True)
class Ticket:
    """This drive, in this slot, may be given to a guest once.

    ``order_id`` and ``generation`` are those of the case that the certificate is about: one case,
    one ticket, and the same one again is no second one. ``counters`` are those of the certified
    report. ``own_writes`` is the number of commands by which the case itself wrote, at the most
    (:mod:`eraser.protocol.conclusions.ownwrites`): so far a drive's counters may lag behind without
    anybody having written.
    """

    order_id: str
    slot: Slot
    identity: ControllerIdentity
    generation: int
    incarnation: str
    certificate: str
    """Digest of the certificate."""
    counters: Counters
    own_writes: int

    def __post_init__(self) -> None:
        if self.generation < 1:
            raise ValueError(f"expected a generation of at least 1, found {self.generation}")
        if self.own_writes < 0:
            raise ValueError(f"expected a count of writes, found {self.own_writes}")


class TicketState(enum.StrEnum):
    """What became of a ticket on its host. Only forward: nothing makes a ticket valid again."""

    VALID = "valid"
    """The drive was looked at and found as certified; a guest may start on it once."""
    USED = "used"
    """A guest was let in on it."""
    VOID = "void"
    """No guest will start on it: the drive was written to, vanished, changed, or was refused."""


@dataclass(frozen=True)
class TicketReceipt:
    """The host's signed word about a ticket. ``counters`` are as read when it was taken in."""

    order_id: str
    slot: Slot
    generation: int
    incarnation: str
    state: TicketState
    reason: str
    """Why it is not valid; empty where it is."""
    counters: Counters | None


class Defence(enum.StrEnum):
    """One of the things on a host that stand between a released drive and the next guest."""

    HOOK = "hook"
    """Our file in libvirt's qemu.d: there, executable, owned by root, and ours."""
    LOADED = "loaded"
    """The running libvirt daemon calls hooks: it looked for them after ours was there."""
    PATCH = "patch"
    """The running nova-compute has the patch that makes new providers reserved from birth."""
    RULES = "rules"
    """host-setup's rules for these slots: nothing on the host looks into tenants' drives."""
    WATCHER = "watcher"
    """The process that notices when a slot's function vanishes or changes."""


class DefenceStanding(enum.StrEnum):
    """How a defence stands."""

    PRESENT = "present"
    ABSENT = "absent"
    NOT_APPLICABLE = "not_applicable"
    """What it defends against is not on this host: no libvirt, no nova-compute running."""
    UNKNOWN = "unknown"
    """It could not be looked at; counts as absent where it is required."""


@dataclass(frozen=True)
class DefenceSeen:
    """One defence, as the host found it; ``detail`` says what and what to do where it is absent."""

    defence: Defence
    standing: DefenceStanding
    detail: str

    @property
    def scanners(self) -> str:
        """The programs that its detail names behind :data:`SCANNERS`; empty where it names none."""
        return self.detail.partition(SCANNERS)[2].partition(";")[0]


@dataclass(frozen=True)
class DomainSeen:
    """A libvirt domain that names NVMe functions of this host (by address)."""

    uuid: str
    name: str
    addresses: tuple[str, ...]
    running: bool
    recorded: bool
    """The gate let it in with all of them: it has an owner record for each."""

    def __post_init__(self) -> None:
        for address in self.addresses:
            if pci_address(address) != address:
                raise ValueError(f"expected a PCI address in lower case, found {address!r}")


@dataclass(frozen=True)
class LastOwner:
    """The domain that had a drive before it was erased, as the host's gate knows it.

    Times are UTC, ISO 8601, on the host's clock: for people, never compared. ``until`` is when its
    hold was revoked, not when it let go.
    """

    domain: str
    """UUID."""
    name: str
    since: str
    until: str


@dataclass(frozen=True)
class TicketSeen:
    """The newest ticket that the host has for a slot."""

    address: str
    order_id: str
    generation: int
    state: TicketState
    reason: str

    def __post_init__(self) -> None:
        if pci_address(self.address) != self.address:
            raise ValueError(f"expected a PCI address in lower case, found {self.address!r}")


@dataclass(frozen=True)
class AllowanceUsed:
    """A guest that was let in by a person's word (``gate allow --once``), newest last."""

    address: str
    domain: str
    by: str
    reason: str
    at: str


@dataclass(frozen=True)
class Exemption:
    """An NVMe function that its host's gate leaves to any guest, by a person's word
    (``gate exempt``)."""

    address: str
    reason: str
    by: str
    at: str

    def __post_init__(self) -> None:
        if pci_address(self.address) != self.address:
            raise ValueError(f"expected a PCI address in lower case, found {self.address!r}")


@dataclass(frozen=True)
class OwnerRefused:
    """A guest that the gate refused the drive that it has: the drive, or its counters, are not as
    they were left. Told until it is let in, or has the drive no more."""

    address: str
    domain: str
    """UUID."""
    name: str
    found: str
    """Why, and what a person can do."""
    at: str

    def __post_init__(self) -> None:
        if pci_address(self.address) != self.address:
            raise ValueError(f"expected a PCI address in lower case, found {self.address!r}")


@dataclass(frozen=True)
class GateTestimony:
    """The last gate, as its host describes it with each hello."""

    defences: tuple[DefenceSeen, ...]
    domains: tuple[DomainSeen, ...]
    tickets: tuple[TicketSeen, ...]
    allowances: tuple[AllowanceUsed, ...]
    exemptions: tuple[Exemption, ...] = field(default=(), metadata=LATE)
    """All of them by address, whether there is a function now or not."""
    refused: tuple[OwnerRefused, ...] = field(default=(), metadata=LATE)

    def __post_init__(self) -> None:
        if len(self.allowances) > MAX_ALLOWANCES:
            raise ValueError(
                f"expected at most {MAX_ALLOWANCES} allowances, found {len(self.allowances)}"
            )
        if len(self.exemptions) > MAX_EXEMPTIONS:
            raise ValueError(
                f"expected at most {MAX_EXEMPTIONS} exemptions, found {len(self.exemptions)}"
            )
        if len(self.refused) > MAX_REFUSED:
            raise ValueError(
                f"expected at most {MAX_REFUSED} refused owners, found {len(self.refused)}"
            )
        if len({each.address for each in self.refused}) != len(self.refused):
            raise ValueError("expected the refused owner of each slot once, found one twice")
        if len({each.address for each in self.exemptions}) != len(self.exemptions):
            raise ValueError("expected each exemption once, found one twice")
        if len(self.domains) > MAX_DOMAINS:
            raise ValueError(f"expected at most {MAX_DOMAINS} domains, found {len(self.domains)}")
        if len({seen.defence for seen in self.defences}) != len(self.defences):
            raise ValueError("expected each defence once, found one twice")
        if len({seen.address for seen in self.tickets}) != len(self.tickets):
            raise ValueError("expected each slot's ticket once, found one twice")
