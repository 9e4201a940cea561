"""Certificates: of the record, as files, and of one server's drives."""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path
from typing import Any

from eraser.protocol.errors import BadInputError as BadWireError
from eraser.protocol.identity import Slot
from eraser.protocol.transport.signing import PublicKey
from quarantine.errors import BadInputError, UnknownError, UnreadableError
from quarantine.evidence import certificate, serverdrives, testimony
from quarantine.evidence.certificate import SignedCertificate
from quarantine.evidence.chain import ledger
from quarantine.evidence.checks import consistency
from quarantine.evidence.display import printable as printable
from quarantine.evidence.keys import keyring
from quarantine.evidence.serverdrives import Account
from quarantine.evidence.serverdrives import Reference as Reference
from quarantine.evidence.serverdrives import ServedDrive as ServedDrive
from quarantine.evidence.sheet import files
from quarantine.evidence.sheet import page as sheet
from quarantine.evidence.testimony import TestimonyResult, TestimonyStanding
from quarantine.inputfile import read_file
from quarantine.operations.papers.keys import TrustedKeys
from quarantine.operations.plane import Plane
from quarantine.record.pages import CertificateLine as CertificateLine
from quarantine.record.pages import CertificateText
from quarantine.record.store import Store
from quarantine.record.words.facts import SignedTestimony as SignedTestimony
from quarantine.record.words.facts import StoredCertificate as StoredCertificate
from quarantine.service.parts import Parts


@dataclass(frozen=True)
class ShownCertificate:
    """One certificate whose signature holds, against itself and the testimony in the record."""

    signed: SignedCertificate
    weighed: TestimonyResult
    problems: tuple[str, ...] = ()
    """Of rotations of the key that could not be followed; and what a later release signed too."""

    @property
    def contradictions(self) -> tuple[str, ...]:
        """By what it is contradicted. A signature says whose word it is, and not that it agrees
        with itself."""
        own = consistency.contradictions(self.signed.certificate)
        return (*(f"by itself: {line}" for line in own), *self.weighed.problems)

    @property
    def broken(self) -> bool:
        """It is contradicted, by itself or by its testimony."""
        return self.weighed.standing is TestimonyStanding.CONTRADICTS or bool(self.contradictions)

    @property
    def headline(self) -> str:
        """What it says in one line."""
        body = self.signed.certificate
        return body.headline or sheet.summary(body)


@dataclass(frozen=True)
class ExportedCertificates:
    """Certificates as files."""

    directory: Path
    files: tuple[Path, ...]
    problems: tuple[str, ...]
    """Of certificates that do not hold and rotations that are damaged: they were not written."""


@dataclass(frozen=True)
class VerifiedFile:
    """One file. Where it is not ``valid`` the rest is empty, and ``problem`` says why."""

    file: Path
    valid: bool
    problem: str = ""
    digest: str = ""
    previous: str = ""
    key: str = ""
    """Thumbprint of the key that signed it."""
    serial: str = ""
    label: str = ""
    downgraded: bool = False
    withheld: tuple[str, ...] = ()
    issued_at: str = ""
    sentence: str = ""
    testimony: TestimonyStanding = TestimonyStanding.NOT_GIVEN
    contradictions: tuple[str, ...] = ()
    remarks: tuple[str, ...] = ()

    @property
    def broken(self) -> bool:
        """It is none, or it is contradicted."""
        return not self.valid or bool(self.contradictions)

    @property
    def borne(self) -> bool:
        """The testimony beside it bears it."""
        return self.testimony is TestimonyStanding.AGREES


@dataclass(frozen=True)
class FileVerification:
    """All files, and the rotations that could not be followed."""

    files: tuple[VerifiedFile, ...]
    problems: tuple[str, ...]


@dataclass(frozen=True)
class ServerAnswer:
    """The drives that a server had, and what was written of their certificates."""

    account: Account
    problems: tuple[str, ...]
    """Of rotations that could not be followed, and of certificates that could not be written."""


def show(plane: Plane, name: str | Slot, trust: TrustedKeys) -> ShownCertificate:
    """One by its digest, by an unambiguous beginning of it, or the newest of a slot.

    Raises ``BadInputError`` for one that is not there, or that does not hold.
    """
    with plane.parts() as parts:
        keys = trust.ring(parts)
        signed = _signed(_stored(parts.store, name), keys)
        problems = (*_of_a_later_release(signed), *keys.problems)
        return ShownCertificate(signed, _weighed(parts.store, signed, keys), problems)


