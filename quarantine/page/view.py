"""One view: where, by whom, and what comes back. Rules are those of the API's own operations."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any
from urllib.parse import urlencode

import falcon
from jsonschema import Draft202012Validator, FormatChecker
from oslo_config import cfg
from oslo_context.context import RequestContext

from quarantine.api import documents
from quarantine.api.operation import Operation
from quarantine.operations.plane import ServingPlane
from quarantine.operations.slots import Initiator
from quarantine.page import forms
from quarantine.page.render import Live
from quarantine.page.snapshot import Snapshots


@dataclass(frozen=True)
class Visit:
    """A request of somebody who may see the view."""

    plane: ServingPlane
    snapshots: Snapshots
    req: falcon.Request
    names: Mapping[str, str]
    """Of the path's variables."""
    query: Mapping[str, Any]
    context: RequestContext
    allows: Callable[[str], bool]
    """Whether the caller may do this as well, by the name of its rule."""
    root: str
    """What stands before the application."""

    @property
    def conf(self) -> cfg.ConfigOpts:
        """The configuration."""
        return self.plane.conf

    @property
    def now(self) -> datetime:
        """Of our own clock."""
        return self.plane.doors.now()

    @property
    def user(self) -> str:
        """Who the caller is."""
        return self.context.user_id or ""

    @property
    def by(self) -> Initiator:
        """Who decides, for the history."""
        context = self.context
        return Initiator(self.user, context.project_id or "", context.request_id or "")

    def sent(self) -> dict[str, str]:
        """The fields of a form that this very caller was shown. Raises
        :class:`quarantine.api.faults.Fault`."""
        fields = forms.read(self.req)
        forms.check(self.req, fields, self.user)
        return fields

    def most(self, size: int) -> int:
        """Entries of a page that has so many, or fewer where the API gives no more at once."""
        return min(size, int(self.conf.api.max_limit))

    def url(self, path: str, words: Mapping[str, Any] | None = None) -> str:
        """Of another view."""
        said = {k: v for k, v in (words or {}).items() if v not in (None, "", (), [])}
        end = f"?{urlencode(said, doseq=True)}" if said else ""
        return f"{self.root}/page{path}{end}"


@dataclass(frozen=True)
class Shown:
    """What a view answers: a template and its words; or bytes; or another place."""

    template: str = ""
    words: Mapping[str, Any] = field(default_factory=dict)
    live: Live | None = None
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)
    raw: bytes | None = None
    media_type: str = ""
    elsewhere: str = ""


@dataclass(frozen=True)
class PageView:
    """What can be asked."""

    path: str
    """Below ``/page``."""
    rule: str
    """Of the API's operation that shows, or does, the same."""
    show: Callable[[Visit], Shown]
    method: str = "GET"
    query: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)

    def read_query(self, req: falcon.Request) -> dict[str, Any]:
        """What stands behind the question mark, as the view wants it; empty words are left out, as
        a form sends them. Raises :class:`quarantine.api.faults.Fault`."""
        given = {}
        for name, value in req.params.items():
            values = [value] if isinstance(value, str) else list(value)
            if kept := [one for one in values if one]:
                given[name] = kept
        # The API's own reader: numbers, lists and what is refused are the same there and here.
        reader = Operation("GET", self.path, "", lambda _: None, query=self._queries())  # type: ignore[arg-type, return-value]
        found = reader.read_query(given)
        documents.check(found, self._validator(), "query")
        return found

    def _queries(self) -> dict[str, Mapping[str, Any]]:
        return {**self.query, "part": {"enum": ["live"]}}

    def _validator(self) -> Draft202012Validator:
        schema = {
            "type": "object",
            "properties": {name: dict(one) for name, one in self._queries().items()},
            "additionalProperties": False,
        }
        return Draft202012Validator(schema, format_checker=FormatChecker())
