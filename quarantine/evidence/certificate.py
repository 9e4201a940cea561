"""Certificates: built from the order, the report and the slot's history; signed; chained."""

from __future__ import annotations

import base64
import hashlib
import json
import shlex
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from eraser.protocol import codec
from eraser.protocol.conclusions.remarks import remarks
from eraser.protocol.errors import BadInputError as BadWireError
from eraser.protocol.order import EraseOrder
from eraser.protocol.policy import Label
from eraser.protocol.report import (
    CommandRecord,
    ControllerFacts,
    EraseReport,
    HealthRecord,
    MethodRecord,
    VerificationRecord,
)
from eraser.protocol.transport import signing
from eraser.protocol.transport.signing import PrivateKey, PublicKey
from quarantine import VERSION
from quarantine.errors import BadInputError, NotUnderstoodError, UnreadableError
from quarantine.evidence import disclosure, downgrades, laterreleases, terms, wording
from quarantine.evidence.checks import clocks, images, outcomes, reading, sentcommands
from quarantine.evidence.checks.sentcommands import SentCommands
from quarantine.evidence.keys import keyring
from quarantine.evidence.sections import (
    FORMAT,
    Approval,
    Case,
    Certificate,
    HistoryLine,
    Issuer,
    Medium,
    MediumHealth,
    MediumSource,
    NamespaceStatement,
    Sanitization,
    Technique,
    Validation,
    ValidationDecision,
    VerificationStatement,
)

CERTIFICATE_TYPE = "nvme-quarantine.certificate+json"
"""The JWS ``typ``: no order or report can pass for a certificate."""

_KEPT = "none yet: kept out of the pool until a person decides, or until it is pulled"
"""In place of the operator's words, which are about drives that go out."""


@dataclass(frozen=True)
class CertificateEvidence:
    """What a certificate is built from. ``host_key`` is the reporting host's key thumbprint."""

    order: EraseOrder
    order_token: str
    report: EraseReport
    report_token: str
    host_key: str
    provider: str
    last_user: str
    """By Placement; empty where nobody is known."""
    history: tuple[HistoryLine, ...]
    property_number: str = ""
    chassis: str = ""
    withheld: tuple[str, ...] = ()
    """For a drive that was erased and is not handed out: why."""
    policy: Approval | None = None
    profile: Approval | None = None
    """Who approved what the order names; None where the record does not tell."""
    attestation: str = ""
    """The operator's statement on the encryption of this model; empty where there is none."""
    order_key: str = ""
    """The JWK's ``x`` of the key that signed the order; empty where that signs the certificate."""
    gate_counts: bool = True
    """False: the drive was on another host since, so what this one's gate says is left out."""


@dataclass(frozen=True)
class Link:
    """The end of the chain that a new certificate is hung on."""

    digest: str = ""
    position: int = 0
    issued_at: str = ""


@dataclass(frozen=True)
class SignedCertificate:
    """A certificate whose signature was made or verified here.

    ``digest`` is the SHA-256 of the signed payload: the certificate's name, and its file's.
    """

    certificate: Certificate
    token: str
    digest: str
    key: str
    """RFC 7638 thumbprint of the key that signed."""
    unknown: tuple[str, ...] = ()
    """Members that this release does not know, by path: a later one signed them too."""

    @property
    def link(self) -> Link:
        """What the next certificate hangs on."""
        return Link(self.digest, self.certificate.position, self.certificate.issued_at)


