"""The pipeline, in code: ids and errors outside, then who is it, then what may be asked."""

from __future__ import annotations

import logging
import re
import time
import uuid
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import falcon
from oslo_config import cfg

from quarantine.api import auth, documents, faults, hostnames
from quarantine.api.auth import CONTEXT, Answer, Application, Environ, StartResponse
from quarantine.api.faults import Fault
from quarantine.api.operation import Ask, Operation, Reply, tags
from quarantine.api.policies import Authority, rule
from quarantine.api.routes import OPERATIONS, PUBLIC, RULES
from quarantine.errors import BadInputError
from quarantine.logs import AUDIT, named, require_audit
from quarantine.operations.plane import ServingPlane

LOG = logging.getLogger(__name__)

ANSWERED: Final = "nvme_quarantine.answered"
REQUEST_ID: Final = "openstack.request_id"
GLOBAL_REQUEST_ID: Final = "openstack.global_request_id"
_ID: Final = re.compile(r"req-[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", re.ASCII)

_READING: Final = ("GET", "HEAD")

_ALWAYS: Final = (
    ("X-Content-Type-Options", "nosniff"),
    ("Cache-Control", "no-cache, private"),
    ("Content-Security-Policy", "default-src 'none'; frame-ancestors 'none'"),
)

_NO_AUDIT: Final = (
    "an act of people is written down, and the file for it cannot be written: nothing was done. "
    "The log has the reason under this request's id"
)

_UNKNOWN: Final = "expected a path of the API, found another; /v1/openapi.json has them all"


@dataclass(frozen=True)
class MountPoint:
    """Another skin over the same operations, in the same process, behind the same guard."""

    prefix: str
    """Its paths are this one, and those below it."""
    is_public: Callable[[str], bool]
    """Whether a path of it is answered to everybody."""
    make: Callable[[ServingPlane, Authority], Application]
    answer: Answer
    """Says a fault as its callers read it."""
    enter: Callable[[cfg.ConfigOpts, Environ], None]
    """Whoever its callers are, before the guard asks: what a browser keeps of that is for this skin
    alone."""

    def has(self, environ: Environ) -> bool:
        """Whether a request is for it."""
        path = environ.get("PATH_INFO") or "/"
        return bool(path == self.prefix or path.startswith(f"{self.prefix}/"))


def make(plane: ServingPlane, mount: MountPoint | None = None) -> Application:
    """The application. Raises ``BadInputError`` for a configuration that cannot work."""
    conf = plane.conf
    authority = Authority(conf, RULES)
    inner: Application = _router(plane, authority)
    if mount is None:
        say: Answer = answer
    else:
        inner, say = _mounted(inner, mount.make(plane, authority), mount)
    # Both ways begin without claims: a public path must not believe them either.
    guarded = auth.without_claims(auth.guarded(conf, inner, say))
    open_to_all = auth.without_claims(inner)

    def application(environ: Environ, start: StartResponse) -> Iterable[bytes]:
        path = environ["PATH_INFO"]
        public = path in PUBLIC
        if mount is not None and mount.has(environ):
            # Before the guard: a browser's cookie becomes the token that the guard looks for.
            mount.enter(conf, environ)
            public = mount.is_public(path)
        return (open_to_all if public else guarded)(environ, start)

    def acts(environ: Environ) -> bool:
        # Whoever logs in or out does nothing to a drive, and out he must come at any time.
        path = environ.get("PATH_INFO") or "/"
        return _acts(environ) and not (
            mount is not None and mount.has(environ) and mount.is_public(path)
        )

    return Envelope(_asked_by_name(conf, application, say), say, acts)


def _acts(environ: Environ) -> bool:
    return environ.get("REQUEST_METHOD") not in _READING


def _asked_by_name(conf: cfg.ConfigOpts, application: Application, say: Answer) -> Application:
    known = hostnames.guarded(conf, application, say, PUBLIC)

    def asked(environ: Environ, start: StartResponse) -> Iterable[bytes]:
        # PEP 3333 lets it be empty or missing where the application's own root is asked for.
        environ["PATH_INFO"] = environ.get("PATH_INFO") or "/"
        return known(environ, start)

    return asked


