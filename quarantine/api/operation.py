"""One thing that can be asked: where, by whom, with what, and what comes back."""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Final

from jsonschema import Draft202012Validator, FormatChecker
from oslo_config import cfg
from oslo_context.context import RequestContext

from quarantine.api.faults import Fault
from quarantine.operations.plane import Plane
from quarantine.operations.slots import Initiator

Schema = Mapping[str, Any]

PAGE: Final = 100
"""Entries of a page where none are asked for."""

_TAG: Final = re.compile(r'(W/)?"([\x21\x23-\x7e]{0,100})"')
"""An entity-tag (RFC 9110, 8.8.3) of ASCII alone: ours are digests and numbers."""


@dataclass(frozen=True)
class Ask:
    """A request that was let in, whose parts are all as its operation wants them."""

    plane: Plane
    conf: cfg.ConfigOpts
    path: str
    """As it was asked for, with what stands before the application."""
    names: Mapping[str, str]
    """Of the path's variables."""
    query: Mapping[str, Any]
    body: Any
    versions: tuple[str, ...]
    """Of If-Match; for acts, never empty."""
    is_new: bool
    """If-None-Match: *"""
    context: RequestContext | None
    may: Callable[[str, Mapping[str, Any]], bool]
    """Whether the caller may do something else, by the name of its rule."""

    @property
    def by(self) -> Initiator:
        """Who asks, for the history. Raises ``RuntimeError`` in an operation that is open to
        everybody: there is no caller then."""
        context = self.context
        if context is None:
            raise RuntimeError("expected a caller, found a request of everybody")
        return Initiator(context.user_id or "", context.project_id or "", context.request_id or "")

    @property
    def limit(self) -> int:
        """Of a page."""
        most: int = self.conf.api.max_limit
        wanted: int = self.query.get("limit", min(PAGE, most))
        return min(wanted, most)

    def link(self, words: Mapping[str, Any]) -> str:
        """This very request, with other words."""
        from urllib.parse import urlencode

        # Without scheme and host: what a proxy before us is called nobody here knows for sure.
        said = {**self.query, **words}
        return f"{self.path}?{urlencode(said, doseq=True)}"


@dataclass(frozen=True)
class Reply:
    """What is answered: a document, or lines that are made while they are sent."""

    document: Any = None
    lines: Iterable[bytes] | None = None
    media_type: str = ""
    """Where it is neither JSON nor lines of it."""
    version: str = ""
    """For the ETag."""
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Operation:
    """What can be asked."""

    method: str
    path: str
    summary: str
    handler: Callable[[Ask], Reply]
    rule: str = ""
    """Name of the rule that lets in; none: everybody may, without a token."""
    default: str = ""
    """The rule's default."""
    query: Mapping[str, Schema] = field(default_factory=dict)
    body: Schema | None = None
    response: Schema | None = None
    """None: it is no JSON document, but ``media_type``."""
    media_type: str = "application/json"
    changes: bool = False
    """It changes something: the caller has to say which version of it is meant."""
    creates: bool = False
    """And may say instead that there is none yet: If-None-Match: *"""
    target: Callable[[Ask], Mapping[str, Any]] | None = None
    """Whose it is, for the rule. Who may not see it is told that it is not there."""

    @functools.cached_property
    def body_validator(self) -> Draft202012Validator:
        """Of the request's body."""
        return Draft202012Validator(dict(self.body or {}), format_checker=FormatChecker())

    @functools.cached_property
    def query_validator(self) -> Draft202012Validator:
        """Of what stands behind the question mark; whatever is not named is refused."""
        return Draft202012Validator(
            {
                "type": "object",
                "properties": {name: dict(schema) for name, schema in self.query.items()},
                "additionalProperties": False,
            },
            format_checker=FormatChecker(),
        )

    def read_query(self, given: Mapping[str, Sequence[str]]) -> dict[str, Any]:
        """Numbers as numbers, and what may be repeated as a list. No NUL, which PostgreSQL cannot
        even be asked for. Raises :class:`Fault`."""
        found: dict[str, Any] = {}
        for name, texts in given.items():
            kind = self.query.get(name, {}).get("type")
            if any("\0" in text for text in texts):
                raise Fault(400, "schema", f"query.{name[:60]}: expected text without NUL")
            if kind == "array":
                found[name] = list(texts)
            elif len(texts) != 1:
                raise Fault(400, "schema", f"query.{name[:60]}: expected it once")
            elif kind == "integer" and re.fullmatch(r"[0-9]{1,19}", texts[0], re.ASCII):
                # 19 digits hold every number of a column; int() raises for some thousands of them.
                # What is no plain number stays a text: the schema then refuses it and names it.
                found[name] = int(texts[0])
            else:
                found[name] = texts[0]
        return found


def tags(header: str | None) -> tuple[str, ...]:
    """What If-Match names. Raises :class:`Fault` where it names nothing."""
    if header is None:
        raise Fault(
            428,
            "version-required",
            "expected If-Match with the ETag of what was looked at: a decision is about something",
        )
    found = list(_TAG.finditer(header))
    # All of the header has to be tags and commas: what is left over was not understood.
    rest = _TAG.sub("", header).replace(",", "").strip()
    if not found or rest:
        raise Fault(400, "bad-input", 'expected If-Match: "ETAG" as it was given, found another')
    # A weak one is no promise that it is the same (RFC 9110, 13.1.1).
    strong = tuple(one[2] for one in found if not one[1])
    if not strong:
        raise Fault(
            412,
            "stale",
            'expected If-Match: "ETAG", found weak ones alone (W/"ETAG"), which never match; a '
            "proxy that compresses makes them: ask without Accept-Encoding, or leave W/ away",
        )
    return strong


def moment(value: datetime | None) -> str | None:
    """A time as every document has it."""
    if value is None:
        return None
    return value.astimezone(UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")


def read_moment(text: str, what: str) -> datetime:
    """Raises :class:`Fault`."""
    try:
        found = datetime.fromisoformat(text)
        if found.tzinfo is not None:
            return found.astimezone(UTC)
    except (ValueError, OverflowError):
        # Both, and a time without a zone, end in the one error below.
        pass
    raise Fault(400, "schema", f"{what}: expected a time such as 2026-11-24T12:00:00Z")


def damaged(columns: Sequence[str]) -> str:
    """Of a row of a list, what cannot be read of it, and what to do; empty where all can be."""
    if not columns:
        return ""
    return (
        f"{', '.join(columns)} of this row cannot be read; what it guards stays out of the pool. "
        "Restore the record from a backup"
    )
