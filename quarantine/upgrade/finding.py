"""What a check is and what it can say."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from enum import IntEnum

from quarantine.upgrade.facts import Facts, NovaConf, Role


class FindingLevel(IntEnum):
    """As oslo.upgradecheck counts (``upgradecheck.Code``); the greatest is the exit code."""

    SUCCESS = 0
    WARNING = 1
    FAILURE = 2


@dataclass(frozen=True)
class Finding:
    """One place where a condition holds, or where nobody can tell (``unknown``)."""

    where: str
    found: str
    unknown: bool = False


@dataclass(frozen=True)
class Check:
    """One condition that leaks or breaks. ``leaks`` are numbers of docs/leaks.md."""

    name: str
    title: str
    level: FindingLevel
    """Of a finding that is certain; one that is unknown is a warning."""
    leaks: tuple[int, ...]
    why: str
    do: str
    run: Callable[[Facts], Iterable[Finding]]
    of_slots: bool = False
    """About slots: nothing can be said without the record and Placement."""
    of_hosts: bool = False
    """About hosts: nothing can be said without the record."""

    def result(self, facts: Facts) -> CheckResult:
        """Makes the check."""
        if (self.of_slots or self.of_hosts) and facts.record_trouble:
            return CheckResult(self, (unknown("record", facts.record_trouble),))
        if self.of_slots and facts.placement_trouble:
            return CheckResult(self, (unknown("Placement", facts.placement_trouble),))
        return CheckResult(self, tuple(dict.fromkeys(self.run(facts))))


@dataclass(frozen=True)
class CheckResult:
    """What one check came to."""

    check: Check
    findings: tuple[Finding, ...]

    @property
    def level(self) -> FindingLevel:
        """Its worst finding's."""
        return max(map(self.level_of, self.findings), default=FindingLevel.SUCCESS)

    def level_of(self, finding: Finding) -> FindingLevel:
        """Not to know is a warning, whatever it is about."""
        return FindingLevel.WARNING if finding.unknown else self.check.level


def unknown(where: str, missing: str) -> Finding:
    """The check could not be made: ``missing`` says what for."""
    return Finding(where, missing, unknown=True)


def confs(facts: Facts, *roles: Role) -> Iterator[NovaConf | Finding]:
    """The configurations of those roles; for a role without any, that this is unknown."""
    # One file may be for every role: it is judged once.
    told: set[NovaConf] = set()
    for role in roles:
        found = facts.of_role(role)
        if not found:
            yield not_given(role)
        for conf in found:
            if conf not in told:
                told.add(conf)
                yield conf


def not_given(role: Role) -> Finding:
    """Nobody showed us that role's configuration."""
    return unknown(str(role), f"no configuration was given; add --nova-conf {role}=FILE")