def _mounted(
    inner: Application, other: Application, mount: MountPoint
) -> tuple[Application, Answer]:
    def dispatched(environ: Environ, start: StartResponse) -> Iterable[bytes]:
        if mount.has(environ):
            _mark(environ)
            return other(environ, start)
        reads = environ.get("REQUEST_METHOD") in _READING
        # The API's root has the versions for programs; a person who opens it wants the page.
        if reads and environ.get("PATH_INFO") == "/" and _is_browser(environ):
            _mark(environ)
            where = environ.get("SCRIPT_NAME", "") + mount.prefix
            kind = ("Content-Type", "text/html; charset=utf-8")
            start("303 See Other", [("Location", where), ("Content-Length", "0"), kind])
            return []
        return inner(environ, start)

    def say(environ: Environ, start: StartResponse, fault: Fault) -> Iterable[bytes]:
        if mount.has(environ):
            _mark(environ)
            return mount.answer(environ, start, fault)
        return answer(environ, start, fault)

    return dispatched, say


def _is_browser(environ: Environ) -> bool:
    """It names HTML before anything else; programs that take whatever comes get JSON."""
    first = environ.get("HTTP_ACCEPT", "").partition(",")[0]
    return bool(first.partition(";")[0].strip().lower() == "text/html")


class Envelope:
    """Ids in and out and in each line of the log, and every error in the one format."""

    def __init__(
        self,
        application: Application,
        say: Answer | None = None,
        acts: Callable[[Environ], bool] = _acts,
    ) -> None:
        """``acts``: whether a request is one that is written down."""
        self._application = application
        self._say = say or answer
        self._acts = acts

    def __call__(self, environ: Environ, start: StartResponse) -> Iterable[bytes]:
        request_id = f"req-{uuid.uuid4()}"
        environ[REQUEST_ID] = request_id
        given = environ.get("HTTP_X_OPENSTACK_REQUEST_ID", "")
        # Anybody can send one, and it goes into the log: only what has the form of an id does.
        environ.pop(GLOBAL_REQUEST_ID, None)
        if _ID.fullmatch(given):
            environ[GLOBAL_REQUEST_ID] = given
        ids = {"request_id": request_id, "global_request_id": environ.get(GLOBAL_REQUEST_ID, "")}
        with named(**ids):
            body = self._answer(environ, start, request_id)
        # Lines of a stream are made while it is sent.
        return body if isinstance(body, list | tuple) else _Named(body, ids)

    def _answer(self, environ: Environ, start: StartResponse, request_id: str) -> Iterable[bytes]:
        begun = time.monotonic()
        environ[ANSWERED] = answered = _Answered()

        def started(status: str, headers: list[tuple[str, str]], info: Any = None) -> Any:
            answered.status = int(status.split(" ", 1)[0])
            said = {name.lower() for name, _value in headers}
            # An error without our mark comes from a library, such as Keystone's middleware. Its
            # start and its body are dropped, and only the headers that a client acts on are kept.
            if answered.status >= 400 and not answered.ours:
                answered.foreign = True  # of a library in between: said again in our words
                answered.headers = {
                    name: value
                    for name, value in headers
                    if name.lower() in ("www-authenticate", "retry-after", "allow")
                }
                return lambda _data: None
            own = [(name, value) for name, value in _ALWAYS if name.lower() not in said]
            return start(status, [*headers, ("X-Openstack-Request-Id", request_id), *own], info)

        acts, writable = self._acts(environ), False
        try:
            # Before anything is done: an act that cannot be written down must not happen.
            if acts:
                _require_audit()
                writable = True
            body = self._application(environ, started)
            if answered.foreign:
                # PEP 3333: a body that is not sent is closed all the same.
                close = getattr(body, "close", None)
                if close is not None:
                    close()
                body = self._say(environ, started, answered.fault())
        except Exception as error:
            body = self._say(environ, started, faults.of(error))
        LOG.info(
            "%s %s %r %s %.3f s",
            environ.get("REMOTE_ADDR", "-"),
            environ.get("REQUEST_METHOD", "-")[:20],
            environ.get("PATH_INFO", "")[:500],
            answered.status,
            time.monotonic() - begun,
        )
        # After the answer is known: with its status, and with the caller whom the guard found. Of
        # nobody's requests the line above is enough: they were refused, and anybody who reaches us
        # could fill the disk of what people do. Of those that were refused for the file itself it
        # is not known whose they were: they count as missing in it.
        if acts and (environ.get(CONTEXT) is not None or not writable):
            _audit(environ, answered.status)
        return body


