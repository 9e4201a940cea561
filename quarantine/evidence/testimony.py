"""What a certificate rests on: the controller's order and the host's report, as they were signed.

The certificate names both by digest, and the host's key by thumbprint; so they prove themselves to
whoever has the certificate. A fact of the certificate that they do not bear is a contradiction.
"""

from __future__ import annotations

import enum
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from eraser.protocol import codec
from eraser.protocol.errors import BadInputError as BadWireError
from eraser.protocol.order import ORDER_TYPE, EraseOrder
from eraser.protocol.report import REPORT_TYPE, EraseReport, Verdict
from eraser.protocol.transport import signing
from eraser.protocol.transport.signing import PublicKey
from quarantine.errors import BadInputError
from quarantine.evidence import certificate
from quarantine.evidence.certificate import CertificateEvidence, Link, token_digest
from quarantine.evidence.checks import clocks, images, methods, reading, sentcommands
from quarantine.evidence.sections import FORMAT, Certificate
from quarantine.record.words.facts import SignedTestimony


class TestimonyStanding(enum.StrEnum):
    """What became of the look at a certificate's testimony."""

    AGREES = "agrees"
    CONTRADICTS = "contradicts"
    NOT_KEPT = "not kept"
    """The record has none: the certificate is older than the keeping of testimonies."""
    NOT_GIVEN = "not given"
    """Nobody handed it over with the certificate's file."""


@dataclass(frozen=True)
class TestimonyResult:
    """The result of a look. ``problems`` are contradictions, ``remarks`` are none."""

    standing: TestimonyStanding
    problems: tuple[str, ...] = ()
    remarks: tuple[str, ...] = ()
    """What this release says otherwise of the same testimony: its words, and its rules."""


def weigh(
    body: Certificate, given: SignedTestimony, controller_keys: Sequence[PublicKey]
) -> TestimonyResult:
    """Holds a certificate, whose signature held, against its testimony.

    Signatures and digests first; what was not signed by the right one is not read at all.
    """
    problems = list(_papers(body, given))
    if problems:
        return TestimonyResult(TestimonyStanding.CONTRADICTS, tuple(problems))
    try:
        keys = _order_keys(body, controller_keys)
        order = codec.load(EraseOrder, _order(given.order, keys), "order")
        raw = signing.verify(given.report, given.host_key, REPORT_TYPE, "report")
        report = codec.load(EraseReport, raw, "report")
    except (BadInputError, BadWireError) as error:
        return TestimonyResult(TestimonyStanding.CONTRADICTS, (str(error),))
    # From here on both are authentic: do they fit each other, and does the certificate fit them?
    problems += _ids(order, report)
    problems += _contradictions(body, order, report)
    if problems:
        return TestimonyResult(TestimonyStanding.CONTRADICTS, tuple(problems))
    try:
        remarks = tuple(_remarks(body, given, order, report))
    except (BadInputError, ValueError, ArithmeticError) as error:
        # Signed as they are, and such that nothing can be computed from them: no fault of the next
        # file, and what is wrong with the certificate its own parts say.
        remarks = (f"this release computes no texts from this testimony ({error})",)
    return TestimonyResult(TestimonyStanding.AGREES, remarks=remarks)


def _papers(body: Certificate, given: SignedTestimony) -> Iterator[str]:
    """These very messages, and this very key."""
    case = body.case
    for name, said, found in (
        ("order", case.order_digest, token_digest(given.order)),
        ("report", case.report_digest, token_digest(given.report)),
        ("host's key", case.host_key, given.host_key.thumbprint),
    ):
        if said != found:
            yield f"{name}: expected the one that the certificate names, {said}, found {found}"


def _order_keys(body: Certificate, controller_keys: Sequence[PublicKey]) -> Sequence[PublicKey]:
    """The one that the certificate vouches for, where orders have a key of their own."""
    if not body.case.order_key:
        return controller_keys
    # The certificate's signature held, so the key that it names is as good as one that was given.
    jwk = {"kty": "OKP", "crv": "Ed25519", "x": body.case.order_key}
    return [PublicKey.from_jwk(jwk, "case.order_key")]


def _order(token: str, keys: Sequence[PublicKey]) -> bytes:
    failure: BadWireError | None = None
    for key in keys:
        try:
            return signing.verify(token, key, ORDER_TYPE, "order")
        except BadWireError as error:
            failure = error
    raise BadInputError(str(failure) if failure else "order: expected a public key, found none")


def _ids(order: EraseOrder, report: EraseReport) -> Iterator[str]:
    """The report answers this order."""
    # Each side signed its own: an old report would pass under a new order but for these.
    for name in ("order_id", "slot", "generation", "nonce", "incarnation"):
        asked, answered = getattr(order, name), getattr(report, name)
        if asked != answered:
            yield f"report: expected the order's {name} {asked}, found {answered}"


