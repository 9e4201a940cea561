"""What a host testifies: found, sent, seen, counted. The control plane decides what it is worth."""

from __future__ import annotations

import enum
from dataclasses import dataclass, field

from eraser.protocol.codec import LATE
from eraser.protocol.condition import Condition
from eraser.protocol.identity import ControllerIdentity, Slot, pci_address
from eraser.protocol.policy import Label, Method, VerificationMode
from eraser.protocol.profile import NamespaceLayout
from eraser.protocol.ticket import GateTestimony, LastOwner
from eraser.protocol.verdict import Outcome as Outcome
from eraser.protocol.verdict import Verdict as Verdict

REPORT_TYPE = "nvme-quarantine.erase-report+json"
PROGRESS_TYPE = "nvme-quarantine.progress+json"
HELLO_TYPE = "nvme-quarantine.hello+json"


class Step(enum.StrEnum):
    """Where a case stands; also the journal's steps, in this order."""

    PROVE_IDLE = "prove_idle"
    INSPECT = "inspect"
    UNLOCK = "unlock"
    FINGERPRINT = "fingerprint"
    CANARIES = "canaries"
    ERASE = "erase"
    RESTORE = "restore"
    RESET = "reset"
    VERIFY = "verify"
    REPORT = "report"


@dataclass(frozen=True)
class CommandRecord:
    """One command as it was sent, and what came back.

    ``argv`` is nvme-cli's; empty where a reading command went to the kernel by ioctl.
    ``status`` is the NVMe status (SCT in bits 10:8, SC in 7:0; 0 is success), None where none was
    seen: killed, timed out, or lost with the power.
    """

    argv: tuple[str, ...]
    opcode: int
    nsid: int
    cdw10: int
    status: int | None
    exit_code: int | None
    message: str
    started_at: str
    seconds: float
    sent: str = ""
    """Bytes that went to the drive with the command, hexadecimal, without the zeros at the end."""
    cdw11: int = field(default=0, metadata=LATE)
    cdw12: int = field(default=0, metadata=LATE)


@dataclass(frozen=True)
class MethodRecord:
    """One destructive method: the command, the drive's own log around it, and what that means.

    ``log_before`` and ``log_after`` are the raw 512 bytes of log 81h in Base64, empty for Format
    and for drives without the log.
    """

    method: Method
    cdw10: int
    nsid: int
    attempts: int
    adopted: bool
    """Found running without a journal of our own; its end was seen by us."""
    log_before: str
    log_after: str
    changed: bool
    """The log was seen to change between the two: the success is not an older one's."""
    verdict: Verdict
    reason: str
    seconds: float
    ended_at: str = field(default="", metadata=LATE)
    """When its end was seen, UTC on the host's clock."""


@dataclass(frozen=True)
class StatusCount:
    """Blocks that a Read command ended with one status (SCT in bits 10:8, SC in 7:0)."""

    status: int | None
    """None where no completion was seen, or nobody asked."""
    blocks: int


@dataclass(frozen=True)
class NamespaceVerification:
    """What the reads of one namespace found, in 4 KiB blocks."""

    nsid: int
    blocks: int
    """All 4 KiB blocks of the namespace."""
    read: int
    zeros: int
    ones: int
    pattern: int
    random: int
    structured: int
    """Neither uniform, nor a repeated pattern, nor like noise: looks like somebody's data."""
    canaries: int
    """Blocks that still hold one of our canaries."""
    unchanged: int
    """Blocks whose keyed fingerprint is the one taken before the erase."""
    unreadable: int
    expected: str = ""
    """What DLFEAT promises for deallocated blocks here: zeros, ones or unknown; empty from a host
    that does not say it of each namespace."""
    windows: int = 0
    """Windows of the NIST layout that an older host read; else 0."""
    window_blocks: int = 0
    """Distinct blocks in these windows."""
    reread: int = 0
    """Blocks that were read again after another controller reset."""
    changed: int = 0
    """Of these, how many at least then read otherwise."""
    by_passthrough: int = 0
    """Blocks that the kernel could not read and a Read command without checks could (NVM 3.2.4)."""
    statuses: tuple[StatusCount, ...] = ()
    """Why the unreadable ones are that."""
    temporary: bool = field(default=False, metadata=LATE)
    """Made over capacity that belonged to none, and deleted when it was read."""
    uniform: str = field(default="", metadata=LATE)
    """The 16 bytes, hexadecimal, that every block repeats which was read; empty where they do not,
    or where some could not be read."""


