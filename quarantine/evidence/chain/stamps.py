"""Time stamps of an authority (RFC 3161) over bytes of ours: the question, and its answer checked.

Needs the extra ``timestamps`` (rfc3161-client), and only where an authority is configured or a
stamp is looked at.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from types import ModuleType

from cryptography import x509

from quarantine.errors import BadInputError
from quarantine.evidence.chain.derorder import as_granted, sorted_certificates


@dataclass(frozen=True)
class TimeStampRequest:
    """A TimeStampReq (RFC 3161, 2.4.1), DER, over the SHA-256 of ``data``; it asks for the
    authority's certificate, so that the answer can be checked without another source."""

    data: bytes
    der: bytes
    nonce: int


def library() -> ModuleType:
    """Raises :class:`BadInputError` where it is not installed."""
    try:
        import rfc3161_client
    except ImportError as error:
        raise BadInputError(
            f"time stamps: expected the library rfc3161-client to be installed ({error}); "
            "install nvme-quarantine with the extra timestamps"
        ) from error
    module: ModuleType = rfc3161_client
    return module


def ask(data: bytes) -> TimeStampRequest:
    """A new question with a random nonce."""
    client = library()
    builder = client.TimestampRequestBuilder().data(data)
    made = builder.hash_algorithm(client.HashAlgorithm.SHA256).cert_request(cert_request=True)
    request = made.nonce(nonce=True).build()
    return TimeStampRequest(data, bytes(request.as_bytes()), int(request.nonce))


def check(
    answer: bytes,
    data: bytes,
    roots: Sequence[x509.Certificate],
    nonce: int | None = None,
) -> datetime:
    """The time that a TimeStampResp (DER) gives to ``data``.

    ``roots`` end the chain of the authority's certificate; without any its signature is not
    checked, only that the stamp was granted, over these bytes, for this nonce. Raises
    :class:`BadInputError`.
    """
    client = library()
    try:
        # RFC 3161, 2.4.2: a stamp comes with either status, granted or granted with changes. What
        # may be changed is checked below: the bytes, the nonce, who signed it.
        der = as_granted(sorted_certificates(answer))
        response = client.decode_timestamp_response(der)
        if response.status != client.PKIStatus.GRANTED:
            said = "; ".join(response.status_string)[:200]
            raise BadInputError(
                f"time stamp: expected one that was granted, found status {response.status} {said}"
            )
        info = response.tst_info
        if info.message_imprint.message != hashlib.sha256(data).digest():
            raise BadInputError("time stamp: expected one over these bytes, found one over others")
        # Without a nonce somebody on the way could answer with an earlier stamp of the same bytes.
        if nonce is not None and info.nonce != nonce:
            raise BadInputError("time stamp: expected the nonce of the question, found another")
        if roots:
            builder = client.VerifierBuilder(roots=list(roots), nonce=nonce)
            builder.build().verify_message(response, data)
        found: datetime = info.gen_time
    # An answer is a stranger's bytes: whatever the library raises over them becomes one line.
    except (ValueError, TypeError, x509.InvalidVersion, client.VerificationError) as error:
        text = " ".join(str(error).split())[:200]
        raise BadInputError(f"time stamp: expected one that holds, found {text}") from error
    # Its time is UTC by RFC 3161, whether the library attaches a zone or not.
    return found.astimezone(UTC) if found.tzinfo else found.replace(tzinfo=UTC)


def roots_of(pem: bytes, what: str) -> tuple[x509.Certificate, ...]:
    """The authorities in a PEM file. Raises :class:`BadInputError`."""
    try:
        return tuple(x509.load_pem_x509_certificates(pem))
    except ValueError as error:
        raise BadInputError(f"{what}: expected certificates in PEM, found none") from error
