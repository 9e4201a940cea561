"""Whose orders and whose tickets are believed: each key is worth its own kind of message alone.

A file of such keys is a JSON Web Key, or several of them in a set (RFC 7517, section 5): an old and
a new key side by side, for as long as messages of both are about.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from eraser.protocol import codec
from eraser.protocol.errors import BadInputError
from eraser.protocol.transport.signing import PublicKey


@dataclass(frozen=True)
class Believed:
    """The keys that sign for the control plane; any one of its kind will do."""

    orders: tuple[PublicKey, ...]
    tickets: tuple[PublicKey, ...]

    @classmethod
    def both(cls, *keys: PublicKey) -> Believed:
        """Where tickets have no key of their own."""
        return cls(keys, keys)


def read(raw: bytes, what: str) -> tuple[PublicKey, ...]:
    """The keys of a file. Raises :class:`BadInputError`, also where it names none."""
    value = codec.parse(raw, what)
    if not isinstance(value, dict) or "keys" not in value:
        # A single key, as releases without sets wrote it.
        return (PublicKey.from_jwk(value, what),)
    found = value["keys"]
    if not isinstance(found, list) or not found:
        raise BadInputError(f"{what}: expected keys in the set (RFC 7517), found none")
    return tuple(dict.fromkeys(PublicKey.from_jwk(jwk, what) for jwk in found))


def document(keys: Sequence[PublicKey]) -> dict[str, Any]:
    """What :func:`read` reads. One key stands alone, as every release reads it."""
    jwks = [key.jwk() for key in keys]
    return jwks[0] if len(jwks) == 1 else {"keys": jwks}
