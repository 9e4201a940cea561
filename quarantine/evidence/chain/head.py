"""The chain's end, signed once a day: what somebody else keeps cannot be unsaid later.

A chain shows what was altered in its middle, not what was cut off at its end or written anew by
whoever has the key. A head that left the machine does: the chain has to contain it for ever.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass

from eraser.protocol import codec
from eraser.protocol.errors import BadInputError as BadWireError
from eraser.protocol.transport import signing
from eraser.protocol.transport.signing import PrivateKey, PublicKey
from quarantine.errors import BadInputError
from quarantine.evidence.keys import keyring

HEAD_TYPE = "nvme-quarantine.head+json"
"""The JWS ``typ``: no certificate can pass for a head."""

FORMAT = 1
SUFFIX = ".head.jws"
"""Of a head's file, ``YYYY-MM-DD.head.jws``: the compact JWS alone, without a line's end."""
STAMP_SUFFIX = ".head.tsr"
"""Of its time stamp: the TimeStampResp (RFC 3161, 2.4.2) over the bytes of that file, DER."""


@dataclass(frozen=True)
class Head:
    """The last certificate of the chain at one moment."""

    format: int
    day: str
    """UTC, YYYY-MM-DD."""
    written_at: str
    position: int
    """Of the last certificate; 0 where there was none yet."""
    digest: str
    """Of the last certificate; empty where there was none yet."""
    previous: str
    """SHA-256 of the file of the head before this one; empty where there was none."""
    organisation: str

    def __post_init__(self) -> None:
        if self.format != FORMAT:
            raise ValueError(f"expected a head of format {FORMAT}, found {self.format}")
        if self.position < 0 or (self.position == 0) != (self.digest == ""):
            raise ValueError("expected position 0 without, any other with a certificate's digest")


def sign(head: Head, key: PrivateKey) -> str:
    """A compact JWS over the canonical form."""
    return key.sign(codec.canonical(head), HEAD_TYPE)


def read(raw: bytes, keys: Sequence[PublicKey], what: str) -> Head:
    """The head in a file that one of ``keys`` signed. Raises :class:`BadInputError`."""
    failure = f"{what}: expected a public key, found none"
    # What is no ASCII becomes a character that no token has, so its signature fails.
    token = raw.decode("ascii", "replace").strip()
    for key in keys:
        try:
            said = codec.load(Head, signing.verify(token, key, HEAD_TYPE, what), what)
        except BadWireError as error:
            failure = str(error)
            continue
        if misplaced := keyring.misplaced_head(keys, key, said.position):
            raise BadInputError(f"{what}: its place, {said.position}, is {misplaced}")
        return said
    raise BadInputError(failure)


def digest(raw: bytes) -> str:
    """SHA-256 of a head's file, 64 hexadecimal digits."""
    return hashlib.sha256(raw).hexdigest()
