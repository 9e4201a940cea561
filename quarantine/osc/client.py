"""Requests to the API, and what its answers are to a command."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import parse_qsl, quote, urlsplit

from keystoneauth1 import exceptions
from keystoneauth1.adapter import Adapter

from quarantine import VERSION
from quarantine.errors import (
    BadInputError,
    ConflictError,
    ForbiddenError,
    IllegalTransitionError,
    QuarantineError,
    StaleError,
    UnavailableError,
    UnfinishedError,
    UnknownError,
    UnreadOutcomeError,
)

SERVICE_TYPE: Final = "nvme-quarantine"
"""In the catalogue."""

_PREFIX: Final = "nvme-quarantine."
_CODES: Final[Mapping[str, type[QuarantineError]]] = {
    "not-now": IllegalTransitionError,
    "does-not-hold": BadInputError,
    "outcome-unread": UnreadOutcomeError,
    "unfinished": UnfinishedError,
}
"""By what the API calls an error."""
_TOLD: Final = frozenset({"unavailable", "outcome-unread", "unfinished"})
"""Codes of errors of the server whose own words say what was done."""
_STATUSES: Final[Mapping[int, type[QuarantineError]]] = {
    400: BadInputError,
    401: ForbiddenError,
    403: ForbiddenError,
    404: UnknownError,
    409: ConflictError,
    412: StaleError,
    413: BadInputError,
    428: BadInputError,
    502: UnavailableError,
    503: UnavailableError,
    504: UnavailableError,
}
_VERSION: Final = re.compile(r"[\x21\x23-\x7e]{1,100}")
"""As the API takes them in If-Match."""
_CODED: Final = re.compile(r"(--?|;)(gzip|br|deflate|zstd)$")

MAX_SHOWN: Final = 500
"""Characters of an answer that is none of the API's."""

Words = Sequence[tuple[str, str]]
"""Behind the question mark."""


class AnswerError(QuarantineError):
    """What answered is not the API that we know."""


@dataclass(frozen=True)
class ApiAnswer:
    """A document, and the version that it is of."""

    document: Mapping[str, Any]
    version: str
    """Empty where the answer has none."""
    doubt: str = ""
    """What is to be said where its document cannot be understood: it may be a change's."""

    @property
    def seen(self) -> str:
        """The version, to decide about just that. Raises :class:`AnswerError` where it has none."""
        if not self.version:
            raise AnswerError(
                "expected an ETag of what was looked at, found none: does a proxy take it away? "
                "Nothing was decided"
            )
        return self.version


