"""Maintenances, from the API."""

from __future__ import annotations

from typing import Any

from quarantine.cli.output import warn
from quarantine.cli.sources.source import MAINTENANCE, Columns, MaintenanceWord, Members
from quarantine.errors import UnknownError
from quarantine.osc import documents
from quarantine.osc.client import Api, ApiAnswer
from quarantine.osc.documents import Document


class ApiMaintenances:
    """See :class:`quarantine.cli.sources.source.MaintenanceSource`."""

    def __init__(self, api: Api) -> None:
        self._api = api

    def each(self, *, limit: int | None) -> Columns:
        """By host and address."""
        return documents.rows_of(MAINTENANCE, _said, self._api.each("maintenances", limit=limit))

    def history(self, subject: str, *, limit: int | None) -> Columns:
        """Oldest first."""
        path = (*_path(subject), "history")
        found = self._api.each(*path, limit=limit, name="maintenances")
        return documents.rows_of(MAINTENANCE, _said, found)

    def begin(self, word: MaintenanceWord) -> Members:
        """Looks, says at what, and changes just that; or begins where there is none."""
        assert word.until is not None
        version = str(word.seen) if word.seen is not None else self._look("begin", word.subject)
        body = {"reason": word.reason, "until": word.until.isoformat()}
        path = _path(word.subject)
        if version == "0":
            return _one(self._api.make(*path, body=body))
        return _one(self._api.act(*path, body=body, version=version, method="PUT"))

    def end(self, word: MaintenanceWord) -> Members:
        """Likewise. What is in no maintenance is unknown, in the API's words."""
        seen = word.seen
        version = str(seen) if seen is not None else self._look("end", word.subject)
        path = (*_path(word.subject), "end")
        return _one(self._api.act(*path, body={"reason": word.reason}, version=version))

    def _look(self, act: str, subject: str) -> str:
        """The version in effect; 0 for none."""
        try:
            found = self._api.get(*_path(subject))
        except UnknownError:
            # Version 0 has the server compare too: somebody may begin one in the meantime.
            warn(f"{act}: {subject} is not in maintenance")
            return "0"
        _names, (said, until, reason, by, *_rest) = _one(found)
        warn(f"{act}: {said} is in maintenance until {until}, by {by}: {reason}")
        return found.seen


def _path(subject: str) -> tuple[str, ...]:
    if "/" in subject:
        return "slots", documents.provider(subject), "maintenance"
    return "hosts", subject, "maintenance"


def _one(found: ApiAnswer) -> Members:
    return documents.members_of(MAINTENANCE, _said, found.document, found.doubt)


def _said(one: Document) -> dict[str, Any]:
    slot = one["slot"]
    return {
        "subject": f"host {one['host']}" if slot is None else str(documents.placed(slot)),
        "until": documents.moment(one["until"]),
        "reason": one["reason"],
        "by": one["by"]["user"],
        "at": documents.moment(one["at"]),
        "version": one["version"],
    }
