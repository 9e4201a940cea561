"""``campaign``: many slots erased again by one word."""

from __future__ import annotations

import argparse
from dataclasses import replace
from typing import Any, ClassVar, Final

from quarantine.cli.base import Lister, ShowOne, by_argument, list_arguments, version
from quarantine.cli.commands.maintenance import a_time
from quarantine.cli.sources.source import (
    CampaignDecision,
    CampaignWish,
    CampaignWord,
    Columns,
    Members,
)
from quarantine.operations.names import KEEP

FIRST: Final = 20
"""Slots that a preview names."""


def _query_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--model", help="drives of this model")
    parser.add_argument("--firmware", help="that ran this revision at their last certificate")
    parser.add_argument("--host", help="this host's slots")
    parser.add_argument("--hold-code", metavar="CODE", help="slots that are held for this")
    parser.add_argument(
        "--certified-before", metavar="TIME", help="whose last certificate is older than this"
    )
    parser.add_argument(
        "--keep",
        type=_share,
        default=KEEP,
        metavar="SHARE",
        help="of the drives that would be on offer stay there (default: %(default)s)",
    )


def _share(words: str) -> float:
    try:
        share = float(words)
    except ValueError:
        share = -1.0  # argparse would tell it by the name of this function
    if not 0 <= share <= 1:
        raise argparse.ArgumentTypeError(
            f"expected a share of the pool, 0 to 1, found {words[:40]!r}"
        )
    return share


def _wish(args: argparse.Namespace) -> CampaignWish:
    before = args.certified_before
    return CampaignWish(
        model=args.model,
        firmware=args.firmware,
        host=args.host,
        hold_code=args.hold_code,
        certified_before=None if before is None else a_time(before, "--certified-before"),
        keep=args.keep,
    )


def _name_argument(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("id", metavar="ID", help="letters, digits, dots, hyphens, underscores")


class _One(ShowOne):
    """A campaign and how far it is."""

    def arguments(self, parser: argparse.ArgumentParser) -> None:
        _name_argument(parser)

    def human(self, name: str, value: Any) -> Any:
        if name == "slots":
            return tuple(f"{count} {step}" for step, count in sorted(value.items()))
        if name == "acts":
            return tuple(
                f"{one.at:%Y-%m-%d %H:%M} {one.state} by "
                f"{one.by.user if one.by else 'the service'}: {one.reason}"
                for one in value
            )
        return value.user if name == "by" else super().human(name, value)


class CampaignPreview(ShowOne):
    """Say what a campaign would come to; nothing is changed."""

    def arguments(self, parser: argparse.ArgumentParser) -> None:
        _query_arguments(parser)

    def human(self, name: str, value: Any) -> Any:
        if name == "which":
            return tuple(f"{one.host}/{one.address} {one.state}" for one in value)
        return super().human(name, value)

    def take_action(self, parsed_args: argparse.Namespace) -> Members:
        return self.source.campaigns.preview(_wish(parsed_args), first=FIRST)


class CampaignBegin(_One):
    """Have slots erased again, each with a result; the same id again does nothing twice."""

    def arguments(self, parser: argparse.ArgumentParser) -> None:
        super().arguments(parser)
        _query_arguments(parser)
        parser.add_argument(
            "--seen",
            type=version,
            metavar="VERSION",
            help="only where it is about the slots that 'campaign preview' had under this version",
        )
        parser.add_argument(
            "--reason", required=True, help="for the history, and for your successor"
        )
        by_argument(parser, remote=self.remote)

    def take_action(self, parsed_args: argparse.Namespace) -> Members:
        args = parsed_args
        wish = replace(_wish(args), seen=args.seen or "")
        return self.source.campaigns.begin(args.id, wish, reason=args.reason, by=args.by)


class CampaignShow(_One):
    """Show a campaign, and how many of its slots are how far."""

    def take_action(self, parsed_args: argparse.Namespace) -> Members:
        return self.source.campaigns.one(parsed_args.id)


class _Put(_One):
    """What a person decides of a campaign."""

    act: ClassVar[CampaignDecision]

    def arguments(self, parser: argparse.ArgumentParser) -> None:
        super().arguments(parser)
        parser.add_argument("--reason", required=True, help="for the history")
        parser.add_argument(
            "--seen",
            type=int,
            metavar="VERSION",
            help="only where the campaign is still as 'campaign show' had it under this version",
        )
        by_argument(parser, remote=self.remote)

    def take_action(self, parsed_args: argparse.Namespace) -> Members:
        args = parsed_args
        word = CampaignWord(args.id, self.act, args.reason, args.by, args.seen)
        return self.source.campaigns.put(word)


class CampaignPause(_Put):
    """Have a campaign take no further slot; what was taken is finished."""

    act = CampaignDecision.PAUSE


class CampaignResume(_Put):
    """Have a paused campaign go on."""

    act = CampaignDecision.RESUME


class CampaignStop(_Put):
    """End a campaign for good; what was taken is finished."""

    act = CampaignDecision.STOP


class CampaignAdvance(_One):
    """Take a turn of a campaign now, as the running service does in each round."""

    def take_action(self, parsed_args: argparse.Namespace) -> Members:
        from quarantine.operations import campaigns

        # No act of the API's: there the running service does it.
        campaigns.advance(self.plane, parsed_args.id)
        return self.source.campaigns.one(parsed_args.id)


class CampaignList(Lister):
    """List campaigns."""

    ages = frozenset({"created_at", "changed_at"})

    def arguments(self, parser: argparse.ArgumentParser) -> None:
        list_arguments(parser)

    def human(self, name: str, value: Any) -> Any:
        return value.user if name == "by" else super().human(name, value)

    def take_action(self, parsed_args: argparse.Namespace) -> Columns:
        found = self.source.campaigns
        return self.listed(parsed_args, lambda limit: found.each(limit=limit))


class CampaignSlots(Lister):
    """List a campaign's slots, each with its result."""

    table = ("host", "address", "step", "result", "certificate", "changed_at")
    ages = frozenset({"changed_at"})

    def arguments(self, parser: argparse.ArgumentParser) -> None:
        _name_argument(parser)
        list_arguments(parser)

    def take_action(self, parsed_args: argparse.Namespace) -> Columns:
        name, found = parsed_args.id, self.source.campaigns
        return self.listed(parsed_args, lambda limit: found.slots(name, limit=limit))
