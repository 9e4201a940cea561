"""Campaigns: many slots erased again by one word."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from quarantine.api import policies, schemas
from quarantine.api.faults import Fault
from quarantine.api.operation import Ask, Operation, Reply, damaged, moment, read_moment
from quarantine.api.resources import slots
from quarantine.operations import campaigns, maintenance
from quarantine.operations import slots as slot_operations
from quarantine.operations.campaigns import (
    Campaign,
    CampaignQuery,
    CampaignSlotLine,
    CampaignState,
    CampaignView,
    Initiator,
)


def preview(ask: Ask) -> Reply:
    """What one would come to."""
    percent = ask.query.get("keep_percent")
    # In a query whole percents: read_query() knows no fractions.
    keep = campaigns.KEEP if percent is None else percent / 100
    query = query_of(ask.query, "query")
    found = campaigns.preview(ask.plane, query, keep=keep, limit=ask.limit)
    quiet = maintenance.in_effect(ask.plane, {one.host for one in found.which})
    silent = slot_operations.silences(ask.plane, found.which)
    return Reply(
        {
            "slots": found.slots,
            "in_use": found.in_use,
            "free": found.free,
            "held": found.held,
            "in_quarantine": found.in_quarantine,
            "at_a_time": found.at_a_time,
            "drive_seconds": found.drive_seconds,
            "pool_seconds": found.pool_seconds,
            "which": [slots.line(one, quiet, silent) for one in found.which],
            "version": found.version,
        }
    )


def find(ask: Ask) -> Reply:
    """A page."""
    found = campaigns.page(ask.plane, limit=ask.limit, after=ask.query.get("marker", ""))
    said: dict[str, Any] = {"campaigns": [_document(one) for one in found]}
    if len(found) == ask.limit:
        said["campaigns_links"] = [{"rel": "next", "href": ask.link({"marker": found[-1].id})}]
    return Reply(said)


def show(ask: Ask) -> Reply:
    """One."""
    return _one(campaigns.show(ask.plane, ask.names["campaign"]))


def begin(ask: Ask) -> Reply:
    """Begins one, or answers with the one of this id.

    Raises :class:`Fault`: 412 without ``If-None-Match: *``.
    """
    if not ask.is_new:
        raise Fault(412, "stale", "expected If-None-Match: *, for a campaign is never another one")
    found = campaigns.begin(
        ask.plane,
        ask.names["campaign"],
        query_of(ask.body["query"], "body.query"),
        reason=ask.body["reason"],
        by=ask.by,
        keep=ask.body.get("keep", campaigns.KEEP),
        seen=(ask.body["seen"],) if "seen" in ask.body else (),
    )
    return _one(found)


def lines(ask: Ask) -> Reply:
    """A page of its slots. Raises :class:`Fault`: 400 for a marker that is none."""
    marker = ask.query.get("marker", "_")
    # From the right: a host's name may have an underscore, an address has none.
    host, sign, address = marker.rpartition("_")
    if not sign or not marker.isascii():
        raise Fault(400, "schema", "query.marker: expected it as a link to the next page has it")
    name = ask.names["campaign"]
    found = campaigns.lines(ask.plane, name, limit=ask.limit, after=(host, address.lower()))
    said: dict[str, Any] = {"slots": [_line(one) for one in found]}
    if len(found) == ask.limit:
        following = ask.link({"marker": _line(found[-1])["slot"]})
        said["slots_links"] = [{"rel": "next", "href": following}]
    return Reply(said)


def pause(ask: Ask) -> Reply:
    """Takes no further slot."""
    return _put(ask, CampaignState.PAUSED)


def resume(ask: Ask) -> Reply:
    """Goes on."""
    return _put(ask, CampaignState.RUNNING)


def stop(ask: Ask) -> Reply:
    """Takes no further slot, for good."""
    return _put(ask, CampaignState.STOPPED)


def _put(ask: Ask, state: CampaignState) -> Reply:
    numbers = [int(one) for one in ask.versions if one.isascii() and one.isdigit()]
    # A version that there never is: what was named is none.
    # The column has 32 bits: a database would fail where a greater number is asked for.
    behind = tuple(number for number in numbers if 0 < number < 2**31) or (-1,)
    name, reason = ask.names["campaign"], ask.body["reason"]
    found = campaigns.put(ask.plane, name, state, reason=reason, by=ask.by, behind=behind)
    return _one(found)


def query_of(words: Mapping[str, Any], where: str) -> CampaignQuery:
    """What a campaign is about. Raises :class:`Fault`."""
    before = words.get("certified_before")
    return CampaignQuery(
        model=words.get("model"),
        firmware=words.get("firmware"),
        host=words.get("host"),
        hold_code=words.get("hold_code"),
        certified_before=None
        if before is None
        else read_moment(before, f"{where}.certified_before"),
    )


def _one(found: CampaignView) -> Reply:
    acts = [
        {
            "version": one.version,
            "at": moment(one.at),
            "state": one.state,
            "reason": one.reason,
            "by": one.by and _by(one.by),
        }
        for one in found.acts
    ]
    said = {**_document(found.campaign), "slots": found.slots, "acts": acts}
    return Reply(said, version=str(found.campaign.version))


def _document(one: Campaign) -> dict[str, Any]:
    return {
        "id": one.id,
        "version": one.version,
        "state": one.state.value,
        "query": one.query,
        "reason": one.reason,
        "keep": one.keep,
        "by": _by(one.by),
        "created_at": moment(one.created_at),
        "changed_at": moment(one.changed_at),
    }


def _by(by: Initiator) -> dict[str, str]:
    return {"user": by.user, "project": by.project, "request_id": by.request}


def _line(one: CampaignSlotLine) -> dict[str, Any]:
    return {
        "slot": f"{one.host}_{one.address.upper()}",
        "step": one.step,
        "result": one.result,
        "certificate": one.certificate,
        "changed_at": moment(one.changed_at),
        "damaged": damaged(one.damaged),
    }


_READ: Final[dict[str, Any]] = {"default": policies.READER}
_ACT: Final[dict[str, Any]] = {
    "rule": "campaigns:set",
    "default": policies.AS_HOLD_AND_RELEASE,
    "changes": True,
    "response": schemas.CAMPAIGN_FULL,
}
_ONE: Final = "/v1/campaigns/{campaign}"

OPERATIONS: Final = (
    Operation(
        "GET",
        "/v1/campaigns",
        "List campaigns",
        find,
        "campaigns:list",
        query={"limit": schemas.LIMIT, "marker": schemas.MARKER},
        response=schemas.page("campaigns", schemas.CAMPAIGN),
        **_READ,
    ),
    Operation(
        "GET",
        "/v1/campaign-previews",
        "Say what a campaign would come to; nothing is changed",
        preview,
        "campaigns:preview",
        query={
            **schemas.CAMPAIGN_WORDS,
            "keep_percent": {"type": "integer", "minimum": 0, "maximum": 100},
            "limit": schemas.LIMIT,
        },
        response=schemas.CAMPAIGN_PREVIEWED,
        **_READ,
    ),
    Operation(
        "GET",
        _ONE,
        "Show a campaign",
        show,
        "campaigns:get",
        response=schemas.CAMPAIGN_FULL,
        **_READ,
    ),
    Operation(
        "PUT",
        _ONE,
        "Begin a campaign: slots are erased again; the same id again does nothing twice",
        begin,
        body=schemas.CAMPAIGN_WISH,
        creates=True,
        **_ACT,
    ),
    Operation(
        "GET",
        f"{_ONE}/slots",
        "List a campaign's slots, each with its result",
        lines,
        "campaigns:get",
        query={"limit": schemas.LIMIT, "marker": schemas.MARKER},
        response=schemas.page("slots", schemas.CAMPAIGN_SLOT),
        **_READ,
    ),
    Operation(
        "POST",
        f"{_ONE}/pause",
        "Have a campaign take no further slot",
        pause,
        body=schemas.DECISION,
        **_ACT,
    ),
    Operation(
        "POST",
        f"{_ONE}/resume",
        "Have a paused campaign go on",
        resume,
        body=schemas.DECISION,
        **_ACT,
    ),
    Operation(
        "POST", f"{_ONE}/stop", "End a campaign for good", stop, body=schemas.DECISION, **_ACT
    ),
)
