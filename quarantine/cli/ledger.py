"""Verbs about many certificates: the whole chain, and the drives of one server."""

from __future__ import annotations

import argparse
import contextlib
import os
import uuid
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import BinaryIO

from eraser.protocol.transport.signing import PublicKey
from quarantine.cli.certificates import EXIT_BROKEN, export, key_arguments, keys_of
from quarantine.cli.command import Verb
from quarantine.cli.output import show_fields, show_json, warn
from quarantine.errors import BadInputError, UnavailableError, UnreadableError
from quarantine.evidence import certificate, clocks, served
from quarantine.evidence.chain import head, ledger, stamps
from quarantine.evidence.chain.ledger import ChainFinding, Document
from quarantine.evidence.keys import keyring
from quarantine.evidence.served import Account, Reference
from quarantine.inputfile import MAX_FILE_BYTES, read_file, read_found
from quarantine.service.container import Assembly
from quarantine.service.issue.heads import stamp_of

LEDGER_SUFFIX = ".jsonl"
"""A file with one certificate in each line, as --write makes it."""


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


def _from_paths(paths: list[Path]) -> Iterator[Document]:
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


def _heads(paths: list[Path]) -> Iterator[Document]:
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
    args: argparse.Namespace, keys: Sequence[PublicKey]
) -> tuple[dict[str, datetime], list[ChainFinding]]:
    """The time that an authority gave to each head, and the stamps that do not hold."""
    if args.tsa_ca is None:
        return {}, []
    roots = stamps.roots_of(read_file(args.tsa_ca, "tsa-ca"), str(args.tsa_ca))
    stamped: dict[str, datetime] = {}
    wrong: list[ChainFinding] = []
    for name, raw in _heads(args.heads):
        file = stamp_of(Path(name))
        if isinstance(raw, bytes) and os.path.lexists(file):
            try:
                stamped[name] = stamps.check(read_found(file, "time stamp"), raw, roots)
            except BadInputError as error:
                wrong.append(ChainFinding(str(file), f"its time stamp does not hold ({error})"))
                continue
            with contextlib.suppress(BadInputError):  # a head that is none is told of elsewhere
                written, at = head.read(raw, keys, name).written_at, stamped[name].isoformat()
                if clocks.earlier(at, written):
                    text = f"its time stamp is of {at}, before its head was written: {written}"
                    wrong.append(ChainFinding(str(file), text))
    return stamped, wrong


def _ledger(assembly: Assembly, args: argparse.Namespace) -> int:
    if args.end == "":
        raise BadInputError("ledger: expected the digest of a certificate after --end, found none")
    keys = keys_of(assembly, args)
    given: Iterator[Document]
    if args.file:
        ordered = [path.suffix == LEDGER_SUFFIX for path in args.file] == [True]
        given = _from_paths(args.file)
    else:
        rows = assembly.store.certificates()
        given, ordered = ((row.digest, row.token.encode()) for row in rows), True
    found = ledger.audit(
        given,
        keys,
        ordered=ordered,
        end=args.end or "",
        contains=args.contains,
        heads=list(_heads(args.heads)),
    )
    stamped, wrong = _stamps(args, keys)
    found = replace(found, findings=(*found.findings, *wrong))
    if args.write is not None:
        _write(assembly, args.write)
    if args.format == "json":
        show_json({"intact": found.intact, **vars(found), "stamped": stamped})
    else:
        show_fields((("certificates", found.count), ("first", found.first), ("last", found.last)))
        show_fields((("contains", f"{d}, position {p}") for d, p in found.contains.items()))
        show_fields((("stamped", f"{name}: {at}") for name, at in stamped.items()))
        for finding in found.findings:
            show_fields((("problem", finding),))
    return 0 if found.intact else EXIT_BROKEN


def _write(assembly: Assembly, path: Path) -> None:
    """The record's chain as one file, whatever is wrong with it: an auditor is to see that."""
    temporary = path.with_name(f".{path.name}.part")
    try:
        with temporary.open("wb") as handle:
            for row in assembly.store.certificates():
                handle.write(certificate.said_line(row.token))
        temporary.replace(path)
    except OSError as error:
        raise BadInputError(f"ledger: expected to write {path}: {error.strerror}") from error
    finally:
        temporary.unlink(missing_ok=True)


