"""A certificate's files: ``DIGEST.json``, ``DIGEST.html``, and the testimony beside them."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterable, Mapping
from pathlib import Path

from eraser.protocol import codec
from eraser.protocol.errors import BadInputError as BadWireError
from eraser.protocol.transport.signing import PublicKey
from quarantine import outputfile
from quarantine.errors import BadInputError
from quarantine.evidence import certificate
from quarantine.evidence.certificate import SignedCertificate
from quarantine.evidence.keys import rotation
from quarantine.evidence.sheet import page
from quarantine.inputfile import read_found
from quarantine.record.words.facts import SignedTestimony

ORDER_SUFFIX, REPORT_SUFFIX, HOST_KEY_SUFFIX = ".order.jws", ".report.jws", ".host.jwk"
"""Of the files beside ``DIGEST.json``. Not ``.json``: a directory's certificates are ``*.json``."""


def write_files(
    directory: Path, signed: SignedCertificate, testimony: SignedTestimony | None
) -> tuple[Path, ...]:
    """``DIGEST.json``, ``DIGEST.html`` and the testimony, where it was kept.

    Each is whole or not at all, and the certificate is written last: where it is, its testimony is.
    The two messages are written as they were sent, without a line's end: their SHA-256 is what the
    certificate says. Raises ``OSError``.
    """
    files = _testimony_files(testimony)
    # In this order they are written: the certificate last.
    files[".html"] = page.render(signed).encode()
    files[".json"] = certificate.document(signed)
    return _replaced({directory / f"{signed.digest}{name}": data for name, data in files.items()})


def save_files(
    directory: Path,
    digest: str,
    token: str,
    testimony: SignedTestimony | None,
    *,
    overwrite: bool,
) -> tuple[Path, ...]:
    """``DIGEST.json`` and the testimony, for nobody but their owner; the certificate is last.

    Raises ``FileExistsError`` where one is there and ``overwrite`` is not, before it writes any;
    ``OSError``.
    """
    outputfile.make_directory(directory, mode=0o700)
    content = _testimony_files(testimony)
    content[".json"] = certificate.said_document(token)
    made = {directory / f"{digest}{suffix}": data for suffix, data in content.items()}
    # All are looked for before the first is written: a refusal leaves nothing behind.
    for path in made:
        if not overwrite and os.path.lexists(path):
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), str(path))
    # Without leave, create(): it refuses a file that came since that look.
    write = outputfile.replace if overwrite else outputfile.create
    for path, data in made.items():
        write(path, data, mode=outputfile.PRIVATE)
    return tuple(made)


def write_rotations(directory: Path, documents: Iterable[str]) -> tuple[Path, ...]:
    """A file of each: what an auditor needs to follow the signing keys.

    Raises :class:`BadInputError` for a damaged one, and ``OSError``.
    """
    # Read before the first is written: a damaged one ends all of it.
    read = ((text.encode(), rotation.read(text.encode(), "rotation")) for text in documents)
    return _replaced({directory / rotation.file_name(said): data for data, said in read})


def _replaced(files: Mapping[Path, bytes]) -> tuple[Path, ...]:
    # In this order: whoever sees the certificate finds the rest beside it.
    for path, data in files.items():
        outputfile.make_directory(path.parent)
        # Nothing waits for the disk: the record has all of it, and 'export' writes it again.
        outputfile.replace(path, data, synced=False)
    return tuple(files)


def _testimony_files(testimony: SignedTestimony | None) -> dict[str, bytes]:
    if testimony is None:
        return {}
    return {
        ORDER_SUFFIX: testimony.order.encode(),
        REPORT_SUFFIX: testimony.report.encode(),
        HOST_KEY_SUFFIX: codec.canonical(testimony.host_key.jwk()) + b"\n",
    }


def testimony_beside(file: Path, digest: str) -> SignedTestimony | None:
    """The testimony in the directory of a certificate's file; None where no part of it is there.

    Raises :class:`BadInputError` for a part that is missing, or that is none.
    """
    suffixes = (ORDER_SUFFIX, REPORT_SUFFIX, HOST_KEY_SUFFIX)
    order, report, key = (file.with_name(f"{digest}{suffix}") for suffix in suffixes)
    # A link to nothing counts as there, so a broken part is told and not taken for none.
    if not any(os.path.lexists(path) for path in (order, report, key)):
        return None
    jwk = read_found(key, "testimony")
    try:
        return SignedTestimony(
            order=_token(order),
            report=_token(report),
            host_key=PublicKey.from_jwk(codec.parse(jwk, str(key)), str(key)),
        )
    except BadWireError as error:
        raise BadInputError(str(error)) from error


def _token(path: Path) -> str:
    try:
        return read_found(path, "testimony").decode("ascii")
    except UnicodeDecodeError as error:
        raise BadInputError(
            f"testimony: expected a compact JWS in {path}, found other bytes"
        ) from error
