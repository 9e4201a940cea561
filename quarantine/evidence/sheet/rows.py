"""What stands in each section of the printed page, as terms and values in plain text. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from eraser.protocol.report import NamespaceVerification, Verdict
from quarantine.evidence import display
from quarantine.evidence.sections import (
    Approval,
    Certificate,
    NamespaceStatement,
    Technique,
    VerificationStatement,
)

Row = tuple[str, str]
"""A term and its value, both plain text."""

FILE_ONLY = (
    "log 81h before and after each technique, as the drive gave it (Base64)",
    "how many windows of an older layout were read, and how many blocks lie in them",
    "the statuses of blocks that could not be read",
)
"""What is signed and not printed, named on the page."""


def medium(body: Certificate) -> Iterator[Row]:
    """The drive, where it was, and whose it was."""
    drive, source = body.drive, body.source
    ids = drive.identity
    yield "Manufacturer", drive.manufacturer
    yield "Model", ids.model
    yield "Serial number", ids.serial
    yield "Property number", drive.property_number
    yield "Media type", drive.media_type
    yield (
        "Capacity",
        f"{display.size(drive.capacity_bytes)}, unallocated {drive.unallocated_bytes:,} bytes",
    )
    yield "Firmware, NVMe", f"{drive.firmware}, {drive.nvme_version}"
    if drive.firmware_slots:
        yield "Firmware slots", ", ".join(held or "empty" for held in drive.firmware_slots)
    yield (
        "PCI ids",
        f"{ids.vendor_id:04x}:{ids.device_id:04x}, subsystem "
        f"{ids.subsystem_vendor_id:04x}:{ids.subsystem_device_id:04x}",
    )
    yield "Subsystem NQN", ids.subnqn
    yield "Identity, SHA-256", drive.identity_digest
    yield (
        "Capabilities",
        f"OACS {drive.oacs:#06x}, FNA {drive.fna:#04x}, SANICAP {drive.sanicap:#010x}, "
        f"DLFEAT {', '.join(f'{value:#04x}' for value in drive.dlfeat) or 'none'}",
    )
    for what, found in (
        ("Namespaces before", drive.namespaces_before),
        ("Namespaces after", drive.namespaces),
    ):
        for namespace in found:
            yield what, _namespace(namespace)
            # The term stands beside the first namespace alone.
            what = ""
    yield "Media source", f"{source.host}, PCI address {source.address}"
    yield "Machine's number", source.chassis
    yield "Resource provider", source.provider
    known = f", known from {source.known_from}" if source.known_from else ""
    yield "Last user", f"{source.last_user}{known}"
    if source.gate_owner or source.gate_since or source.gate_until:
        yield (
            "At the gate",
            # Not "let in": a guest that ran before there was a gate is its owner from when it was
            # adopted. The end is when the slot was taken from it, which may be long after its use.
            f"{source.gate_owner} its owner from {display.moment(source.gate_since)}, "
            f"taken from it {display.moment(source.gate_until)}",
        )
    if source.project or source.initiator:
        yield "Project, initiator", f"{source.project}, {source.initiator}"
    yield (
        "Confidentiality",
        f"{body.issuer.confidentiality_before} before, {body.issuer.confidentiality_after} after",
    )
    yield "Data backed up", body.issuer.backup
    yield "Destination", body.issuer.destination


def _namespace(found: NamespaceStatement) -> str:
    names = [f"NGUID {found.nguid}"] if found.nguid else []
    names += [f"EUI64 {found.eui64}"] if found.eui64 else []
    extra = f" and {found.metadata_bytes} bytes of metadata" if found.metadata_bytes else ""
    guarded = f", DPS {found.protection:#04x}" if found.protection else ""
    return (
        f"{found.nsid}: {display.size(found.size)} in blocks of {found.block_bytes:,} bytes{extra} "
        f"(LBA format {found.lba_format}{guarded}); {', '.join(names) or 'no unique name given'}"
    )


def sanitization(body: Certificate) -> Iterator[Row]:
    """Method and tools."""
    done = body.sanitization
    asked = f" ({done.asked} was asked)" if done.asked is not done.method else ""
    less = "; downgraded" if done.downgraded else ""
    yield "Method", f"{done.method}{asked}{less}"
    yield "Meaning of the method", done.meaning
    yield (
        "Case begun, sanitized",
        f"{display.moment(done.started_at)}, {display.moment(done.finished_at)}",
    )
    if done.resumed:
        yield "Taken up again", f"{done.resumed} time(s) after an interruption"
    if done.attestation:
        yield "Attestation", done.attestation
    yield (
        "Tools, as the host names them",
        ", ".join(f"{name} {version}" for name, version in sorted(done.tools.items())),
    )
    for line in done.downgrades:
        yield "Downgraded", line


def technique(done: Technique) -> Iterator[Row]:
    """One destructive command."""
    yield "Technique", f"{done.technique} ({done.command}). {done.description}"
    # Of a case that was taken up again it is what its last run saw, which may be the end alone.
    took = f"{display.duration(done.seconds)} in the run that saw its end"
    tries = f", {done.attempts} attempts" if done.attempts != 1 else ""
    adopted = ", found running" if done.adopted else ""
    yield (
        "Command",
        f"opcode {done.opcode:#04x}, NSID {done.nsid:#x}, CDW10 {done.cdw10:#010x}; {took}{tries}"
        f"{adopted}",
    )
    if done.started_at or done.ended_at:
        yield (
            "Sent, end seen",
            f"{display.moment(done.started_at) or 'not recorded'}, "
            f"{display.moment(done.ended_at) or 'not recorded'}",
        )
    if done.sent:
        yield "As sent", done.sent
    yield "The drive reported", done.reported
    if done.verdict is not Verdict.ERASED:
        yield "Its host's verdict", done.verdict.replace("_", " ")


def verification(body: Certificate) -> Iterator[Row]:
    """How it was checked."""
    seen = body.verification
    asked = f" ({seen.asked} was asked)" if seen.asked is not seen.done else ""
    yield "How", f"{seen.done}{asked}; {seen.method}"
    yield (
        "Read",
        f"{seen.sampled:,} of {seen.blocks:,} blocks of 4 KiB in {display.duration(seen.seconds)}",
    )
    if seen.finished_at:
        yield "Finished", display.moment(seen.finished_at)
    yield "Seed of the places", seen.seed or "none: everything was read"
    yield (
        "Bound",
        f"a remainder above {display.percent(seen.residual_asked)} was to be found with a "
        f"probability of {display.probability(seen.confidence)}; "
        f"above {display.percent(seen.residual_shown)} it would have been",
    )
    yield (
        "Canaries, fingerprints",
        f"{seen.canaries_planted:,} planted, {seen.canaries_checked:,} gone; "
        f"{seen.fingerprints_taken:,} taken, {seen.fingerprints_checked:,} changed",
    )
    if seen.probes:
        yield "Probes", seen.probes
    for line in seen.acts:
        yield "Used as by a tenant, says its host", line
    yield "Value promised", f"{seen.expected} for deallocated blocks (DLFEAT)"


COUNTS = (
    ("NSID", "nsid"),
    ("Blocks", "blocks"),
    ("Read", "read"),
    ("Zeros", "zeros"),
    ("Ones", "ones"),
    ("Pattern", "pattern"),
    ("Noise", "random"),
    ("Structured", "structured"),
    ("Canaries", "canaries"),
    ("Unchanged", "unchanged"),
    ("Unreadable", "unreadable"),
)
"""Columns of the table of counts, and the members that they are of."""


def readings(seen: VerificationStatement) -> Iterator[str]:
    """What else was found of each namespace, a sentence each."""
    for namespace in seen.namespaces:
        yield f"Namespace {namespace.nsid}: {'; '.join(_reading(namespace))}."


def _reading(found: NamespaceVerification) -> Iterator[str]:
    if found.temporary:
        yield "made over capacity that belonged to none, and deleted when it was read"
    if found.expected:  # older hosts say it of the drive alone
        yield f"{found.expected} promised for deallocated blocks"
    if found.reread or found.changed:
        yield (
            f"{found.reread:,} blocks read again after another reset, of which {found.changed:,} "
            "then read otherwise"
        )
    else:  # the policy may ask for none: then there was no other reset either
        yield "nothing was read again after another reset"
    if found.by_passthrough:
        yield f"{found.by_passthrough:,} blocks read by passthrough alone"
    if found.uniform:
        yield f"every block that was read repeats {found.uniform}"


def validation(body: Certificate) -> Iterator[Row]:
    """The decision, and by what it was made."""
    if (made := body.validation) is None:
        return
    yield "Decision", made.decision
    yield "Made", f"{display.moment(made.decided_at)} by {made.decided_by}"
    yield "Policy", _approval(made.policy)
    yield "Profile", _approval(made.profile)


def _approval(found: Approval) -> str:
    who = "approved by nobody on record"
    if found.approved_by or found.approved_at:
        who = f"approved by {found.approved_by} on {display.moment(found.approved_at)}"
    version = f" version {found.version}" if found.version else ""
    return f"{found.name}{version}, {who}; SHA-256 {found.digest}"


def condition(body: Certificate) -> Iterator[Row]:
    """Health, in short terms."""
    state = body.condition
    yield "Critical warning", f"{state.critical_warning:#04x}"
    yield "Endurance used", f"{state.percentage_used} %"
    least = f" (threshold {state.spare_threshold} %)" if state.spare_threshold else ""
    yield "Spare available", f"{state.available_spare} %{least}"
    yield "Media errors", f"{state.media_errors:,}, {state.new_media_errors:,} new"
    # One data unit is a thousand times 512 bytes (NVM Express Base 2.0, 5.16.1.3).
    yield "Written", f"{display.size(state.data_units_written * 512_000)}"
    yield "Powered on", f"{state.power_on_hours:,} hours"


def case(body: Certificate) -> Iterator[Row]:
    """The papers behind it."""
    papers = body.case
    yield "Order", f"{papers.order_id}, generation {papers.generation}, nonce {papers.nonce}"
    yield "Policy, profile", f"{papers.policy}, {papers.profile}"
    yield "Order, SHA-256", papers.order_digest
    if papers.order_key:
        yield "Order signed by", f"Ed25519 {papers.order_key}, another key than the certificate's"
    yield "Report, SHA-256", papers.report_digest
    yield "Report signed by", f"key {papers.host_key}, incarnation {papers.incarnation}"


def reserved(body: Certificate) -> Iterator[tuple[str, Iterable[Row]]]:
    """Parts that a later release may have written: a title and its rows."""
    for title, found in (
        ("Qualification", body.qualification),
        ("Deployment", body.deployment),
        ("Device evidence", body.device_evidence),
    ):
        if found is not None:
            yield title, sorted(found.items())
