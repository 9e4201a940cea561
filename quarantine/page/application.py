"""The page's place in the API's process: routes, headers of every answer, and errors in words."""

from __future__ import annotations

import json
import logging
import zlib
from collections import defaultdict
from collections.abc import Iterable, Mapping
from http import HTTPStatus
from typing import Any, Final

import falcon

from quarantine.api import documents, faults
from quarantine.api.application import REQUEST_ID, MountPoint
from quarantine.api.auth import CONTEXT, Application, Environ, StartResponse, unknown_caller
from quarantine.api.faults import Fault
from quarantine.api.keystone import Keystone
from quarantine.api.policies import Authority, rule
from quarantine.operations.plane import ServingPlane
from quarantine.page import login, render
from quarantine.page.policy import HEADERS
from quarantine.page.routes import VIEWS
from quarantine.page.snapshot import Snapshots
from quarantine.page.view import PageView, Shown, Visit

LOG = logging.getLogger(__name__)

PREFIX: Final = "/page"
PUBLIC: Final = f"{PREFIX}/static/"

_TITLES: Final = {
    400: "That was not understood",
    401: "Who are you?",
    403: "Not allowed",
    404: "Not found",
    405: "Not like that",
    409: "Not as it is now",
    412: "It has changed since you looked",
    429: "Too often",
    500: "An error of ours",
    503: "Something does not answer",
}

_DONE: Final = {
    "outcome-unread": "It is decided, and cannot be shown now",
    "unfinished": "It ended in the middle",
}
"""Titles of faults after which something may be done: that matters more than what is away."""

_HTML: Final = "text/html; charset=utf-8"


def make(plane: ServingPlane, authority: Authority) -> Application:
    """The page's own application, behind the API's guard."""
    app: falcon.App[Any, Any] = falcon.App(media_type=_HTML)
    # Forms are read by forms.read alone, which is strict.
    app.req_options.auto_parse_form_urlencoded = False
    app.req_options.keep_blank_qs_values = True
    app.req_options.strip_url_path_trailing_slash = True
    app.add_error_handler(Exception, _failed)
    app.set_error_serializer(_serialize)
    snapshots = Snapshots(plane)
    by_path: dict[str, list[PageView]] = defaultdict(list)
    for view in VIEWS:
        by_path[view.path].append(view)
    for path, views in by_path.items():
        app.add_route(f"{PREFIX}{path}", _PageResource(plane, authority, snapshots, views))
    app.add_route(f"{PUBLIC}{{name}}", _Static())
    if login.offered(plane.conf):
        keystone = Keystone(plane.conf)
        app.add_route(login.LOGIN, login.LoginPlace(plane, keystone))
        app.add_route(login.LOGOUT, login.LogoutPlace(keystone))
    found: Application = app
    return found


def answer(environ: Environ, start: StartResponse, fault: Fault) -> Iterable[bytes]:
    """A fault as a whole page."""
    headers, cookies = {**HEADERS, **fault.headers}, list[str]()
    # The form takes the place of the page that was asked for, so its answer has a token in it.
    if fault.status == 401 and environ.get(login.OFFERED):
        raw, cookies = login.unknown_caller(environ)
        headers["Cache-Control"] = "no-store, private"
    else:
        raw = _fault_page(environ, fault)
        headers |= _kept(environ)
    headers |= {"Content-Type": _HTML, "Content-Length": str(len(raw))}
    said = [*headers.items(), *(("Set-Cookie", cookie) for cookie in cookies)]
    start(falcon.code_to_http_status(fault.status), said)
    return [] if environ.get("REQUEST_METHOD") == "HEAD" else [raw]


def _is_public(path: str) -> bool:
    return path.startswith(PUBLIC) or path in (login.LOGIN, login.LOGOUT)


MOUNT: Final = MountPoint(PREFIX, _is_public, make, answer, login.enter)


class _Static:
    """Style, script, icon: the same for everybody."""

    def on_get(self, req: falcon.Request, resp: falcon.Response, name: str) -> None:
        if name not in render.STATIC:
            raise Fault(404, "unknown", "expected a file of the page, found none")
        _dress(resp)
        resp.content_type = render.TYPES[name]
        resp.data = render.STATIC[name]
        # The address has the mark of this very text. Under another mark, as after an upgrade, it
        # must not be kept for ever.
        if req.get_param("v") == render.MARKS[name]:
            resp.set_header("Cache-Control", "public, max-age=31536000, immutable")

    on_head = on_get


