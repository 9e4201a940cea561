"""Compact JWS with Ed25519 (RFC 7515, RFC 8037), one ``typ`` per kind of message.

Only what is signed is parsed: :func:`verify` returns the payload's bytes after the signature held.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

from eraser.protocol import codec
from eraser.protocol.errors import BadInputError


def _encode(raw: bytes) -> str:
    return base64.urlsafe_b64encode(raw).rstrip(b"=").decode()


def _decode(text: str, what: str) -> bytes:
    try:
        raw = base64.b64decode(text + "=" * (-len(text) % 4), altchars=b"-_", validate=True)
    except (ValueError, binascii.Error) as error:
        raise BadInputError(f"{what}: expected Base64url, found something else") from error
    if _encode(raw) != text:
        # Unused trailing bits would give one signature several spellings.
        raise BadInputError(f"{what}: expected canonical Base64url, found another spelling")
    return raw


@dataclass(frozen=True)
class PublicKey:
    """A public key, known by its RFC 7638 thumbprint."""

    raw: bytes

    @property
    def x(self) -> str:
        """The key as the JWK member ``x`` (RFC 8037)."""
        return _encode(self.raw)

    @property
    def thumbprint(self) -> str:
        """RFC 7638: SHA-256 of the canonical JWK, Base64url. The ``kid`` of every message."""
        jwk = json.dumps({"crv": "Ed25519", "kty": "OKP", "x": self.x}, separators=(",", ":"))
        return _encode(hashlib.sha256(jwk.encode()).digest())

    def jwk(self) -> dict[str, str]:
        """The key as a JSON Web Key."""
        return {"kty": "OKP", "crv": "Ed25519", "x": self.x, "kid": self.thumbprint, "alg": "EdDSA"}

    @classmethod
    def from_jwk(cls, jwk: object, what: str) -> PublicKey:
        """Reads a JWK; raises :class:`BadInputError` unless it is a public Ed25519 key."""
        if not isinstance(jwk, dict) or jwk.get("kty") != "OKP" or jwk.get("crv") != "Ed25519":
            raise BadInputError(f"{what}: expected an Ed25519 public key as a JWK (RFC 8037)")
        # "d" is the private half of a JWK (RFC 8037).
        if "d" in jwk:
            raise BadInputError(
                f"{what}: expected a public key, found a private one; never send it"
            )
        raw = _decode(str(jwk.get("x", "")), what)
        if len(raw) != 32:
            raise BadInputError(f"{what}: expected a key of 32 bytes, found {len(raw)}")
        return cls(raw)


class PrivateKey:
    """An Ed25519 key that signs."""

    def __init__(self, key: Ed25519PrivateKey) -> None:
        self._key = key

    @classmethod
    def generate(cls) -> PrivateKey:
        """A new key from the system's random source."""
        return cls(Ed25519PrivateKey.generate())

    @classmethod
    def from_pem(cls, pem: bytes, what: str) -> PrivateKey:
        """PKCS #8 PEM without a passphrase. Raises :class:`BadInputError`."""
        try:
            key = serialization.load_pem_private_key(pem, password=None)
        except (ValueError, TypeError) as error:
            raise BadInputError(f"{what}: expected a PKCS #8 PEM key ({error})") from error
        if not isinstance(key, Ed25519PrivateKey):
            raise BadInputError(f"{what}: expected an Ed25519 key, found {type(key).__name__}")
        return cls(key)

    def pem(self) -> bytes:
        """PKCS #8 PEM; the caller writes it with mode 0600."""
        return self._key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        )

    @property
    def public(self) -> PublicKey:
        """The half that others may have."""
        return PublicKey(
            self._key.public_key().public_bytes(
                serialization.Encoding.Raw, serialization.PublicFormat.Raw
            )
        )

    def sign(self, payload: bytes, typ: str) -> str:
        """A compact JWS over ``payload``."""
        header = codec.canonical({"alg": "EdDSA", "kid": self.public.thumbprint, "typ": typ})
        signed = f"{_encode(header)}.{_encode(payload)}"
        return f"{signed}.{_encode(self._key.sign(signed.encode()))}"


def _parts(token: str, what: str) -> list[str]:
    if not isinstance(token, str) or len(token) > codec.MAX_DOCUMENT_BYTES * 2:
        raise BadInputError(f"{what}: expected a signed message (compact JWS)")
    parts = token.split(".")
    if len(parts) != 3 or not token.isascii():
        raise BadInputError(f"{what}: expected a signed message (compact JWS) of three parts")
    return parts


def verify(token: str, key: PublicKey, typ: str, what: str) -> bytes:
    """The payload of a JWS that ``key`` signed as ``typ``. Raises as :func:`verify_any`."""
    return verify_any(token, (key,), typ, what)[1]


def verify_any(
    token: str, keys: Sequence[PublicKey], typ: str, what: str
) -> tuple[PublicKey, bytes]:
    """Which of ``keys`` signed a JWS as ``typ``, and its payload.

    Raises :class:`BadInputError` for anything else: a wrong signature, another algorithm
    (``none`` included), another type, an unknown critical header.
    """
    head, body, signature = _parts(token, what)
    header = codec.parse(_decode(head, what), f"{what}: header")
    # The header is only compared with what we expect. It never chooses an algorithm or a key. An
    # extension that is critical and not understood must be refused (RFC 7515, 4.1.11).
    if not isinstance(header, dict) or header.get("alg") != "EdDSA" or "crit" in header:
        raise BadInputError(f"{what}: expected a signature with EdDSA and no critical extension")
    # The same key may sign several kinds: a message of one must not pass for another.
    if header.get("typ") != typ:
        raise BadInputError(
            f"{what}: expected a message of type {typ}, found {codec.shown(header.get('typ'))}"
        )
    for key in keys:
        try:
            Ed25519PublicKey.from_public_bytes(key.raw).verify(
                _decode(signature, what), f"{head}.{body}".encode()
            )
        except InvalidSignature:
            # An old and a new key may stand side by side: any of them will do.
            continue
        # Exactly what sign() writes: a header that names another key, or brings one along, is read
        # by others as the word of that one.
        if header != {"alg": "EdDSA", "kid": key.thumbprint, "typ": typ}:
            raise BadInputError(
                f"{what}: expected a header of alg, typ and the kid {key.thumbprint} alone, "
                f"found {codec.shown(header)}"
            )
        return key, _decode(body, what)
    raise BadInputError(
        f"{what}: expected a signature by key {' or '.join(key.thumbprint for key in keys)}, "
        "found another's or none"
    )


def unverified_key(token: str, what: str) -> str:
    """The ``kid`` of a token of our own. Raises :class:`BadInputError` where it has none."""
    header = codec.parse(_decode(_parts(token, what)[0], what), f"{what}: header")
    found = header.get("kid") if isinstance(header, dict) else None
    if not isinstance(found, str):
        raise BadInputError(f"{what}: expected the thumbprint of a key, found none")
    return found


def unverified_payload(token: str, what: str) -> bytes:
    """The payload without a look at the signature: only to find *whose* key must verify it."""
    return _decode(_parts(token, what)[1], what)
