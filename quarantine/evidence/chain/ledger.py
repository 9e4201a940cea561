"""The chain of certificates: each holds the digest of the one before it.

A certificate that was altered, forged or taken away is named, and so are forks, copies, a wrong
order, times that run backwards, an order that was certified twice, and a certificate that
contradicts itself. All of it needs the certificates and the public key, and nothing else.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from eraser.protocol.transport.signing import PublicKey
from quarantine.errors import BadInputError, NotUnderstoodError
from quarantine.evidence import certificate
from quarantine.evidence.certificate import SignedCertificate
from quarantine.evidence.chain import headcheck
from quarantine.evidence.chain.headcheck import HeadFile, Issued
from quarantine.evidence.checks import clocks, consistency
from quarantine.evidence.keys import keyring

_DIGEST_NAME = re.compile(r"([0-9a-f]{64})(\.json)?")
_PLACE_IN_LIST = re.compile(r"\[\d+\]")
_NAMED = 10
"""Members in a remark."""


Document = tuple[str, "bytes | BadInputError"]
"""A certificate's name and bytes, or why its file could not be read."""


@dataclass(frozen=True)
class ChainFinding:
    """One thing wrong with the chain. ``name`` is the certificate's file or digest."""

    name: str
    problem: str

    def __str__(self) -> str:
        return f"{self.name}: {self.problem}"


@dataclass(frozen=True)
class _Place:
    """What the chain needs of one certificate: a ledger of years fits in memory."""

    name: str
    position: int
    previous: str
    issued_at: str
    set_back: bool
    """It says that our clock was, so its time is in no order with the one before it."""


@dataclass(frozen=True)
class Audit:
    """The result of a look at a whole chain."""

    count: int
    first: str
    last: str
    findings: tuple[ChainFinding, ...]
    contains: dict[str, int]
    """The positions of the digests that were asked for and are there."""
    remarks: tuple[str, ...] = ()
    """What is no fault, and was not checked."""

    @property
    def intact(self) -> bool:
        """One chain without a gap, from the first certificate to the last one given."""
        return not self.findings


def audit(
    documents: Iterable[Document],
    keys: Sequence[PublicKey],
    *,
    ordered: bool = False,
    end: str = "",
    contains: Sequence[str] = (),
    heads: Sequence[HeadFile] = (),
) -> Audit:
    """Verifies documents, and that they form one unbroken chain.

    In any order, unless they are ``ordered`` as an export writes them: then one that stands in
    another place is named. What was cut off at the *end* leaves no mark in those before it: give
    the digest that somebody noted as ``end``, or as one of ``contains`` where the chain may have
    grown since. ``heads`` were signed day by day, and each has to be in the chain.
    """
    documents_seen = _Documents(keys, ordered=ordered)
    findings: list[ChainFinding] = []
    # Each document by itself: readable, signed, under its own name, once, in its place.
    for name, raw in documents:
        findings += documents_seen.take(name, raw)
    # Then all of them together: the links, the end, and what has to be among them.
    good = documents_seen.good
    by_place = sorted(good, key=lambda digest: good[digest].position)
    last = by_place[-1] if by_place else ""
    findings += _links(good)
    findings += _wrong_end(good, last, end)
    findings += _not_contained(good, contains)
    findings += _missing_at_rotations(good, keys)
    findings += (ChainFinding("a rotation", line) for line in keyring.problems(keys))
    # Heads last, for they are held against the whole chain.
    chain = {
        digest: Issued(place.position, place.issued_at, place.set_back)
        for digest, place in good.items()
    }
    findings += (ChainFinding(*found) for found in headcheck.findings(heads, chain, keys))
    return Audit(
        count=len(good),
        first=by_place[0] if by_place else "",
        last=last,
        findings=tuple(findings),
        contains={digest: good[digest].position for digest in contains if digest in good},
        remarks=tuple(documents_seen.beyond.told()),
    )


def renamed(name: str, digest: str) -> str:
    """What is wrong with a file that is named by another certificate's digest; empty for any other.

    A ledger's lines are named by number, and whoever copies a file may call it as they like.
    """
    match = _DIGEST_NAME.fullmatch(Path(name).name)
    return f"renamed: it is certificate {digest}" if match and match[1] != digest else ""


class _Documents:
    """Looks at each document by itself, and keeps what the chain needs of those that are good."""

    def __init__(self, keys: Sequence[PublicKey], *, ordered: bool) -> None:
        self.good: dict[str, _Place] = {}
        """By digest."""
        self.beyond = _Beyond()
        self._keys = keys
        self._ordered = ordered
        self._papers = _Papers()
        self._highest = 0

    def take(self, name: str, raw: bytes | BadInputError) -> Iterator[ChainFinding]:
        """What is wrong with one document; its place is kept unless it is a copy or not valid."""
        signed = _read(name, raw, self._keys)
        if isinstance(signed, ChainFinding):
            yield signed
            return
        if text := renamed(name, signed.digest):
            yield ChainFinding(name, text)
        if signed.digest in self.good:
            first = self.good[signed.digest].name
            yield ChainFinding(name, f"stands twice: {first} is the same")
            return
        body = signed.certificate
        if self._ordered and body.position < self._highest:
            yield ChainFinding(
                name, f"out of order: position {body.position} after {self._highest}"
            )
        self._highest = max(self._highest, body.position)
        # All that is kept of it: its own contradictions and its papers are looked at now.
        set_back = clocks.OURS_SET_BACK in body.exceptions
        self.good[signed.digest] = _Place(
            name, body.position, body.previous, body.issued_at, set_back
        )
        for line in consistency.contradictions(body):
            yield ChainFinding(name, f"contradicts itself: {line}")
        yield from self._papers.take(name, signed)
        self.beyond.take(name, signed)


