"""A certificate as one printable page of HTML: self-contained, no script, every value escaped."""

from __future__ import annotations

import importlib.resources
import string
from collections.abc import Iterable, Iterator
from html import escape

from eraser.wire.policy import Label
from quarantine.errors import BadInputError
from quarantine.evidence import human, sanitizelog
from quarantine.evidence.certificate import SignedCertificate
from quarantine.evidence.sections import Certificate, MethodStatement

_ACCENTS = {Label.PURGE: "#14573d", Label.CLEAR: "#7a4b00"}
"""Dark enough under white text, and told apart on paper."""

_WITHHELD = "#8a1c1c"
"""For a drive that was erased and did not go out."""

Row = tuple[str, str]
"""A term and its value, both plain text."""


def render(signed: SignedCertificate) -> str:
    """The page of a certificate that was verified."""
    body = signed.certificate
    held = bool(body.withheld)
    template = importlib.resources.files(__package__ or "").joinpath("certificate.html")
    return string.Template(template.read_text(encoding="utf-8")).substitute(
        accent=_WITHHELD if held else _ACCENTS[body.sanitization.label],
        short=escape(signed.digest[:12]),
        organisation=escape(body.issuer.organisation),
        position=body.position,
        issued_at=escape(human.moment(body.issued_at)),
        label=escape(body.sanitization.label),
        label_note=_note(body),
        summary=escape(_summary(body)),
        sentence=escape(body.verification.sentence),
        sections="\n".join(_sections(body)),
        file=escape(f"{signed.digest}.json"),
        digest=escape(signed.digest),
        previous=escape(body.previous or "none: it is the first of its chain"),
        key=escape(signed.key),
    )


def _note(body: Certificate) -> str:
    """Under the label, in capitals' place: what nobody may overlook."""
    said = ["downgraded"] if body.sanitization.downgraded else []
    said += ["a method failed"] if len(_succeeded(body)) < len(_tried(body)) else []
    said += ["not handed out"] if body.withheld else []
    less = any(line.startswith("Downgraded: ") for line in body.exceptions)
    return ", ".join(said) or ("as the policy allows" if less else "as the policy asks")


def _summary(body: Certificate) -> str:
    ids, done = body.drive.identity, _succeeded(body)
    failed = [name for name in _tried(body) if name not in done]
    without = f" {' and '.join(failed)} did not succeed." if failed else ""
    how = body.verification.method.partition(":")[0]
    return (
        f"The drive {ids.model}, serial number {ids.serial}, reported success of "
        f"{' and '.join(done)}.{without} It was then read back"
        f"{' in full' if how == 'full' else f' by {how}'}."
    )


def _tried(body: Certificate) -> tuple[str, ...]:
    return tuple(dict.fromkeys(str(m.method) for m in body.sanitization.methods))


def _succeeded(body: Certificate) -> tuple[str, ...]:
    """Methods whose last run ended well on each namespace, as far as the drive's word goes."""
    last = {(m.method, m.nsid): m for m in body.sanitization.methods}
    failed = {str(m.method) for m in last.values() if not _ended_well(m)}
    return tuple(name for name in _tried(body) if name not in failed)


def _ended_well(method: MethodStatement) -> bool:
    """A Format that ended otherwise bears no certificate. Of a Sanitize the log speaks, where it is
    that of this very command."""
    if not method.method.is_sanitize:
        return True
    try:
        log = sanitizelog.parse(method.log_after, f"{method.method}: log after")
    except BadInputError:
        return False
    return log.succeeded and log.cdw10 == method.cdw10


