"""``campaign``: many slots erased again by one word."""

from __future__ import annotations

import argparse
from typing import Any, Final

from quarantine.cli.base import Columns, Lister, Members, ShowOne, members_of, rows_of
from quarantine.cli.maintenance import a_time
from quarantine.operations import campaigns
from quarantine.operations.campaigns import (
    KEEP,
    CampaignQuery,
    CampaignSlot,
    CampaignState,
    CampaignView,
    Initiator,
)

CHUNK: Final = 500
"""Lines that are read at a time."""

FIRST: Final = 20
"""Slots that a preview names."""

_LIST: Final = ("id", "state", "query", "keep", "reason", "by", "created_at", "changed_at")


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
        type=float,
        default=KEEP,
        metavar="SHARE",
        help="of the drives that would be on offer stay there (default: %(default)s)",
    )


def _query(args: argparse.Namespace) -> CampaignQuery:
    before = args.certified_before
    return CampaignQuery(
        model=args.model,
        firmware=args.firmware,
        host=args.host,
        hold_code=args.hold_code,
        certified_before=None if before is None else a_time(before, "--certified-before"),
    )


def _name_argument(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("id", metavar="ID", help="letters, digits, dots, hyphens, underscores")


class _One(ShowOne):
    """A campaign and how far it is."""

    def arguments(self, parser: argparse.ArgumentParser) -> None:
        _name_argument(parser)

    def members(self, found: CampaignView) -> Members:
        """A campaign in lines."""
        names, values = members_of(found.campaign)
        return (*names, "slots", "acts"), (*values, found.slots, found.acts)

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
        query, keep = _query(parsed_args), parsed_args.keep
        found = campaigns.preview(self.plane, query, keep=keep, limit=FIRST)
        return members_of(found)


class CampaignBegin(_One):
    """Have slots erased again, each with a result; the same id again does nothing twice."""

    def arguments(self, parser: argparse.ArgumentParser) -> None:
        super().arguments(parser)
        _query_arguments(parser)
        parser.add_argument(
            "--reason", required=True, help="for the history, and for your successor"
        )
        parser.add_argument("--by", required=True, metavar="NAME", help="who decides")

    def take_action(self, parsed_args: argparse.Namespace) -> Members:
        found = campaigns.begin(
            self.plane,
            parsed_args.id,
            _query(parsed_args),
            reason=parsed_args.reason,
            by=Initiator(parsed_args.by),
            keep=parsed_args.keep,
        )
        return self.members(found)


class CampaignShow(_One):
    """Show a campaign, and how many of its slots are how far."""

    def take_action(self, parsed_args: argparse.Namespace) -> Members:
        return self.members(campaigns.show(self.plane, parsed_args.id))


class _Put(_One):
    """What a person decides of a campaign."""

    state: CampaignState

    def arguments(self, parser: argparse.ArgumentParser) -> None:
        super().arguments(parser)
        parser.add_argument("--reason", required=True, help="for the history")
        parser.add_argument("--by", required=True, metavar="NAME", help="who decides")

    def take_action(self, parsed_args: argparse.Namespace) -> Members:
        return self.members(self._put(parsed_args))

    def _put(self, args: argparse.Namespace) -> CampaignView:
        by = Initiator(args.by)
        return campaigns.put(self.plane, args.id, self.state, reason=args.reason, by=by)


class CampaignPause(_Put):
    """Have a campaign take no further slot; what was taken is finished."""

    state = CampaignState.PAUSED


class CampaignResume(_Put):
    """Have a paused campaign go on."""

    state = CampaignState.RUNNING


class CampaignStop(_Put):
    """End a campaign for good; what was taken is finished."""

    state = CampaignState.STOPPED


class CampaignAdvance(_One):
    """Take a turn of a campaign now, as the running service does in each round."""

    def take_action(self, parsed_args: argparse.Namespace) -> Members:
        campaigns.advance(self.plane, parsed_args.id)
        return self.members(campaigns.show(self.plane, parsed_args.id))


class CampaignList(Lister):
    """List campaigns."""

    ages = frozenset({"created_at", "changed_at"})

    def human(self, name: str, value: Any) -> Any:
        return value.user if name == "by" else super().human(name, value)

    def take_action(self, parsed_args: argparse.Namespace) -> Columns:
        found = campaigns.page(self.plane, limit=CHUNK)
        return _LIST, [[getattr(one, name) for name in _LIST] for one in found]


class CampaignSlots(Lister):
    """List a campaign's slots, each with its result."""

    table = ("host", "address", "step", "result", "certificate", "changed_at")
    ages = frozenset({"changed_at"})

    def arguments(self, parser: argparse.ArgumentParser) -> None:
        _name_argument(parser)

    def take_action(self, parsed_args: argparse.Namespace) -> Columns:
        found: list[CampaignSlot] = []
        after = ("", "")
        while page := campaigns.lines(self.plane, parsed_args.id, limit=CHUNK, after=after):
            found += page
            after = page[-1].host, page[-1].address
        return rows_of(CampaignSlot, found)
