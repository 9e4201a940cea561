"""Enrolment through the API: a plan, and then what it said."""

from __future__ import annotations

from quarantine.cli.output import warn
from quarantine.cli.sources.source import Enrolment, EnrolmentLine, EnrolmentWish
from quarantine.errors import BadInputError
from quarantine.osc import documents
from quarantine.osc.client import Api, ApiAnswer
from quarantine.osc.documents import Document


class ApiEnrolment:
    """See :class:`quarantine.cli.sources.source.EnrolmentSource`. Of one host's slots at a time."""

    def __init__(self, api: Api) -> None:
        self._api = api

    def plan(self, wish: EnrolmentWish) -> Enrolment:
        """Changes nothing."""
        return _said(self._look(wish))

    def take(self, wish: EnrolmentWish) -> Enrolment:
        """Looks, says at what, and does just that; or what was seen long before."""
        version = wish.seen
        if not version:
            looked = self._look(wish)
            warn(f"enrol: {wish.host}: {_said(looked)}")
            version = looked.seen
        body = {**_words(wish), "reason": wish.reason}
        return _said(self._api.act(*_path(wish), body=body, version=version))

    def _look(self, wish: EnrolmentWish) -> ApiAnswer:
        return self._api.get(*_path(wish), words=[*_words(wish).items()])


def _path(wish: EnrolmentWish) -> tuple[str, ...]:
    if wish.host is None:
        raise BadInputError("enrol: expected --host: the API has a plan for each host")
    return "hosts", wish.host, "enrolment"


def _words(wish: EnrolmentWish) -> dict[str, str]:
    said = {
        "profile": wish.profile,
        "policy": wish.policy,
        "address": wish.address,
        "resource_class": wish.resource_class,
    }
    return {name: value for name, value in said.items() if value is not None}


def _said(found: ApiAnswer) -> Enrolment:
    def read() -> Enrolment:
        slots = found.document["slots"]
        # The API refuses a plan without slots: a document without any is not its own.
        if not isinstance(slots, list) or not slots:
            raise ValueError("slots: expected one or more, found none")
        lines = tuple(map(_line, slots))
        return Enrolment(lines, found.version, str(found.document["unacted"]))

    return documents.understood(read, found.doubt)


def _line(one: Document) -> EnrolmentLine:
    return EnrolmentLine(
        slot=documents.placed(one["slot"]),
        fate=str(one["fate"]),
        resource_class=one["resource_class"],
        consumer=one["server"],
        reason=str(one["reason"]),
    )
