"""Slots of a host come under our care: first as a plan, then as the plan said."""

from __future__ import annotations

from typing import Any, Final

from eraser.protocol.identity import host_name, pci_address
from quarantine.api import policies, schemas
from quarantine.api.faults import Fault
from quarantine.api.operation import Ask, Operation, Reply
from quarantine.api.resources.slots import UNACTED
from quarantine.operations import enrol, slots
from quarantine.operations.enrol import EnrolmentRequest, EnrolmentResult


def plan(ask: Ask) -> Reply:
    """What would be done; nothing is changed."""
    return _reply(enrol.take(ask.plane, _wish(ask, ask.query), plan=True))


def act(ask: Ask) -> Reply:
    """Does what the plan said, of which the version is named."""
    done = enrol.take_as_planned(
        ask.plane, _wish(ask, ask.body), ask.versions, reason=ask.body["reason"], by=ask.by
    )
    return _reply(done)


def _wish(ask: Ask, words: Any) -> EnrolmentRequest:
    address = words.get("address")
    try:
        return EnrolmentRequest(
            profile=words["profile"],
            policy=words.get("policy"),
            host=host_name(ask.names["host"]),
            address=None if address is None else pci_address(address),
            resource_class=words.get("resource_class"),
        )
    except KeyError as error:
        # The schema of a body asks for it; words of a query may all be left out.
        raise Fault(400, "schema", "query.profile: expected the name of a profile") from error
    except ValueError as error:
        raise Fault(400, "bad-input", str(error)) from error


def _reply(found: EnrolmentResult) -> Reply:
    return Reply(
        {
            "slots": [
                {
                    "slot": slots.name(one.slot),
                    "fate": one.fate.value,
                    "reason": one.reason,
                    "server": one.consumer,
                    "resource_class": one.resource_class,
                }
                for one in found.slots
            ],
            "unacted": UNACTED if found.unacted else "",
        },
        version=found.version,
    )


_PATH: Final = "/v1/hosts/{host}/enrolment"

OPERATIONS: Final = (
    Operation(
        "GET",
        _PATH,
        "Plan which slots of a host would be enrolled; nothing is changed",
        plan,
        "enrolments:plan",
        policies.ADMIN,
        query=schemas.ENROLMENT_WORDS,
        response=schemas.ENROLMENT,
    ),
    Operation(
        "POST",
        _PATH,
        "Enrol slots of a host as planned: free ones are erased first, used ones only looked at",
        act,
        "enrolments:enrol",
        policies.ADMIN,
        body=schemas.ENROL,
        response=schemas.ENROLMENT,
        changes=True,
    ),
)