class Api:
    """One cloud's. No request is repeated, and none follows to another place: the token would."""

    def __init__(
        self,
        session: Any,
        *,
        endpoint: str | None = None,
        region: str | None = None,
        interface: str | None = None,
    ) -> None:
        self._http = Adapter(
            session=session,
            service_type=SERVICE_TYPE,
            region_name=region,
            interface=interface,
            endpoint_override=endpoint,
            client_name="nvme-quarantine",
            client_version=VERSION,
        )

    def get(self, *path: str, words: Words = ()) -> ApiAnswer:
        """A document. Raises :class:`QuarantineError`."""
        return _answer(self._ask("GET", path, words), "GET")

    def text(self, *path: str) -> str:
        """A text that is none of JSON.

        Raises :class:`AnswerError` where it is not ASCII, and any other :class:`QuarantineError`.
        """
        found: bytes = self._ask("GET", path).content
        try:
            return found.decode("ascii")
        except UnicodeDecodeError as error:
            raise AnswerError(f"{'/'.join(path)}: expected ASCII of the API") from error

    def act(
        self, *path: str, body: Mapping[str, Any], version: str, method: str = "POST"
    ) -> ApiAnswer:
        """Changes what is at that version.

        Raises ``BadInputError`` for a version that none looks like, and any other
        :class:`QuarantineError`.
        """
        if not _VERSION.fullmatch(version):
            raise BadInputError(f"--seen: expected a version as it was shown, found {version!r}")
        headers = {"If-Match": f'"{version}"'}
        return _answer(self._ask(method, path, json=dict(body), headers=headers), method)

    def make(self, *path: str, body: Mapping[str, Any]) -> ApiAnswer:
        """Makes what is not there yet. Raises :class:`QuarantineError`."""
        headers = {"If-None-Match": "*"}
        return _answer(self._ask("PUT", path, json=dict(body), headers=headers), "PUT")

    def each(
        self, *path: str, words: Words = (), limit: int | None = None, name: str = ""
    ) -> Iterator[Mapping[str, Any]]:
        """Members of a list, page by page, the next one when it is wanted. Its name is the path's
        last, if none is given.

        Raises :class:`AnswerError` for an answer that is no list, or whose links lead in a circle,
        and any other :class:`QuarantineError`; each also on the way.
        """
        name, left, asked = name or path[-1], limit, list(words)
        seen: set[str] = set()
        while True:
            # No page is asked for with more than is wanted.
            some = [] if left is None else [("limit", str(min(left, 1000)))]
            document = self.get(*path, words=[*asked, *some]).document
            found = document.get(name)
            if not isinstance(found, list) or not all(isinstance(one, dict) for one in found):
                raise AnswerError(f"{'/'.join(path)}: expected a list of {name}, found another")
            # A server may give more than it was asked for.
            yield from found if left is None else found[:left]
            if left is not None and (left := left - len(found)) <= 0:
                return
            marker = _marker(document.get(f"{name}_links"))
            if marker is None:
                return
            # A server that errs, or a proxy that caches, must not keep a command for ever.
            if marker in seen:
                raise AnswerError(f"{'/'.join(path)}: the link to the next page leads back")
            seen.add(marker)
            asked = [*words, ("marker", marker)]

    def _ask(self, method: str, path: Sequence[str], words: Words = (), **more: Any) -> Any:
        try:
            endpoint = self._http.get_endpoint()
            if not endpoint:
                raise exceptions.EndpointNotFound
            found = self._http.request(
                # The catalogue may name the service with its version or without.
                f"{endpoint.rstrip('/').removesuffix('/v1')}/v1/{_quoted(path)}",
                method,
                params=list(words),
                raise_exc=False,
                redirect=False,
                **more,
            )
        except (exceptions.EndpointNotFound, exceptions.EmptyCatalog) as error:
            raise BadInputError(
                f"expected a service of type {SERVICE_TYPE} in the catalogue, found none; "
                "--os-nvme-endpoint names its URL"
            ) from error
        except (exceptions.Unauthorized, exceptions.Forbidden) as error:
            # Of Keystone: an answer of the API is never an exception here.
            raise ForbiddenError(str(error)) from error
        except exceptions.ClientException as error:
            raise UnavailableError(f"{error}{_doubt(method)}") from error
        if found.status_code != 200:
            raise _error(found, method)
        return found


def _quoted(path: Sequence[str]) -> str:
    for part in path:
        # Libraries walk along these, quoted or not.
        if part in ("", ".", ".."):
            raise BadInputError(f"expected a name, found {part!r}")
    return "/".join(quote(part, safe="") for part in path)


def _marker(links: Any) -> str | None:
    """Only this of the next page's link: our questions go where the first one went."""
    for link in links if isinstance(links, list) else ():
        if isinstance(link, dict) and link.get("rel") == "next":
            query = dict(parse_qsl(urlsplit(str(link.get("href"))).query))
            if "marker" in query:
                return query["marker"]
    return None


def _answer(found: Any, method: str) -> ApiAnswer:
    doubt = _doubt(method)
    try:
        document = found.json()
    except (ValueError, RecursionError) as error:
        raise AnswerError(f"expected JSON of the API, found {_begin(found)!r}{doubt}") from error
    if not isinstance(document, dict):
        raise AnswerError(f"expected a document of the API, found {_begin(found)!r}{doubt}")
    return ApiAnswer(document, _version(found.headers.get("ETag", "")), doubt)


def _version(tag: str) -> str:
    """A proxy that compresses calls a tag weak (nginx), or puts the coding behind it (Apache's
    mod_deflate and mod_brotli): the bytes are others, the version is the same."""
    found = _CODED.sub("", tag.removeprefix("W/").strip('"'))
    return found if _VERSION.fullmatch(found) else ""


def _doubt(method: str) -> str:
    """Where the API did not say what came of it: the answer may be lost, and not the request."""
    return "" if method == "GET" else "; whether it was done is not known: look again first"


def _error(found: Any, method: str) -> QuarantineError:
    status: int = found.status_code
    try:
        (said,) = found.json()["errors"]
        code, words = str(said["code"]).removeprefix(_PREFIX), str(said["detail"])
    except (ValueError, KeyError, TypeError, RecursionError):
        code, words = "", f"expected an answer of the API, found {_begin(found)!r}"
    # A 4xx is a clear no. Of anything else, a proxy's 502 say, nobody knows what was done.
    if code not in _TOLD and (status < 300 or status >= 500):
        words += _doubt(method)
    request = found.headers.get("X-Openstack-Request-Id", "")
    kind = _CODES.get(code) or _STATUSES.get(status, AnswerError)
    return kind(f"{words} (HTTP {status}{', ' if request else ''}{request})")


def _begin(found: Any) -> str:
    return str(found.text[:MAX_SHOWN])
