"""A signing key follows another: said by both, at one place of the chain.

The old key says who comes after it. The new one says where the chain ended then, and with it all
that stands before: whoever steals the old key later can write no past that the new one bears.
"""

from __future__ import annotations

from dataclasses import dataclass

from eraser.protocol import codec
from eraser.protocol.errors import BadInputError as BadWireError
from eraser.protocol.transport import signing
from eraser.protocol.transport.signing import PrivateKey, PublicKey
from quarantine.errors import BadInputError

ROTATION_TYPE = "nvme-quarantine.key-rotation+json"
"""The JWS ``typ``: no certificate, order or head can pass for a rotation."""

FORMAT = 1
SUFFIX = ".rotation.jws"
"""Of its file, ``POSITION.NEWKEY.rotation.jws``: two lines, a compact JWS each, by the old key and
by the new one, over one and the same payload. The new key's thumbprint is in the name, since a key
may be replaced before it has signed anything."""

_MEMBERS = {"kty", "crv", "x"}


@dataclass(frozen=True)
class Rotation:
    """What both keys sign. Keys are JWKs (RFC 8037) of ``kty``, ``crv`` and ``x`` alone."""

    format: int
    position: int
    """Of the last certificate under the old key; 0 where it signed none."""
    digest: str
    """Of that certificate; empty where there was none."""
    old: dict[str, str]
    new: dict[str, str]
    rotated_at: str

    def __post_init__(self) -> None:
        if self.format != FORMAT:
            raise ValueError(f"expected a rotation of format {FORMAT}, found {self.format}")
        if self.position < 0 or (self.position == 0) != (self.digest == ""):
            raise ValueError("expected position 0 without, any other with a certificate's digest")
        if set(self.old) != _MEMBERS or set(self.new) != _MEMBERS:
            # With more of them one key had many spellings, and two rotations of it were no rivals.
            raise ValueError("expected keys of kty, crv and x alone, found other members")
        if self.old == self.new:
            raise ValueError("expected another key after the old one, found the same")

    @property
    def old_key(self) -> PublicKey:
        """Raises ``eraser.protocol.errors.BadInputError``."""
        return PublicKey.from_jwk(self.old, "rotation: old")

    @property
    def new_key(self) -> PublicKey:
        """Raises ``eraser.protocol.errors.BadInputError``."""
        return PublicKey.from_jwk(self.new, "rotation: new")


def file_name(said: Rotation) -> str:
    """Raises ``eraser.protocol.errors.BadInputError``."""
    return f"{said.position}.{said.new_key.thumbprint}{SUFFIX}"


def make(position: int, digest: str, old: PrivateKey, new: PrivateKey, at: str) -> str:
    """The text of a rotation's file."""
    said = Rotation(FORMAT, position, digest, _jwk(old.public), _jwk(new.public), at)
    payload = codec.canonical(said)
    return "".join(f"{key.sign(payload, ROTATION_TYPE)}\n" for key in (old, new))


def _jwk(key: PublicKey) -> dict[str, str]:
    return {"kty": "OKP", "crv": "Ed25519", "x": key.x}


def read(raw: bytes, what: str) -> Rotation:
    """A rotation that both of its keys signed. Whether one of them is to be believed is another
    question (:mod:`quarantine.evidence.keys.keyring`). Raises :class:`BadInputError`."""
    tokens = raw.decode("ascii", "replace").split()
    if len(tokens) != 2:
        raise BadInputError(f"{what}: expected two signatures of a rotation, found {len(tokens)}")
    try:
        # Its keys stand in the payload, so that is read first and believed by nobody yet.
        payload = signing.unverified_payload(tokens[0], what)
        said = codec.load(Rotation, payload, what)
        for token, key in zip(tokens, (said.old_key, said.new_key), strict=True):
            if signing.verify(token, key, ROTATION_TYPE, what) != payload:
                raise BadInputError(f"{what}: expected both keys to sign one and the same")
    except BadWireError as error:
        raise BadInputError(str(error)) from error
    # Else one rotation had many spellings, and each would count as a rival of the others.
    if codec.canonical(said) != payload:
        raise BadInputError(f"{what}: expected the canonical JSON form, found another")
    return said
