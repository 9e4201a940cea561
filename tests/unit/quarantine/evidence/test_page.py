"""The printable page: complete, self-contained, and deaf to what a serial number says."""

from __future__ import annotations

import html
import re
from dataclasses import replace
from html.parser import HTMLParser

import pytest

from eraser.protocol import codec
from eraser.protocol.policy import Label, LimitOverrides, Method, Policy, Quirk
from eraser.protocol.report import (
    ActRecord,
    EraseReport,
    LinkRecord,
    MethodRecord,
    StatusCount,
    Verdict,
    VisitRecord,
)
from eraser.protocol.ticket import LastOwner
from quarantine.evidence import certificate, display
from quarantine.evidence.certificate import Link, SignedCertificate
from quarantine.evidence.sections import Certificate, HistoryLine, Issuer
from quarantine.evidence.sheet import page, rows
from tests.unit.quarantine.evidence.test_certificate import ISSUER, KEY, earlier, evidence_of
from tests.unit.quarantine.evidence.test_kept_testimony import altered, leaves
from tests.unit.quarantine.testimony import (
    BLOCK,
    COUNTS,
    CRYPTO,
    FACTS,
    FORMAT,
    HEALTH,
    NAMESPACE,
    ORDER,
    REPORT,
    VERIFICATION,
    command,
    log81,
)

EVIL = '"><script>x</script>'
"""Twenty bytes, as a serial number may be."""


class Reader(HTMLParser):
    """Tags, attributes and text, as a browser would see them."""

    VOID = frozenset({"meta", "br", "link", "img", "hr"})

    def __init__(self) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.open: list[str] = []
        self.attributes: list[tuple[str, str | None]] = []
        self.text: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += attrs
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text.append(data)


def read(serial: str = ORDER.identity.serial, issuer: Issuer = ISSUER) -> Reader:
    identity = replace(ORDER.identity, serial=serial, model=f"M {EVIL}", subnqn=EVIL)
    testimony = replace(
        evidence_of(replace(REPORT, identity=identity, reasons=(EVIL,))),
        order=replace(ORDER, identity=identity),
        last_user=EVIL,
        history=(HistoryLine("2026-11-20T10:59:00Z", "held", "held", f"reason {EVIL}"),),
    )
    built = certificate.build(testimony, issuer, Link(), "2026-11-20T12:00:00Z")
    reader = Reader()
    reader.feed(page.render(certificate.sign(built, KEY)))
    assert not reader.open
    return reader


def test_markup_in_values_stays_text() -> None:
    reader = read(EVIL, replace(ISSUER, organisation=EVIL, person=EVIL, contact=EVIL))
    assert "script" not in reader.tags
    assert EVIL in reader.text
    assert sum(EVIL in piece for piece in reader.text) >= 8
    assert not any(name.startswith("on") for name, _value in reader.attributes)


def test_placeholders_in_values_stay_text() -> None:
    reader = read("$digest ${key}")
    assert "$digest ${key}" in reader.text


def test_it_loads_nothing_from_anywhere() -> None:
    reader = read()
    assert not {"script", "link", "img", "iframe", "object"} & set(reader.tags)
    assert not {"src", "href", "action"} & {name for name, _value in reader.attributes}
    assert not re.search(r"url\(|@import", "".join(reader.text))
    policy = dict(reader.attributes).get("content") or ""
    assert any("default-src 'none'" in (value or "") for _name, value in reader.attributes), policy


def test_it_shows_what_an_auditor_looks_for() -> None:
    text = " ".join(read().text)
    for words in (
        "Certificate of sanitization",
        "PHLJ0000001",
        "Purge",
        "69,075 of 250,000",
        "SCDW10 0x4",
        "What this certificate does not say",
        "A. Operator, Head of storage",
        "certificate verify",
        KEY.public.thumbprint,
    ):
        assert words in text


def shown(body: Certificate) -> str:
    reader = Reader()
    reader.feed(page.render(certificate.sign(body, KEY)))
    assert not reader.open
    return "\n".join(text.strip() for text in reader.text if text.strip())


def built(**changes: object) -> Certificate:
    given = replace(evidence_of(), **changes)  # type: ignore[arg-type]
    return certificate.build(given, ISSUER, Link(), "2026-11-20T12:00:00Z")