@dataclass(frozen=True)
class VerificationRecord:
    """The proof by reading. ``seed`` repeats the very choice of places (hexadecimal)."""

    asked: VerificationMode
    done: VerificationMode
    seed: str
    confidence: float
    residual: float
    sampled: int
    """n of the confidence sentence: distinct 4 KiB blocks read at random places, or all."""
    canaries_planted: int
    canaries_checked: int
    fingerprints_taken: int
    fingerprints_checked: int
    expected: str
    """What DLFEAT promises for deallocated blocks: zeros, ones or unknown."""
    namespaces: tuple[NamespaceVerification, ...]
    missing_probes: tuple[str, ...]
    """Probes that could not be planted or taken, each with why."""
    sentence: str
    seconds: float
    bytes_read: int
    fresh: bool = field(default=False, metadata=LATE)
    """The seed was drawn after the last method: the drive had not been asked for its places."""
    finished_at: str = field(default="", metadata=LATE)
    """When the last block was read, UTC on the host's clock."""
    probed: int | None = field(default=None, metadata=LATE)
    """Places of known content that count wherever a remainder lies, of the larger kind; None from
    an older host, whose canaries of many small namespaces count for a large one as well."""


@dataclass(frozen=True)
class ActRecord:
    """One way of using the drive as its next tenant will, on a sample of 4 KiB blocks."""

    act: str
    done: int
    """Looks that were had in this way: a block that is asked for five times counts as five, its
    sectors that are compared each, and neighbours of what was written too."""
    refused: int
    """Commands that the drive refused, or answered with an error."""
    canaries: int
    """Blocks that held one of our canaries."""
    unchanged: int
    """Blocks that held what the last owner left there."""
    structured: int
    """Other blocks that look like somebody's data."""
    blocks: int = field(default=0, metadata=LATE)
    """Different blocks that this was done with; 0 where none was, and from an older host."""
    otherwise: int = field(default=0, metadata=LATE)
    """Other blocks that read as nothing that was read in their namespace, where all that was is
    uniform: noise, or another value. 0 in a visit that writes, and from a host that does not look.
    """

    def plus(self, other: ActRecord) -> ActRecord:
        """The same act on another namespace, added."""
        return ActRecord(
            self.act,
            self.done + other.done,
            self.refused + other.refused,
            self.canaries + other.canaries,
            self.unchanged + other.unchanged,
            self.structured + other.structured,
            self.blocks + other.blocks,
            self.otherwise + other.otherwise,
        )


@dataclass(frozen=True)
class VisitRecord:
    """The next tenant's first acts, done by the host."""

    place: int
    """Before the destructive command of this number, from 0; their count: after the last."""
    wrote: bool
    """With acts that write; after the last command there are none."""
    acts: tuple[ActRecord, ...]
    not_done: tuple[str, ...]
    """Acts that were left out or cut off, each with why."""
    idle: float = field(default=0.0, metadata=LATE)
    """Seconds without a command before its reads; 0 where nothing is known of more than one."""


@dataclass(frozen=True)
class LinkRecord:
    """The PCI Express link as the kernel shows it (``current_link_*`` and ``max_link_*``).

    ``*_able`` is what drive and slot both can, the smaller of the two. 0 stands for not known.
    """

    speed: float
    """GT/s, per lane."""
    width: int
    """Lanes."""
    speed_able: float
    width_able: int


@dataclass(frozen=True)
class HealthRecord:
    """SMART / Health Information (log 02h), before and after where both matter."""

    critical_warning: int
    available_spare: int
    spare_threshold: int
    percentage_used: int
    media_errors_before: int
    media_errors_after: int
    data_units_written: int
    host_write_commands: int
    power_cycles: int
    power_on_hours: int
    temperature_kelvin: int
    link: LinkRecord | None = None
    """None where the function has no PCI Express link that the kernel shows."""


@dataclass(frozen=True)
class NamespaceId:
    """What a namespace is called for ever (Identify Namespace; NVM Command Set 1.0, 4.1.5.1).

    Hexadecimal, in the order of the bytes, empty where the drive gives none (zeros).
    """

    nsid: int
    nguid: str
    """Bytes 119:104."""
    eui64: str
    """Bytes 127:120."""


@dataclass(frozen=True)
class ControllerFacts:
    """What the drive said of itself (Identify Controller, Identify Namespace)."""

    firmware: str
    nvme_version: int
    oacs: int
    oncs: int
    fna: int
    sanicap: int
    total_bytes: int
    unallocated_bytes: int
    namespaces: tuple[NamespaceLayout, ...]
    dlfeat: tuple[int, ...]
    """One per namespace, same order."""
    detached: tuple[NamespaceLayout, ...] = ()
    """Namespaces that exist and are not attached to this controller: nobody can read them here."""
    condition: Condition | None = None
    """None from an eraser that is older than it."""
    ids: tuple[NamespaceId, ...] = field(default=(), metadata=LATE)
    """Of the attached namespaces that describe themselves."""