def page(
    plane: Plane,
    *,
    limit: int,
    after: int = 0,
    slot: Slot | None = None,
    server: str | None = None,
    drive: str | None = None,
) -> tuple[CertificateLine, ...]:
    """Certificates behind the number ``after``, in the chain's order, without their texts."""
    with plane.parts() as parts:
        found = parts.store.certificate_page(
            limit=limit, after=after, slot=slot, server=server, drive=drive
        )
        return tuple(found)


def stored(plane: Plane, digest: str) -> StoredCertificate:
    """One as it is in the record, checked or not. Raises ``UnknownError``."""
    with plane.parts() as parts:
        found = parts.store.certificate(digest)
    if found is None:
        raise UnknownError(f"certificate {digest[:64]}: expected one in the record, found none")
    return found


def papers(plane: Plane, name: str | Slot) -> tuple[StoredCertificate, SignedTestimony | None]:
    """One and what it rests on, as they are in the record. Raises as :func:`show`."""
    with plane.parts() as parts:
        found = _stored(parts.store, name)
        return found, parts.store.testimony(found.digest)


def testimony_of(plane: Plane, digest: str) -> SignedTestimony:
    """What one rests on. Raises ``UnknownError``, also where none was kept, and
    ``UnreadableError``."""
    with plane.parts() as parts:
        found = parts.store.testimony(digest)
    if found is None:
        raise UnknownError(f"testimony of certificate {digest[:64]}: expected one, found none")
    return found


@dataclass(frozen=True)
class CertificateLines:
    """Certificates in the form of a ledger's file, made while they are read."""

    count: int
    lines: Iterator[bytes]
    """Raises ``UnavailableError`` on the way: then they were not all."""


def lines(
    plane: Plane, since: datetime | None = None, until: datetime | None = None
) -> CertificateLines:
    """Those that were issued from ``since`` to before ``until``, and are there by now, as 'ledger
    export' writes them. Some are in memory at a time; one that cannot be read is a line that says
    so. Raises ``UnavailableError``."""
    with plane.parts() as parts:
        # The span is fixed before a line is made: the chain may grow while lines are sent, and the
        # count is told first.
        first, last, count = parts.store.certificate_span(since, until)

    # With parts of its own: the lines are read after this function has returned.
    def each() -> Iterator[bytes]:
        with plane.parts() as parts:
            for row in parts.store.each_certificate((first, last), since, until):
                yield line_of(row)

    return CertificateLines(count, each() if count else iter(()))


def line_of(text: CertificateText) -> bytes:
    """One in the form of a ledger's file; of one that cannot be read, which it is."""
    if text.token is None:
        return certificate.damaged_line(text.number)
    return certificate.said_line(text.token)


def look(
    token: str, given: SignedTestimony | None, trust: TrustedKeys, what: str
) -> ShownCertificate:
    """One that somebody handed over, checked with the keys given and against what it rests on.

    Raises ``BadInputError`` for one that does not hold.
    """
    keys = trust.alone()
    signed = certificate.verify(token, keys, what)
    weighed = TestimonyResult(TestimonyStanding.NOT_GIVEN)
    if given is not None:
        weighed = testimony.weigh(signed.certificate, given, keys)
    return ShownCertificate(signed, weighed, (*_of_a_later_release(signed), *keys.problems))


def as_signed(token: str) -> Any:
    """The certificate in a token whose signature was looked at elsewhere, as JSON values under the
    names and with the members of the release that signed it. Raises ``BadInputError``."""
    return json.loads(certificate.said_document(token))["certificate"]


def save(
    directory: Path, digest: str, token: str, given: SignedTestimony | None, *, overwrite: bool
) -> tuple[Path, ...]:
    """Writes one as files for :func:`verify`, unchecked but for its digest, for its owner alone.

    Raises ``BadInputError``, also where one of the files is there and ``overwrite`` is not.
    """
    found = certificate.said_digest(token)
    if found != digest:
        raise BadInputError(
            f"certificate {digest[:64]}: expected it, found {found} under its name; nothing was "
            "written"
        )
    try:
        return files.save_files(directory, digest, token, given, overwrite=overwrite)
    except FileExistsError as error:
        raise BadInputError(
            f"certificate save: expected no file at {error.filename2 or error.filename}, found "
            "one; --overwrite writes over it"
        ) from error
    except OSError as error:
        raise BadInputError(
            f"certificate save: expected to write into {directory}: {error.strerror}"
        ) from error


