"""Campaigns: a list, one with the result of each slot, what one would come to, and decisions."""

from __future__ import annotations

import functools
import json
import logging
from collections.abc import Mapping
from typing import Any, Final

from quarantine.api import schemas
from quarantine.api.faults import Fault
from quarantine.api.resources.campaigns import query_of
from quarantine.errors import (
    BadInputError,
    ConflictError,
    IllegalTransitionError,
    QuarantineError,
    StaleError,
    StalePreviewError,
    UnknownError,
    UnreadableError,
)
from quarantine.operations import campaigns
from quarantine.operations.campaigns import (
    Campaign,
    CampaignForecast,
    CampaignSlotLine,
    CampaignState,
    CampaignView,
)
from quarantine.page import forms, submission, texts
from quarantine.page.render import Live, Piece, piece
from quarantine.page.view import PageView, Shown, Visit

LOG = logging.getLogger(__name__)

PAGE: Final = 25
"""Campaigns of a page: the slots of each are counted."""
SLOTS: Final = 200
"""Slots of a campaign on one page."""
FIRST: Final = 20
"""Slots that a preview names."""

OVER: Final = (CampaignState.STOPPED, CampaignState.DONE)

_ACTS: Final = {
    "pause": (
        CampaignState.PAUSED,
        (CampaignState.RUNNING,),
        "Pause",
        "It takes no further slot. What it took is finished.",
    ),
    "resume": (
        CampaignState.RUNNING,
        (CampaignState.PAUSED,),
        "Go on",
        "It takes slots again, as the pool can spare them.",
    ),
    "stop": (
        CampaignState.STOPPED,
        (CampaignState.RUNNING, CampaignState.PAUSED),
        "Stop for good",
        "It takes no further slot, and cannot be begun again under this id. What it took is "
        "finished.",
    ),
}
"""What each leads to, from where, and its words."""

_COMMANDS: Final = {
    "pause": "nvme-quarantine campaign pause",
    "resume": "nvme-quarantine campaign resume",
    "stop": "nvme-quarantine campaign stop",
}
_OTHER_SLOTS: Final = (
    "It is about other slots than when you looked, and nothing was done.",
    "The form below is of them as they are now.",
)
_FINAL: Final = frozenset({"stop"})
_SAME: Final = {
    "begin": submission.same("PUT", "/v1/campaigns/{campaign}"),
    **{name: submission.same("POST", f"/v1/campaigns/{{campaign}}/{name}") for name in _ACTS},
}
_WORDS: Final = tuple(schemas.CAMPAIGN_WORDS)
_OPTIONS: Final = {name: f"--{name.replace('_', '-')}" for name in _WORDS}
_CALLED: Final = {
    "model": "drives of model",
    "firmware": "that ran firmware",
    "host": "on host",
    "hold_code": "held for",
    "certified_before": "certified before",
}


def find(visit: Visit) -> Shown:
    """Those that are not over, then those that are."""
    every, start = campaigns.each(visit.plane), visit.query.get("from", 0)
    size = visit.most(PAGE)
    # Counting the slots of a campaign takes a question each: only those on this page are counted.
    shown = every[start : start + size]
    closely = visit.allows("campaigns:get")
    rows = [
        (
            one,
            _query_words(one),
            visit.url(f"/campaigns/{one.id}"),
            _progress_of(visit, one.id) if closely else None,
        )
        for one in shown
    ]
    after = start + size
    words = {
        "open": [row for row in rows if row[0].state not in OVER],
        "over": [row for row in rows if row[0].state in OVER],
        "count": len(every),
        "first": visit.url("/campaigns") if start else "",
        "following": visit.url("/campaigns", {"from": after}) if after < len(every) else "",
        "previews": visit.allows("campaigns:preview"),
        "begins": visit.allows("campaigns:set"),
        "closely": closely,
    }
    return Shown("campaigns.html", words)


def show(visit: Visit) -> Shown:
    """One."""
    return _campaign_page(visit)


