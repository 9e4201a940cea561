"""The controller's own keys: made, shown, followed by another; and which a check believes."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass, replace
from enum import StrEnum
from pathlib import Path
from typing import Any

from eraser.protocol.errors import BadInputError as BadWireError
from eraser.protocol.transport import believed
from eraser.protocol.transport.signing import PrivateKey, PublicKey
from quarantine.errors import BadInputError
from quarantine.evidence.keys import keyring, rotation
from quarantine.evidence.keys.keyring import Keyring
from quarantine.evidence.keys.rotation import Rotation
from quarantine.inputfile import read_file, read_found
from quarantine.operations.plane import Plane
from quarantine.service.parts import Parts, read_public_key
from quarantine.users import hand_over


@dataclass(frozen=True)
class TrustedKeys:
    """Whose certificates are believed: these keys', else the configuration's and the record's."""

    keys: tuple[Path, ...] = ()
    """Public keys (JWK)."""
    rotations: tuple[Path, ...] = ()
    """Rotations, or directories of them: the keys before and after those given are believed too."""

    def ring(self, parts: Parts) -> Keyring:
        """The keys themselves. Raises ``BadInputError``; a damaged rotation is a problem of it."""
        found = list(_rotations(self.rotations))
        # Keys that are given by hand stand alone: the record, which may be what is checked, adds
        # none.
        if self.keys:
            trusted = [read_public_key(file) for file in self.keys]
        else:
            trusted, found = [*parts.certificate_keys], [*found, *parts.rotations]
        return self._made(trusted, found)

    def alone(self) -> Keyring:
        """Of these files alone. Raises ``BadInputError``, also where no key is among them."""
        if not self.keys:
            raise BadInputError(
                "--key: expected the control plane's public key, found none; there "
                "'nvme-quarantine key show' prints it"
            )
        trusted = [read_public_key(file) for file in self.keys]
        return self._made(trusted, list(_rotations(self.rotations)))

    @staticmethod
    def _made(trusted: list[PublicKey], found: list[Rotation | BadInputError]) -> Keyring:
        made = keyring.ring(trusted, [one for one in found if isinstance(one, Rotation)])
        damaged = (str(one) for one in found if not isinstance(one, Rotation))
        return replace(made, problems=(*damaged, *made.problems))


@dataclass(frozen=True)
class CreatedKey:
    """A new private key's file, and its public half."""

    path: Path
    owner: str
    """The user that the service has to run as to read it."""
    jwk: dict[str, str]


@dataclass(frozen=True)
class RotatedKey:
    """One signing key after another."""

    jwk: dict[str, str]
    """The new key's public half."""
    key: Path
    """What ``[evidence]signing_key`` has to be from now on."""
    where: Path
    """The rotation's file, or the directory that it could not be written to."""
    unwritten: str
    """Why its file could not be written; it stands in the record all the same."""


def create(plane: Plane, path: Path | None = None) -> CreatedKey:
    """Makes a signing key, by default that of ``[evidence]signing_key``. Overwrites nothing.

    Raises ``BadInputError``.
    """
    if path is None:
        with plane.parts() as parts:
            path = Path(parts.conf.evidence.signing_key)
    key = PrivateKey.generate()
    try:
        # Never over another key, also where two create at once; and readable by nobody else from
        # its first moment on.
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        owner = hand_over(descriptor, path)
    except FileExistsError:
        raise BadInputError(
            f"key create: expected no file at {path}, found one; a new key voids every order that "
            "is out, and hosts must get its public half: move the old one away first"
        ) from None
    except OSError as error:
        raise BadInputError(f"key create: expected to write {path}: {error.strerror}") from error
    try:
        with os.fdopen(descriptor, "wb") as handle:
            handle.write(key.pem())
            handle.flush()
            # Its public half is handed to hosts next: after a power cut it must not be the half of
            # nothing.
            os.fsync(handle.fileno())
    except OSError as error:
        # Half a key would be in the way of the next one, and is nobody's.
        path.unlink(missing_ok=True)
        raise BadInputError(f"key create: expected to write {path}: {error.strerror}") from error
    return CreatedKey(path, owner, key.public.jwk())


