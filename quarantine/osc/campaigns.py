"""Campaigns, from the API."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from quarantine.cli.output import warn
from quarantine.cli.sources.source import CAMPAIGN, CampaignWish, CampaignWord, Columns, Members
from quarantine.errors import BadInputError
from quarantine.osc import documents
from quarantine.osc.client import Api, ApiAnswer
from quarantine.osc.documents import Document

_FULL: Final = (
    *("id", "version", "state", "query", "reason", "keep", "by", "created_at", "changed_at"),
    *("slots", "acts"),
)
_SLOT: Final = ("host", "address", "step", "result", "certificate", "changed_at")
_PREVIEW: Final = (
    *("slots", "in_use", "free", "held", "in_quarantine", "which", "drive_seconds"),
    *("pool_seconds", "at_a_time", "version"),
)


@dataclass(frozen=True)
class ToldInitiator:
    """Who decided something."""

    user: str
    project: str
    request: str


@dataclass(frozen=True)
class ToldAct:
    """What somebody decided of a campaign; None: the service."""

    version: int
    at: datetime | None
    state: str
    reason: str
    by: ToldInitiator | None


@dataclass(frozen=True)
class PreviewedSlot:
    """A slot that a campaign would be about."""

    host: str
    address: str
    state: str


class ApiCampaigns:
    """See :class:`quarantine.cli.sources.source.CampaignSource`."""

    def __init__(self, api: Api) -> None:
        self._api = api

    def each(self, *, limit: int | None) -> Columns:
        """By id."""
        return documents.rows_of(CAMPAIGN, _line, self._api.each("campaigns", limit=limit))

    def one(self, name: str) -> Members:
        """With its acts."""
        return _full(self._api.get("campaigns", name))

    def slots(self, name: str, *, limit: int | None) -> Columns:
        """By host and address."""
        found = self._api.each("campaigns", name, "slots", limit=limit)
        return documents.rows_of(_SLOT, _slot, found)

    def preview(self, wish: CampaignWish, *, first: int) -> Members:
        """Changes nothing."""
        words = [*_query(wish).items(), ("keep_percent", _percent(wish.keep))]
        found = self._api.get("campaign-previews", words=[*words, ("limit", str(first))])
        return documents.members_of(_PREVIEW, _previewed, found.document)

    def begin(self, name: str, wish: CampaignWish, *, reason: str, by: str) -> Members:
        """The same again does nothing; another one of this id is left as it is."""
        body = {"query": _query(wish), "keep": wish.keep, "reason": reason}
        if wish.seen:
            body["seen"] = wish.seen
        return _full(self._api.make("campaigns", name, body=body))

    def put(self, word: CampaignWord) -> Members:
        """Looks, says at what, and decides about just that."""
        if word.seen is None:
            found = self._api.get("campaigns", word.campaign)
            warn(f"{word.act}: {documents.understood(lambda: _told(found.document))}")
            version = found.seen
        else:
            version = str(word.seen)
        path = ("campaigns", word.campaign, word.act.value)
        return _full(self._api.act(*path, body={"reason": word.reason}, version=version))


def _query(wish: CampaignWish) -> dict[str, str]:
    before = wish.certified_before
    said = {
        "model": wish.model,
        "firmware": wish.firmware,
        "host": wish.host,
        "hold_code": wish.hold_code,
        "certified_before": None if before is None else before.isoformat(),
    }
    return {name: value for name, value in said.items() if value is not None}


def _percent(share: float) -> str:
    # The preview's query takes whole percents. Binary digits make 0.07 of 100 a little more than 7.
    percent = round(share * 100)
    if abs(percent - share * 100) > 1e-9:
        raise BadInputError(f"--keep: expected whole hundredths for a preview, found {share:g}")
    return str(percent)


def _told(one: Document) -> str:
    return f"campaign {one['id']} is {one['state']}, by {one['by']['user']}: {one['reason']}"


def _full(found: ApiAnswer) -> Members:
    return documents.members_of(_FULL, _campaign, found.document, found.doubt)


def _line(one: Document) -> dict[str, Any]:
    return {
        **one,
        "by": _by(one["by"]),
        "created_at": documents.moment(one["created_at"]),
        "changed_at": documents.moment(one["changed_at"]),
    }


def _campaign(one: Document) -> dict[str, Any]:
    acts = tuple(
        ToldAct(
            act["version"],
            documents.moment(act["at"]),
            act["state"],
            act["reason"],
            act["by"] and _by(act["by"]),
        )
        for act in one["acts"]
    )
    return {**_line(one), "slots": dict(one["slots"]), "acts": acts}


def _by(one: Mapping[str, Any]) -> ToldInitiator:
    return ToldInitiator(one["user"], one["project"], one["request_id"])


def _slot(one: Document) -> dict[str, Any]:
    host, address = documents.parts(one["slot"])
    moved = documents.moment(one["changed_at"])
    return {**one, "host": host, "address": address, "changed_at": moved}


def _previewed(one: Document) -> dict[str, Any]:
    which = tuple(PreviewedSlot(it["host"], it["address"], it["state"]) for it in one["which"])
    # An older release's has no version.
    return {"version": "", **one, "which": which}
