"""The certificate as data: the fields of NIST SP 800-88 (r1, 4.8), and ours.

Frozen and strict on both sides: what is signed is the canonical JSON of :class:`Certificate`, and
what is verified is decoded into it again.
"""

from __future__ import annotations

from dataclasses import dataclass

from eraser.wire.identity import ControllerIdentity
from eraser.wire.policy import Label, Method, VerificationMode
from eraser.wire.report import NamespaceVerification

FORMAT = 1
"""Version of this layout. A reader refuses a number that it does not know."""


@dataclass(frozen=True)
class Issuer:
    """Who answers for the certificate: the operator's words, from the configuration.

    NIST SP 800-88r1 4.8 asks for position/title, location and contact of who sanitized and who
    verified; here both are programs run by this organisation, and this person answers for them.
    """

    organisation: str = "not stated"
    person: str = "not stated"
    title: str = "not stated"
    location: str = "not stated"
    contact: str = "not stated"
    confidentiality_before: str = "not stated"
    confidentiality_after: str = "not stated"
    destination: str = "returned to the pool of schedulable drives"
    verifier_person: str = ""
    """Who answers for the verification; an empty field is as for the sanitization."""
    verifier_title: str = ""
    verifier_location: str = ""
    verifier_contact: str = ""


@dataclass(frozen=True)
class Drive:
    """The medium: what the controller said of itself."""

    manufacturer: str
    media_type: str
    identity: ControllerIdentity
    identity_digest: str
    property_number: str
    firmware: str
    nvme_version: str
    capacity_bytes: int
    unallocated_bytes: int
    oacs: int
    fna: int
    sanicap: int
    dlfeat: tuple[int, ...]
    firmware_slots: tuple[str, ...] = ()
    """Revisions by slot; empty where the drive does not tell, and on older certificates."""


@dataclass(frozen=True)
class Source:
    """Where the medium came from."""

    host: str
    address: str
    provider: str
    """The resource provider in Placement."""
    last_user: str
    """The consumer that held the drive last (a server's uuid), or why none is known."""
    known_from: str = ""
    """What the last user is known from: the host's gate, allocations seen in Placement, or both.
    Empty on certificates that are older than this field."""
    gate_owner: str = ""
    """The domain (a server's uuid) that the host's last gate let in on this very drive."""
    gate_since: str = ""
    gate_until: str = ""
    """On the host's clock, as it says."""


@dataclass(frozen=True)
class MethodStatement:
    """One destructive command, and what the drive reported of it."""

    method: Method
    description: str
    opcode: int
    cdw10: int
    nsid: int
    command: str
    """As sent, ready to paste; empty where the sender died before it could be recorded."""
    reported: str
    log_before: str
    log_after: str
    attempts: int
    adopted: bool
    seconds: float


@dataclass(frozen=True)
class Sanitization:
    """What was done."""

    label: Label
    asked: Label
    downgraded: bool
    label_meaning: str
    methods: tuple[MethodStatement, ...]
    resumed: int
    started_at: str
    finished_at: str
    tools: dict[str, str]
    downgrades: tuple[str, ...] = ()
    """Each weaker thing that was done, and the permission for it."""
    quirks: tuple[str, ...] = ()
    """What the policy knows of this model, and changed for it."""


@dataclass(frozen=True)
class VerificationStatement:
    """How it was checked, and what that is worth."""

    method: str
    asked: VerificationMode
    done: VerificationMode
    seed: str
    confidence: float
    residual_asked: float
    residual_shown: float
    sampled: int
    blocks: int
    canaries_planted: int
    canaries_checked: int
    fingerprints_taken: int
    fingerprints_checked: int
    expected: str
    namespaces: tuple[NamespaceVerification, ...]
    sentence: str
    seconds: float


@dataclass(frozen=True)
class Condition:
    """The drive's health as it left (SMART log 02h)."""

    critical_warning: int
    available_spare: int
    percentage_used: int
    media_errors: int
    data_units_written: int
    power_on_hours: int
    spare_threshold: int = 0
    new_media_errors: int = 0
    """Added during the case."""
    link: str = ""
    """PCI Express; empty where the host could not see it."""
    remarks: tuple[str, ...] = ()
    """Every finding, with what the policy makes of it."""


@dataclass(frozen=True)
class Moment:
    """One line of the slot's history."""

    at: str
    event: str
    state: str
    reason: str


@dataclass(frozen=True)
class Case:
    """The papers behind the certificate."""

    order_id: str
    generation: int
    nonce: str
    incarnation: str
    policy: str
    profile: str
    host_key: str
    """RFC 7638 thumbprint of the key that signed the report."""
    order_digest: str
    report_digest: str
    """SHA-256 of the signed messages as they were sent."""
    history: tuple[Moment, ...]


@dataclass(frozen=True)
class Certificate:
    """One per drive and erase. It states what was done and reported, and never more."""

    format: int
    position: int
    """Place in the chain, from 1."""
    previous: str
    """Digest of the certificate before this one; empty for the first."""
    issued_at: str
    issuer: Issuer
    drive: Drive
    source: Source
    sanitization: Sanitization
    verification: VerificationStatement
    condition: Condition
    case: Case
    exceptions: tuple[str, ...]
    """What went otherwise than usual: downgrade, missing probes, lost journals, retries."""
    not_done: tuple[str, ...]
    """What nobody may read into this certificate."""
    residues: tuple[str, ...] = ()
    """What a tenant may have left that no command clears, as the host found it."""
    withheld: tuple[str, ...] = ()
    """Why the drive was not handed out although it was erased; empty for one that goes out."""

    def __post_init__(self) -> None:
        if self.format != FORMAT:
            raise ValueError(f"expected a certificate of format {FORMAT}, found {self.format}")
        if self.position < 1 or (self.position == 1) != (self.previous == ""):
            raise ValueError("expected position 1 without, any other with a previous certificate")