def preview(visit: Visit) -> Shown:
    """What one would come to, and a form that begins it."""
    asked = _asked(visit.query)
    percent = visit.query.get("keep_percent", round(100 * campaigns.KEEP))
    return _preview_page(visit, asked, percent)


def begin(visit: Visit) -> Shown:
    """Begins the one that was looked at; it has to be about the same slots as it was then. A form
    that is sent twice leads to the campaign that it began.

    Raises :class:`Fault`: 400 for a share of slots that is no percentage.
    """
    fields = visit.sent()
    asked = _asked(fields)
    percent = _number(fields.get("keep_percent"))
    if percent is None or percent > 100:
        raise Fault(400, "bad-input", "keep_percent: expected 0 to 100")

    def again(status: int, said: str, detail: str = "") -> Shown:
        wrong = submission.Refused(status, said, detail)
        return submission.beside(
            visit,
            "campaigns:preview",
            wrong,
            lambda: _preview_page(visit, asked, percent, wrong, fields),
        )

    reason = fields.get("reason", "").strip()
    body = {"query": asked, "keep": percent / 100, "reason": reason}
    if wrong := submission.refused(body, _SAME["begin"]):
        return again(wrong.status, wrong.said, wrong.detail)
    name = fields.get("id", "").strip()
    query = query_of(asked, "form")
    try:
        # Counted anew: the number that was typed is held against the slots as they are now.
        now = campaigns.preview(visit.plane, query, keep=percent / 100, limit=0)
        seen = fields.get("seen", "")
        # Behind the preview, for one that was begun changes what it is about.
        if not _is_begun(visit, name):
            if seen != now.version:
                return again(412, *_OTHER_SLOTS)
            if not submission.typed(fields.get("confirm", ""), str(now.slots)):
                return again(400, "Nothing was done: what was typed is not the number of slots.")
        begun = campaigns.begin(
            visit.plane,
            name,
            query,
            reason=reason,
            by=visit.by,
            keep=percent / 100,
            seen=(seen,),
        )
    except StalePreviewError:
        # The narrowest first: each of these is the next one too.
        return again(412, *_OTHER_SLOTS)
    except StaleError as error:
        return again(412, "Nothing was done: another campaign has this id.", str(error))
    except (BadInputError, ConflictError) as error:
        status = 409 if isinstance(error, ConflictError) else 400
        return again(status, "Nothing was done.", str(error))
    return Shown(elsewhere=visit.url(f"/campaigns/{begun.campaign.id}", {"done": "1"}))


def _is_begun(visit: Visit, name: str) -> bool:
    try:
        campaigns.show(visit.plane, name)
    except UnknownError:
        return False
    return True


def decide(visit: Visit, name: str) -> Shown:
    """Pause, go on, or stop."""
    fields = visit.sent()
    called, reason = visit.names["campaign"], fields.get("reason", "").strip()
    state = _ACTS[name][0]

    def again(status: int, said: str, detail: str = "") -> Shown:
        wrong = submission.Refused(status, said, detail)
        return submission.beside(
            visit, "campaigns:get", wrong, lambda: _campaign_page(visit, wrong, fields, name)
        )

    if wrong := submission.refused({"reason": reason}, _SAME[name]):
        return again(wrong.status, wrong.said, wrong.detail)
    # Compared here for the words, and by the operation for good.
    version = _number(fields.get("version"))
    if campaigns.show(visit.plane, called).campaign.version != version:
        return again(412, *submission.STALE)
    if name in _FINAL and not submission.typed(fields.get("confirm", ""), called):
        return again(400, "Nothing was done: what was typed is not its id.")
    try:
        campaigns.put(visit.plane, called, state, reason=reason, by=visit.by, behind=(version,))
    except StaleError:
        return again(412, *submission.STALE)
    except (ConflictError, IllegalTransitionError) as error:
        return again(409, "Nothing was done.", str(error))
    return Shown(elsewhere=visit.url(_path(visit), {"done": "1"}))