class KeyUse(StrEnum):
    """What a key of the control plane signs."""

    CERTIFICATES = "certificates"
    ORDERS = "orders"
    TICKETS = "tickets"


def show(plane: Plane, use: KeyUse = KeyUse.CERTIFICATES) -> dict[str, Any]:
    """The public half of the key (JWK); of orders and tickets all whose word counts (a JWK set,
    where there are several)."""
    with plane.parts() as parts:
        if use is KeyUse.CERTIFICATES:
            return parts.key.public.jwk()
        # Hosts get this as a whole: a former key that cannot be read must not be left out silently.
        known = parts.believable(strict=True)
        return believed.document(known.orders if use is KeyUse.ORDERS else known.tickets)


def rotate(plane: Plane, to: Path) -> RotatedKey:
    """Has another key sign what comes next, said by both keys.

    Raises ``BadInputError``, and ``UnreadableError`` where the chain's end is damaged.
    """
    with plane.parts() as parts:
        return _rotated(parts, to)


def _rotated(parts: Parts, to: Path) -> RotatedKey:
    from quarantine.evidence.certificate import checked_link
    from quarantine.evidence.sheet import files
    from quarantine.service.issue.registrar import iso

    old, new = parts.key, _new_key(to)
    # The option was changed already: both keys have to sign, and the old one is not known any more.
    if old.public == new.public:
        raise BadInputError(
            f"key rotate: expected another key than [evidence]signing_key in {to}, found the "
            "same; run this before you change the option"
        )
    rotations: list[Rotation] = []
    for one in parts.rotations:
        if not isinstance(one, Rotation):
            # It may be of the very key that is given: whether that never signed cannot be told.
            raise one
        rotations.append(one)
    # The same command again, before the option was changed: it is done, and a second rotation to
    # the same key would be wrong.
    if rotations and rotations[-1].new_key == new.public:
        raise BadInputError(
            "key rotate: this rotation stands in the record already; set [evidence]signing_key to "
            f"{to} and restart, 'nvme-quarantine certificate export' writes its file"
        )
    if new.public.thumbprint in keyring.ring(parts.certificate_keys, rotations).spans:
        raise BadInputError(
            f"key rotate: expected a key that never signed, found a former one in {to}; "
            "nvme-quarantine key create makes one"
        )

    # Called within the transaction that records the rotation: it names the chain's end as it is
    # then.
    def make(position: int, digest: str, token: str) -> str:
        if digest:
            # Both keys vouch for the end: one that does not hold must not be vouched for.
            checked_link(position, digest, token)
        return rotation.make(position, digest, old, new, iso(parts.doors.now()))

    found = parts.store.rotate(
        old.public.thumbprint, new.public.thumbprint, make, former=parts.former_keys
    )
    # The record has the rotation by now. Its file is a copy, which an export writes again.
    unwritten = ""
    try:
        (where,) = files.write_rotations(parts.certificates_dir, [found.document])
    except OSError as error:
        where, unwritten = parts.certificates_dir, error.strerror or str(error)
    return RotatedKey(new.public.jwk(), to, where, unwritten)


def _new_key(to: Path) -> PrivateKey:
    try:
        return PrivateKey.from_pem(read_file(to, "new key"), str(to))
    except BadWireError as error:
        raise BadInputError(f"key rotate: {error}; nvme-quarantine key create makes one") from error


def _rotations(paths: tuple[Path, ...]) -> Iterator[Rotation | BadInputError]:
    """Files as they are; of directories every rotation in them. One that is damaged hides none."""
    for path in paths:
        inside = os.path.isdir(path)
        for file in sorted(path.glob(f"*{rotation.SUFFIX}")) if inside else [path]:
            try:
                # A file that lay in a directory may be a pipe, which is waited for without end. One
                # that a person names may be a pipe on purpose.
                raw = (read_found if inside else read_file)(file, "rotation")
                yield rotation.read(raw, str(file))
            except BadInputError as error:
                yield error
