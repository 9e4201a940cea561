"""Verbs about evidence: certificates one by one, and what was refused."""

from __future__ import annotations

import argparse
import os
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from eraser.protocol.transport.signing import PublicKey
from quarantine.cli.command import Verb, slot
from quarantine.cli.output import show_fields, show_json, show_table, warn
from quarantine.errors import BadInputError, UnreadableError
from quarantine.evidence import certificate, consistency, testimony
from quarantine.evidence.certificate import SignedCertificate
from quarantine.evidence.keys import keyring, rotation
from quarantine.evidence.keys.keyring import Keyring
from quarantine.evidence.keys.rotation import Rotation
from quarantine.evidence.sheet import files, page
from quarantine.evidence.testimony import TestimonyResult, TestimonyStanding
from quarantine.inputfile import read_file, read_found
from quarantine.record.facts import StoredCertificate
from quarantine.service.container import Assembly
from quarantine.service.parts import read_public_key

EXIT_BROKEN = 7
"""A certificate or the chain does not hold."""


def keys_of(assembly: Assembly, args: argparse.Namespace) -> Keyring:
    """The keys given with the rotations given, else those of the configuration and the record.

    Raises :class:`BadInputError`.
    """
    rotations: list[Rotation] = []
    damaged: list[str] = []
    for found in _rotations(args.rotations):
        if isinstance(found, Rotation):
            rotations.append(found)
        else:
            damaged.append(str(found))
    if args.key:
        trusted = [read_public_key(file) for file in args.key]
    else:
        trusted, rotations = [*assembly.certificate_keys], [*rotations, *assembly.rotations]
    made = keyring.ring(trusted, rotations)
    return replace(made, problems=(*damaged, *made.problems))


def _rotations(paths: list[Path]) -> Iterator[Rotation | BadInputError]:
    """Files as they are; of directories every rotation in them. One that is damaged hides none."""
    for path in paths:
        inside = os.path.isdir(path)
        for file in sorted(path.glob(f"*{rotation.SUFFIX}")) if inside else [path]:
            try:
                raw = (read_found if inside else read_file)(file, "rotation")
                yield rotation.read(raw, str(file))
            except BadInputError as error:
                yield error


def key_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--key",
        type=Path,
        action="append",
        metavar="PUBLIC.jwk",
        help="the controller's public key; repeatable; default: that of [evidence]signing_key, "
        "and [evidence]former_keys",
    )
    parser.add_argument(
        "--rotations",
        type=Path,
        action="append",
        default=[],
        metavar="FILE",
        help="rotations of the signing key, or directories of them: the keys before and after "
        "those given are believed too, each for its places of the chain; repeatable",
    )


def _stored(assembly: Assembly, name: str) -> StoredCertificate:
    """By digest, by an unambiguous beginning of one, or the newest of a slot."""
    store = assembly.store
    if "/" in name:
        found = store.certificates(slot=slot(name))[-1:]
    else:
        exact = store.certificate(name)
        found = [exact] if exact else []
        if not found and len(name) >= 6:
            found = [c for c in store.certificates() if c.digest.startswith(name)]
    if len(found) != 1:
        raise BadInputError(
            f"certificate {name}: expected one in the record, found "
            f"{'several' if found else 'none'}; 'nvme-quarantine certificate list' shows them"
        )
    return found[0]


def _signed(stored: StoredCertificate, keys: Sequence[PublicKey]) -> SignedCertificate:
    signed = certificate.verify(stored.token, keys, f"certificate {stored.digest}")
    if signed.digest != stored.digest:
        raise BadInputError(
            f"certificate {stored.digest}: expected it in the record, found {signed.digest} under "
            "its name; restore the database from a backup"
        )
    return signed


def _list(assembly: Assembly, args: argparse.Namespace) -> int:
    place = slot(args.slot) if args.slot else None
    rows = assembly.store.certificates(slot=place, server=args.server)
    if args.format == "json":
        show_json([{**vars(row), "slot": str(row.slot)} for row in rows])
        return 0
    head = ("NO", "ISSUED", "SLOT", "LAST USER", "DIGEST")
    show_table(
        head,
        (
            (
                row.number,
                row.created_at.strftime("%Y-%m-%d %H:%M:%S"),
                row.slot,
                row.server or "",
                row.digest,
            )
            for row in rows
        ),
    )
    return 0