def _campaign_page(
    visit: Visit,
    wrong: submission.Refused | None = None,
    fields: Mapping[str, str] | None = None,
    act: str = "",
) -> Shown:
    view = campaigns.show(visit.plane, visit.names["campaign"])
    one, path = view.campaign, visit.url(f"/campaigns/{view.campaign.id}")
    size, marker = visit.most(SLOTS), visit.query.get("marker", "_")
    host, _, address = marker.rpartition("_")
    lines = campaigns.lines(visit.plane, one.id, limit=size, after=(host, address.lower()))
    rows = [_row(visit, number, line) for number, line in enumerate(lines)]
    following = ""
    if len(lines) == size:
        following = visit.url(f"/campaigns/{one.id}", {"marker": _slot_name(lines[-1])})
    possible = [
        _act(visit, one, name)
        for name, (_state, from_states, *_words) in _ACTS.items()
        if one.state in from_states and visit.allows("campaigns:set")
    ]
    # Whoever can decide nothing needs no secret, and the page may be kept by the browser.
    opened = forms.opened(visit.req, visit.user) if possible else forms.NOTHING
    progress = _progress(visit, view)
    pieces = [
        piece("now", "campaign_pieces.html", "now", one, progress, visit.now),
        piece("acts-done", "campaign_pieces.html", "life", view.acts[::-1]),
        *rows,
    ]
    words = {
        "campaign": one,
        "query": _query_words(one),
        "path": path,
        # Not the address of an act that was refused, under which no page is.
        "looked_at": visit.url(
            f"/campaigns/{one.id}", {"marker": marker} if "marker" in visit.query else {}
        ),
        "rows": rows,
        "following": following,
        "first": path if "marker" in visit.query else "",
        "acts": possible,
        "token": opened.token,
        "wrong": wrong,
        "fields": fields or {},
        "tried": act,
        "last": view.acts[-1] if visit.query.get("done") and view.acts else None,
    }
    live = Live(pieces, {"rows": [row.id for row in rows]}, str(one.version))
    return Shown("campaign.html", words, live, wrong.status if wrong else 200, opened.headers)


def _preview_page(
    visit: Visit,
    asked: Mapping[str, str],
    percent: int,
    wrong: submission.Refused | None = None,
    fields: Mapping[str, str] | None = None,
) -> Shown:
    found: CampaignForecast | None = None
    # Nothing asked for: the empty form.
    if asked:
        try:
            found = campaigns.preview(
                visit.plane,
                query_of(asked, "query"),
                keep=percent / 100,
                limit=visit.most(FIRST),
            )
        except BadInputError as error:
            # What was wrong with an act comes before what is wrong with the preview of its query.
            wrong = wrong or submission.Refused(400, "It cannot be said.", str(error))
    # One that is about no slot is not begun.
    begins = visit.allows("campaigns:set") and found is not None and found.slots > 0
    opened = forms.opened(visit.req, visit.user) if begins else forms.NOTHING
    options = [f"{_OPTIONS[name]} {texts.quoted(value)}" for name, value in asked.items()]
    by = texts.quoted(visit.context.user_name or visit.user)
    seen = ("--seen", found.version) if found else ()
    words = {
        "asked": asked,
        "keep_percent": percent,
        "query": _said(asked),
        "found": found,
        "begins": begins,
        "token": opened.token,
        "wrong": wrong,
        "fields": fields or {},
        "command": " ".join(
            (
                *("nvme-quarantine", "campaign", "begin", *options),
                *("--keep", f"{percent / 100:g}", *seen, "--by", by, "--reason"),
            )
        ),
    }
    status = wrong.status if wrong else 200
    return Shown("campaign_preview.html", words, status=status, headers=opened.headers)


def _progress_of(visit: Visit, name: str) -> dict[str, Any] | None:
    """None where it cannot be read: what is damaged of one hides no other in a list."""
    try:
        return _progress(visit, campaigns.show(visit.plane, name))
    except UnreadableError as error:
        LOG.warning("%s", error)
        return None


