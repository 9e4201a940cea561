"""Certificates of a time stamp, put in DER's order."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quarantine.evidence.chain.derorder import as_granted, sorted_certificates


def der(tag: int, content: bytes) -> bytes:
    """One element; lengths above 127 in the long form (X.690, 8.1.3.5)."""
    size = len(content)
    if size < 0x80:
        return bytes([tag, size]) + content
    length = size.to_bytes((size.bit_length() + 7) // 8, "big")
    return bytes([tag, 0x80 | len(length)]) + length + content


def answer(*certificates: bytes) -> bytes:
    """A TimeStampResp in outline (RFC 3161, 2.4.2; RFC 5652, 5.1)."""
    version, digests, inner = der(0x02, b"\3"), der(0x31, b""), der(0x30, b"inner")
    signers = der(0x31, der(0x30, b"z") + der(0x30, b"a"))
    signed = version + digests + inner + der(0xA0, b"".join(certificates)) + signers
    token = der(0x30, der(0x06, b"oid") + der(0xA0, der(0x30, signed)))
    return der(0x30, der(0x30, der(0x02, b"\0")) + token)


ROOT, SIGNER = der(0x30, b"root" * 100), der(0x30, b"signer" * 50)


def test_certificates_ascend_and_nothing_else_moves() -> None:
    assert SIGNER < ROOT
    assert sorted_certificates(answer(ROOT, SIGNER)) == answer(SIGNER, ROOT)
    assert sorted_certificates(answer(SIGNER, ROOT)) == answer(SIGNER, ROOT)
    assert sorted_certificates(answer()) == answer()


@given(st.integers(0, 2000), st.binary(max_size=8))
def test_what_is_none_comes_back_as_it_is(place: int, junk: bytes) -> None:
    good = answer(SIGNER, ROOT)
    place %= len(good)
    for raw in (junk, good[:place], good[:place] + junk + good[place + len(junk) :]):
        found = sorted_certificates(raw)
        assert len(found) == len(raw)
        assert sorted(found) == sorted(raw)


@pytest.mark.parametrize(
    ("status", "after"),
    [
        ("3003020101", "3003020100"),
        ("3006020101030100", "3006020100030100"),
        ("3003020102", "3003020102"),
        ("300402020001", "300402020001"),
        ("3000", "3000"),
    ],
)
def test_granted_with_changes_is_granted_and_nothing_else_is(status: str, after: str) -> None:
    def answer(text: str) -> bytes:
        body = bytes.fromhex(text) + bytes.fromhex("3000")
        return bytes([0x30, len(body)]) + body

    assert as_granted(answer(status)) == answer(after)
    assert as_granted(bytes.fromhex("30053003020101")) == bytes.fromhex("30053003020101")
