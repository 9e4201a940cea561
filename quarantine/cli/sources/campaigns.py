"""Campaigns, from the record of this control plane."""

from __future__ import annotations

from collections.abc import Sequence

from quarantine.cli.sources.chunks import chunked
from quarantine.cli.sources.columns import members_of, rows_of
from quarantine.cli.sources.source import CAMPAIGN, CampaignWish, CampaignWord, Columns, Members
from quarantine.operations import campaigns
from quarantine.operations.campaigns import (
    Campaign,
    CampaignQuery,
    CampaignSlotLine,
    CampaignState,
    CampaignView,
    Initiator,
)
from quarantine.operations.plane import Plane


class StoreCampaigns:
    """See :class:`quarantine.cli.sources.source.CampaignSource`."""

    def __init__(self, plane: Plane) -> None:
        self._plane = plane

    def each(self, *, limit: int | None) -> Columns:
        """By id."""

        def page(most: int, last: Campaign | None) -> Sequence[Campaign]:
            return campaigns.page(self._plane, limit=most, after=last.id if last else "")

        found = chunked(limit, page)
        return CAMPAIGN, [[getattr(one, name) for name in CAMPAIGN] for one in found]

    def one(self, name: str) -> Members:
        """With its acts."""
        return _members(campaigns.show(self._plane, name))

    def slots(self, name: str, *, limit: int | None) -> Columns:
        """By host and address."""

        def page(most: int, last: CampaignSlotLine | None) -> Sequence[CampaignSlotLine]:
            after = (last.host, last.address) if last else ("", "")
            return campaigns.lines(self._plane, name, limit=most, after=after)

        return rows_of(CampaignSlotLine, chunked(limit, page))

    def preview(self, wish: CampaignWish, *, first: int) -> Members:
        """Changes nothing."""
        found = campaigns.preview(self._plane, _query(wish), keep=wish.keep, limit=first)
        return members_of(found)

    def begin(self, name: str, wish: CampaignWish, *, reason: str, by: str) -> Members:
        """The same again does nothing."""
        found = campaigns.begin(
            self._plane,
            name,
            _query(wish),
            reason=reason,
            by=Initiator(by),
            keep=wish.keep,
            seen=(wish.seen,) if wish.seen else (),
        )
        return _members(found)

    def put(self, word: CampaignWord) -> Members:
        """Behind whatever was decided last, or what was seen."""
        found = campaigns.put(
            self._plane,
            word.campaign,
            CampaignState(word.act.state),
            reason=word.reason,
            by=Initiator(word.by),
            behind=() if word.seen is None else (word.seen,),
        )
        return _members(found)


def _query(wish: CampaignWish) -> CampaignQuery:
    return CampaignQuery(
        model=wish.model,
        firmware=wish.firmware,
        host=wish.host,
        hold_code=wish.hold_code,
        certified_before=wish.certified_before,
    )


def _members(found: CampaignView) -> Members:
    names, values = members_of(found.campaign)
    return (*names, "slots", "acts"), (*values, found.slots, found.acts)