def _read(
    name: str, raw: bytes | BadInputError, keys: Sequence[PublicKey]
) -> SignedCertificate | ChainFinding:
    """The certificate, or why it is no valid one."""
    if isinstance(raw, BadInputError):
        return ChainFinding(name, f"not readable ({raw})")
    try:
        return certificate.read_document(raw, keys, name)
    except NotUnderstoodError as error:
        return ChainFinding(name, f"signed, and not understood ({error})")
    except BadInputError as error:
        return ChainFinding(name, f"forged or altered ({error})")


class _Papers:
    """What is used up by one certificate: an order, its nonce, the report that answers it."""

    def __init__(self) -> None:
        self._used: dict[tuple[str, str], str] = {}

    def take(self, name: str, signed: SignedCertificate) -> Iterator[ChainFinding]:
        case = signed.certificate.case
        for what, text in (
            ("order", case.order_id), ("nonce", case.nonce), ("report", case.report_digest),
        ):  # fmt: skip
            # Once is enough: an order, its nonce and its report come together.
            other = self._used.setdefault((what, text), name)
            if other != name:
                yield ChainFinding(name, f"its {what} {text} was certified before: {other}")
                return


class _Beyond:
    """What later releases signed, and this one does not understand."""

    def __init__(self) -> None:
        self._count = 0
        self._first = ""
        self._members: set[str] = set()

    def take(self, name: str, signed: SignedCertificate) -> None:
        if not signed.unknown:
            return
        self._count += 1
        self._first = self._first or name
        # Of a list each item may have it: it is one member.
        self._members |= {_PLACE_IN_LIST.sub("[]", path) for path in signed.unknown}

    def told(self) -> Iterator[str]:
        """One line, however long the chain is."""
        if not self._count:
            return
        named = sorted(self._members)
        more = f" and {len(named) - _NAMED} more" if len(named) > _NAMED else ""
        yield (
            "signed by a later release, and not checked here: "
            f"{', '.join(named[:_NAMED])}{more}; in {self._count} certificates, the first is "
            f"{self._first}; verify the ledger with that release too"
        )


def documents(lines: Iterable[bytes], name: str) -> Iterator[Document]:
    """The certificates of a ledger file, named by their lines; empty lines are passed over."""
    for number, text in enumerate(lines, 1):
        if text.strip():
            yield f"{name}, line {number}", text


def _links(good: dict[str, _Place]) -> Iterator[ChainFinding]:
    successors: dict[str, str] = {}
    for place in sorted(good.values(), key=lambda place: place.position):
        # The lowest position keeps the place; each further one after that certificate forks.
        other = successors.setdefault(place.previous, place.name)
        if other != place.name:
            where = f"after {place.previous}" if place.previous else "at the beginning"
            yield ChainFinding(place.name, f"the chain forks {where}: {other} stands there too")
        if not place.previous:
            continue
        before = good.get(place.previous)
        if before is None:
            yield ChainFinding(
                place.name, f"missing link: no valid certificate {place.previous} was given"
            )
        elif before.position + 1 != place.position:
            yield ChainFinding(
                place.name,
                f"broken link: position {place.position} after {before.position} ({before.name})",
            )
        # A certificate that says that our clock was set back is not held to the order of times.
        elif clocks.earlier(place.issued_at, before.issued_at) and not place.set_back:
            yield ChainFinding(
                place.name,
                f"times run backwards: issued {place.issued_at}, the one before it "
                f"{before.issued_at} ({before.name})",
            )


def _wrong_end(good: dict[str, _Place], last: str, expected: str) -> Iterator[ChainFinding]:
    """The chain ends with ``last`` and not where somebody noted that it does."""
    if not expected or expected == last:
        return
    where = "it is there, and others follow it" if expected in good else "it is not there"
    yield ChainFinding(last or "the chain", f"expected the chain to end with {expected}: {where}")


def _not_contained(good: dict[str, _Place], expected: Sequence[str]) -> Iterator[ChainFinding]:
    for digest in expected:
        if digest not in good:
            yield ChainFinding(
                "the chain", f"expected it to contain {digest}, found no valid one of that name"
            )


def _missing_at_rotations(
    good: dict[str, _Place], keys: Sequence[PublicKey]
) -> Iterator[ChainFinding]:
    """A rotation names the last certificate of the old key, and binds with it all that stand
    before: a chain without it is another past, written with the old key."""
    for position, digest in keyring.ends(keys).items():
        if digest and (digest not in good or good[digest].position != position):
            yield ChainFinding(
                "the chain",
                f"expected certificate {digest} at position {position}, after which the signing "
                "key was replaced, found no valid one of that name there",
            )
