"""Maintenance of hosts and slots: a list, one's, and beginning, changing and ending it."""

from __future__ import annotations

from datetime import UTC, timedelta
from typing import Any, Final
from urllib.parse import quote

from quarantine.api import schemas
from quarantine.api.resources.maintenances import read_marker
from quarantine.errors import BadInputError, ConflictError, StaleError, UnknownError
from quarantine.operations import maintenance, slots
from quarantine.operations.maintenance import Maintenance, Subject
from quarantine.page import forms, submission, texts
from quarantine.page.view import PageView, Shown, Visit

PAGE: Final = 100
HISTORY: Final = 200
"""Words about one subject: the newest."""
USUAL: Final = timedelta(hours=2)
"""What a form proposes."""

_SAME: Final = {
    "begin": submission.same("PUT", "/v1/hosts/{host}/maintenance"),
    "end": submission.same("POST", "/v1/hosts/{host}/maintenance/end"),
}


def find(visit: Visit) -> Shown:
    """Those that are in effect; or with a name typed the place of what is called so."""
    # Sent on to the subject's own address, which has the forms, also where it is in no maintenance.
    if subject := visit.query.get("subject", "").strip():
        return Shown(elsewhere=visit.url(_path(_called(visit, subject))))
    marker, size = visit.query.get("marker"), visit.most(PAGE)
    after = None if marker is None else read_marker(marker)
    found = maintenance.page(visit.plane, limit=size, after=after)
    following = ""
    if len(found) == size:
        last = found[-1].subject
        following = visit.url("/maintenances", {"marker": f"{last.host}_{last.address}"})
    words = {
        "rows": [(one, visit.url(_path(one.subject))) for one in found],
        "following": following,
        "first": visit.url("/maintenances") if marker is not None else "",
        "sets": visit.allows("maintenances:set"),
    }
    return Shown("maintenances.html", words)


def show(visit: Visit) -> Shown:
    """That of one host or slot, what was said of it before, and forms."""
    return _subject_page(visit)


def begin(visit: Visit) -> Shown:
    """Begins one, or gives it another end and reason."""
    fields = visit.sent()
    subject, reason = _subject(visit), fields.get("reason", "").strip()
    until = texts.read_time(fields.get("until", ""))
    if until is None:
        said = "Nothing was done: when does it end?", "As in 2026-11-24 18:00, in UTC."
        return _again(visit, submission.Refused(400, *said), fields, "begin")
    wrong = submission.refused({"reason": reason, "until": texts.iso(until)}, _SAME["begin"])
    if wrong:
        return _again(visit, wrong, fields, "begin")
    try:
        maintenance.begin(
            visit.plane,
            subject,
            until=until,
            reason=reason,
            by=visit.by,
            behind=_behind(fields),
        )
    except (BadInputError, ConflictError) as error:
        return _again(visit, _why(error), fields, "begin")
    return _done(visit, subject)


def end(visit: Visit) -> Shown:
    """Ends one before its time."""
    fields = visit.sent()
    subject, reason = _subject(visit), fields.get("reason", "").strip()
    wrong = submission.refused({"reason": reason}, _SAME["end"])
    if wrong:
        return _again(visit, wrong, fields, "end")
    try:
        maintenance.end(visit.plane, subject, reason=reason, by=visit.by, behind=_behind(fields))
    except (BadInputError, ConflictError) as error:
        return _again(visit, _why(error), fields, "end")
    return _done(visit, subject)


def _again(visit: Visit, wrong: submission.Refused, fields: dict[str, str], act: str) -> Shown:
    return submission.beside(
        visit, "maintenances:get", wrong, lambda: _subject_page(visit, wrong, fields, act)
    )


