"""The chain of certificates as a whole: checked, written out, and its signed heads."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import BinaryIO

from eraser.protocol.transport.signing import PublicKey
from quarantine.errors import BadInputError, UnavailableError
from quarantine.evidence import certificate
from quarantine.evidence.chain import head, ledger, stamps
from quarantine.evidence.chain.head import Head
from quarantine.evidence.chain.ledger import ChainFinding, Document
from quarantine.evidence.checks import clocks
from quarantine.inputfile import MAX_FILE_BYTES, read_file, read_found
from quarantine.operations.papers.certificates import line_of
from quarantine.operations.papers.keys import TrustedKeys
from quarantine.operations.plane import Plane
from quarantine.record.pages import CertificateText
from quarantine.service.issue.heads import stamp_of

LEDGER_SUFFIX = ".jsonl"
"""A file with one certificate in each line, as :func:`export` makes it."""


@dataclass(frozen=True)
class LedgerQuestion:
    """What is checked beside the links, and against which keys."""

    trust: TrustedKeys = field(default_factory=TrustedKeys)
    end: str = ""
    """The last certificate's digest, as somebody noted it: what was cut off behind it is seen."""
    contains: tuple[str, ...] = ()
    """Digests that must be there, wherever."""
    heads: tuple[Path, ...] = ()
    """Signed heads that were kept, or directories of them: the chain must contain each."""
    tsa_ca: Path | None = None
    """Root certificates (PEM) of the authority whose stamps lie beside the heads."""


@dataclass(frozen=True)
class LedgerResult:
    """The result of a look at a whole chain."""

    intact: bool
    count: int
    first: str
    last: str
    findings: tuple[ChainFinding, ...]
    contains: dict[str, int]
    """Positions of the digests that were asked for and are there."""
    stamped: dict[str, datetime]
    """By head, the time that the authority gave it."""
    remarks: tuple[str, ...] = ()
    """What is no fault, and was not checked: members that a later release signed."""


@dataclass(frozen=True)
class ChainEnd:
    """Where the chain ends; position 0 for an empty one."""

    position: int = 0
    digest: str = ""
    issued_at: datetime | None = None


@dataclass(frozen=True)
class NewestHead:
    """The newest head of the chain."""

    file: Path
    head: Head
    complete: bool
    """Today's head is written, and every stamp that is asked for is there."""
    problems: tuple[str, ...] = ()
    """Of rotations of the key that could not be followed."""


def verify(plane: Plane, paths: Sequence[Path], question: LedgerQuestion) -> LedgerResult:
    """Whether certificates form one unbroken chain: of files, else of the record.

    Files are certificates, directories of them, or one ``.jsonl``. Offline, where keys are given.
    Raises ``BadInputError`` for a key or a question that is none; what is wrong with the chain is
    in the result.
    """
    with plane.parts() as parts:
        keys = question.trust.ring(parts)
        if paths:
            given = _from_paths(paths)
            # One exported file alone has the chain's order. Files of a directory have none, nor
            # have several.
            ordered = [path.suffix == LEDGER_SUFFIX for path in paths] == [True]
        else:
            first, last, _count = parts.store.certificate_span(None, None)
            given = map(_document, parts.store.each_certificate((first, last), None, None))
            ordered = True
        # Within the parts: certificates of the record are read while they are checked.
        found = ledger.audit(
            given,
            keys,
            ordered=ordered,
            end=question.end,
            contains=question.contains,
            heads=list(_heads(question.heads)),
        )
    stamped, wrong = _stamps(question, keys)
    findings = (*found.findings, *wrong)
    return LedgerResult(
        not findings,
        found.count,
        found.first,
        found.last,
        findings,
        found.contains,
        stamped,
        found.remarks,
    )


def export(plane: Plane, path: Path) -> None:
    """The record's chain as one file, whatever is wrong with it: an auditor is to see that.

    Raises ``BadInputError``.
    """
    # An export that ends early must not look like a chain that was cut off.
    temporary = path.with_name(f".{path.name}.part")
    try:
        with plane.parts() as parts, temporary.open("wb") as handle:
            first, last, _count = parts.store.certificate_span(None, None)
            for row in parts.store.each_certificate((first, last), None, None):
                handle.write(line_of(row))
        temporary.replace(path)
    except OSError as error:
        raise BadInputError(f"ledger: expected to write {path}: {error.strerror}") from error
    finally:
        # Where nothing can be written there is nothing to remove, and the error above is the one.
        with contextlib.suppress(OSError):
            temporary.unlink()


