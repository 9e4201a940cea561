"""Files that only look like certificates: each is one finding, and hides no other."""

from __future__ import annotations

import base64
import contextlib
import json
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from eraser.protocol import codec
from eraser.protocol.errors import BadInputError as BadWireError
from eraser.protocol.transport import claims, signing
from quarantine.errors import BadInputError
from quarantine.evidence import certificate
from quarantine.evidence.chain import ledger
from tests.unit.quarantine.evidence.test_certificate import EXAMPLE, KEY

ODD = (
    "1e999",
    "-1e999",
    "NaN",
    "9" * 400,
    "9" * 5000,
    '"\\ud800"',
    '"\\u0000\\n\\u001b"',
    '{"\\udfff":1}',
    '{"a":1,"a":1}',
    "[]",
    "null",
    "",
    *("[" * depth + "]" * depth for depth in (100, 300, 480, 900, 5000)),
    *('{"a":' * depth + "1" + "}" * depth for depth in (300, 480, 900)),
)
"""What JSON can spell and no certificate holds. The depth that breaks depends on the stack."""

HOLE = "\x00hole"


def places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """The way to each member and element of a document."""
    yield path
    if isinstance(value, dict | list):
        for name, item in value.items() if isinstance(value, dict) else enumerate(value):
            yield from places(item, (*path, name))


def holed(value: Any, path: tuple[Any, ...]) -> Any:
    """The document with a hole in one place."""
    if not path:
        return HOLE
    copy = dict(value) if isinstance(value, dict) else list(value)
    copy[path[0]] = holed(value[path[0]], path[1:])
    return copy


def spelt(document: Any, path: tuple[Any, ...], text: str) -> bytes:
    """The document in JSON, with ``text`` as it is in one place."""
    return json.dumps(holed(document, path)).replace(json.dumps(HOLE), text).encode()


def encoded(raw: bytes) -> str:
    return base64.urlsafe_b64encode(raw).rstrip(b"=").decode()


GOOD = json.loads(certificate.document(EXAMPLE))
PLACES = list(places(GOOD))
HEAD, BODY, SIGNATURE = EXAMPLE.token.split(".")
HEADER = json.loads(base64.urlsafe_b64decode(HEAD + "=="))


def judged(raw: bytes) -> None:
    """The genuine certificate, or one line that can be printed."""
    try:
        assert certificate.read_document(raw, [KEY.public], "file") == EXAMPLE
    except BadInputError as error:
        text = str(error)
        assert text.startswith("file")
        assert "\n" not in text
        assert len(text.encode()) < 2000


@given(st.sampled_from(PLACES), st.sampled_from(ODD))
@settings(max_examples=150, deadline=None)
def test_an_odd_value_anywhere_in_the_file(path: tuple[Any, ...], text: str) -> None:
    judged(spelt(GOOD, path, text))


@given(st.sampled_from(sorted(HEADER)), st.sampled_from(ODD))
@settings(max_examples=80, deadline=None)
def test_an_odd_value_in_the_header_that_nobody_signed(member: str, text: str) -> None:
    head = encoded(spelt(HEADER, (member,), text))
    judged(f"{head}.{BODY}.{SIGNATURE}".encode())


@given(st.sampled_from(list(places(GOOD["certificate"]))), st.sampled_from(ODD))
@settings(max_examples=80, deadline=None)
def test_an_odd_value_that_our_own_key_signed(path: tuple[Any, ...], text: str) -> None:
    body = spelt(GOOD["certificate"], path, text)
    judged(KEY.sign(body, certificate.CERTIFICATE_TYPE).encode())


@given(st.sampled_from(list(places(GOOD["certificate"]))), st.sampled_from(ODD))
@settings(max_examples=80, deadline=None)
def test_an_odd_value_in_what_the_eraser_reads_again(path: tuple[Any, ...], text: str) -> None:
    body = encoded(spelt(GOOD["certificate"], path, text))
    with contextlib.suppress(BadWireError):
        claims.read(f"{HEAD}.{body}.{SIGNATURE}".encode(), None, "file")


@pytest.mark.parametrize("text", ODD)
def test_an_odd_token_in_what_the_eraser_reads_again(text: str) -> None:
    with pytest.raises(BadWireError):
        claims.read(spelt(GOOD, ("jws",), text), KEY.public.jwk(), "file")


@given(st.binary(max_size=200), st.integers(0, 1 << 14), st.integers(0, 200))
@settings(max_examples=150, deadline=None)
def test_bytes_changed_put_in_and_taken_out(junk: bytes, place: int, cut: int) -> None:
    raw = certificate.document(EXAMPLE)
    place %= len(raw)
    judged(raw[:place] + junk + raw[place + cut :])


@pytest.mark.parametrize("text", ODD)
def test_one_bad_file_hides_no_other(text: str) -> None:
    spoiled = spelt(GOOD, ("certificate", "position"), text)
    found = ledger.audit([("bad", spoiled), ("good", certificate.document(EXAMPLE))], [KEY.public])
    assert [finding.name for finding in found.findings] == ["bad"]
    assert (found.count, found.last) == (1, EXAMPLE.digest)


@pytest.mark.parametrize("text", ODD)
def test_a_stored_token_that_holds_odd_values_is_still_written(text: str) -> None:
    body = encoded(spelt(GOOD["certificate"], ("position",), text))
    line = certificate.said_line(f"{HEAD}.{body}.{SIGNATURE}")
    assert line.count(b"\n") == 1
    with pytest.raises(BadInputError):
        certificate.installed(f"{HEAD}.{encoded(text.encode())}.{SIGNATURE}", "stored")


@pytest.mark.parametrize("text", ODD)
def test_a_message_with_an_odd_type_is_one_line(text: str) -> None:
    token = f"{encoded(spelt(HEADER, ('typ',), text))}.{BODY}.{SIGNATURE}"
    with pytest.raises(BadWireError) as caught:
        signing.verify(token, KEY.public, "order", "message")
    assert len(str(caught.value)) < 2000
    with pytest.raises(BadWireError):
        codec.load(type(EXAMPLE.certificate), spelt(GOOD["certificate"], ("case",), text), "file")
