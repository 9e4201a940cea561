"""The printable page: complete, self-contained, and deaf to what a serial number says."""

from __future__ import annotations

import re
from dataclasses import replace
from html.parser import HTMLParser

from quarantine.evidence import certificate, page
from quarantine.evidence.certificate import Link
from quarantine.evidence.sections import Issuer, Moment
from tests.unit.quarantine.test_certificate import ISSUER, KEY, evidence_of
from tests.unit.quarantine.testimony import ORDER, REPORT

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
        history=(Moment("2026-11-20T10:59:00Z", "held", "held", f"reason {EVIL}"),),
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