def _list_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--slot", metavar="SLOT", help="only this slot's")
    parser.add_argument("--server", metavar="UUID", help="only drives that this server had")


def _certificate_argument(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "certificate", metavar="DIGEST|SLOT", help="a certificate, or the newest of a slot"
    )
    key_arguments(parser)


def _show(assembly: Assembly, args: argparse.Namespace) -> int:
    keys = keys_of(assembly, args)
    signed = _signed(_stored(assembly, args.certificate), keys)
    if args.format == "json":
        # The file's content in ASCII: a serial number must not move the cursor.
        show_json({"certificate": signed.certificate, "jws": signed.token})
    else:
        _summary(signed)
    weighed = _weighed(assembly, signed, keys)
    if args.format != "json":
        show_fields(_testimony(weighed))
    if weighed.standing is TestimonyStanding.CONTRADICTS:
        for problem in weighed.problems:
            warn(f"certificate {signed.digest}: its testimony contradicts it: {problem}")
        return EXIT_BROKEN
    return 0


def _weighed(
    assembly: Assembly, signed: SignedCertificate, keys: Sequence[PublicKey]
) -> TestimonyResult:
    """A certificate of the record against the testimony there."""
    try:
        given = assembly.store.testimony(signed.digest)
    except UnreadableError as error:
        return TestimonyResult(TestimonyStanding.CONTRADICTS, (str(error),))
    if given is None:
        return TestimonyResult(TestimonyStanding.NOT_KEPT)
    return testimony.weigh(signed.certificate, given, keys)


def _testimony(weighed: TestimonyResult) -> list[tuple[str, object]]:
    return [
        ("testimony", weighed.standing),
        *(("contradiction", line) for line in weighed.problems),
        *(("remark", line) for line in weighed.remarks),
    ]


def _summary(signed: SignedCertificate) -> None:
    body = signed.certificate
    show_fields(
        (
            ("certificate", signed.digest),
            ("position", body.position),
            ("issued", body.issued_at),
            ("drive", f"{body.drive.identity.model} serial {body.drive.identity.serial}"),
            ("slot", f"{body.source.host}/{body.source.address}"),
            ("last user", body.source.last_user),
            *(("not handed out", line) for line in body.withheld),
            ("headline", body.headline or page.summary(body)),
            ("method", body.sanitization.meaning),
            *(("technique", f"{t.command}. {t.reported}") for t in body.sanitization.techniques),
            ("verification", body.verification.sentence),
            *(("exception", line) for line in body.exceptions),
            *(("residue", line) for line in body.residues),
            *(("not said", line) for line in body.not_done),
            ("signed by key", signed.key),
        )
    )


def _html(assembly: Assembly, args: argparse.Namespace) -> int:
    signed = _signed(_stored(assembly, args.certificate), keys_of(assembly, args))
    text = page.render(signed)
    if args.output is None:
        print(text, end="")
        return 0
    try:
        args.output.write_text(text, encoding="utf-8")
    except OSError as error:
        raise BadInputError(f"html: expected to write {args.output}: {error.strerror}") from error
    return 0


def _html_arguments(parser: argparse.ArgumentParser) -> None:
    _certificate_argument(parser)
    parser.add_argument("--output", type=Path, metavar="FILE", help="default: stdout")


def export(
    assembly: Assembly, stored: StoredCertificate, keys: Sequence[PublicKey], directory: Path
) -> tuple[Path, ...]:
    """One certificate of the record as files, with its testimony.

    Raises :class:`BadInputError` for one that does not hold, :class:`UnreadableError` for a damaged
    testimony, and ``OSError`` where nothing can be written.
    """
    signed = _signed(stored, keys)
    return files.write_files(directory, signed, assembly.store.testimony(stored.digest))


def _export(assembly: Assembly, args: argparse.Namespace) -> int:
    directory = args.directory or assembly.certificates_dir
    keys = keys_of(assembly, args)
    paths: list[Path] = []
    broken = False
    for stored in assembly.store.certificates():
        try:
            paths += export(assembly, stored, keys, directory)
        except (BadInputError, UnreadableError) as error:
            broken = True
            warn(f"not exported: {error}")
        except OSError as error:
            raise BadInputError(
                f"export: expected to write into {directory}: {error.strerror}"
            ) from error
    try:
        rotations = (one.document for one in assembly.store.rotations())
        paths += files.write_rotations(directory, rotations)
    except OSError as error:
        raise BadInputError(
            f"export: expected to write into {directory}: {error.strerror}"
        ) from error
    if args.format == "json":
        show_json([str(path) for path in paths])
    else:
        print(f"{len(paths)} files in {directory}")
    return EXIT_BROKEN if broken else 0