def end(plane: Plane) -> ChainEnd:
    """The last certificate, as it is in the record. Raises ``UnavailableError``."""
    with plane.parts() as parts:
        last = parts.store.last_certificate()
    return ChainEnd() if last is None else ChainEnd(last.number, last.digest, last.created_at)


def write_head(plane: Plane) -> NewestHead:
    """Writes today's signed head, if it is not written yet. Raises ``UnavailableError``."""
    with plane.assembly() as assembly:
        heads = assembly.heads
        try:
            complete, newest = heads.turn(), heads.newest()
        finally:
            # It has connections of its own, which the assembly does not close.
            heads.store.close()
        if newest is None:
            raise UnavailableError(f"head: expected one in {heads.directory}, found none")
        keys = TrustedKeys().ring(assembly)
        said = head.read(read_file(newest, "head"), keys, str(newest))
        return NewestHead(newest, said, complete, keys.problems)


def _document(text: CertificateText) -> Document:
    name = text.digest or f"certificate {text.number}"
    if text.token is None:
        return name, BadInputError(certificate.damaged(text.number))
    return name, text.token.encode()


def _lines(handle: BinaryIO) -> Iterator[bytes]:
    """Lines; one that no certificate can have comes in pieces, which are none either."""
    return iter(lambda: handle.readline(MAX_FILE_BYTES), b"")


def _from_file(path: Path) -> Iterator[Document]:
    found = False
    try:
        with path.open("rb") as handle:
            for document in ledger.documents(_lines(handle), str(path)):
                found = True
                yield document
    except OSError as error:
        yield str(path), BadInputError(f"expected a file: {error.strerror}")
        return
    if not found:
        yield str(path), BadInputError("expected certificates, a line each, found none")


def _one(path: Path, read: Callable[[Path, str], bytes] = read_file) -> Document:
    try:
        return str(path), read(path, "certificate")
    except BadInputError as error:
        return str(path), error


def _found(path: Path) -> Document:
    return _one(path, read_found)


def _from_paths(paths: Sequence[Path]) -> Iterator[Document]:
    """Files as they are; of directories every certificate in them. One that cannot be read, or
    that holds nothing, is told, and hides no other."""
    for path in paths:
        if os.path.isdir(path):  # unlike Path.is_dir, for a name that no file can have too
            found = sorted(path.glob("*.json"))
            yield from map(_found, found)
            if not found:
                yield str(path), BadInputError("expected certificates (*.json), found none")
        elif path.suffix == LEDGER_SUFFIX:
            yield from _from_file(path)
        else:
            yield _one(path)


def _heads(paths: Sequence[Path]) -> Iterator[Document]:
    """Heads by their days; of directories every one in them."""
    for path in paths:
        if not os.path.isdir(path):
            yield _one(path)
            continue
        found = sorted(path.glob(f"*{head.SUFFIX}"))
        yield from map(_found, found)
        if not found:
            yield str(path), BadInputError(f"expected heads (*{head.SUFFIX}), found none")


def _stamps(
    question: LedgerQuestion, keys: Sequence[PublicKey]
) -> tuple[dict[str, datetime], list[ChainFinding]]:
    """The time that an authority gave to each head, and the stamps that do not hold."""
    if question.tsa_ca is None:
        return {}, []
    roots = stamps.roots_of(read_file(question.tsa_ca, "tsa-ca"), str(question.tsa_ca))
    stamped: dict[str, datetime] = {}
    wrong: list[ChainFinding] = []
    for name, raw in _heads(question.heads):
        file = stamp_of(Path(name))
        # A link that leads nowhere is a stamp that does not hold, and not one that is missing.
        if isinstance(raw, bytes) and os.path.lexists(file):
            try:
                stamped[name] = stamps.check(read_found(file, "time stamp"), raw, roots)
            except BadInputError as error:
                wrong.append(ChainFinding(str(file), f"its time stamp does not hold ({error})"))
                continue
            with contextlib.suppress(BadInputError):  # a head that is none is told of elsewhere
                written, at = head.read(raw, keys, name).written_at, stamped[name].isoformat()
                # The authority cannot have stamped what was not written yet: one of the two times
                # is wrong.
                if clocks.earlier(at, written):
                    text = f"its time stamp is of {at}, before its head was written: {written}"
                    wrong.append(ChainFinding(str(file), text))
    return stamped, wrong