def _require_audit() -> None:
    """What cannot be written down is not done; the log alone has the file's name."""
    try:
        require_audit()
    except BadInputError as error:
        LOG.error("%s", error)
        raise Fault(503, "unavailable", _NO_AUDIT, {"Retry-After": "10"}) from error


def _audit(environ: Environ, status: int) -> None:
    """Who asked for it is known by now, if ever; the reason is in the history, by the request."""
    context = environ.get(CONTEXT)
    AUDIT.info(
        "%s %r: %s, by user %s of project %s from %s",
        environ.get("REQUEST_METHOD", "-")[:20],
        environ.get("PATH_INFO", "")[:500],
        status,
        getattr(context, "user_id", None) or "unknown",
        getattr(context, "project_id", None) or "unknown",
        environ.get("REMOTE_ADDR", "-"),
    )


class _Named:
    """A body whose lines in the log have the request's ids too."""

    def __init__(self, body: Iterable[bytes], ids: Mapping[str, str]) -> None:
        self._body = body
        self._ids = ids

    def __iter__(self) -> Iterator[bytes]:
        parts = iter(self._body)
        while True:
            # Only while a part is made: the ids must not stay in the thread while the server sends
            # it.
            with named(**self._ids):
                part = next(parts, None)
            if part is None:
                return
            yield part

    def close(self) -> None:
        """As PEP 3333 has it."""
        close = getattr(self._body, "close", None)
        if close is not None:
            with named(**self._ids):
                close()


class _Answered:
    """What was answered so far."""

    def __init__(self) -> None:
        self.status = 0
        self.ours = False
        """One of our own parts has the word."""
        self.foreign = False
        self.headers: dict[str, str] = {}

    def fault(self) -> Fault:
        """A library's error, as one of ours. Its own words may tell what is for the log alone."""
        if self.status == 401:
            fault = auth.unknown_caller()
        elif self.status == 503:
            fault = Fault(503, "unavailable", "Keystone does not answer; nothing was decided")
        else:
            fault = Fault(self.status, "refused", "the request was refused before it was read")
        fault.headers.update(self.headers)
        self.foreign = False
        return fault


def answer(environ: Environ, start: StartResponse, fault: Fault) -> Iterable[bytes]:
    """A fault as a whole response."""
    _mark(environ)
    said = faults.body(fault.status, fault.code, fault.detail, environ.get(REQUEST_ID, ""))
    raw = documents.dump(said)
    # The length also where the body is left out: it is that of a GET (RFC 9110, 9.3.2).
    headers = [("Content-Type", documents.MEDIA_TYPE), ("Content-Length", str(len(raw)))]
    start(falcon.code_to_http_status(fault.status), [*headers, *fault.headers.items()])
    return [] if environ.get("REQUEST_METHOD") == "HEAD" else [raw]


def _router(plane: ServingPlane, authority: Authority) -> Application:
    app: falcon.App[Any, Any] = falcon.App(media_type=documents.MEDIA_TYPE)
    # A form's body is no query, and a word without a value is told as wrong and not passed over.
    app.req_options.auto_parse_form_urlencoded = False
    app.req_options.keep_blank_qs_values = True
    # Falcon goes by the nearest class, so its own errors still come to the serializer below.
    app.add_error_handler(Exception, _failed)
    app.set_error_serializer(_serialize)
    by_path: dict[str, dict[str, Operation]] = defaultdict(dict)
    for operation in OPERATIONS:
        by_path[operation.path][operation.method] = operation
    for path, operations in by_path.items():
        app.add_route(path, _Resource(plane, authority, operations))

    def routed(environ: Environ, start: StartResponse) -> Iterable[bytes]:
        _mark(environ)
        found: Iterable[bytes] = app(environ, start)
        return found

    return routed


def _mark(environ: Environ) -> None:
    answered = environ.get(ANSWERED)
    if answered is not None:
        answered.ours = True


