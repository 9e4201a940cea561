"""The chain of certificates: each holds the digest of the one before it.

A certificate that was altered, forged or taken away is named, and so is a fork.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from eraser.wire.signing import PublicKey
from quarantine.errors import BadInputError
from quarantine.evidence import certificate
from quarantine.evidence.certificate import SignedCertificate


@dataclass(frozen=True)
class Finding:
    """One thing wrong with the chain. ``name`` is the certificate's file or digest."""

    name: str
    problem: str

    def __str__(self) -> str:
        return f"{self.name}: {self.problem}"


@dataclass(frozen=True)
class Audit:
    """The result of a look at a whole chain."""

    count: int
    first: str
    last: str
    findings: tuple[Finding, ...]

    @property
    def intact(self) -> bool:
        """One chain without a gap, from the first certificate to the last one given."""
        return not self.findings


def audit(documents: Iterable[tuple[str, bytes]], keys: Sequence[PublicKey]) -> Audit:
    """Verifies documents in any order, and that they form one unbroken chain.

    What was cut off at the *end* leaves no mark in those before it: compare ``last`` with the
    digest that the control plane or an auditor noted.
    """
    findings: list[Finding] = []
    good: dict[str, SignedCertificate] = {}
    names: dict[str, str] = {}
    for name, raw in documents:
        try:
            signed = certificate.read_document(raw, keys, name)
        except BadInputError as error:
            findings.append(Finding(name, f"forged or altered ({error})"))
            continue
        good[signed.digest] = signed
        names[signed.digest] = name
    findings += _links(good, names)
    ordered = sorted(good.values(), key=lambda signed: signed.certificate.position)
    return Audit(
        count=len(good),
        first=ordered[0].digest if ordered else "",
        last=ordered[-1].digest if ordered else "",
        findings=tuple(findings),
    )


def _links(good: dict[str, SignedCertificate], names: dict[str, str]) -> list[Finding]:
    findings: list[Finding] = []
    successors: dict[str, str] = {}
    for digest, signed in sorted(good.items(), key=lambda item: item[1].certificate.position):
        name, body = names[digest], signed.certificate
        other = successors.setdefault(body.previous, name)
        if other != name:
            where = f"after {body.previous}" if body.previous else "at the beginning"
            findings.append(Finding(name, f"the chain forks {where}: {other} stands there too"))
        if not body.previous:
            continue
        before = good.get(body.previous)
        if before is None:
            findings.append(Finding(name, f"missing link: no valid certificate {body.previous}"))
        elif before.certificate.position + 1 != body.position:
            findings.append(
                Finding(
                    name,
                    f"broken link: position {body.position} after "
                    f"{before.certificate.position} ({names[body.previous]})",
                )
            )
    return findings
