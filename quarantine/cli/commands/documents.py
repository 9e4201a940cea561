"""``profile`` and ``policy``: what people approve."""

from __future__ import annotations

import argparse
from typing import Any

from quarantine.cli.base import Lister, ShowOne, file_argument
from quarantine.cli.sources.columns import members_of, rows_of
from quarantine.cli.sources.source import Columns, Members
from quarantine.inputfile import read_file
from quarantine.operations import documents
from quarantine.operations.documents import ApprovedLine, Initiator


class _DocumentList(Lister):
    """Approved documents."""

    table = ("name", "version", "approved_by", "approved_at", "digest")


class _DocumentApprove(ShowOne):
    """A document that is approved."""

    def arguments(self, parser: argparse.ArgumentParser) -> None:
        file_argument(parser, "JSON, as proposed or written")
        parser.add_argument("--by", required=True, metavar="PERSON", help="who approves it")
        parser.add_argument("--reason", default="", metavar="TEXT", help="why; kept with it")


class ProfileApprove(_DocumentApprove):
    """Approve what drives must look like."""

    def take_action(self, parsed_args: argparse.Namespace) -> Members:
        raw, where = read_file(parsed_args.file, "profile"), str(parsed_args.file)
        return members_of(documents.approve_profile(self.plane, raw, where, **_by(parsed_args)))


class ProfileList(_DocumentList):
    """Approved profiles."""

    def take_action(self, parsed_args: argparse.Namespace) -> Columns:
        return rows_of(ApprovedLine, documents.profiles(self.plane))


class ProfileShow(ShowOne):
    """One profile."""

    def arguments(self, parser: argparse.ArgumentParser) -> None:
        parser.add_argument("name", metavar="NAME")

    def take_action(self, parsed_args: argparse.Namespace) -> Members:
        return members_of(documents.profile(self.plane, parsed_args.name))


class PolicyApprove(_DocumentApprove):
    """Approve how drives are erased."""

    def take_action(self, parsed_args: argparse.Namespace) -> Members:
        raw, where = read_file(parsed_args.file, "policy"), str(parsed_args.file)
        return members_of(documents.approve_policy(self.plane, raw, where, **_by(parsed_args)))


class PolicyList(_DocumentList):
    """Approved policies."""

    def take_action(self, parsed_args: argparse.Namespace) -> Columns:
        return rows_of(ApprovedLine, documents.policies(self.plane))


class PolicyShow(ShowOne):
    """One policy, or what it means for a model."""

    def arguments(self, parser: argparse.ArgumentParser) -> None:
        parser.add_argument("name", metavar="NAME")
        parser.add_argument(
            "--model", metavar="MODEL", help="show what it means for drives of this model"
        )
        parser.add_argument("--firmware", default="", metavar="REVISION", help="with --model")
        parser.add_argument(
            "--vendor-id",
            type=_vendor,
            default=0,
            metavar="ID",
            help="with --model: such as 0x144d",
        )

    def human(self, name: str, value: Any) -> Any:
        if name == "purge_methods" and not value:
            return "none: such drives are held"
        if name == "quirks":
            return tuple(f"{q.model} {q.firmware}: {q.reason}" for q in value)
        return value

    def take_action(self, parsed_args: argparse.Namespace) -> Members:
        args = parsed_args
        if args.model is None:
            return members_of(documents.policy(self.plane, args.name))
        return members_of(
            documents.policy_for(
                self.plane,
                args.name,
                model=args.model,
                firmware=args.firmware,
                vendor_id=args.vendor_id,
            )
        )


def _by(args: argparse.Namespace) -> dict[str, Any]:
    return {"by": Initiator(args.by), "reason": args.reason}


def _vendor(text: str) -> int:
    try:
        found = int(text, 0)
    except ValueError:
        found = -1  # argparse would tell it by the name of this function
    # PCI's vendor ids have 16 bits: another number has no quirks, and that would look like a model
    # without any.
    if not 0 <= found <= 0xFFFF:
        raise argparse.ArgumentTypeError(f"expected a number such as 0x144d, found {text[:40]!r}")
    return found