def _contradictions(body: Certificate, order: EraseOrder, report: EraseReport) -> Iterator[str]:
    for facts in (
        _case, _drive, _source, _sanitization, _verification, _validation, _condition,
    ):  # fmt: skip
        for name, said, testified in facts(body, order, report):
            if said != testified:
                yield (
                    f"{name}: the certificate says {codec.shown(codec.plain(said))}, "
                    f"the testimony {codec.shown(codec.plain(testified))}"
                )
    if report.verdict is not Verdict.ERASED:
        yield f"the host's verdict is {report.verdict}: nothing was to be certified"
    # An unfit drive may be certified as erased, but not as one that goes out.
    if not report.fit and not body.withheld:
        yield "the host calls the drive unfit, and the certificate does not say that it was held"


Fact = tuple[str, object, object]
"""A member's name, what the certificate says, what the testimony bears."""


def _case(body: Certificate, order: EraseOrder, report: EraseReport) -> Iterator[Fact]:
    case = body.case
    yield "case.order_id", case.order_id, order.order_id
    yield "case.generation", case.generation, order.generation
    yield "case.nonce", case.nonce, order.nonce
    yield "case.incarnation", case.incarnation, order.incarnation
    yield "case.policy", case.policy, order.policy.name
    yield "case.policy", case.policy, report.policy
    yield "case.profile", case.profile, order.profile.name
    yield "case.profile", case.profile, report.profile
    yield "residues", body.residues, report.residues


def _drive(body: Certificate, order: EraseOrder, report: EraseReport) -> Iterator[Fact]:
    drive, before, after = body.drive, report.facts_before, report.facts_after
    yield "drive.identity", drive.identity, report.identity
    yield "drive.identity", drive.identity, order.identity
    yield "drive.identity_digest", drive.identity_digest, order.identity.digest
    if before is None or after is None:
        yield "drive", "what the drive said of itself", "nothing of that"
        return
    yield "drive.firmware", drive.firmware, after.firmware
    capacity = after.total_bytes or sum(n.size for n in after.namespaces)
    yield "drive.capacity_bytes", drive.capacity_bytes, capacity
    yield "drive.unallocated_bytes", drive.unallocated_bytes, after.unallocated_bytes
    yield "drive.oacs", drive.oacs, before.oacs
    yield "drive.fna", drive.fna, before.fna
    yield "drive.sanicap", drive.sanicap, before.sanicap
    yield "drive.dlfeat", drive.dlfeat, after.dlfeat
    yield "drive.firmware_slots", drive.firmware_slots, images.revisions(after)
    if body.format == FORMAT:
        yield "drive.namespaces", drive.namespaces, certificate.namespaces(after)
        yield "drive.namespaces_before", drive.namespaces_before, certificate.namespaces(before)


def _source(body: Certificate, order: EraseOrder, report: EraseReport) -> Iterator[Fact]:
    source, owner = body.source, report.last_owner
    if not (source.gate_owner or source.gate_since or source.gate_until):
        # Where the record knew that the drive was elsewhere since, the gate's word is left out.
        owner = None
    yield "source.host", source.host, order.slot.host
    yield "source.address", source.address, order.slot.address
    yield "source.gate_owner", source.gate_owner, owner.domain if owner else ""
    yield "source.gate_since", source.gate_since, owner.since if owner else ""
    yield "source.gate_until", source.gate_until, owner.until if owner else ""
    if owner is not None:
        yield "source.last_user", source.last_user, owner.domain


def _sanitization(body: Certificate, order: EraseOrder, report: EraseReport) -> Iterator[Fact]:
    done = body.sanitization
    for name in ("asked", "downgraded", "resumed", "started_at", "tools"):
        yield f"sanitization.{name}", getattr(done, name), getattr(report, name)
    today = body.format == FORMAT
    ended = certificate.finished(report) if today else report.finished_at
    yield "sanitization.finished_at", done.finished_at, ended
    yield "sanitization.method", done.method, report.achieved
    yield "sanitization.asked", done.asked, order.policy.label
    yield "sanitization.techniques", len(done.techniques), len(report.methods)
    # Of different lengths as many as both have; that they differ is a fact of its own, above.
    for number, (said, record) in enumerate(zip(done.techniques, report.methods, strict=False)):
        where = f"sanitization.techniques[{number}]"
        yield f"{where}.command", said.command, record.method
        opcode = sentcommands.opcode_of(record.method)
        yield f"{where}.opcode", said.opcode, opcode
        for name in (
            "cdw10", "nsid", "log_before", "log_after", "attempts", "adopted", "seconds",
        ):  # fmt: skip
            yield f"{where}.{name}", getattr(said, name), getattr(record, name)
        if today:
            yield f"{where}.ended_at", said.ended_at, record.ended_at
        # Certificates that are older than the member say nothing of it.
        if said.verdict is not Verdict.ERASED:
            yield f"{where}.verdict", said.verdict, record.verdict


