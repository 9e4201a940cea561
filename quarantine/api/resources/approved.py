"""Profiles and policies: what people approved, and approving another version."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, TypeVar

from eraser.protocol import codec
from quarantine.api import policies, schemas
from quarantine.api.faults import Fault
from quarantine.api.operation import Ask, Operation, Reply, moment
from quarantine.operations import documents
from quarantine.operations.documents import Approved, ApprovedLine

T = TypeVar("T")


def profiles(ask: Ask) -> Reply:
    """A page: the newest version of each."""
    after = ask.query.get("marker", "")
    return _page(ask, "profiles", documents.profiles(ask.plane, limit=ask.limit, after=after))


def profile(ask: Ask) -> Reply:
    """The newest version of one."""
    return _one(documents.profile(ask.plane, ask.names["name"]))


def approve_profile(ask: Ask) -> Reply:
    """The next version of one, or the first."""
    raw, behind = _content(ask), _behind(ask)
    return _one(documents.approve_profile(ask.plane, raw, "body", **_by(ask), behind=behind))


def all_policies(ask: Ask) -> Reply:
    """A page: the newest version of each."""
    after = ask.query.get("marker", "")
    return _page(ask, "policies", documents.policies(ask.plane, limit=ask.limit, after=after))


def policy(ask: Ask) -> Reply:
    """The newest version of one."""
    return _one(documents.policy(ask.plane, ask.names["name"]))


def approve_policy(ask: Ask) -> Reply:
    """The next version of one, or the first."""
    raw, behind = _content(ask), _behind(ask)
    return _one(documents.approve_policy(ask.plane, raw, "body", **_by(ask), behind=behind))


def _page(ask: Ask, name: str, found: Sequence[ApprovedLine[Any]]) -> Reply:
    said: dict[str, Any] = {name: [_line(one) for one in found]}
    if len(found) == ask.limit:
        said[f"{name}_links"] = [{"rel": "next", "href": ask.link({"marker": found[-1].name})}]
    return Reply(said)


def _content(ask: Ask) -> bytes:
    # The version that was looked at is of the path's name: another one must not be approved by it.
    if ask.body["name"] != ask.names["name"]:
        raise Fault(400, "schema", "body.name: expected the name in the path")
    return codec.canonical(ask.body)


def _by(ask: Ask) -> dict[str, Any]:
    return {"by": ask.by, "reason": ask.query.get("reason", "")}


def _behind(ask: Ask) -> tuple[int, ...]:
    if ask.is_new:
        return (0,)
    numbers = [int(one) for one in ask.versions if one.isascii() and one.isdigit()]
    # A version that there never is: what was named is none.
    # The column has 32 bits: a database would fail where a greater number is asked for.
    return tuple(number for number in numbers if 0 < number < 2**31) or (-1,)


def _one(found: Approved[T]) -> Reply:
    return Reply(_document(found), version=str(found.version))


def _line(one: ApprovedLine[T]) -> dict[str, Any]:
    damaged = ""
    if one.damaged:
        damaged = (
            f"{', '.join(one.damaged)} of this row cannot be read; no drive is erased by what this "
            "release does not understand. A newer release wrote it, or restore the record from a "
            "backup"
        )
    return {**_document(one), "damaged": damaged}


def _document(one: Approved[T] | ApprovedLine[T]) -> dict[str, Any]:
    return {
        "name": one.name,
        "version": one.version,
        "digest": one.digest,
        "approved_by": one.approved_by,
        "approved_at": moment(one.approved_at),
        "reason": one.reason,
        "project": one.project,
        "request_id": one.request,
        "content": None if one.content is None else codec.plain(one.content),
    }


_WRITE: Final[dict[str, Any]] = {
    "default": policies.ADMIN,
    "query": {"reason": {**schemas.REASON, "description": "Why; kept with the version."}},
    "body": schemas.CONTENT,
    "response": schemas.DOCUMENT,
    "changes": True,
    "creates": True,
}
_READ: Final[dict[str, Any]] = {"default": policies.READER}
_PAGE: Final = {"limit": schemas.LIMIT, "marker": schemas.MARKER}

OPERATIONS: Final = (
    Operation(
        "GET",
        "/v1/profiles",
        "List approved profiles",
        profiles,
        "profiles:list",
        query=_PAGE,
        response=schemas.page("profiles", schemas.DOCUMENT_LINE),
        **_READ,
    ),
    Operation(
        "GET",
        "/v1/profiles/{name}",
        "Show a profile",
        profile,
        "profiles:get",
        response=schemas.DOCUMENT,
        **_READ,
    ),
    Operation(
        "PUT",
        "/v1/profiles/{name}",
        "Approve a profile: what drives have to look like",
        approve_profile,
        "profiles:approve",
        **_WRITE,
    ),
    Operation(
        "GET",
        "/v1/policies",
        "List approved policies",
        all_policies,
        "policies:list",
        query=_PAGE,
        response=schemas.page("policies", schemas.DOCUMENT_LINE),
        **_READ,
    ),
    Operation(
        "GET",
        "/v1/policies/{name}",
        "Show a policy",
        policy,
        "policies:get",
        response=schemas.DOCUMENT,
        **_READ,
    ),
    Operation(
        "PUT",
        "/v1/policies/{name}",
        "Approve a policy: how drives are erased",
        approve_policy,
        "policies:approve",
        **_WRITE,
    ),
)
