"""The claim of a certificate or a report, with the signature held against a key where one is given.

The eraser must not import the control plane, so the few members that matter here are taken out of
the certificate's JSON (docs/certificates.md) one by one, each as strictly as the codec does.
"""

from __future__ import annotations

from typing import Any

from eraser.protocol import codec
from eraser.protocol.conclusions.claim import CERTIFICATE_TYPE, Claim
from eraser.protocol.errors import BadInputError
from eraser.protocol.report import EraseReport, Verdict
from eraser.protocol.transport import signing


def read(raw: bytes, key: object | None, what: str) -> Claim:
    """The claim in a file: a certificate (its JSON document or its bare JWS), or a report.

    ``key`` is the controller's public key as a JWK. With it only what it signed is believed;
    without it the claim says that nobody looked. Raises :class:`BadInputError`.
    """
    # A bare JWS is no JSON document.
    if not raw.lstrip().startswith(b"{"):
        return _of_token(raw.decode("ascii", "replace").strip(), key, what)
    value = codec.parse(raw, what)
    if not isinstance(value, dict):
        raise BadInputError(f"{what}: expected a certificate or a report, found a list")
    if "jws" in value:
        return _of_document(value, key, what)
    if key is not None:
        raise BadInputError(
            f"{what}: expected a certificate signed by the key given, found a report; "
            "leave the key away to check a report"
        )
    return _of_report(codec.decode(EraseReport, value, what), what)


def _of_document(value: dict[str, Any], key: object | None, what: str) -> Claim:
    token = str(value["jws"])
    found = _of_token(token, key, what)
    # People read the plain part and the signature covers the token: they must be the same bytes.
    if _canonical(value.get("certificate")) != signing.unverified_payload(token, what):
        raise BadInputError(
            f"{what}: expected the readable part to be what was signed, found it altered"
        )
    return found


def _of_token(token: str, key: object | None, what: str) -> Claim:
    if key is None:
        payload = signing.unverified_payload(token, what)
        signature = "not checked: no --key was given"
    else:
        payload = signing.verify(
            token, signing.PublicKey.from_jwk(key, "key"), CERTIFICATE_TYPE, what
        )
        signature = "verified"
    body = codec.parse(payload, what)
    reading = _member(body, "verification", what)
    sanitization = _member(body, "sanitization", what)
    sent = sanitization if isinstance(sanitization, dict) else {}
    # "methods" is format 1's word for them.
    methods = sent.get("techniques", sent.get("methods"))
    last = methods[-1] if isinstance(methods, list) and methods else {}
    return codec.decode(
        Claim,
        {
            "source": "certificate",
            "signature": signature,
            "identity": _member(_member(body, "drive", what), "identity", what),
            "done": _member(reading, "done", what),
            "seed": _member(reading, "seed", what),
            "confidence": _member(reading, "confidence", what),
            "residual": _member(reading, "residual_asked", what),
            "expected": _member(reading, "expected", what),
            "namespaces": _member(reading, "namespaces", what),
            "log_after": last.get("log_after", "") if isinstance(last, dict) else "",
            "issued_at": _member(body, "issued_at", what),
        },
        what,
    )


def _of_report(report: EraseReport, what: str) -> Claim:
    proof, identity = report.verification, report.identity
    if report.verdict is not Verdict.ERASED or proof is None or identity is None:
        raise BadInputError(
            f"{what}: expected a report of an erased drive, found verdict {report.verdict}; "
            "there is nothing to check"
        )
    try:
        return Claim(
            source="report",
            signature="none: a report as the host keeps it is not signed",
            identity=identity,
            done=proof.done,
            seed=proof.seed,
            confidence=proof.confidence,
            residual=proof.residual,
            expected=proof.expected,
            namespaces=proof.namespaces,
            log_after=report.methods[-1].log_after if report.methods else "",
            issued_at=report.finished_at,
        )
    except ValueError as error:
        raise BadInputError(f"{what}: {error}") from error


def _canonical(value: Any) -> bytes:
    """Empty for what has no canonical form, which no signed payload is."""
    try:
        return codec.canonical(value)
    except (ValueError, RecursionError):
        return b""


def _member(value: Any, name: str, what: str) -> Any:
    if not isinstance(value, dict) or name not in value:
        raise BadInputError(f"{what}: expected a certificate with a member {name!r}, found none")
    return value[name]