class _PageResource:
    """A path."""

    def __init__(
        self,
        plane: ServingPlane,
        authority: Authority,
        snapshots: Snapshots,
        views: Iterable[PageView],
    ) -> None:
        self._plane = plane
        self._authority = authority
        self._snapshots = snapshots
        for view in views:
            setattr(self, f"on_{view.method.lower()}", self._responder(view))
            if view.method == "GET":
                setattr(self, "on_head", self._responder(view))  # noqa: B010

    def _responder(self, view: PageView) -> Any:
        def respond(req: falcon.Request, resp: falcon.Response, **names: str) -> None:
            context = req.env.get(CONTEXT)
            # No view is public: without a caller from the guard nothing is shown.
            if context is None:
                raise unknown_caller()

            def allows(name: str) -> bool:
                return self._authority.allows(context, name, {})

            # Before a word of the request is read, as in the API.
            if not allows(view.rule):
                raise Fault(403, "forbidden", f"expected a caller with the rule {rule(view.rule)}")
            documents.check_names(names)
            visit = Visit(
                self._plane,
                self._snapshots,
                req,
                names,
                view.read_query(req),
                context,
                allows,
                req.root_path,
            )
            _send(visit, resp, view.show(visit))

        return respond


def _send(visit: Visit, resp: falcon.Response, shown: Shown) -> None:
    resp.status = shown.status
    _dress(resp)
    resp.set_headers(_kept(visit.req.env))
    for name, value in shown.headers.items():
        # Falcon refuses it as a plain header: there may be several.
        if name == "Set-Cookie":
            resp.append_header(name, value)
        else:
            resp.set_header(name, value)
    if shown.elsewhere:
        resp.status = 303
        resp.set_header("Location", shown.elsewhere)
    elif shown.raw is not None:
        resp.content_type, resp.data = shown.media_type, shown.raw
    elif visit.query.get("part") and shown.live is not None:
        # The script of an open page asks for what has changed, and draws no page.
        _send_part(visit.req, resp, shown)
    else:
        words = {"live": shown.live.by_id() if shown.live else {}, **shown.words}
        resp.content_type = _HTML
        resp.data = render.page(shown.template, {**_common(visit), **words})


def _send_part(req: falcon.Request, resp: falcon.Response, shown: Shown) -> None:
    assert shown.live is not None
    raw = json.dumps(shown.live.plain(), separators=(",", ":")).encode()
    # A mark for equal bytes, and no defence: a collision shows an old piece until the next change.
    tag = f'"{zlib.crc32(raw):08x}-{len(raw)}"'
    resp.set_header("ETag", tag)
    if req.get_header("If-None-Match") == tag:
        resp.status = 304
        return
    resp.content_type = "application/json"
    resp.data = raw


def _common(visit: Visit) -> dict[str, Any]:
    places = (
        ("Triage", "", "slots:list"),
        ("Slots", "/slots", "slots:list"),
        ("Drives", "/drives", "drives:list"),
        ("Fleet", "/fleet", "capacity:get"),
        ("Hosts", "/hosts", "hosts:list"),
        ("Alarms", "/alarms", "alarms:list"),
        ("History", "/history", "history:list"),
        ("Campaigns", "/campaigns", "campaigns:list"),
        ("Maintenance", "/maintenances", "maintenances:list"),
        ("Certificates", "/certificates", "certificates:list"),
    )
    return {
        **login.words(visit.req),
        "url": visit.url,
        "user": visit.context.user_name or visit.user,
        "now": visit.now,
        "places": [(words, visit.url(path)) for words, path, name in places if visit.allows(name)],
        "here": visit.root + visit.req.path,
        "again": visit.req.relative_uri,
    }


def _dress(resp: falcon.Response) -> None:
    for name, value in HEADERS.items():
        resp.set_header(name, value)


def _kept(environ: Environ) -> dict[str, str]:
    """Of a page for who is logged in here nothing is there for who comes after the logout."""
    return {"Cache-Control": "no-store, private"} if environ.get(login.BY_COOKIE) else {}


def _failed(
    req: falcon.Request, resp: falcon.Response, error: Exception, _names: Mapping[str, Any]
) -> None:
    _write(req, resp, faults.of(error))


def _serialize(req: falcon.Request, resp: falcon.Response, error: falcon.HTTPError) -> None:
    """Falcon's own."""
    status = error.status_code
    words = {404: "expected a page of this site, found none", 405: "expected another method"}
    default = str(error.description or error.title or "")
    _write(req, resp, Fault(status, "refused", words.get(status, default)))


def _write(req: falcon.Request, resp: falcon.Response, fault: Fault) -> None:
    resp.status = fault.status
    _dress(resp)
    resp.set_headers(_kept(req.env))
    for name, value in fault.headers.items():
        resp.set_header(name, value)
    resp.content_type = _HTML
    resp.data = _fault_page(req.env, fault)


def _fault_page(environ: Environ, fault: Fault) -> bytes:
    root = environ.get("SCRIPT_NAME", "")
    try:
        phrase = HTTPStatus(fault.status).phrase
    except ValueError:
        phrase = "Error"
    words = {
        **render.nobody(root),
        # Who logged in and may see nothing has no other page to leave from.
        **login.words(falcon.Request(environ)),
        "again": f"{root}{PREFIX}",
        "title": _DONE.get(fault.code) or _TITLES.get(fault.status, phrase),
        "status": fault.status,
        "detail": fault.detail[: faults.MAX_DETAIL],
        "decided": fault.code in _DONE,
        "request_id": environ.get(REQUEST_ID, ""),
    }
    return render.page("fault.html", words)
