"""What an independent reader takes from a certificate, and what it does not believe."""

from __future__ import annotations

import dataclasses
import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from eraser.protocol import codec
from eraser.protocol.conclusions import claim
from eraser.protocol.errors import BadInputError
from eraser.protocol.policy import VerificationMode
from eraser.protocol.report import Verdict
from eraser.protocol.transport import claims
from quarantine.evidence import certificate
from quarantine.evidence.certificate import Link
from tests.unit.quarantine.evidence.test_certificate import KEY, OTHER, issue
from tests.unit.quarantine.testimony import IDENTITY, REPORT, VERIFICATION

SIGNED = issue(Link())
DOCUMENT = certificate.document(SIGNED)
JWK, OTHERS = KEY.public.jwk(), OTHER.public.jwk()


def test_the_type_is_the_control_planes() -> None:
    assert claim.CERTIFICATE_TYPE == certificate.CERTIFICATE_TYPE


@pytest.mark.parametrize("raw", [DOCUMENT, SIGNED.token.encode()], ids=["document", "jws"])
@pytest.mark.parametrize("key", [None, JWK], ids=["no key", "key"])
def test_a_certificate_as_the_control_plane_writes_it(raw: bytes, key: Any) -> None:
    found = claims.read(raw, key, "file")
    assert (found.source, found.identity) == ("certificate", IDENTITY)
    assert found.signature.startswith("verified" if key else "not checked")
    assert (found.done, found.seed) == (VerificationMode.STATISTICAL, VERIFICATION.seed)
    assert (found.confidence, found.residual) == (0.999, 0.0001)
    assert found.namespaces == VERIFICATION.namespaces
    assert found.log_after == REPORT.methods[-1].log_after


def test_a_report_as_the_host_keeps_it() -> None:
    found = claims.read(codec.canonical(REPORT), None, "file")
    assert (found.source, found.identity) == ("report", IDENTITY)
    assert found.namespaces == VERIFICATION.namespaces
    with pytest.raises(BadInputError, match="signed by the key"):
        claims.read(codec.canonical(REPORT), JWK, "file")


def test_another_key_and_an_altered_text_are_not_believed() -> None:
    with pytest.raises(BadInputError, match="signature by key"):
        claims.read(DOCUMENT, OTHERS, "file")
    altered = json.loads(DOCUMENT)
    altered["certificate"]["verification"]["seed"] = "00" * 32
    for key in (JWK, None):
        with pytest.raises(BadInputError, match="the readable part to be what was signed"):
            claims.read(json.dumps(altered).encode(), key, "file")


def test_a_report_that_claims_nothing() -> None:
    for worse in (
        dataclasses.replace(REPORT, verdict=Verdict.UNKNOWN),
        dataclasses.replace(REPORT, verification=None),
        dataclasses.replace(REPORT, identity=None),
    ):
        with pytest.raises(BadInputError, match="nothing to check"):
            claims.read(codec.canonical(worse), None, "file")


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("seed", "abcd"),
        ("seed", "no hex at all, and long enough"),
        ("residual", 1e-30),
        ("confidence", 1.0),
        ("namespaces", ()),
        ("namespaces", (VERIFICATION.namespaces[0],) * 2),
        ("namespaces", (dataclasses.replace(VERIFICATION.namespaces[0], blocks=1 << 60),)),
        ("namespaces", (dataclasses.replace(VERIFICATION.namespaces[0], nsid=0),)),
    ],
)
def test_numbers_that_would_read_for_ever(name: str, value: Any) -> None:
    spoilt = dataclasses.replace(VERIFICATION, **{name: value})
    with pytest.raises(BadInputError):
        claims.read(codec.canonical(dataclasses.replace(REPORT, verification=spoilt)), None, "file")


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=9),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=9), inner),
    max_leaves=8,
)
PLACES = st.sampled_from(
    [
        (), ("drive",), ("drive", "identity"), ("verification",), ("verification", "seed"),
        ("verification", "namespaces"), ("sanitization",), ("sanitization", "techniques"),
        ("sanitization", "methods"),
        ("issued_at",),
    ]
)  # fmt: skip


@settings(deadline=None)
@given(PLACES, JSON)
def test_any_member_spoilt_is_refused_or_read(place: tuple[str, ...], value: Any) -> None:
    body = json.loads(DOCUMENT)["certificate"]
    inner = body
    for name in place[:-1]:
        inner = inner[name]
    if place:
        inner[place[-1]] = value
    else:
        body = value
    token = KEY.sign(json.dumps(body).encode(), claim.CERTIFICATE_TYPE)
    try:
        found = claims.read(token.encode(), JWK, "file")
    except BadInputError:
        return
    assert found.identity == IDENTITY


@settings(deadline=None)
@given(st.binary(max_size=200) | st.text(max_size=200).map(lambda t: ("{" + t).encode()))
def test_any_bytes_are_refused_in_one_line(raw: bytes) -> None:
    with pytest.raises(BadInputError) as caught:
        claims.read(raw, None, "file")
    assert "\n" not in str(caught.value)