def test_a_drive_that_was_not_handed_out_cannot_be_taken_for_one_that_was() -> None:
    plain = shown(built())
    assert "not handed out" not in plain
    said = shown(built(withheld=("health: expected no critical warning", EVIL)))
    assert "Why the drive was not handed out" in said
    assert "not handed out" in said.split("Sanitization")[0]
    assert EVIL in said
    assert page._WITHHELD in page.render(certificate.sign(built(withheld=("x",)), KEY))


def test_everything_that_is_signed_for_readers_is_shown() -> None:
    quirk = Quirk(ORDER.identity.model, f"hangs {EVIL}", limits=LimitOverrides(stuck=7200))
    owner = LastOwner("44444444-4444-4444-8444-444444444444", EVIL, "2026-11-01", "2026-11-20")
    report = replace(
        REPORT,
        residues=(f"persistent event log {EVIL}",),
        last_owner=owner,
        health=replace(
            HEALTH, critical_warning=2, media_errors_after=0, link=LinkRecord(8, 4, 16, 4)
        ),
    )
    body = built(
        report=report,
        property_number="SSD-00017",
        order=replace(ORDER, policy=Policy(quirks=(quirk,))),
    )
    issuer = replace(ISSUER, verifier_person="B. Auditor", verifier_title="Auditor")
    said = shown(replace(body, issuer=issuer))
    for words in (
        "SSD-00017",
        f"persistent event log {EVIL}",
        f"Reason: hangs {EVIL}",
        "limit stuck 7200 s",
        f"{owner.domain}, known from the host's gate; Placement named",
        "44444444-4444-4444-8444-444444444444 its owner from 2026-11-01, taken from it 2026-11-20",
        "temperature beyond a threshold) (note)",
        "4 lanes at 8 GT/s",
        "A. Operator, Head of storage",
        "B. Auditor, Auditor",
    ):
        assert words in said, words
    assert said.count("Roubaix, ops@example.org") == 3  # sanitized, verified, validated


NOT_PRINTED = re.compile(
    r"sanitization\.techniques\.\d+\.log_(before|after)"
    r"|verification\.namespaces\.\d+\.(windows|window_blocks|statuses.*)"
)
"""What :data:`pagerows.FILE_ONLY` names."""


def test_each_signed_value_is_on_the_page_or_named_as_in_the_file_only() -> None:
    """One by one they are altered, and the page has to be another one."""
    adopted = replace(BLOCK, adopted=True, attempts=2)
    counted = replace(
        COUNTS, temporary=True, by_passthrough=3, statuses=(StatusCount(0x281, 2),), windows=4,
        window_blocks=5,
    )  # fmt: skip
    facts = replace(FACTS, detached=(replace(NAMESPACE, nsid=2, protection=1, metadata_bytes=8),))
    report = replace(
        REPORT,
        methods=(replace(CRYPTO, verdict=Verdict.NOT_ERASED, reason="refused"), adopted),
        resumed=1,
        facts_before=facts,
        verification=replace(VERIFICATION, namespaces=(counted,), canaries_checked=1000),
        visits=(VisitRecord(1, True, (ActRecord("single blocks", 8, 0, 0, 0, 0),), ()),),
        last_owner=LastOwner("44444444-4444-4444-8444-444444444444", "x", "2026-11-01", "y"),
        health=replace(HEALTH, link=LinkRecord(8, 4, 16, 4), spare_threshold=5),
    )
    body = built(report=report, withheld=("worn",), attestation="AES-256")
    body = replace(
        body,
        source=replace(body.source, project="a project", initiator="somebody"),
        sanitization=replace(body.sanitization, attestation="AES-256", quirks=("a quirk",)),
        issuer=Issuer(*(f"words {n}" for n in range(13))),
        qualification={"grade": "A"},
        deployment={"array": "md0"},
        device_evidence={"spdm": "none"},
    )
    whole, missing, shown_ = page.render(signed_as(body)), [], 0
    for path in leaves(codec.plain(body)):
        changed = altered(body, path)
        name = ".".join(map(str, path))
        if changed is None:
            continue
        if page.render(signed_as(changed)) == whole:
            missing.append(name)
        else:
            shown_ += 1
    assert [name for name in missing if not NOT_PRINTED.fullmatch(name)] == []
    assert shown_ > 150
    assert all(line in html.unescape(whole) for line in rows.FILE_ONLY)


def signed_as(body: Certificate) -> SignedCertificate:
    """Under one and the same digest, which stands on the page too."""
    return SignedCertificate(body, "token", "d1" * 32, "key")