def _export_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--directory", type=Path, metavar="DIR", help="default: [evidence]certificates_dir"
    )
    key_arguments(parser)


def _verify(assembly: Assembly, args: argparse.Namespace) -> int:
    keys = keys_of(assembly, args)
    for line in keys.problems:
        warn(f"a rotation: {line}")
    results: list[dict[str, Any]] = []
    broken = False
    for file in args.file:
        try:
            signed = certificate.read_document(read_file(file, "certificate"), keys, str(file))
        except BadInputError as error:
            broken = True
            results.append({"file": str(file), "valid": False, "problem": str(error)})
            continue
        body = signed.certificate
        weighed = _weighed_beside(file, signed, keys)
        contradictions = (*consistency.contradictions(body), *weighed.problems)
        broken |= bool(contradictions)
        broken |= args.testimony and weighed.standing is not TestimonyStanding.AGREES
        results.append(
            {
                "file": str(file),
                "valid": True,
                "digest": signed.digest,
                "previous": body.previous,
                "key": signed.key,
                "serial": body.drive.identity.serial,
                "label": body.sanitization.method,
                "downgraded": body.sanitization.downgraded,
                "withheld": body.withheld,
                "issued_at": body.issued_at,
                "sentence": body.verification.sentence,
                "testimony": weighed.standing,
                "contradictions": contradictions,
                "remarks": (*_of_a_replaced_key(signed, keys), *weighed.remarks),
            }
        )
    if args.format == "json":
        show_json(results)
    else:
        for result in results:
            lines = ("contradictions", "remarks")
            show_fields((k, v) for k, v in result.items() if k not in lines)
            show_fields((name, line) for name in lines for line in result.get(name, ()))
    return EXIT_BROKEN if broken else 0


def _of_a_replaced_key(signed: SignedCertificate, keys: Sequence[PublicKey]) -> tuple[str, ...]:
    """What a certificate alone cannot show, said."""
    last = keyring.replaced(keys, signed.key)
    if last is None or signed.certificate.position == last:
        return ()
    return (
        f"its key was replaced after position {last}: whoever stole it since signs such a "
        f"certificate too, and only the chain tells ('ledger --contains {signed.digest}')",
    )


def _weighed_beside(
    file: Path, signed: SignedCertificate, keys: Sequence[PublicKey]
) -> TestimonyResult:
    """A certificate's file against the testimony in its directory."""
    try:
        given = files.testimony_beside(file, signed.digest)
    except BadInputError as error:
        return TestimonyResult(TestimonyStanding.CONTRADICTS, (str(error),))
    if given is None:
        return TestimonyResult(TestimonyStanding.NOT_GIVEN)
    return testimony.weigh(signed.certificate, given, keys)


def _verify_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "file",
        type=Path,
        nargs="+",
        metavar="FILE",
        help="certificates; each is held against the testimony beside it, where that is",
    )
    parser.add_argument(
        "--testimony", action="store_true", help="call one without its testimony broken"
    )
    key_arguments(parser)


def _refusals(assembly: Assembly, args: argparse.Namespace) -> int:
    rows = assembly.store.refusals(host=args.host)
    if args.format == "json":
        show_json(rows)
        return 0
    head = ("LAST", "KIND", "HOST", "TIMES", "REASON")
    show_table(
        head,
        (
            (row.last_at.strftime("%Y-%m-%d %H:%M:%S"), row.kind, row.host, row.count, row.reason)
            for row in rows
        ),
    )
    return 0


def _refusals_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--host", help="only this host's")


VERBS = (
    Verb("certificate list", "certificates in the record", _list, _list_arguments),
    Verb("certificate show", "one certificate", _show, _certificate_argument),
    Verb(
        "certificate html",
        "one certificate as a printable page",
        _html,
        _html_arguments,
        formatted=False,
    ),
    Verb("certificate export", "write all certificates as files", _export, _export_arguments),
    Verb(
        "certificate verify",
        "check files offline, with the public key alone",
        _verify,
        _verify_arguments,
    ),
    Verb(
        "refusals",
        "messages that were refused, and alarms about drives",
        _refusals,
        _refusals_arguments,
    ),
)