def build(
    testimony: CertificateEvidence, issuer: Issuer, previous: Link, issued_at: str
) -> Certificate:
    """The certificate that the testimony carries.

    Only for a report that :func:`quarantine.rules.reports.check.check` lets be certified, or, with
    ``withheld``, calls erased; raises :class:`BadInputError` for one that lacks what a certificate
    must name.
    """
    order, report = testimony.order, testimony.report
    if (
        report.achieved is None
        or report.verification is None
        or report.facts_before is None
        or report.facts_after is None
        or report.health is None
    ):
        raise BadInputError(
            f"report of order {report.order_id}: expected label, verification, facts and health "
            "for a certificate, found some missing; hold the slot"
        )
    source = _source(testimony)
    sanitization = _sanitization(testimony, report.achieved, issuer)
    verification = _verification(report, report.verification)
    # Times that contradict each other are remarked on and decide nothing (checks/clocks.py).
    doubts = [clocks.SET_BACK] if clocks.was_set_back(source, sanitization, verification) else []
    if clocks.ours_was_set_back(testimony.history, issued_at, previous.issued_at):
        doubts.append(clocks.OURS_SET_BACK)
    doubts += [clocks.READ_FIRST] if clocks.was_read_first(sanitization, verification) else []
    return Certificate(
        format=FORMAT,
        position=previous.position + 1,
        previous=previous.digest,
        issued_at=issued_at,
        issuer=replace(issuer, destination=_KEPT) if testimony.withheld else issuer,
        drive=_drive(order, report.facts_before, report.facts_after, testimony.property_number),
        source=source,
        sanitization=sanitization,
        verification=verification,
        condition=_condition(order, report, report.health),
        case=Case(
            order_id=order.order_id,
            generation=order.generation,
            nonce=order.nonce,
            incarnation=order.incarnation,
            policy=order.policy.name,
            profile=order.profile.name,
            host_key=testimony.host_key,
            order_digest=token_digest(testimony.order_token),
            report_digest=token_digest(testimony.report_token),
            history=testimony.history,
            order_key=testimony.order_key,
        ),
        exceptions=(
            *wording.exceptions(order, report),
            *doubts,
        ),
        not_done=tuple(disclosure.not_done(report)),
        residues=report.residues,
        withheld=testimony.withheld,
        headline=wording.headline(
            order.identity,
            sanitization,
            verification,
            withheld=bool(testimony.withheld),
            unread=disclosure.left_out(report),
        ),
        validation=_validation(testimony, issued_at),
    )


def sign(certificate: Certificate, key: PrivateKey) -> SignedCertificate:
    """Signs the canonical form of a certificate."""
    payload = codec.canonical(certificate)
    token = key.sign(payload, CERTIFICATE_TYPE)
    return SignedCertificate(certificate, token, _sha256(payload), key.public.thumbprint)


def verify(token: str, keys: Sequence[PublicKey], what: str) -> SignedCertificate:
    """The certificate in a token that one of ``keys`` signed. Raises :class:`BadInputError`, and
    :class:`NotUnderstoodError` where it is signed and says what this release does not know."""
    failure: BadWireError | None = None
    for key in keys:
        try:
            payload = signing.verify(token, key, CERTIFICATE_TYPE, what)
        except BadWireError as error:
            failure = error
            continue
        # The signature holds: what is wrong from here on is wrong whichever key is asked.
        try:
            signed = codec.parse(payload, what)
            certificate, unknown = laterreleases.understood(signed, what)
        except BadWireError as error:
            raise NotUnderstoodError(
                f"{error}; its signature holds: a later release may know what it says"
            ) from error
        # Not of the decoded one: a certificate of an earlier release lacks members of today's.
        if _canonical(signed, what) != payload:
            raise BadInputError(f"{what}: expected the canonical JSON form, found another")
        digest = _sha256(payload)
        # A key counts for its own places alone: who steals a former one later can sign no other.
        if misplaced := keyring.misplaced(keys, key, certificate.position, digest):
            raise BadInputError(f"{what}: position {certificate.position} is {misplaced}")
        return SignedCertificate(certificate, token, digest, key.thumbprint, unknown)
    raise BadInputError(str(failure) if failure else f"{what}: expected a public key, found none")


def document(signed: SignedCertificate) -> bytes:
    """The file form: the certificate for readers, and the JWS that vouches for every word of it."""
    return said_document(signed.token)


def said_digest(token: str) -> str:
    """The name of the certificate that a token has, signed or not. Raises ``BadInputError``."""
    try:
        return _sha256(_payload(token))
    except (ValueError, IndexError) as error:
        raise BadInputError("certificate: expected a compact JWS, found other text") from error