@pytest.mark.parametrize(
    ("told", "shown_as"),
    [
        ("2026-11-01T10:00:00Z", "2026-11-01 10:00:00 UTC"),
        ("2026-11-01T10:00:00.123+00:00", "2026-11-01 10:00:00 UTC"),
        ("2026-11-01T10:00:00+02:00", "2026-11-01T10:00:00+02:00"),
        ("2026-11-01T10:00:00 and words of a host Z", "2026-11-01T10:00:00 and words of a host Z"),
        ("", ""),
    ],
)
def test_a_time_is_shortened_and_words_are_not(told: str, shown_as: str) -> None:
    assert display.moment(told) == shown_as


@pytest.mark.parametrize("odd", ["\x1b[2J", "\u202e", "\x00", "\u200b", "\u2028", "\u2029"])
def test_what_no_printer_shows_is_spelt_out(odd: str) -> None:
    identity = replace(ORDER.identity, serial=f"PH{odd}1")
    said = shown(replace(built(), drive=replace(built().drive, identity=identity)))
    assert odd not in said
    assert f"PH\\u{ord(odd[0]):04x}" in said


def test_a_certificate_of_an_earlier_release_is_a_page_too() -> None:
    files, key = earlier()
    signed = certificate.read_document(files[0][1], [key], "file")
    reader = Reader()
    reader.feed(page.render(signed))
    assert not reader.open


def test_a_time_that_nobody_told_is_none_on_the_page() -> None:
    """It was the time of issue once, as if that had been the verification's."""
    found = shown(replace(built(), verification=replace(built().verification, finished_at="")))
    assert "Verification\ntime not recorded" in found


def rendered(report: EraseReport, policy: Policy) -> tuple[str, SignedCertificate]:
    """The words of the page, and the certificate."""
    given = replace(evidence_of(report), order=replace(ORDER, policy=policy))
    signed = certificate.sign(certificate.build(given, ISSUER, Link(), "2026-11-20T12:00:00Z"), KEY)
    reader = Reader()
    reader.feed(page.render(signed))
    return " ".join(" ".join(reader.text).split()), signed


@pytest.mark.parametrize("said", ["zeros", ""])
def test_what_a_drive_promised_is_said_once_where_its_host_does_not_say_it_of_each_namespace(
    said: str,
) -> None:
    """An older host tells it of the drive alone; "nothing promised" stood beside "zeros"."""
    record = REPORT.verification
    assert record is not None
    spaces = tuple(replace(each, expected=said) for each in record.namespaces)
    report = replace(REPORT, verification=replace(record, namespaces=spaces))
    words, _signed = rendered(report, ORDER.policy)
    assert "nothing promised" not in words
    assert words.count("zeros promised for deallocated blocks") == (len(spaces) if said else 0)
    assert "zeros for deallocated blocks (DLFEAT)" in words


@pytest.mark.parametrize(
    "log",
    [log81(3, 4), log81(1, 2), log81(1, 4)],
    ids=["failed", "never begun", "refused, where an older one had succeeded"],
)
def test_a_method_that_failed_is_said_to_have_failed_wherever_it_stands(log: str) -> None:
    """By what the log says of this very command: a success in it may be an older one's."""
    bad = replace(
        CRYPTO, verdict=Verdict.NOT_ERASED, reason="it failed", changed=False, log_after=log
    )
    words, signed = rendered(replace(REPORT, methods=(bad, BLOCK)), Policy(allow_failed=True))
    first, second = signed.certificate.sanitization.techniques
    assert first.description == "Sanitize, crypto erase: it did not succeed"
    assert second.description.startswith("Sanitize, block erase: reported as done;")
    assert "reported success of sanitize-block. sanitize-crypto did not succeed." in words
    assert "success of sanitize-crypto" not in words
    assert "media encryption keys" not in words
    assert "a technique failed" in words
    assert "as the policy asks" not in words
    assert ("another command's" in first.reported) == (log == log81(1, 2))
    assert ("not seen to change" in first.reported) == (log != log81(3, 4))
    assert first.reported.endswith(" No success of this run is on record: it failed.")
    assert "Its host's verdict not erased" in words


def test_a_method_that_failed_and_was_run_again_did_succeed() -> None:
    bad = replace(CRYPTO, verdict=Verdict.NOT_ERASED, reason="failed", log_after=log81(3, 4))
    words, _signed = rendered(replace(REPORT, methods=(bad, CRYPTO, BLOCK)), Policy())
    assert "reported success of sanitize-crypto and sanitize-block. It was then read" in words
    assert "as the policy asks" in words