def _sections(body: Certificate) -> Iterator[str]:
    if body.withheld:
        yield _section("Why the drive was not handed out", _list(body.withheld, ""))
    yield _section("Medium", _terms(_medium(body)))
    yield _section(
        "Sanitization",
        _terms(_sanitization(body))
        + "".join(f'<div class="method">{_terms(_method(m))}</div>' for m in _methods(body)),
    )
    yield _section("Verification", _terms(_verification(body)) + _counts(body))
    notes = (*body.condition.remarks, *([body.condition.link] if body.condition.link else []))
    yield _section(
        "Condition of the drive",
        _one_row(_condition(body)) + (_list(notes, "") if notes else ""),
    )
    if body.sanitization.quirks:
        yield _section("Known of this model", _list(body.sanitization.quirks, ""))
    yield _section("Exceptions", _list(body.exceptions, "None."))
    if body.residues:
        yield _section("What no command clears, as found", _list(body.residues, ""))
    yield _section("What this certificate does not say", _list(body.not_done, "None."))
    yield _section("The case", _terms(_case(body)) + _history(body))
    yield _section("Responsible", _signs(body))


def _medium(body: Certificate) -> Iterator[Row]:
    drive, source = body.drive, body.source
    ids = drive.identity
    yield "Manufacturer", drive.manufacturer
    yield "Model", ids.model
    yield "Serial number", ids.serial
    yield "Property number", drive.property_number
    yield "Media type", drive.media_type
    yield (
        "Capacity",
        f"{human.size(drive.capacity_bytes)}, unallocated {drive.unallocated_bytes:,} bytes",
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
    yield (
        "Capabilities",
        f"OACS {drive.oacs:#06x}, FNA {drive.fna:#04x}, SANICAP {drive.sanicap:#010x}, "
        f"DLFEAT {', '.join(f'{value:#04x}' for value in drive.dlfeat) or 'none'}",
    )
    yield "Media source", f"{source.host}, PCI address {source.address}"
    known = f", known from {source.known_from}" if source.known_from else ""
    yield "Last user", f"{source.last_user}{known}"
    if source.gate_owner:
        yield (
            "At the gate",
            f"let in {human.moment(source.gate_since)}, over {human.moment(source.gate_until)}",
        )
    yield (
        "Confidentiality",
        (f"{body.issuer.confidentiality_before} before, {body.issuer.confidentiality_after} after"),
    )
    yield "Destination", body.issuer.destination


def _sanitization(body: Certificate) -> Iterator[Row]:
    done = body.sanitization
    asked = f" ({done.asked} was asked)" if done.downgraded else ""
    yield "Description", f"{done.label}{asked}"
    yield "Meaning of the label", done.label_meaning
    yield "Started, finished", f"{human.moment(done.started_at)}, {human.moment(done.finished_at)}"
    yield "Tools", ", ".join(f"{name} {version}" for name, version in sorted(done.tools.items()))


def _methods(body: Certificate) -> Iterable[MethodStatement]:
    return body.sanitization.methods


def _method(done: MethodStatement) -> Iterator[Row]:
    yield "Method used", f"{done.method}: {done.description}"
    yield (
        "Command",
        f"opcode {done.opcode:#04x}, NSID {done.nsid:#x}, CDW10 {done.cdw10:#010x}; "
        f"{human.duration(done.seconds)}",
    )
    if done.command:
        yield "As sent", done.command
    yield "The drive reported", done.reported


def _verification(body: Certificate) -> Iterator[Row]:
    seen = body.verification
    yield "Method", seen.method
    yield (
        "Read",
        (f"{seen.sampled:,} of {seen.blocks:,} blocks of 4 KiB in {human.duration(seen.seconds)}"),
    )
    yield "Seed of the places", seen.seed or "none: everything was read"
    yield (
        "Bound asked",
        (f"residue above {seen.residual_asked:.6%} found with probability {seen.confidence:.5g}"),
    )
    yield "Canaries", f"{seen.canaries_planted:,} planted, {seen.canaries_checked:,} found gone"
    yield (
        "Fingerprints",
        (f"{seen.fingerprints_taken:,} taken before, {seen.fingerprints_checked:,} found changed"),
    )
    yield "Value promised", f"{seen.expected} for deallocated blocks (DLFEAT)"


_COLUMNS = (
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


def _counts(body: Certificate) -> str:
    head = "".join(f'<th class="n">{escape(title)}</th>' for title, _name in _COLUMNS)
    rows = "".join(
        "<tr>"
        + "".join(f'<td class="n">{getattr(n, name):,}</td>' for _title, name in _COLUMNS)
        + "</tr>"
        for n in body.verification.namespaces
    )
    return f"<table><tr>{head}</tr>{rows}</table>"


def _condition(body: Certificate) -> Iterator[Row]:
    state = body.condition
    yield "Critical warning", f"{state.critical_warning:#04x}"
    yield "Endurance used", f"{state.percentage_used} %"
    least = f" (threshold {state.spare_threshold} %)" if state.spare_threshold else ""
    yield "Spare available", f"{state.available_spare} %{least}"
    yield "Media errors", f"{state.media_errors:,}, {state.new_media_errors:,} new"
    # One data unit is a thousand times 512 bytes (NVM Express Base 2.0, 5.16.1.3).
    yield "Written", human.size(state.data_units_written * 512_000).partition(" (")[0]
    yield "Powered on", f"{state.power_on_hours:,} hours"


def _case(body: Certificate) -> Iterator[Row]:
    case = body.case
    yield "Order", f"{case.order_id}, generation {case.generation}, nonce {case.nonce}"
    yield "Policy, profile", f"{case.policy}, {case.profile}"
    yield "Order, SHA-256", case.order_digest
    yield "Report, SHA-256", case.report_digest
    yield "Report signed by", f"key {case.host_key}, incarnation {case.incarnation}"


def _history(body: Certificate) -> str:
    rows = "".join(
        f'<tr><td class="w">{escape(human.moment(m.at))}</td><td class="w">{escape(m.event)}</td>'
        f'<td class="w">{escape(m.state)}</td><td>{escape(m.reason)}</td></tr>'
        for m in body.case.history
    )
    if not rows:
        return ""
    return f"<table><tr><th>Time</th><th>Event</th><th>State</th><th>Reason</th></tr>{rows}</table>"


def _signs(body: Certificate) -> str:
    who = body.issuer
    both = (
        (
            "Sanitization",
            (who.person, who.title),
            (who.location, who.contact),
            body.sanitization.finished_at,
        ),
        (
            "Verification",
            (who.verifier_person or who.person, who.verifier_title or who.title),
            (who.verifier_location or who.location, who.verifier_contact or who.contact),
            body.issued_at,
        ),
    )
    return (
        '<div class="signs">'
        + "".join(
            f"<div><h3>{escape(what)}</h3><p>{escape(_once(person))}</p>"
            f"<p>{escape(_once(place))}</p>"
            f"<p>{escape(human.moment(at))}, signed electronically</p></div>"
            for what, person, place, at in both
        )
        + "</div>"
    )


def _once(words: Iterable[str]) -> str:
    """Joined, "not stated" said once."""
    return ", ".join(dict.fromkeys(words))


def _section(title: str, inner: str) -> str:
    return f"<section><h2>{escape(title)}</h2>{inner}</section>"


def _terms(rows: Iterable[Row]) -> str:
    inner = "".join(f"<dt>{escape(term)}</dt><dd>{escape(value)}</dd>" for term, value in rows)
    return f"<dl>{inner}</dl>"


def _one_row(rows: Iterable[Row]) -> str:
    """Terms as the head of a table, values below: for short ones."""
    pairs = list(rows)
    head = "".join(f"<th>{escape(term)}</th>" for term, _value in pairs)
    values = "".join(f"<td>{escape(value)}</td>" for _term, value in pairs)
    return f"<table><tr>{head}</tr><tr>{values}</tr></table>"


def _list(lines: Iterable[str], empty: str) -> str:
    inner = "".join(f"<li>{escape(line)}</li>" for line in lines)
    return f"<ul>{inner}</ul>" if inner else f'<p class="none">{escape(empty)}</p>'