def testimony_given(order: str, report: str, host_key: object, what: str) -> SignedTestimony:
    """What somebody handed over beside a certificate. Raises ``BadInputError``."""
    try:
        return SignedTestimony(order, report, PublicKey.from_jwk(host_key, what))
    except BadWireError as error:
        raise BadInputError(str(error)) from error


def render(plane: Plane, name: str | Slot, trust: TrustedKeys) -> str:
    """One as a printable page of HTML. Raises as :func:`show`."""
    with plane.parts() as parts:
        return sheet.render(_signed(_stored(parts.store, name), trust.ring(parts)))


def export(plane: Plane, trust: TrustedKeys, directory: Path | None = None) -> ExportedCertificates:
    """Writes all of them as files, with their testimonies and the rotations of the key.

    By default into ``[evidence]certificates_dir``. Raises ``BadInputError``.
    """
    with plane.parts() as parts:
        where, keys = directory or parts.certificates_dir, trust.ring(parts)
        first, last, _count = parts.store.certificate_span(None, None)
        every = parts.store.each_certificate((first, last), None, None)
        paths, problems = _write(parts, every, keys, where)
        # Without them an auditor cannot follow from the key that he knows to those of later
        # certificates.
        for turned in parts.store.rotations():
            try:
                paths += files.write_rotations(where, [turned.document])
            except BadInputError as error:
                problems.append(f"rotation {turned.number} of the record: {error}")
            except OSError as error:
                raise _unwritable(where, error) from error
        return ExportedCertificates(where, tuple(paths), tuple(problems))


def verify(plane: Plane | None, paths: Sequence[Path], trust: TrustedKeys) -> FileVerification:
    """Checks files, each against the testimony beside it. Offline, where keys are given; without a
    control plane they have to be.

    Raises ``BadInputError`` for a key that is none; what is wrong with a file is in its result.
    """
    if plane is None:
        keys = trust.alone()
    else:
        with plane.parts() as parts:
            keys = trust.ring(parts)
    return FileVerification(tuple(_verified(path, keys) for path in paths), tuple(keys.problems))


def for_server(
    plane: Plane, server: str, trust: TrustedKeys, directory: Path | None = None
) -> ServerAnswer:
    """The drives that a server had, with their certificates from before and after.

    With ``directory`` the certificates are written there too. Raises ``BadInputError``.
    """
    try:
        name = str(uuid.UUID(server))
    except ValueError as error:
        raise BadInputError(
            f"certificate for-server: expected a server's uuid, found {server!r}"
        ) from error
    with plane.parts() as parts:
        keys = trust.ring(parts)
        found, problems = (
            serverdrives.account(parts.store, name, keys),
            [f"a rotation: {problem}" for problem in keys.problems],
        )
        if directory is not None:
            _paths, unwritten = _write(parts, _of(parts.store, found), keys, directory)
            problems += (f"not exported: {problem}" for problem in unwritten)
        # An answer that could not be followed or written in full must not look whole.
        return ServerAnswer(replace(found, broken=found.broken or bool(problems)), tuple(problems))


def _of(store: Store, found: Account) -> Iterator[StoredCertificate]:
    for use in found.drives:
        for one in (*([use.before] if use.before else []), *use.after):
            # It is there: it was just read, and certificates are never removed.
            if stored := store.certificate(one.digest):
                yield stored


def _write(
    parts: Parts,
    stored: Iterator[StoredCertificate] | Iterator[CertificateText],
    keys: Sequence[PublicKey],
    directory: Path,
) -> tuple[list[Path], list[str]]:
    """Each as files with its testimony; one that does not hold hides no other."""
    paths: list[Path] = []
    problems: list[str] = []
    for one in stored:
        try:
            signed = _signed(one, keys)
            paths += files.write_files(directory, signed, parts.store.testimony(one.digest))
        except (BadInputError, UnreadableError) as error:
            problems.append(str(error))
        except OSError as error:
            raise _unwritable(directory, error) from error
    return paths, problems


def _unwritable(directory: Path, error: OSError) -> BadInputError:
    return BadInputError(f"export: expected to write into {directory}: {error.strerror}")