def checked_link(number: int, digest: str, token: str) -> Link:
    """The chain's end, as what is signed may name it: its number and digest are the record's, and
    its token says the same. Raises :class:`UnreadableError`: signed, a wrong one would stay."""
    link = _said_link(token)
    if link is None or (link.digest, link.position) != (digest, number):
        raise UnreadableError(
            f"the newest certificate: expected what its token says, found number {number} and "
            f"digest {digest}; restore the record from a backup"
        )
    return link


def _said_link(token: str) -> Link | None:
    try:
        said = _said(token)
        return Link(said_digest(token), said["position"], str(said["issued_at"]))
    except (BadInputError, BadWireError, ValueError, LookupError, TypeError):
        return None


def said_document(token: str) -> bytes:
    """The file form of a token, checked or not. Raises :class:`BadInputError`."""
    try:
        body = {"certificate": _said(token), "jws": token}
    except (BadWireError, ValueError, IndexError) as error:
        raise BadInputError(
            "certificate: expected JSON in a compact JWS, found other text"
        ) from error
    return json.dumps(body, indent=2, sort_keys=True, ensure_ascii=False).encode() + b"\n"


def file_bytes(body: Certificate) -> int:
    """The size of the file that a certificate will be, but for the few bytes of its signature."""
    readable = json.dumps(codec.plain(body), indent=2, ensure_ascii=False)
    # The token holds the canonical form in Base64: four characters for three bytes.
    return len(readable.encode()) + len(codec.canonical(body)) * 4 // 3


def said_line(token: str) -> bytes:
    """The file form in one line, for a ledger. The token is one of the record's, checked or not."""
    try:
        return _canonical({"certificate": _said(token), "jws": token}, "certificate") + b"\n"
    except (BadInputError, BadWireError, ValueError, IndexError):
        # A line all the same: the ledger has one for each, and its check names this one.
        return " ".join(token.split()).encode() + b"\n"


def damaged_line(number: int) -> bytes:
    """What stands in a ledger for one that cannot be read: a line that no check takes for one."""
    return _canonical({"damaged": damaged(number)}, "certificate") + b"\n"


def damaged(number: int) -> str:
    """What is said of one that cannot be read."""
    return f"certificate {number} of the record: it cannot be read; restore it from a backup"


def read_document(raw: bytes, keys: Sequence[PublicKey], what: str) -> SignedCertificate:
    """Verifies a file: its signature, and that the readable part is the signed one.

    A bare compact JWS is read too. Raises :class:`BadInputError`.
    """
    # No JSON object: the token alone, without its readable part.
    if not raw.lstrip().startswith(b"{"):
        try:
            return verify(raw.decode("ascii").strip(), keys, what)
        except UnicodeDecodeError as error:
            raise BadInputError(f"{what}: expected a certificate, found other bytes") from error
    try:
        value = codec.parse(raw, what)
    except BadWireError as error:
        raise BadInputError(str(error)) from error
    if not isinstance(value, dict) or set(value) != {"certificate", "jws"}:
        raise BadInputError(f"{what}: expected the members 'certificate' and 'jws'")
    if not isinstance(value["jws"], str):
        raise BadInputError(f"{what}: expected a compact JWS in 'jws'")
    signed = verify(value["jws"], keys, what)
    # People read the readable part; only the token is signed. So both have to say the same.
    if _canonical(value["certificate"], what) != _canonical(_said(signed.token), what):
        raise BadInputError(
            f"{what}: expected the readable part to be what was signed, found it altered"
        )
    return signed


def _canonical(value: Any, what: str) -> bytes:
    """The canonical form of what a stranger may have written. Raises :class:`BadInputError`.

    JSON can spell what has none: 1e999, half a surrogate pair, lists in lists without end.
    """
    try:
        return codec.canonical(value)
    except (ValueError, RecursionError) as error:
        raise BadInputError(
            f"{what}: expected values that have a canonical form, found another ({error})"
        ) from error