@dataclass(frozen=True)
class EraseReport:
    """The host's signed testimony about one case.

    ``order_id``, ``nonce`` and ``incarnation`` are empty and ``generation`` is 0 for a stand-alone
    run. Times are UTC, ISO 8601, on the host's clock: for people, never compared.
    """

    order_id: str
    slot: Slot
    identity: ControllerIdentity | None
    generation: int
    nonce: str
    incarnation: str
    outcome: Outcome
    verdict: Verdict
    fit: bool
    reasons: tuple[str, ...]
    policy: str
    profile: str
    asked: Label
    achieved: Label | None
    downgraded: bool
    facts_before: ControllerFacts | None
    facts_after: ControllerFacts | None
    profile_differences: tuple[str, ...]
    commands: tuple[CommandRecord, ...]
    methods: tuple[MethodRecord, ...]
    verification: VerificationRecord | None
    health: HealthRecord | None
    resumed: int
    """How often the case was taken up again after a crash or power loss."""
    started_at: str
    finished_at: str
    seconds: dict[str, float]
    """Time spent per step."""
    tools: dict[str, str]
    """Versions: eraser, nvme-cli, kernel."""
    last_owner: LastOwner | None = None
    """From the gate; None where it knows of none that had this drive."""
    residues: tuple[str, ...] = ()
    """What no command of ours clears, a sentence each; printed on the certificate."""
    retire: tuple[str, ...] = ()
    """Those of ``reasons`` that no further order can mend: the drive has to be pulled."""
    visits: tuple[VisitRecord, ...] = field(default=(), metadata=LATE)
    """What it showed when it was used as by its next tenant, in order."""
    untold: tuple[str, ...] = field(default=(), metadata=LATE)
    """What could not be read before the erase, each with why: ``facts_before`` is not complete, or
    ``media_errors_before`` is the count of after it."""


@dataclass(frozen=True)
class Progress:
    """A look at a running case. Only for people: nothing is decided on it but patience."""

    order_id: str
    slot: Slot
    generation: int
    incarnation: str
    sequence: int
    step: Step
    fraction: float
    """Of this step, 0 to 1."""
    detail: str


MAX_GENERATION = 2**30
"""No slot is erased so often; a larger number is a mistake or an attack."""

MAX_DRIVES = 256
"""NVMe functions of one host. A host that names more is not telling what it sees."""

MAX_SEQUENCE = 2**62


@dataclass(frozen=True)
class SeenDrive:
    """A controller that a host sees at a PCI address; identity None where it cannot be read."""

    address: str
    driver: str
    identity: ControllerIdentity | None
    group: tuple[str, ...] | None = None
    """Other endpoints in its IOMMU group (bridges left out): they go where the drive goes. None
    where the host has no IOMMU group for it."""
    system: bool | None = None
    """It carries the host's own running system; None where that could not be read."""
    sriov: bool | None = None
    """It can have virtual functions, which Nova calls type-PF; None where that was not read."""

    def __post_init__(self) -> None:
        if pci_address(self.address) != self.address:
            raise ValueError(f"expected a PCI address in lower case, found {self.address!r}")


@dataclass(frozen=True)
class AcceptedOrder:
    """The newest order that a host accepted for a slot, done or not.

    It takes none of a smaller or the same generation any more: a control plane that lost its
    record, or got it back from a backup, has to go on above this one.
    """

    address: str
    order_id: str
    generation: int
    unread: bool = field(default=False, metadata=LATE)
    """A newer release took it, and the one that the host was set back to cannot read it: nobody
    works on it."""
    look: int = field(default=0, metadata=LATE)
    """The greatest look of it that was asked for; the host takes no smaller one either."""

    def __post_init__(self) -> None:
        if not 0 <= self.look <= MAX_GENERATION:
            raise ValueError(f"expected a look of 0 to {MAX_GENERATION}, found {self.look}")
        if not 1 <= self.generation <= MAX_GENERATION:
            raise ValueError(
                f"expected a generation of 1 to {MAX_GENERATION}, found {self.generation}"
            )


@dataclass(frozen=True)
class Hello:
    """A host is alive, and this is in its slots. ``sequence`` grows within an incarnation."""

    host: str
    incarnation: str
    sequence: int
    version: str
    drives: tuple[SeenDrive, ...]
    cases: tuple[str, ...]
    """Order ids of the cases that the host has open."""
    accepted: tuple[AcceptedOrder, ...] = ()
    gate: GateTestimony | None = None
    """None from a host whose eraser is older than the gate."""
    reads_stuck: bool = field(default=False, metadata=LATE)
    """An order may have its member ``stuck``."""
    counts_looks: bool = field(default=False, metadata=LATE)
    """An order may have its member ``look``: the same one again is a repetition."""

    def __post_init__(self) -> None:
        if not 0 <= self.sequence <= MAX_SEQUENCE:
            raise ValueError(f"expected a sequence of 0 to {MAX_SEQUENCE}, found {self.sequence}")
        if len(self.drives) > MAX_DRIVES:
            raise ValueError(f"expected at most {MAX_DRIVES} drives, found {len(self.drives)}")
        if len({drive.address for drive in self.drives}) != len(self.drives):
            raise ValueError("expected each PCI address once, found one twice")
