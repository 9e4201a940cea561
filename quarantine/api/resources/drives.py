"""Drives: lists, and one's life across hosts and slots."""

from __future__ import annotations

from typing import Any, Final

from eraser.protocol.identity import Slot
from quarantine.api import policies, schemas
from quarantine.api.operation import Ask, Operation, Reply, damaged, moment
from quarantine.api.resources import certificates, hosts
from quarantine.operations import drives, slots
from quarantine.operations.drives import DriveLine, DriveQuery, DriveView, SlotLine


def find(ask: Ask) -> Reply:
    """A page."""
    words = ask.query
    query = DriveQuery(words.get("model"), words.get("serial"), words.get("firmware"))
    found = drives.page(ask.plane, query, limit=ask.limit, after=words.get("marker", ""))
    said: dict[str, Any] = {"drives": [line(one) for one in found]}
    # Whether there are more is not asked: after a full page the next one may be empty.
    if len(found) == ask.limit:
        said["drives_links"] = [{"rel": "next", "href": ask.link({"marker": found[-1].digest})}]
    return Reply(said)


def show(ask: Ask) -> Reply:
    """One."""
    return Reply(document(drives.show(ask.plane, ask.names["digest"])))


def line(one: DriveLine) -> dict[str, Any]:
    """A drive in a list."""
    return {
        "digest": one.digest,
        "model": one.model,
        "serial": one.serial,
        "firmware": one.firmware,
        "seen_in": f"{one.host}_{one.address.upper()}",
        "dirty": one.dirty,
        "retired": one.retired,
        "reason": one.reason,
        "changed_at": moment(one.changed_at),
        "certificate": one.certificate,
        "certified_at": moment(one.certified_at),
        "damaged": damaged(one.damaged),
    }


def document(one: DriveView) -> dict[str, Any]:
    """A drive and its life."""
    return {
        "digest": one.digest,
        "drive": hosts.drive(one.identity),
        "firmware": one.firmware,
        "seen_in": slots.name(one.seen_in),
        "slots": [_slot(each) for each in one.slots],
        "dirty": one.dirty,
        "retired": one.retired,
        "reason": one.reason,
        "changed_at": moment(one.changed_at),
        "certificate": one.certificate,
        "certified_in": _name(one.certified_in),
        "certified_at": moment(one.certified_at),
        "dirty_in": _name(one.dirty_in),
        "dirty_at": moment(one.dirty_at),
        "cases": [certificates.line(each) for each in one.cases],
    }


def _slot(one: SlotLine) -> dict[str, Any]:
    return {
        "id": f"{one.host}_{one.address.upper()}",
        "state": one.state,
        "entered_at": moment(one.entered_at),
        "server": one.consumer,
    }


def _name(slot: Slot | None) -> str | None:
    return None if slot is None else slots.name(slot)


_READ: Final[dict[str, Any]] = {"default": policies.READER}

OPERATIONS: Final = (
    Operation(
        "GET",
        "/v1/drives",
        "List drives by the digest of their identity",
        find,
        "drives:list",
        query={
            "model": schemas.NAME,
            "serial": schemas.NAME,
            "firmware": {**schemas.NAME, "description": "That ran at its last certificate."},
            "limit": schemas.LIMIT,
            "marker": schemas.MARKER,
        },
        response=schemas.page("drives", schemas.DRIVE_LINE),
        **_READ,
    ),
    Operation(
        "GET",
        "/v1/drives/{digest}",
        "Show a drive's life across hosts and slots",
        show,
        "drives:get",
        response=schemas.DRIVE_LIFE,
        **_READ,
    ),
)
