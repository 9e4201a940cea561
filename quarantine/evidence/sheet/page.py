"""A certificate as one printable page of HTML: self-contained, no script, every value escaped."""

from __future__ import annotations

import importlib.resources
import string
from collections.abc import Iterable, Iterator, Sequence
from html import escape

from eraser.protocol.policy import Label
from quarantine.evidence import display, wording
from quarantine.evidence.certificate import SignedCertificate
from quarantine.evidence.checks import outcomes
from quarantine.evidence.sections import Certificate
from quarantine.evidence.sheet import rows as sheet_rows
from quarantine.evidence.sheet.rows import Row

_ACCENTS = {Label.PURGE: "#14573d", Label.CLEAR: "#7a4b00"}
"""Dark enough under white text, and told apart on paper."""

_LESS = _ACCENTS[Label.CLEAR]
"""For a Purge that is less than was asked, or that rests on the maker's word: not green."""

_WITHHELD = "#8a1c1c"
"""For a drive that was erased and did not go out."""


def render(signed: SignedCertificate) -> str:
    """The page of a certificate that was verified."""
    body = signed.certificate
    held = bool(body.withheld)
    template = importlib.resources.files(__package__ or "").joinpath("certificate.html")
    return string.Template(template.read_text(encoding="utf-8")).substitute(
        accent=_WITHHELD if held else _accent(body),
        short=escape(signed.digest[:12]),
        organisation=_text(body.issuer.organisation),
        position=body.position,
        issued_at=_text(display.moment(body.issued_at)),
        label=escape(body.sanitization.method),
        label_note=_note(body),
        summary=_text(body.headline or summary(body)),
        sentence=_text(body.verification.sentence),
        sections="\n".join(
            (*_sections(body, signed.unknown), _section("Responsible", _signs(body, signed.key)))
        ),
        format=body.format,
        file=escape(f"{signed.digest}.json"),
        digest=escape(signed.digest),
        previous=escape(body.previous or "none: it is the first of its chain"),
        key=escape(signed.key),
    )


def _accent(body: Certificate) -> str:
    """The badge's colour, as its words say."""
    return _ACCENTS[body.sanitization.method] if _note(body) == _WHOLE else _LESS


_WHOLE = "as the policy asks"


def _note(body: Certificate) -> str:
    """The line under the label: what nobody may overlook."""
    said = ["downgraded"] if body.sanitization.downgraded else []
    done = body.sanitization.techniques
    failed = len(outcomes.succeeded(done)) < len(outcomes.tried(done))
    said += ["a technique failed"] if failed else []
    # Planned, and lost with a journal: no permission of the policy is about that.
    unseen = any(line.startswith(wording.NOT_SEEN) for line in body.exceptions)
    said += ["a technique was not seen"] if unseen else []
    said += ["not handed out"] if body.withheld else []
    less = any(line.startswith(("Downgraded: ", "Missing probe: ")) for line in body.exceptions)
    # Where nothing is to be warned of: whether the policy asked for just this, or let it pass.
    said = said or ["as the policy allows" if less else _WHOLE]
    alone = body.sanitization.attestation
    return ", ".join((*said, *(["not attested"] if alone.startswith(wording.NOT_ATTESTED) else [])))


def summary(body: Certificate) -> str:
    """The headline of a certificate of format 1, which has none of its own."""
    return wording.headline(
        body.drive.identity, body.sanitization, body.verification, withheld=bool(body.withheld)
    )