def test_a_run_of_format_that_failed_is_not_said_to_have_succeeded() -> None:
    """It is named beside the one that stands for it."""
    bad = replace(FORMAT, verdict=Verdict.UNKNOWN, reason="its end was lost")
    report = replace(
        REPORT, asked=Label.CLEAR, achieved=Label.CLEAR, methods=(bad, FORMAT),
        commands=(command(0x80, 0x200),),
    )  # fmt: skip
    _words, signed = rendered(report, Policy(label=Label.CLEAR))
    first, second = signed.certificate.sanitization.techniques
    assert first.reported == "No success of this run is on record: its end was lost."
    assert second.reported == "The drive completed the command with status 0 (success)."


def test_a_method_that_succeeded_in_the_end_is_no_downgrade() -> None:
    bad = replace(CRYPTO, verdict=Verdict.NOT_ERASED, reason="failed", log_after=log81(3, 4))
    words, signed = rendered(
        replace(REPORT, methods=(bad, CRYPTO, BLOCK)), Policy(allow_failed=True)
    )
    assert signed.certificate.sanitization.downgrades == ()
    assert "did not erase" not in words
    assert "sanitize-crypto was run more than once; an earlier run: failed." in words


@pytest.mark.parametrize(
    ("methods", "policy", "statement", "note", "colour"),
    [
        ((CRYPTO, BLOCK), Policy(), "", "as the policy asks", "Purge"),
        ((CRYPTO,), Policy(purge_methods=(Method.SANITIZE_CRYPTO,)), "",
         "as the policy asks, not attested", "less"),
        ((CRYPTO,), Policy(purge_methods=(Method.SANITIZE_CRYPTO,)), "AES-256 by letter",
         "as the policy asks", "Purge"),
        ((replace(CRYPTO, verdict=Verdict.NOT_ERASED, log_after=log81(3, 4)), BLOCK),
         Policy(allow_failed=True), "", "a technique failed", "less"),
        # The crypto erase that was asked for too left no record: its journal was lost.
        ((replace(BLOCK, adopted=True),), Policy(), "", "a technique was not seen", "less"),
    ],
)  # fmt: skip
def test_the_badge_is_green_only_for_what_was_asked(
    methods: tuple[MethodRecord, ...], policy: Policy, statement: str, note: str, colour: str
) -> None:
    given = replace(
        evidence_of(replace(REPORT, methods=methods)),
        order=replace(ORDER, policy=policy), attestation=statement,
    )  # fmt: skip
    body = certificate.build(given, ISSUER, Link(), "2026-11-20T12:00:00Z")
    whole = page.render(certificate.sign(body, KEY))
    assert f"<b>Purge</b><span>{note}</span>" in whole
    green = page._ACCENTS[Label.PURGE]
    assert (f"--mark: {green}" in whole) == (colour == "Purge")


def test_fewer_methods_than_asked_are_what_the_policy_allows() -> None:
    assert REPORT.facts_before is not None
    facts = replace(REPORT.facts_before, sanicap=0x1)
    report = replace(REPORT, facts_before=facts, methods=(CRYPTO,))
    words, _signed = rendered(report, Policy())
    assert "reported success of sanitize-crypto. It was then read" in words
    assert "as the policy allows" in words
    assert "as the policy asks" not in words


def test_a_technique_is_not_said_to_have_taken_what_its_last_run_saw_of_it() -> None:
    seen = (CRYPTO, replace(BLOCK, seconds=2.0))
    words, _signed = rendered(replace(REPORT, methods=seen, resumed=1), Policy())
    assert "CDW10 0x00000002; 2.0 s in the run that saw its end" in words


def test_a_quirk_of_format_makes_no_purge_less() -> None:
    """It was not skipped: no Purge comes to it."""
    quirk = Quirk("*", "it hangs in it", skip=(Method.FORMAT_CRYPTO,))
    words, signed = rendered(REPORT, Policy(quirks=(quirk,)))
    assert signed.certificate.sanitization.downgrades == ()
    assert "skips format-crypto" in words
    assert "as the policy asks" in words


def test_a_probe_that_could_not_be_planted_is_what_the_policy_allows() -> None:
    assert REPORT.verification is not None
    seen = replace(REPORT.verification, missing_probes=("canaries: write protected",))
    words, _signed = rendered(replace(REPORT, verification=seen), Policy())
    assert "as the policy allows" in words
    assert "as the policy asks" not in words
