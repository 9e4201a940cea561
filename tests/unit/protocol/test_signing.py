"""Only what the right key signed, as the right kind of message, is ever parsed."""

from __future__ import annotations

import base64
import json

import pytest
from jwcrypto import jwk as jose_jwk
from jwcrypto import jws as jose_jws

from eraser.errors import BadInputError
from eraser.protocol.transport.signing import PrivateKey, PublicKey, verify

KEY = PrivateKey.generate()
OTHER = PrivateKey.generate()


def _b64(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def test_a_signed_message_comes_back() -> None:
    token = KEY.sign(b'{"a":1}', "t")
    assert verify(token, KEY.public, "t", "message") == b'{"a":1}'


def test_another_jose_library_agrees() -> None:
    token = KEY.sign(b"payload", "t")
    checked = jose_jws.JWS()
    checked.deserialize(token, jose_jwk.JWK(**KEY.public.jwk()))
    assert checked.payload == b"payload"


def test_the_thumbprint_is_the_one_of_rfc_7638() -> None:
    assert jose_jwk.JWK(**KEY.public.jwk()).thumbprint() == KEY.public.thumbprint


def test_the_key_of_rfc_8037_has_the_thumbprint_of_rfc_8037() -> None:
    raw = base64.urlsafe_b64decode("11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo=")
    assert PublicKey(raw).thumbprint == "kPrK_qmxVWaYVA9wwBF6Iuo3vVzz7TxHCTwXBygrS4k"


def test_a_key_survives_its_pem() -> None:
    assert PrivateKey.from_pem(KEY.pem(), "key").public == KEY.public


def _tampered(token: str) -> list[tuple[str, str]]:
    head, body, signature = token.split(".")
    none = _b64(json.dumps({"alg": "none", "typ": "t"}).encode())
    crit = _b64(json.dumps({"alg": "EdDSA", "typ": "t", "crit": ["b64"], "b64": False}).encode())
    flipped = signature[:-3] + ("A" if signature[-3] != "A" else "B") + signature[-2:]
    return [
        ("another key", OTHER.sign(b'{"a":1}', "t")),
        ("another type", KEY.sign(b'{"a":1}', "u")),
        ("no algorithm", f"{none}.{body}."),
        ("no algorithm, signed", f"{none}.{body}.{signature}"),
        ("critical extension", f"{crit}.{body}.{signature}"),
        ("another payload", f"{head}.{_b64(b'{}')}.{signature}"),
        ("a flipped signature", f"{head}.{body}.{flipped}"),
        ("padding", f"{head}.{body}.{signature}=="),
        ("two parts", f"{head}.{body}"),
        ("not ASCII", f"{head}.{body}.\u00e9"),
        ("nothing", ""),
    ]


@pytest.mark.parametrize(
    ("name", "token"), _tampered(KEY.sign(b'{"a":1}', "t")), ids=lambda value: str(value)[:24]
)
def test_anything_else_is_refused(name: str, token: str) -> None:
    with pytest.raises(BadInputError):
        verify(token, KEY.public, "t", name)


@pytest.mark.parametrize(
    "changes",
    [{"kid": OTHER.public.thumbprint}, {"kid": None}, {"jwk": OTHER.public.jwk()}, {"cty": "x"}],
)
def test_a_header_says_what_we_write_and_no_more(changes: dict[str, object]) -> None:
    """As docs/certificates.md asks of every verifier; the signature holds in all of these."""
    said = {"alg": "EdDSA", "kid": KEY.public.thumbprint, "typ": "t", **changes}
    signer = jose_jws.JWS(b"{}")
    private = jose_jwk.JWK.from_pem(KEY.pem())
    header = json.dumps({name: value for name, value in said.items() if value is not None})
    signer.add_signature(private, "EdDSA", header)
    with pytest.raises(BadInputError, match="expected a header of alg, typ and the kid"):
        verify(signer.serialize(compact=True), KEY.public, "t", "message")


@pytest.mark.parametrize(
    "jwk",
    [
        None,
        {},
        {"kty": "RSA"},
        {"kty": "OKP", "crv": "Ed25519", "x": "AA"},
        {"kty": "OKP", "crv": "Ed25519", "x": "!!"},
        {**KEY.public.jwk(), "d": "secret"},
    ],
)
def test_what_is_not_a_public_key_is_refused(jwk: object) -> None:
    with pytest.raises(BadInputError):
        PublicKey.from_jwk(jwk, "key")