def _progress(visit: Visit, view: CampaignView) -> dict[str, Any]:
    """How many slots have their result, what it is, and what the pool misses meanwhile."""
    steps = view.slots
    ended = sum(steps.get(one, 0) for one in campaigns.ENDED)
    total = sum(steps.values())
    try:
        # One figure of many: without it the page has all the others.
        missing: int | None = campaigns.missing(visit.plane, view.campaign.id)
    except QuarantineError:
        missing = None
    return {
        "steps": {str(one): steps[one] for one in campaigns.CampaignStep if steps.get(one)},
        "ended": ended,
        "total": total,
        "missing": missing,
        "keep": round(100 * view.campaign.keep),
    }


def _row(visit: Visit, number: int, line: CampaignSlotLine) -> Piece:
    """Which slots it has, and so the number of each on a page, stays."""
    link = visit.url(f"/slots/{_slot_name(line)}")
    certificate = visit.url(f"/certificates/{line.certificate}") if line.certificate else ""
    return piece(f"c{number}", "campaign_pieces.html", "row", line, link, certificate, visit.now)


def _slot_name(line: CampaignSlotLine) -> str:
    return f"{line.host}_{line.address.upper()}"


def _act(visit: Visit, one: Campaign, name: str) -> dict[str, Any]:
    _state, _from, title, what = _ACTS[name]
    by = texts.quoted(visit.context.user_name or visit.user)
    return {
        "name": name,
        "title": title,
        "what": what,
        "final": name in _FINAL,
        "command": f"{_COMMANDS[name]} {texts.quoted(one.id)} --by {by} --reason",
    }


def _query_words(one: Campaign) -> str:
    """What it is about, as people say it; as it is where another release wrote it."""
    try:
        said = json.loads(one.query)
    except ValueError:
        return one.query
    if not isinstance(said, dict) or not all(isinstance(value, str) for value in said.values()):
        return one.query
    return _said(said)


def _asked(words: Mapping[str, str]) -> dict[str, str]:
    """The query; its time in UTC where no zone is named. Raises :class:`Fault`."""
    asked = {name: words[name].strip() for name in _WORDS if words.get(name, "").strip()}
    if before := asked.get("certified_before"):
        at = texts.read_time(before)
        if at is None:
            raise Fault(400, "bad-input", "certified before: expected a time as 2026-11-24 18:00")
        asked["certified_before"] = texts.iso(at)
    return asked


def _said(asked: Mapping[str, str]) -> str:
    return ", ".join(f"{_CALLED.get(name, name)} {value}" for name, value in asked.items())


def _path(visit: Visit) -> str:
    return f"/campaigns/{texts.in_path(visit.names['campaign'])}"


def _number(text: str | None) -> int | None:
    return int(text) if text and text.isascii() and text.isdigit() and len(text) < 10 else None


_QUERY: Final[dict[str, Any]] = {
    "marker": schemas.MARKER,
    "done": {"enum": ["1"]},
}

VIEWS: Final = (
    PageView(
        "/campaigns",
        "campaigns:list",
        find,
        query={"from": {"type": "integer", "minimum": 0, "maximum": 10**6}},
    ),
    PageView("/campaigns/{campaign}", "campaigns:get", show, query=_QUERY),
    PageView(
        "/campaign-preview",
        "campaigns:preview",
        preview,
        query={
            **schemas.CAMPAIGN_WORDS,
            "certified_before": schemas.NAME,
            "keep_percent": {"type": "integer", "minimum": 0, "maximum": 100},
        },
    ),
    *submission.views(
        "/campaign-preview/begin",
        "campaigns:set",
        begin,
        lambda _visit: "/campaign-preview",
        "campaigns:preview",
    ),
    *(
        view
        for name in _ACTS
        for view in submission.views(
            f"/campaigns/{{campaign}}/{name}",
            "campaigns:set",
            functools.partial(decide, name=name),
            _path,
            "campaigns:get",
        )
    ),
)