def _ledger_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "file",
        type=Path,
        nargs="*",
        metavar="FILE",
        help="certificates, directories of them, or one .jsonl; default: all in the record",
    )
    parser.add_argument(
        "--end",
        metavar="DIGEST",
        help="the last certificate, as somebody noted it: what was cut off at the end is seen",
    )
    parser.add_argument(
        "--contains",
        action="append",
        default=[],
        metavar="DIGEST",
        help="a certificate that somebody noted or has: it must be there, wherever; repeatable",
    )
    parser.add_argument(
        "--heads",
        type=Path,
        action="append",
        default=[],
        metavar="FILE",
        help="signed heads that were kept, or directories of them: the chain must contain each; "
        "repeatable",
    )
    parser.add_argument(
        "--tsa-ca",
        type=Path,
        metavar="FILE",
        help="root certificates (PEM) of the time stamping authority: check the stamps beside the "
        "heads",
    )
    parser.add_argument(
        "--write",
        type=Path,
        metavar="FILE.jsonl",
        help="also write the record's whole chain as one file, for an auditor",
    )
    key_arguments(parser)


def _head(assembly: Assembly, args: argparse.Namespace) -> int:
    heads = assembly.heads
    good = heads.turn()
    newest = heads.newest()
    if newest is None:
        raise UnavailableError(f"head: expected one in {heads.directory}, found none")
    raw = read_file(newest, "head")
    said = head.read(raw, keyring.ring(assembly.certificate_keys, assembly.rotations), str(newest))
    members = {"file": str(newest), **vars(said)}
    if args.format == "json":
        show_json(members)
    else:
        show_fields(members.items())
    return 0 if good else UnavailableError.exit_code


def _for_server(assembly: Assembly, args: argparse.Namespace) -> int:
    try:
        server = str(uuid.UUID(args.server))
    except ValueError as error:
        raise BadInputError(
            f"certificate for-server: expected a server's uuid, found {args.server!r}"
        ) from error
    keys = keys_of(assembly, args)
    found = served.account(assembly.store, server, keys)
    if args.directory is not None and not _export(assembly, found, args):
        found = replace(found, broken=True)
    if args.format == "json":
        show_json({"complete": found.complete, **vars(found)})
        return EXIT_BROKEN if found.broken else 0
    show_fields((("server", found.server), ("drives", len(found.drives))))
    for use in found.drives:
        print()
        show_fields(
            (
                ("drive", f"{use.model} serial {use.serial}"),
                ("slot", use.slot),
                ("known from", use.known_from),
                ("before", _reference(use.before)),
                *(("after", _reference(one)) for one in use.after),
                *(("note", line) for line in use.says),
            )
        )
    if found.unknown:
        print()
    show_fields(("unknown", line) for line in found.unknown)
    return EXIT_BROKEN if found.broken else 0


def _reference(one: Reference | None) -> str:
    if one is None:
        return "unknown"
    note = ", not handed out" if one.withheld else ""
    note += ", downgraded" if one.downgraded else ""
    return f"{one.digest} ({one.label}{note}, {one.issued_at})"


def _export(assembly: Assembly, found: Account, args: argparse.Namespace) -> bool:
    """The certificates of the answer as files; whether all of them could be read."""
    keys, whole = keys_of(assembly, args), True
    for use in found.drives:
        for one in (*([use.before] if use.before else []), *use.after):
            stored = assembly.store.certificate(one.digest)
            if stored is None:
                continue  # cannot be: it was just read, and certificates are never removed
            try:
                export(assembly, stored, keys, args.directory)
            except (BadInputError, UnreadableError) as error:
                whole = False
                warn(f"not exported: {error}")
            except OSError as error:
                raise BadInputError(
                    f"for-server: expected to write into {args.directory}: {error.strerror}"
                ) from error
    return whole


def _for_server_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("server", metavar="UUID", help="a server, deleted or not")
    parser.add_argument(
        "--directory", type=Path, metavar="DIR", help="also write the certificates there"
    )
    key_arguments(parser)


VERBS = (
    Verb(
        "certificate for-server",
        "the drives that a server had, with their certificates from before and after",
        _for_server,
        _for_server_arguments,
    ),
    Verb(
        "head",
        "write today's signed head of the chain, if it is not written yet, and show the newest",
        _head,
    ),
    Verb(
        "ledger",
        "check the certificates and that they form one unbroken chain, offline with --key",
        _ledger,
        _ledger_arguments,
    ),
)