def _subject_page(
    visit: Visit,
    wrong: submission.Refused | None = None,
    fields: dict[str, str] | None = None,
    act: str = "",
) -> Shown:
    subject = _subject(visit)
    most = visit.most(HISTORY)
    # One more than is shown, to know whether there is more.
    before = maintenance.newest(visit.plane, subject, most + 1)
    try:
        present: Maintenance | None = maintenance.show(visit.plane, subject)
    except UnknownError:
        present = None
    sets = visit.allows("maintenances:set")
    opened = forms.opened(visit.req, visit.user) if sets else forms.NOTHING
    # The end that it has now, else the usual one.
    proposed = present.until if present and present.until else visit.now + USUAL
    words = {
        "subject": subject,
        "path": visit.url(_path(subject)),
        "above": visit.url(_path(subject).removesuffix("/maintenance")),
        "host": visit.url(_path(Subject(subject.host))) if subject.address else "",
        "present": present,
        "before": before[:most],
        "older": len(before) > most,
        "sets": sets,
        "token": opened.token,
        "version": present.version if present else 0,
        "until": f"{proposed.astimezone(UTC):%Y-%m-%dT%H:%M}",
        "command": texts.quoted(str(subject).removeprefix("host ")),
        "by": texts.quoted(visit.context.user_name or visit.user),
        "wrong": wrong,
        "fields": fields or {},
        "tried": act,
        "done": bool(visit.query.get("done")),
    }
    status = wrong.status if wrong else 200
    return Shown("maintenance.html", words, status=status, headers=opened.headers)


def _why(error: Exception) -> submission.Refused:
    if isinstance(error, StaleError):
        return submission.Refused(412, *submission.STALE)
    if isinstance(error, ConflictError):
        return submission.Refused(409, "Nothing was done.", str(error))
    return submission.Refused(400, "Nothing was done.", str(error))


def _done(visit: Visit, subject: Subject) -> Shown:
    visit.snapshots.forget()  # what is late and silent is another count now
    return Shown(elsewhere=visit.url(_path(subject), {"done": "1"}))


def _behind(fields: dict[str, str]) -> tuple[int, ...]:
    given = fields.get("version", "")
    # A version that there never is: what was looked at is none.
    return (int(given),) if given.isascii() and given.isdigit() and len(given) < 10 else (-1,)


def _subject(visit: Visit) -> Subject:
    if "host" in visit.names:
        return Subject(visit.names["host"])
    return Subject.of(slots.named(visit.plane, visit.names["slot"]))


def _called(visit: Visit, words: str) -> Subject:
    """A host, or a slot as it is called anywhere."""
    # A PCI address has colons, a host's name has none.
    if ":" not in words:
        return Subject(words)
    return Subject.of(slots.named(visit.plane, words.replace("/", "_")))


def _path(subject: Subject) -> str:
    """Quoted: it goes into a header."""
    if not subject.address:
        return f"/hosts/{quote(subject.host, safe='')}/maintenance"
    # As Nova names the provider, and not by a Slot: a damaged row has an address that is none, and
    # would be the end of the whole list.
    name = f"{subject.host}_{subject.address.upper()}"
    return f"/slots/{quote(name, safe=':')}/maintenance"


def _back(visit: Visit) -> str:
    if "host" in visit.names:
        return f"/hosts/{quote(visit.names['host'], safe='')}/maintenance"
    return f"/slots/{quote(visit.names['slot'], safe=':')}/maintenance"


_QUERY: Final[dict[str, Any]] = {"done": {"enum": ["1"]}}
_ACTS: Final = (("begin", begin), ("end", end))

VIEWS: Final = (
    PageView(
        "/maintenances",
        "maintenances:list",
        find,
        query={"marker": schemas.MARKER, "subject": schemas.NAME},
    ),
    *(
        view
        for path in ("/hosts/{host}/maintenance", "/slots/{slot}/maintenance")
        for view in (
            PageView(path, "maintenances:get", show, query=_QUERY),
            *(
                one
                for name, act in _ACTS
                for one in submission.views(
                    f"{path}/{name}", "maintenances:set", act, _back, "maintenances:get"
                )
            ),
        )
    ),
)