def _verification(body: Certificate, _order: EraseOrder, report: EraseReport) -> Iterator[Fact]:
    said, record = body.verification, report.verification
    if record is None:
        yield "verification", "a verification by reading", "none"
        return
    for name in (
        "asked", "done", "seed", "confidence", "sampled", "canaries_planted", "canaries_checked",
        "fingerprints_taken", "fingerprints_checked", "expected", "namespaces", "seconds",
    ):  # fmt: skip
        yield f"verification.{name}", getattr(said, name), getattr(record, name)
    if body.format == FORMAT:
        yield "verification.finished_at", said.finished_at, record.finished_at
    yield "verification.residual_asked", said.residual_asked, record.residual
    yield "verification.blocks", said.blocks, reading.total_blocks(record)


def _validation(body: Certificate, order: EraseOrder, _report: EraseReport) -> Iterator[Fact]:
    """The documents; who approved them is the controller's own word."""
    if body.validation is None:
        return
    for name, said, used in (
        ("policy", body.validation.policy, order.policy),
        ("profile", body.validation.profile, order.profile),
    ):
        yield f"validation.{name}.name", said.name, used.name
        yield f"validation.{name}.digest", said.digest, codec.digest(used)


def _condition(body: Certificate, _order: EraseOrder, report: EraseReport) -> Iterator[Fact]:
    said, health = body.condition, report.health
    if health is None:
        yield "condition", "the drive's health", "nothing of that"
        return
    for name in (
        "critical_warning", "available_spare", "percentage_used", "data_units_written",
        "power_on_hours", "spare_threshold",
    ):  # fmt: skip
        yield f"condition.{name}", getattr(said, name), getattr(health, name)
    yield "condition.media_errors", said.media_errors, health.media_errors_after
    new = max(0, health.media_errors_after - health.media_errors_before)
    yield "condition.new_media_errors", said.new_media_errors, new


def _remarks(
    body: Certificate, given: SignedTestimony, order: EraseOrder, report: EraseReport
) -> Iterator[str]:
    """Another release has other words and other rules; neither makes its certificates false."""
    for line in (*methods.contradictions(order, report), *reading.contradictions(order, report)):
        yield f"by the rules of this release: {line}"
    if body.format != FORMAT:
        yield f"the sentences of format {body.format} are not computed again by this release"
        return
    # Built anew for its texts alone (_texts). What those do not depend on is left empty: who had
    # the drive last, the key of the order, when the certificate before was issued.
    again = certificate.build(
        CertificateEvidence(
            order=order,
            order_token=given.order,
            report=report,
            report_token=given.report,
            host_key=given.host_key.thumbprint,
            provider=body.source.provider,
            last_user="",
            history=body.case.history,
            property_number=body.drive.property_number,
            chassis=body.source.chassis,
            withheld=body.withheld,
        ),
        body.issuer,
        Link(body.previous, body.position - 1),
        body.issued_at,
    )
    for name in _differing(_texts(body), _texts(again)):
        yield f"{name}: this release computes another text from the same testimony"


def _texts(body: Certificate) -> dict[str, object]:
    """What is computed from facts, by member."""
    done, read = body.sanitization, body.verification
    return {
        "drive.manufacturer": body.drive.manufacturer,
        "drive.nvme_version": body.drive.nvme_version,
        "headline": body.headline,
        "sanitization.meaning": done.meaning,
        "sanitization.downgrades": done.downgrades,
        "sanitization.quirks": done.quirks,
        **{
            f"sanitization.techniques[{n}]": (
                t.technique,
                t.description,
                t.sent,
                t.started_at,
                t.reported,
                t.verdict,
            )
            for n, t in enumerate(done.techniques)
        },
        "verification.method": read.method,
        "verification.sentence": read.sentence,
        "verification.residual_shown": read.residual_shown,
        "verification.probes": read.probes,
        "verification.acts": read.acts,
        "condition.link": body.condition.link,
        "condition.remarks": body.condition.remarks,
        # Of the control plane's own clock no testimony tells.
        "exceptions": tuple(e for e in body.exceptions if e != clocks.OURS_SET_BACK),
        "not_done": body.not_done,
    }


def _differing(one: dict[str, object], other: dict[str, object]) -> list[str]:
    return [name for name, value in one.items() if other.get(name) != value]
