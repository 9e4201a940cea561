"""The certificate as data: the fields that NIST SP 800-88 asks for, and ours.

Frozen and strict on both sides: what is signed is the canonical JSON of :class:`Certificate`, and
what is verified is decoded into it again.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass, field

from eraser.protocol.codec import LATE
from eraser.protocol.identity import ControllerIdentity
from eraser.protocol.policy import Label, Method, VerificationMode
from eraser.protocol.report import NamespaceVerification, Verdict

FORMAT = 2
"""Version of this layout. A reader refuses a number that it does not know; certificates of
format 1 are raised to it as they are read (:mod:`quarantine.evidence.format1`) and keep their
number."""
RESERVED = ("qualification", "deployment", "device_evidence")
"""Members that a later release may write: texts by name, which a reader shows."""


@dataclass(frozen=True)
class Issuer:
    """Who answers for the certificate: the operator's words, from the configuration.

    NIST SP 800-88 asks for position/title, location and contact of who sanitized and who verified;
    here both are programs run by this organisation, and this person answers for them.
    """

    organisation: str = "not stated"
    person: str = "not stated"
    title: str = "not stated"
    location: str = "not stated"
    contact: str = "not stated"
    confidentiality_before: str = "not stated"
    confidentiality_after: str = "not stated"
    destination: str = "the pool of schedulable drives"
    verifier_person: str = ""
    """Who answers for the verification; an empty field is as for the sanitization."""
    verifier_title: str = ""
    verifier_location: str = ""
    verifier_contact: str = ""
    backup: str = "not stated"
    """Whether, and where, the data was backed up before; a field of the standard's form."""


@dataclass(frozen=True)
class NamespaceStatement:
    """One namespace as the drive describes it."""

    nsid: int
    size: int
    """Bytes that can be addressed."""
    block_bytes: int
    lba_format: int
    """The index of the format in use (FLBAS)."""
    metadata_bytes: int
    protection: int
    """DPS, end-to-end data protection settings."""
    nguid: str
    eui64: str
    """Hexadecimal; both empty where the drive gives none, or the host did not report it."""


@dataclass(frozen=True)
class Medium:
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
    namespaces: tuple[NamespaceStatement, ...] = ()
    """Attached ones after the sanitization; empty on certificates of format 1."""
    namespaces_before: tuple[NamespaceStatement, ...] = ()
    """And before it, attached or not."""


@dataclass(frozen=True)
class MediumSource:
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
    """The domain (a server's uuid) that the host's last gate had as this very drive's owner: let in
    by it, or adopted with the drive as it ran."""
    gate_since: str = ""
    gate_until: str = ""
    """On the host's clock, as it says: from its first start there, or its adoption, until the
    slot was taken from it."""
    chassis: str = "not recorded"
    """The organisation's number of the machine."""
    project: str = field(default="", metadata=LATE)
    initiator: str = field(default="", metadata=LATE)
    """Reserved: whose server it was, and who deleted it."""


@dataclass(frozen=True)
class Technique:
    """One destructive command, and what the drive reported of it."""

    technique: str
    """In the standard's words: cryptographic erase, block erase, and so on."""
    command: Method
    description: str
    opcode: int
    cdw10: int
    nsid: int
    sent: str
    """The command line, ready to paste; empty where the sender died before it could be recorded."""
    reported: str
    log_before: str
    """Log 81h, 512 bytes in Base64; empty for Format."""
    log_after: str
    attempts: int
    adopted: bool
    """Found running without a journal that tells of its beginning; its end was seen."""
    seconds: float
    """Spent on it by the run that saw its end; it may have taken longer."""
    started_at: str = ""
    """When the command was sent, on the host's clock; empty where no record of it was left."""
    ended_at: str = ""
    """When its end was seen; empty from an eraser that did not tell."""
    verdict: Verdict = field(default=Verdict.ERASED, metadata=LATE)
    """Its host's, from the command's status and the log before, meanwhile and after. By itself the
    log after says nothing of a command that was refused: it stays as an earlier one left it. On
    certificates that are older than this member it is all that there is."""


@dataclass(frozen=True)
class Sanitization:
    """What was done. ``method`` is the standard's word for the class: Clear or Purge."""

    method: Label
    asked: Label
    downgraded: bool
    meaning: str
    techniques: tuple[Technique, ...]
    resumed: int
    started_at: str
    """When the case began, on the host's clock."""
    finished_at: str
    """When the end of the last technique was seen; that of the case where the host did not tell,
    and in format 1."""
    tools: dict[str, str]
    downgrades: tuple[str, ...] = ()
    """Each weaker thing that was done, and the permission for it."""
    quirks: tuple[str, ...] = ()
    """What the policy knows of this model, and changed for it."""
    attestation: str = ""
    """Where cryptographic erase alone succeeded: who vouches that all that was ever stored was
    encrypted. Empty where something else succeeded too."""


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
    finished_at: str = ""
    """When the last block was read, on the host's clock; empty where the host did not tell."""
    probes: str = ""
    """What became of canaries and fingerprints, in a sentence."""
    acts: tuple[str, ...] = ()
    """How the drive was used as by its next tenant, a sentence each."""


class ValidationDecision(enum.StrEnum):
    """What the control plane made of the verified result."""

    ACCEPTED = "accepted"
    WITHHELD = "withheld"


@dataclass(frozen=True)
class Approval:
    """Which version of a document the result was held against, and who approved that."""

    name: str
    digest: str
    """SHA-256 of its canonical form."""
    version: int = 0
    """0 where the record does not have this very document."""
    approved_by: str = ""
    approved_at: str = ""


@dataclass(frozen=True)
class Validation:
    """The decision on the result. The standard tells it from the verification."""

    decision: ValidationDecision
    decided_at: str
    """On the control plane's clock."""
    decided_by: str
    policy: Approval
    profile: Approval


@dataclass(frozen=True)
class MediumHealth:
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
class HistoryLine:
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
    history: tuple[HistoryLine, ...]
    order_key: str = field(default="", metadata=LATE)
    """The Ed25519 key that signed the order (``x`` of its JWK, RFC 8037), where that is another
    than the certificate's."""


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
    drive: Medium
    source: MediumSource
    sanitization: Sanitization
    verification: VerificationStatement
    condition: MediumHealth
    case: Case
    exceptions: tuple[str, ...]
    """What went otherwise than usual: downgrade, missing probes, lost journals, retries."""
    not_done: tuple[str, ...]
    """What nobody may read into this certificate."""
    residues: tuple[str, ...] = ()
    """What a tenant may have left that no command clears, as the host found it."""
    withheld: tuple[str, ...] = ()
    """Why the drive was not handed out although it was erased; empty for one that goes out."""
    headline: str = ""
    """One sentence, computed from what succeeded; empty in format 1."""
    validation: Validation | None = None
    """None in format 1."""
    qualification: dict[str, str] | None = field(default=None, metadata=LATE)
    deployment: dict[str, str] | None = field(default=None, metadata=LATE)
    device_evidence: dict[str, str] | None = field(default=None, metadata=LATE)
    """Reserved, and never written yet: a reader shows them by name."""

    def __post_init__(self) -> None:
        if self.format not in (1, FORMAT):
            raise ValueError(f"expected a certificate of format 1 or {FORMAT}, found {self.format}")
        told = bool(self.headline) and self.validation is not None
        if told != (self.format == FORMAT):
            raise ValueError(
                f"expected a headline and a validation in format {FORMAT}, and neither in format 1"
            )
        if self.position < 1 or (self.position == 1) != (self.previous == ""):
            raise ValueError("expected position 1 without, any other with a previous certificate")
