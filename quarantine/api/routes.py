"""The table of everything that can be asked."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from quarantine.api import (
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
    policies,
    refusals,
    root,
    servers,
    slots,
)
from quarantine.api.operation import Operation

OPERATIONS: Final[tuple[Operation, ...]] = (
    *root.OPERATIONS,
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
