"""Maintenance of hosts and slots: who expects trouble there, until when."""

from __future__ import annotations

from typing import Any, Final

from quarantine.api import policies, schemas
from quarantine.api.faults import Fault
from quarantine.api.operation import Ask, Operation, Reply, moment, read_moment
from quarantine.operations import maintenance, slots
from quarantine.operations.maintenance import Maintenance, Subject


def find(ask: Ask) -> Reply:
    """A page of those in effect."""
    marker = ask.query.get("marker")
    found = maintenance.page(
        ask.plane,
        limit=ask.limit,
        host=ask.query.get("host"),
        after=None if marker is None else read_marker(marker),
    )
    said: dict[str, Any] = {"maintenances": [document(one) for one in found]}
    if len(found) == ask.limit:
        last = found[-1].subject
        following = ask.link({"marker": f"{last.host}_{last.address}"})
        said["maintenances_links"] = [{"rel": "next", "href": following}]
    return Reply(said)


def show(ask: Ask) -> Reply:
    """One's."""
    return _one(maintenance.show(ask.plane, _subject(ask)))


def begin(ask: Ask) -> Reply:
    """Begins one, or changes it."""
    found = maintenance.begin(
        ask.plane,
        _subject(ask),
        until=read_moment(ask.body["until"], "body.until"),
        reason=ask.body["reason"],
        by=ask.by,
        behind=_behind(ask),
    )
    return _one(found)


def end(ask: Ask) -> Reply:
    """Ends it."""
    found = maintenance.end(
        ask.plane, _subject(ask), reason=ask.body["reason"], by=ask.by, behind=_behind(ask)
    )
    return Reply(document(found))


def history(ask: Ask) -> Reply:
    """A page of all that was said."""
    marker = ask.query.get("marker", 0)
    found = maintenance.history(ask.plane, _subject(ask), limit=ask.limit, after=marker)
    said: dict[str, Any] = {"maintenances": [document(one) for one in found]}
    if len(found) == ask.limit:
        following = ask.link({"marker": found[-1].version})
        said["maintenances_links"] = [{"rel": "next", "href": following}]
    return Reply(said)


def document(one: Maintenance) -> dict[str, Any]:
    """A person's word."""
    subject = one.subject
    return {
        "host": subject.host,
        "slot": f"{subject.host}_{subject.address.upper()}" if subject.address else None,
        "version": one.version,
        "at": moment(one.at),
        "until": moment(one.until),
        "reason": one.reason,
        "by": {
            "user": one.by.user,
            "project": one.by.project,
            "request_id": one.by.request,
        },
    }


def _one(found: Maintenance) -> Reply:
    return Reply(document(found), version=str(found.version))


def _subject(ask: Ask) -> Subject:
    if "host" in ask.names:
        return Subject(ask.names["host"])
    slot = slots.named(ask.plane, ask.names["slot"])
    return Subject(slot.host, slot.address)


def _behind(ask: Ask) -> tuple[int, ...]:
    if ask.is_new:
        return (0,)
    numbers = [int(one) for one in ask.versions if one.isascii() and one.isdigit()]
    # A version that there never is: what was named is none.
    # The column has 32 bits: a database would fail where a greater number is asked for.
    return tuple(number for number in numbers if 0 < number < 2**31) or (-1,)


def read_marker(text: str) -> Subject:
    """Where a page goes on. Raises :class:`Fault`."""
    host, sign, address = text.rpartition("_")
    if not sign or not text.isascii():
        raise Fault(400, "schema", "query.marker: expected it as a link to the next page has it")
    return Subject(host, address.lower())


_READ: Final[dict[str, Any]] = {
    "rule": "maintenances:get",
    "default": policies.READER,
}
_ACT: Final[dict[str, Any]] = {
    "rule": "maintenances:set",
    "default": policies.ADMIN,
    "changes": True,
}
_PATHS: Final = (
    ("a host", "/v1/hosts/{host}/maintenance"),
    ("a slot", "/v1/slots/{slot}/maintenance"),
)

OPERATIONS: Final = (
    Operation(
        "GET",
        "/v1/maintenances",
        "List the maintenances of hosts and slots that are in effect",
        find,
        "maintenances:list",
        policies.READER,
        query={"host": schemas.NAME, "limit": schemas.LIMIT, "marker": schemas.MARKER},
        response=schemas.page("maintenances", schemas.MAINTENANCE),
    ),
    *(
        one
        for words, path in _PATHS
        for one in (
            Operation(
                "GET",
                path,
                f"Show the maintenance that {words} is in",
                show,
                response=schemas.MAINTENANCE,
                **_READ,
            ),
            Operation(
                "PUT",
                path,
                f"Have nobody called for delays of {words} until a time",
                begin,
                body=schemas.MAINTAIN,
                response=schemas.MAINTENANCE,
                creates=True,
                **_ACT,
            ),
            Operation(
                "POST",
                f"{path}/end",
                f"End the maintenance of {words}",
                end,
                body=schemas.DECISION,
                response=schemas.MAINTENANCE,
                **_ACT,
            ),
            Operation(
                "GET",
                f"{path}/history",
                f"List all that was said of the maintenance of {words}, oldest first",
                history,
                query={
                    "limit": schemas.LIMIT,
                    "marker": {"type": "integer", "minimum": 0, "maximum": 2**31 - 1},
                },
                response=schemas.page("maintenances", schemas.MAINTENANCE),
                **_READ,
            ),
        )
    ),
)