def _said(token: str) -> Any:
    """The payload of a token whose signature was made or verified here, as plain values."""
    return codec.parse(_payload(token), "certificate")


def _payload(token: str) -> bytes:
    part = token.split(".")[1]
    # A JWS leaves the padding out, and the decoder wants it.
    return base64.urlsafe_b64decode(part + "=" * (-len(part) % 4))


@dataclass(frozen=True)
class _Slots:
    firmware_slots: tuple[str, ...] = ()


def installed(token: str, what: str) -> tuple[str, ...]:
    """The firmware revisions by slot in a certificate of the record's, whichever release made it;
    the earlier ones' have none. Raises :class:`BadInputError`."""
    try:
        drive = _canonical(_said(token)["drive"], what)
        return codec.load_part(_Slots, drive, what).firmware_slots
    except (BadInputError, BadWireError, ValueError, LookupError, TypeError) as error:
        raise BadInputError(f"{what}: expected a certificate of the record's: {error}") from error


def token_digest(token: str) -> str:
    """SHA-256 of a signed message as it was sent, 64 hexadecimal digits."""
    return _sha256(token.encode())


def _sha256(raw: bytes) -> str:
    return hashlib.sha256(raw).hexdigest()


OTHERWISE = "; Placement named "
"""In how a last user is known: another one by Placement than by the host's gate."""


def _source(testimony: CertificateEvidence) -> MediumSource:
    slot = testimony.order.slot
    # The gate saw who started on this very drive; Placement knows who held the slot. So the gate's
    # word goes first, but for a drive that was on another host since.
    owner = testimony.report.last_owner if testimony.gate_counts else None
    if owner is not None and not owner.domain:
        owner = None  # times of nobody: a certificate that they stood on would contradict them
    seen = testimony.last_user
    if owner is not None:
        known = "the host's gate"
        known += " and Placement" if owner.domain == seen else ""
        known += f"{OTHERWISE}{seen}" if seen and owner.domain != seen else ""
    else:
        known = "allocations seen in Placement" if seen else "nothing on record"
    return MediumSource(
        host=slot.host,
        address=slot.address,
        provider=testimony.provider,
        last_user=(owner.domain if owner else seen) or "none on record",
        known_from=known,
        gate_owner=owner.domain if owner else "",
        gate_since=owner.since if owner else "",
        gate_until=owner.until if owner else "",
        chassis=testimony.chassis or "not recorded",
    )


def _drive(
    order: EraseOrder, before: ControllerFacts, after: ControllerFacts, property_number: str
) -> Medium:
    return Medium(
        manufacturer=wording.manufacturer(order.identity),
        media_type="NVMe solid state drive",
        identity=order.identity,
        identity_digest=order.identity.digest,
        property_number=property_number or "not recorded",
        firmware=after.firmware,
        nvme_version=wording.version(after.nvme_version),
        # A drive without namespace management may report no total.
        capacity_bytes=after.total_bytes or sum(n.size for n in after.namespaces),
        unallocated_bytes=after.unallocated_bytes,
        # As they stood when the methods were chosen; the rest is as the drive leaves.
        oacs=before.oacs,
        fna=before.fna,
        sanicap=before.sanicap,
        dlfeat=after.dlfeat,
        firmware_slots=images.revisions(after),
        namespaces=namespaces(after),
        namespaces_before=namespaces(before),
    )


def namespaces(facts: ControllerFacts) -> tuple[NamespaceStatement, ...]:
    """What a host found, as a certificate has it: attached ones, then the others."""
    ids = {found.nsid: found for found in facts.ids}
    return tuple(
        NamespaceStatement(
            nsid=layout.nsid,
            size=layout.size,
            block_bytes=layout.block_bytes,
            lba_format=layout.lba_format,
            metadata_bytes=layout.metadata_bytes,
            protection=layout.protection,
            nguid=ids[layout.nsid].nguid if layout.nsid in ids else "",
            eui64=ids[layout.nsid].eui64 if layout.nsid in ids else "",
        )
        for layout in (*facts.namespaces, *facts.detached)
    )


