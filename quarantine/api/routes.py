"""The table of everything that can be asked."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from typing import Any, Final

from oslo_policy import policy

from quarantine.api import openapi, policies
from quarantine.api.operation import Ask, Operation, Reply
from quarantine.api.resources import (
    alarms,
    approved,
    campaigns,
    capacity,
    certificates,
    drives,
    enrolment,
    history,
    hosts,
    maintenances,
    refusals,
    root,
    servers,
    slots,
)


def description(_ask: Ask) -> Reply:
    """The API's description."""
    return Reply(described())


@functools.cache
def described() -> dict[str, Any]:
    """The same, for tools/samples."""
    return openapi.document(OPERATIONS)


OPERATIONS: Final[tuple[Operation, ...]] = (
    *root.OPERATIONS,
    Operation(
        "GET",
        "/v1/openapi.json",
        "Get this description as OpenAPI 3.1",
        description,
        response={"type": "object", "required": ["openapi", "paths"]},
    ),
    *slots.OPERATIONS,
    *history.OPERATIONS,
    *capacity.OPERATIONS,
    *hosts.OPERATIONS,
    *drives.OPERATIONS,
    *enrolment.OPERATIONS,
    *maintenances.OPERATIONS,
    *campaigns.OPERATIONS,
    *certificates.OPERATIONS,
    *servers.OPERATIONS,
    *approved.OPERATIONS,
    *alarms.OPERATIONS,
    *refusals.OPERATIONS,
)

RULES: Final[Mapping[str, str]] = {
    **{one.rule: one.default for one in OPERATIONS if one.rule},
    servers.LIST_ALL: policies.READER,
}
"""By its name, each rule's default."""

PUBLIC: Final = frozenset(one.path for one in OPERATIONS if not one.rule)
"""Paths that are answered to everybody."""


def list_rules() -> list[policy.RuleDefault]:
    """For oslopolicy-sample-generator."""
    return policies.defaults(RULES)


def table() -> str:
    """For tools/samples."""
    return openapi.page(OPERATIONS)
