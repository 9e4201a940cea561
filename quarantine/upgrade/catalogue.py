"""The table of checks."""

from __future__ import annotations

from typing import Final

from quarantine.upgrade.checks.aliases import ALIAS_CHECKS
from quarantine.upgrade.checks.drives import DRIVE_CHECKS
from quarantine.upgrade.checks.hosts import HOST_CHECKS
from quarantine.upgrade.checks.nova import NOVA_CHECKS
from quarantine.upgrade.checks.profiles import PROFILE_CHECKS
from quarantine.upgrade.checks.releases import RELEASE_CHECKS
from quarantine.upgrade.checks.slots import SLOT_CHECKS
from quarantine.upgrade.checks.specs import SPEC_CHECKS
from quarantine.upgrade.facts import Facts
from quarantine.upgrade.finding import Check, CheckResult

CHECKS: Final[tuple[Check, ...]] = (
    *NOVA_CHECKS,
    *RELEASE_CHECKS,
    *SPEC_CHECKS,
    *ALIAS_CHECKS,
    *DRIVE_CHECKS,
    *SLOT_CHECKS,
    *PROFILE_CHECKS,
    *HOST_CHECKS,
)


def judge(facts: Facts) -> tuple[CheckResult, ...]:
    """Every check in the table's order."""
    return tuple(check.result(facts) for check in CHECKS)


def table() -> str:
    """The checks as docs/upgrade-check.md has them."""
    return "\n".join(map(_entry, CHECKS)).rstrip("\n")


def _entry(check: Check) -> str:
    leaks = f", leaks {', '.join(map(str, check.leaks))}" if check.leaks else ""
    return (
        f"\n### {check.name}\n"
        f"Expected: {check.title}. ({check.level.name.lower()}{leaks})\n\n"
        f"{check.why}\n\n"
        f"{check.do}\n"
    )