def _sanitization(testimony: CertificateEvidence, label: Label, issuer: Issuer) -> Sanitization:
    order, report = testimony.order, testimony.report
    sent = SentCommands(report.commands)
    techniques = tuple(_technique(record, sent.of(record)) for record in report.methods)
    return Sanitization(
        method=label,
        asked=report.asked,
        downgraded=report.downgraded,
        meaning=wording.meaning(order, report, issuer.organisation),
        techniques=techniques,
        resumed=report.resumed,
        started_at=report.started_at,
        finished_at=finished(report),
        tools=dict(report.tools),
        downgrades=tuple(downgrades.seen(order, report)),
        quirks=tuple(downgrades.quirks(order, report)),
        attestation=(
            wording.attestation(testimony.attestation, issuer.organisation)
            if outcomes.by_key_alone(techniques)
            else ""
        ),
    )


def finished(report: EraseReport) -> str:
    """When the last technique ended; when the case did, from a host that does not tell."""
    return (report.methods[-1].ended_at if report.methods else "") or report.finished_at


def _technique(record: MethodRecord, sent: CommandRecord | None) -> Technique:
    return Technique(
        technique=terms.TECHNIQUES[record.method].name,
        command=record.method,
        description=wording.description(record),
        opcode=sentcommands.opcode_of(record.method),
        cdw10=record.cdw10,
        nsid=record.nsid,
        sent="" if sent is None else shlex.join(sent.argv),
        reported=wording.reported(record),
        log_before=record.log_before,
        log_after=record.log_after,
        attempts=record.attempts,
        adopted=record.adopted,
        seconds=record.seconds,
        started_at="" if sent is None else sent.started_at,
        ended_at=record.ended_at,
        verdict=record.verdict,
    )


def _validation(testimony: CertificateEvidence, decided_at: str) -> Validation:
    order = testimony.order
    return Validation(
        decision=ValidationDecision.WITHHELD if testimony.withheld else ValidationDecision.ACCEPTED,
        decided_at=decided_at,
        decided_by=f"nvme-quarantine {VERSION}, by rule, without a person",
        policy=testimony.policy or Approval(order.policy.name, codec.digest(order.policy)),
        profile=testimony.profile or Approval(order.profile.name, codec.digest(order.profile)),
    )


def _verification(report: EraseReport, record: VerificationRecord) -> VerificationStatement:
    return VerificationStatement(
        method=wording.verification_method(record),
        asked=record.asked,
        done=record.done,
        seed=record.seed,
        confidence=record.confidence,
        residual_asked=record.residual,
        residual_shown=reading.residual_shown(record),
        sampled=record.sampled,
        blocks=reading.total_blocks(record),
        canaries_planted=record.canaries_planted,
        canaries_checked=record.canaries_checked,
        fingerprints_taken=record.fingerprints_taken,
        fingerprints_checked=record.fingerprints_checked,
        expected=record.expected,
        namespaces=record.namespaces,
        sentence=wording.confidence(record),
        seconds=record.seconds,
        finished_at=record.finished_at,
        probes=wording.probes(record),
        acts=tuple(disclosure.done(report)),
    )


def _condition(order: EraseOrder, report: EraseReport, health: HealthRecord) -> MediumHealth:
    # Health is judged anew by the order's policy; the host's own judgement is not used.
    looks = report.facts_before, report.facts_after
    return MediumHealth(
        critical_warning=health.critical_warning,
        available_spare=health.available_spare,
        percentage_used=health.percentage_used,
        media_errors=health.media_errors_after,
        data_units_written=health.data_units_written,
        power_on_hours=health.power_on_hours,
        spare_threshold=health.spare_threshold,
        new_media_errors=max(0, health.media_errors_after - health.media_errors_before),
        link="" if health.link is None else wording.link(health.link),
        remarks=tuple(
            f"{each.text} ({each.consequence})"
            for each in remarks(health, order.policy.health, *looks)
        ),
    )