def _sections(body: Certificate, unknown: Sequence[str]) -> Iterator[str]:
    if unknown:
        title = "Signed by a later release, in the signed file only, and not understood here"
        yield _section(title, _list(unknown, ""))
    if body.withheld:
        yield _section("Why the drive was not handed out", _list(body.withheld, ""))
    yield _section("Medium", _terms(sheet_rows.medium(body)))
    yield _section(
        "Sanitization",
        _terms(sheet_rows.sanitization(body))
        + "".join(
            f'<div class="method">{_terms(sheet_rows.technique(done))}</div>'
            for done in body.sanitization.techniques
        ),
    )
    seen = body.verification
    yield _section(
        "Verification",
        _terms(sheet_rows.verification(body))
        + _counts(body)
        + _list(sheet_rows.readings(seen), ""),
    )
    if body.validation is not None:
        yield _section("Validation", _terms(sheet_rows.validation(body)))
    notes = (*body.condition.remarks, *([body.condition.link] if body.condition.link else []))
    yield _section(
        "Condition of the drive",
        _one_row(sheet_rows.condition(body)) + (_list(notes, "") if notes else ""),
    )
    if body.sanitization.quirks:
        yield _section("Known of this model", _list(body.sanitization.quirks, ""))
    yield _section("Exceptions", _list(body.exceptions, "None."))
    if body.residues:
        yield _section("What no command clears, as its host found it", _list(body.residues, ""))
    yield _section("What this certificate does not say", _list(body.not_done, "None."))
    yield _section("The case", _terms(sheet_rows.case(body)) + _history(body))
    for title, rows in sheet_rows.reserved(body):
        yield _section(title, _terms(rows))
    yield _section("In the signed file only", _list(sheet_rows.FILE_ONLY, ""))


def _counts(body: Certificate) -> str:
    head = "".join(f'<th class="n">{escape(title)}</th>' for title, _name in sheet_rows.COUNTS)
    rows = "".join(
        "<tr>"
        + "".join(f'<td class="n">{getattr(n, name):,}</td>' for _title, name in sheet_rows.COUNTS)
        + "</tr>"
        for n in body.verification.namespaces
    )
    return f"<table><tr>{head}</tr>{rows}</table>"


def _history(body: Certificate) -> str:
    rows = "".join(
        f'<tr><td class="w">{_text(display.moment(m.at))}</td><td class="w">{_text(m.event)}</td>'
        f'<td class="w">{_text(m.state)}</td><td>{_text(m.reason)}</td></tr>'
        for m in body.case.history
    )
    if not rows:
        return ""
    return f"<table><tr><th>Time</th><th>Event</th><th>State</th><th>Reason</th></tr>{rows}</table>"


def _signs(body: Certificate, key: str) -> str:
    """Who answers for what. Nobody put a hand to it, and the page does not look as if."""
    who, verified = body.issuer, body.verification.finished_at
    sanitizer = (who.person, who.title, who.location, who.contact)
    verifier = (
        who.verifier_person or who.person,
        who.verifier_title or who.title,
        who.verifier_location or who.location,
        who.verifier_contact or who.contact,
    )
    parts = (
        ("Sanitization", sanitizer, body.sanitization.finished_at),
        ("Verification", verifier, verified or "time not recorded"),
        ("Validation", sanitizer, body.issued_at),
    )
    shown = parts if body.validation is not None else parts[:2]
    return (
        '<div class="signs">'
        + "".join(
            f"<div><h3>{escape(what)}<br>{_text(display.moment(at))}</h3>"
            f"<p>{_text(_once(person[:2]))}</p><p>{_text(_once(person[2:]))}</p></div>"
            for what, person, at in shown
        )
        + "</div>"
        + '<p class="none">Done, verified and issued by programs, under the responsibility of '
        f"those named here; signed by key {_text(key)}. No person signed it.</p>"
    )


def _once(words: Iterable[str]) -> str:
    """Joined, "not stated" said once."""
    return ", ".join(dict.fromkeys(words))


def _text(words: str) -> str:
    """Plain text for HTML; what no printer shows is spelt out."""
    return escape(display.printable(words))


def _section(title: str, inner: str) -> str:
    return f"<section><h2>{escape(title)}</h2>{inner}</section>"


def _terms(rows: Iterable[Row]) -> str:
    inner = "".join(f"<dt>{_text(term)}</dt><dd>{_text(value)}</dd>" for term, value in rows)
    return f"<dl>{inner}</dl>"


def _one_row(rows: Iterable[Row]) -> str:
    """Terms as the head of a table, values below: for short ones."""
    pairs = list(rows)
    head = "".join(f"<th>{escape(term)}</th>" for term, _value in pairs)
    values = "".join(f"<td>{_text(value)}</td>" for _term, value in pairs)
    return f'<table class="row"><tr>{head}</tr><tr>{values}</tr></table>'


def _list(lines: Iterable[str], empty: str) -> str:
    inner = "".join(f"<li>{_text(line)}</li>" for line in lines)
    return f"<ul>{inner}</ul>" if inner else f'<p class="none">{escape(empty)}</p>'
