"""``certificate``: of the record, as files, and of one server's drives."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from eraser.protocol.identity import Slot
from quarantine.cli.base import (
    EXIT_BROKEN,
    MACHINES,
    ControlCommand,
    Lister,
    ShowOne,
    list_arguments,
)
from quarantine.cli.output import Lines, warn
from quarantine.cli.sources.columns import rows_of, slot
from quarantine.cli.sources.source import CertificateLook, Columns, KeyFiles, Members
from quarantine.errors import BadInputError, QuarantineError
from quarantine.logs import clean

if TYPE_CHECKING:
    from quarantine.operations.papers.certificates import Reference, ServedDrive
    from quarantine.operations.papers.keys import TrustedKeys


def key_arguments(parser: argparse.ArgumentParser) -> None:
    """Whose certificates are believed."""
    parser.add_argument(
        "--key",
        type=Path,
        action="append",
        default=[],
        metavar="PUBLIC.jwk",
        help="the controller's public key; repeatable; default: that of [evidence]signing_key, "
        "and [evidence]former_keys, in the openstack program none",
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


def key_files(args: argparse.Namespace) -> KeyFiles:
    """As :func:`key_arguments` has it."""
    return KeyFiles(tuple(args.key), tuple(args.rotations))


def trust(args: argparse.Namespace) -> TrustedKeys:
    """The same for an operation."""
    from quarantine.operations.papers.keys import TrustedKeys

    return TrustedKeys(tuple(args.key), tuple(args.rotations))


def _certificate_argument(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "certificate", metavar="DIGEST|SLOT", help="a certificate, or the newest of a slot"
    )
    key_arguments(parser)


def _name(text: str) -> str | Slot:
    return slot(text) if "/" in text else text


class CertificateList(Lister):
    """Certificates in the record."""

    table = ("number", "created_at", "slot", "server", "digest")

    def arguments(self, parser: argparse.ArgumentParser) -> None:
        parser.add_argument("--slot", metavar="SLOT", help="only this slot's")
        parser.add_argument("--server", metavar="UUID", help="only drives that this server had")
        list_arguments(parser)

    def take_action(self, parsed_args: argparse.Namespace) -> Columns:
        place, server = parsed_args.slot, parsed_args.server
        return self.listed(
            parsed_args,
            lambda limit: self.source.certificates(slot=place, server=server, limit=limit),
        )


class CertificateShow(ShowOne):
    """One certificate."""

    def arguments(self, parser: argparse.ArgumentParser) -> None:
        _certificate_argument(parser)

    def take_action(self, parsed_args: argparse.Namespace) -> Members:
        shown = self.source.certificate(parsed_args.certificate, key_files(parsed_args))
        for line in shown.problems:
            warn(f"certificate {shown.digest}: {line}")
        if shown.broken:
            self.exit_code = EXIT_BROKEN
            for problem in shown.contradictions:
                warn(f"certificate {shown.digest}: it is contradicted: {problem}")
        if parsed_args.formatter in MACHINES:
            from quarantine.operations.papers import certificates

            # As a file has both: 'certificate verify' calls any other reading of it altered.
            said = certificates.as_signed(shown.token)
            return ("certificate", "jws"), (said, shown.token)
        return self.dict2columns(_summary(shown))


def _summary(shown: CertificateLook) -> dict[str, Any]:
    try:
        return _said_by(shown)
    except (KeyError, TypeError) as error:
        # Of an API: its document may be of another release.
        raise QuarantineError(
            f"certificate {shown.digest}: expected all members of one, found another document"
        ) from error


def _said_by(shown: CertificateLook) -> dict[str, Any]:
    body = shown.body
    drive, source, done = body["drive"]["identity"], body["source"], body["sanitization"]
    return {
        "certificate": shown.digest,
        "position": body["position"],
        "issued": body["issued_at"],
        "drive": f"{drive['model']} serial {drive['serial']}",
        "slot": f"{source['host']}/{source['address']}",
        "last_user": source["last_user"],
        "not_handed_out": body["withheld"],
        "headline": shown.headline,
        "method": done["meaning"],
        "techniques": [f"{t['command']}. {t['reported']}" for t in done["techniques"]],
        "verification": body["verification"]["sentence"],
        "exceptions": body["exceptions"],
        "residues": body["residues"],
        "not_said": body["not_done"],
        "signed_by_key": shown.key,
        "checked": shown.checked,
        "testimony": shown.testimony,
        "contradictions": shown.contradictions,
        "remarks": shown.remarks,
    }


class CertificateSave(Lister):
    """Write one certificate with what it rests on as files, unchecked: 'certificate verify' does.

    Nobody but their owner can read them, and none is written over without --overwrite.
    """

    def arguments(self, parser: argparse.ArgumentParser) -> None:
        parser.add_argument(
            "certificate", metavar="DIGEST|SLOT", help="a certificate, or the newest of a slot"
        )
        parser.add_argument(
            "--directory", type=Path, default=Path(), metavar="DIR", help="default: the current one"
        )
        parser.add_argument(
            "--overwrite", action="store_true", help="write over files that are there"
        )

    def take_action(self, parsed_args: argparse.Namespace) -> Columns:
        from quarantine.operations.papers import certificates

        found = self.source.papers(parsed_args.certificate)
        given = None
        if found.host_key is not None:
            given = certificates.testimony_given(
                found.order, found.report, found.host_key, f"testimony of {found.digest}"
            )
        else:
            warn(f"certificate {found.digest}: no testimony of it was kept")
        written = certificates.save(
            parsed_args.directory,
            found.digest,
            found.token,
            given,
            overwrite=parsed_args.overwrite,
        )
        return ("file",), [(path,) for path in written]


class CertificateHtml(ControlCommand):
    """One certificate as a printable page."""

    def arguments(self, parser: argparse.ArgumentParser) -> None:
        _certificate_argument(parser)
        parser.add_argument("--output", type=Path, metavar="FILE", help="default: stdout")

    def take_action(self, parsed_args: argparse.Namespace) -> None:
        """Raises ``BadInputError``, also where the file cannot be written."""
        from quarantine.operations.papers import certificates

        name, file = _name(parsed_args.certificate), parsed_args.output
        page = certificates.render(self.plane, name, trust(parsed_args))
        if file is None:
            # The page names its encoding, which need not be that of the locale.
            self.app.stdout.flush()
            self.app.stdout.buffer.write(page.encode())
            return
        try:
            file.write_text(page, encoding="utf-8")
        except OSError as error:
            raise BadInputError(f"html: expected to write {file}: {error.strerror}") from error


class CertificateExport(Lister):
    """Write all certificates as files."""

    def arguments(self, parser: argparse.ArgumentParser) -> None:
        parser.add_argument(
            "--directory", type=Path, metavar="DIR", help="default: [evidence]certificates_dir"
        )
        key_arguments(parser)

    def take_action(self, parsed_args: argparse.Namespace) -> Columns:
        from quarantine.operations.papers import certificates

        done = certificates.export(self.plane, trust(parsed_args), parsed_args.directory)
        for problem in done.problems:
            self.exit_code = EXIT_BROKEN
            warn(f"not exported: {problem}")
        return ("file",), [(path,) for path in done.files]


class CertificateVerify(Lister):
    """Check files offline, with the public key alone."""

    auth_required = False
    """For the openstack program: nobody is asked."""

    table = (
        *("file", "valid", "problem", "digest", "serial", "label", "sentence", "testimony"),
        *("contradictions", "remarks"),
    )

    def arguments(self, parser: argparse.ArgumentParser) -> None:
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

    def take_action(self, parsed_args: argparse.Namespace) -> Columns:
        from quarantine.operations.papers import certificates
        from quarantine.operations.papers.certificates import VerifiedFile

        # Elsewhere no configuration says which key is believed, and the API's word is none.
        plane = None if self.remote else self.plane
        done = certificates.verify(plane, parsed_args.file, trust(parsed_args))
        for line in done.problems:
            warn(f"a rotation: {line}")
        # Without --testimony a missing one is no fault: certificates are handed on alone, too.
        if any(one.broken or (parsed_args.testimony and not one.borne) for one in done.files):
            self.exit_code = EXIT_BROKEN
        return rows_of(VerifiedFile, done.files)


class CertificateForServer(ShowOne):
    """The drives that a server had, with their certificates from before and after."""

    def arguments(self, parser: argparse.ArgumentParser) -> None:
        parser.add_argument("server", metavar="UUID", help="a server, deleted or not")
        parser.add_argument(
            "--directory", type=Path, metavar="DIR", help="also write the certificates there"
        )
        key_arguments(parser)

    def human(self, name: str, value: Any) -> Any:
        return Lines("\n\n".join(map(_use, value))) if name == "drives" else value

    def take_action(self, parsed_args: argparse.Namespace) -> Members:
        from quarantine.operations.papers import certificates

        done = certificates.for_server(
            self.plane, parsed_args.server, trust(parsed_args), parsed_args.directory
        )
        for problem in done.problems:
            warn(problem)
        if done.account.broken:
            self.exit_code = EXIT_BROKEN
        return self.dict2columns({"complete": done.account.complete, **vars(done.account)})


def _use(use: ServedDrive) -> str:
    return "\n".join(map(clean, _said(use)))


def _said(use: ServedDrive) -> Iterator[str]:
    yield f"{use.model} serial {use.serial}"
    yield f"slot {use.slot}"
    yield f"known from {use.known_from}"
    yield f"before: {_reference(use.before)}"
    yield from (f"after: {_reference(one)}" for one in use.after)
    yield from (f"note: {line}" for line in use.says)


def _reference(one: Reference | None) -> str:
    if one is None:
        return "unknown"
    note = ", not handed out" if one.withheld else ""
    note += ", downgraded" if one.downgraded else ""
    return f"{one.digest} ({one.label}{note}, {one.issued_at})"
