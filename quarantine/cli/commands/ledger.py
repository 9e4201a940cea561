"""``ledger``: the chain of certificates as a whole."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from quarantine.cli.base import EXIT_BROKEN, ControlCommand, ShowOne
from quarantine.cli.commands.certificates import key_arguments, trust
from quarantine.cli.output import warn
from quarantine.cli.sources.columns import members_of
from quarantine.cli.sources.source import Members
from quarantine.errors import BadInputError, UnavailableError
from quarantine.operations.papers import ledger


class LedgerVerify(ShowOne):
    """Check the certificates and that they form one unbroken chain, offline with --key."""

    def arguments(self, parser: argparse.ArgumentParser) -> None:
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
            help="signed heads that were kept, or directories of them: the chain must contain "
            "each; repeatable",
        )
        parser.add_argument(
            "--tsa-ca",
            type=Path,
            metavar="FILE",
            help="root certificates (PEM) of the time stamping authority: check the stamps beside "
            "the heads",
        )
        key_arguments(parser)

    def human(self, name: str, value: Any) -> Any:
        if name == "contains":
            return tuple(f"{digest}, position {position}" for digest, position in value.items())
        return tuple(f"{n}: {at}" for n, at in value.items()) if name == "stamped" else value

    def take_action(self, parsed_args: argparse.Namespace) -> Members:
        """Raises ``BadInputError``, also for options that do not go together."""
        args = parsed_args
        # A script that lost the digest would else check nothing, and be told that all is well.
        if args.end == "":
            raise BadInputError("ledger: expected the digest of a certificate after --end")
        # Stamps lie beside heads: without any no stamp is looked at, and all would be called well.
        if args.tsa_ca is not None and not args.heads:
            raise BadInputError(
                "ledger: expected --heads with --tsa-ca, for stamps lie beside them"
            )
        question = ledger.LedgerQuestion(
            trust(args), args.end or "", tuple(args.contains), tuple(args.heads), args.tsa_ca
        )
        found = ledger.verify(self.plane, args.file, question)
        if not found.intact:
            self.exit_code = EXIT_BROKEN
        return members_of(found)


class LedgerExport(ControlCommand):
    """Write the record's whole chain as one file, a certificate a line, for an auditor."""

    def arguments(self, parser: argparse.ArgumentParser) -> None:
        parser.add_argument("file", type=Path, metavar="FILE.jsonl")

    def take_action(self, parsed_args: argparse.Namespace) -> None:
        ledger.export(self.plane, parsed_args.file)


class LedgerHead(ShowOne):
    """Write today's signed head of the chain, if it is not written yet, and show the newest."""

    def take_action(self, parsed_args: argparse.Namespace) -> Members:
        found = ledger.write_head(self.plane)
        for line in found.problems:
            self.exit_code = EXIT_BROKEN
            warn(f"a rotation: {line}")
        # An authority that does not answer is asked again later: the head itself may be written.
        if not found.complete:
            self.exit_code = UnavailableError.exit_code
        return self.dict2columns({"file": found.file, **vars(found.head)})
