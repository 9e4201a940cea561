"""The table of everything that can be looked at and done."""

from __future__ import annotations

from typing import Final

from quarantine.page.view import PageView
from quarantine.page.views import (
    acts,
    alarms,
    campaigns,
    certificates,
    drives,
    history,
    hosts,
    maintenances,
    slots,
    triage,
)

VIEWS: Final[tuple[PageView, ...]] = (
    *triage.VIEWS,
    *slots.VIEWS,
    *acts.VIEWS,
    *drives.VIEWS,
    *hosts.VIEWS,
    *alarms.VIEWS,
    *history.VIEWS,
    *campaigns.VIEWS,
    *maintenances.VIEWS,
    *certificates.VIEWS,
)