class _Resource:
    """A path. Falcon looks for a method of each name that can be asked with."""

    def __init__(
        self, plane: ServingPlane, authority: Authority, operations: Mapping[str, Operation]
    ) -> None:
        self._plane = plane
        self._authority = authority
        for method, operation in operations.items():
            setattr(self, f"on_{method.lower()}", self._responder(operation))
        if "GET" in operations:
            # A HEAD is a GET whose body is left out.
            setattr(self, "on_head", self._responder(operations["GET"]))  # noqa: B010

    def _responder(self, operation: Operation) -> Any:
        def respond(req: falcon.Request, resp: falcon.Response, **names: str) -> None:
            _send(resp, self._reply(operation, req, names))

        return respond

    def _reply(self, operation: Operation, req: falcon.Request, names: Mapping[str, str]) -> Reply:
        context = req.env.get(CONTEXT)

        def may(name: str, target: Mapping[str, Any]) -> bool:
            return context is not None and self._authority.allows(context, name, target)

        # Whether at all, before a word of the request is read.
        if operation.rule and operation.target is None and not may(operation.rule, {}):
            raise _forbidden(operation)
        # The caller may ask it at all: from here on errors tell what is wrong with the request.
        documents.check_names(names)
        query = operation.read_query(_query(req))
        documents.check(query, operation.query_validator, "query")
        body, versions = None, tuple[str, ...]()
        # Without If-Match an act says what it is about only where it says that there is none yet.
        is_new = operation.creates and req.get_header("If-None-Match") == "*"
        if operation.changes and not is_new:
            versions = tags(req.get_header("If-Match"))
        if operation.body is not None:
            body = documents.read(_stream(req), req.content_length, req.content_type)
            documents.check(body, operation.body_validator, "body")
        path = req.root_path + req.path
        ask = Ask(
            self._plane, self._plane.conf, path, names, query, body, versions, is_new, context, may
        )
        # Only now, for whose it is stands in the record: the same answer for what is not there and
        # for what is another's. A path without names hides nothing.
        if operation.target is not None and not may(operation.rule, operation.target(ask)):
            if not names:
                raise _forbidden(operation)
            raise Fault(404, "unknown", documents.UNSEEN)
        return operation.handler(ask)


def _forbidden(operation: Operation) -> Fault:
    return Fault(403, "forbidden", f"expected a caller with the rule {rule(operation.rule)}")


def _query(req: falcon.Request) -> Mapping[str, Sequence[str]]:
    return {
        # Falcon has a text for a word that stands there once, and a list for one that is repeated.
        name: [value] if isinstance(value, str) else list(value)
        for name, value in req.params.items()
    }


def _stream(req: falcon.Request) -> documents.Readable:
    """The request's body. Falcon takes one without a length for an empty one; of one that comes in
    chunks (RFC 9112, 7.1) there is none, and a server that undoes them says that its input ends."""
    if req.content_length is None and req.env.get("wsgi.input_terminated"):
        return req.stream
    # Of any other server the input may have no end: to read on would wait for the next request.
    return req.bounded_stream


def _send(resp: falcon.Response, reply: Reply) -> None:
    resp.status = reply.status
    for name, value in reply.headers.items():
        resp.set_header(name, value)
    if reply.version:
        resp.set_header("ETag", f'"{reply.version}"')
    if reply.lines is not None:
        resp.content_type = reply.media_type or documents.LINES
        resp.stream = iter(reply.lines)
    elif reply.media_type:
        resp.content_type = reply.media_type
        resp.data = reply.document
    else:
        resp.data = documents.dump(reply.document)


def _failed(
    req: falcon.Request, resp: falcon.Response, error: Exception, _names: Mapping[str, Any]
) -> None:
    _write(req, resp, faults.of(error))


def _serialize(req: falcon.Request, resp: falcon.Response, error: falcon.HTTPError) -> None:
    """Falcon's own: no such path, no such method, a header that is none."""
    status = error.status_code
    if status == 404:
        fault = Fault(404, "unknown", _UNKNOWN)
    elif status == 405:
        fault = Fault(405, "method", "expected another method, as the header Allow has them")
    else:
        fault = Fault(status, "bad-input", str(error.description or error.title or ""))
    _write(req, resp, fault)


def _write(req: falcon.Request, resp: falcon.Response, fault: Fault) -> None:
    resp.status = fault.status
    for name, value in fault.headers.items():
        resp.set_header(name, value)
    said = faults.body(fault.status, fault.code, fault.detail, req.env.get(REQUEST_ID, ""))
    resp.content_type = documents.MEDIA_TYPE
    resp.data = documents.dump(said)