def _stored(store: Store, name: str | Slot) -> StoredCertificate:
    if isinstance(name, Slot):
        newest = store.newest_of(slot=name)
        found = [newest] if newest else []
    else:
        exact = store.certificate(name)
        found = [exact] if exact else []
        if not found and len(name) >= 6:
            found = store.certificates_beginning(name)
    if len(found) != 1:
        raise UnknownError(
            f"certificate {name}: expected one in the record, found "
            f"{'several' if found else 'none'}; 'nvme-quarantine certificate list' shows them"
        )
    return found[0]


def _signed(
    stored: StoredCertificate | CertificateText, keys: Sequence[PublicKey]
) -> SignedCertificate:
    if stored.token is None:
        raise BadInputError(certificate.damaged(stored.number))
    signed = certificate.verify(stored.token, keys, f"certificate {stored.digest}")
    # The signature says that the text is ours, and not that it is the one of this row.
    if signed.digest != stored.digest:
        raise BadInputError(
            f"certificate {stored.digest}: expected it in the record, found {signed.digest} under "
            "its name; restore the database from a backup"
        )
    return signed


def _weighed(store: Store, signed: SignedCertificate, keys: Sequence[PublicKey]) -> TestimonyResult:
    """A certificate of the record against the testimony there."""
    try:
        given = store.testimony(signed.digest)
    except UnreadableError as error:
        # A testimony that was kept and cannot be read is no missing one: it must not pass as not
        # kept.
        return TestimonyResult(TestimonyStanding.CONTRADICTS, (str(error),))
    if given is None:
        return TestimonyResult(TestimonyStanding.NOT_KEPT)
    return testimony.weigh(signed.certificate, given, keys)


def _verified(file: Path, keys: Sequence[PublicKey]) -> VerifiedFile:
    try:
        signed = certificate.read_document(read_file(file, "certificate"), keys, str(file))
    except BadInputError as error:
        return VerifiedFile(file, valid=False, problem=str(error))
    body = signed.certificate
    weighed = _weighed_beside(file, signed, keys)
    other = ledger.renamed(file.name, signed.digest)
    return VerifiedFile(
        file,
        valid=True,
        digest=signed.digest,
        previous=body.previous,
        key=signed.key,
        serial=body.drive.identity.serial,
        label=body.sanitization.method,
        downgraded=body.sanitization.downgraded,
        withheld=tuple(body.withheld),
        issued_at=body.issued_at,
        sentence=body.verification.sentence,
        testimony=weighed.standing,
        # A signature says whose word it is, and not that it agrees with itself.
        contradictions=(
            *([other] if other else []),
            *consistency.contradictions(body),
            *weighed.problems,
        ),
        remarks=(
            *_of_a_later_release(signed),
            *_of_a_replaced_key(signed, keys),
            *weighed.remarks,
        ),
    )


def _of_a_later_release(signed: SignedCertificate) -> tuple[str, ...]:
    if not signed.unknown:
        return ()
    names = ", ".join(signed.unknown)
    return (f"a later release signed members that this one does not know: {names}",)


def _of_a_replaced_key(signed: SignedCertificate, keys: Sequence[PublicKey]) -> tuple[str, ...]:
    """What a certificate alone cannot show, said."""
    if keyring.disputed(keys, signed.key):
        return (
            "its key was replaced, by rotations that contradict each other: none of them is "
            "believed, and whether the key still signed this place nobody can tell from these",
        )
    last = keyring.replaced(keys, signed.key)
    # The rotation names the certificate at that position by its digest, so no other verifies there.
    if last is None or signed.certificate.position == last:
        return ()
    return (
        f"its key was replaced after position {last}: whoever stole it since signs such a "
        f"certificate too, and only the chain tells ('ledger verify --contains {signed.digest}')",
    )


def _weighed_beside(
    file: Path, signed: SignedCertificate, keys: Sequence[PublicKey]
) -> TestimonyResult:
    """A certificate's file against the testimony in its directory."""
    try:
        given = files.testimony_beside(file, signed.digest)
    except BadInputError as error:
        # One that lies there and is damaged must not pass as one that was not given.
        return TestimonyResult(TestimonyStanding.CONTRADICTS, (str(error),))
    if given is None:
        return TestimonyResult(TestimonyStanding.NOT_GIVEN)
    return testimony.weigh(signed.certificate, given, keys)
