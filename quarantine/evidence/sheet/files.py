"""A certificate's files: ``DIGEST.json``, ``DIGEST.html``, and the testimony beside them."""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterable
from pathlib import Path

from eraser.protocol import codec
from eraser.protocol.errors import BadInputError as BadWireError
from eraser.protocol.transport.signing import PublicKey
from quarantine.errors import BadInputError
from quarantine.evidence import certificate
from quarantine.evidence.certificate import SignedCertificate
from quarantine.evidence.keys import rotation
from quarantine.evidence.sheet import page
from quarantine.inputfile import read_found
from quarantine.record.facts import SignedTestimony

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
    directory.mkdir(parents=True, exist_ok=True, mode=0o755)
    files: dict[str, bytes] = {}
    if testimony is not None:
        files[ORDER_SUFFIX] = testimony.order.encode()
        files[REPORT_SUFFIX] = testimony.report.encode()
        files[HOST_KEY_SUFFIX] = codec.canonical(testimony.host_key.jwk()) + b"\n"
    files[".html"] = page.render(signed).encode()
    files[".json"] = certificate.document(signed)
    return tuple(
        _write_whole(directory / f"{signed.digest}{suffix}", data) for suffix, data in files.items()
    )


def write_rotations(directory: Path, documents: Iterable[str]) -> tuple[Path, ...]:
    """A file of each: what an auditor needs to follow the signing keys.

    Raises :class:`BadInputError` for a damaged one, and ``OSError``.
    """
    directory.mkdir(parents=True, exist_ok=True, mode=0o755)
    return tuple(
        _write_whole(
            directory / rotation.file_name(rotation.read(text.encode(), "rotation")),
            text.encode(),
        )
        for text in documents
    )


def _write_whole(path: Path, data: bytes) -> Path:
    temporary = path.with_name(f".{path.name}.{os.getpid()}.{secrets.token_hex(4)}")
    try:
        temporary.write_bytes(data)
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)
    return path


def testimony_beside(file: Path, digest: str) -> SignedTestimony | None:
    """The testimony in the directory of a certificate's file; None where no part of it is there.

    Raises :class:`BadInputError` for a part that is missing, or that is none.
    """
    suffixes = (ORDER_SUFFIX, REPORT_SUFFIX, HOST_KEY_SUFFIX)
    order, report, key = (file.with_name(f"{digest}{suffix}") for suffix in suffixes)
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
