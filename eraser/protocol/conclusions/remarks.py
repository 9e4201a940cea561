"""What a drive's health record means under a policy. One judgement, for host and control plane."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from eraser.protocol.fitness import Consequence, Health, HealthFinding
from eraser.protocol.report import ControllerFacts, HealthRecord, LinkRecord

_WARNINGS = (
    (HealthFinding.SPARE_LOW, "available spare below its threshold"),
    (HealthFinding.HOT, "temperature beyond a threshold"),
    (HealthFinding.UNRELIABLE, "reliability degraded"),
    (HealthFinding.READ_ONLY, "media read only"),
    (HealthFinding.BACKUP_FAILED, "volatile memory backup failed"),
    (HealthFinding.MEMORY_READ_ONLY, "persistent memory region read only"),
    (HealthFinding.OTHER_WARNING, "reserved bits"),
    (HealthFinding.OTHER_WARNING, "reserved bits"),
)
"""Critical Warning bits 0 to 7 (Base 2.0, 5.16.1.3)."""


@dataclass(frozen=True)
class Remark:
    """One finding, what it leads to, and one line for people."""

    finding: HealthFinding
    consequence: Consequence
    text: str


def remarks(
    health: HealthRecord, policy: Health, *looks: ControllerFacts | None
) -> tuple[Remark, ...]:
    """Everything that is wrong with the drive, each finding once. ``looks`` are those at the drive
    before its erase and after it."""
    found: dict[HealthFinding, Remark] = {}
    checked = _checked(*looks)
    for finding, warned, text in _findings(health, policy):
        consequence = policy.consequence(finding)
        if warned and policy.allow_critical_warning:
            consequence = Consequence.NOTE
        if finding is HealthFinding.MEDIA_ERRORS and checked:
            consequence, text = Consequence.NOTE, f"{text}; {_CHECKED}"
        # A drive may warn of what its counters show too: the warning comes first, and is told once.
        found.setdefault(finding, Remark(finding, consequence, f"health: {text}"))
    return tuple(found.values())


_CHECKED = (
    "a namespace had protection information, which an erase leaves wrong, and drives may count "
    "each read that checks it"
)
_PROTECTED = 0x7
"""DPS bits 2:0: the type of protection information, 0 for none (NVM 1.0, 4.1.5.1)."""


def _checked(*looks: ControllerFacts | None) -> bool:
    """Whether the kernel's reads had the drive check what an erase cannot keep: a failed check is
    counted as a media error (log 02h bytes 175:160), and says nothing of the medium. A block that
    cannot be read for another reason is found by the reading."""
    return any(
        bool(each.protection & _PROTECTED)
        for look in looks
        if look is not None
        for each in (*look.namespaces, *look.detached)
    )


def _findings(health: HealthRecord, policy: Health) -> Iterator[tuple[HealthFinding, bool, str]]:
    """Finding, whether it is a warning of the drive's own, and what was expected and found."""
    for bit, (finding, name) in enumerate(_WARNINGS):
        if health.critical_warning >> bit & 1:
            yield (
                finding,
                True,
                f"expected no critical warning, found {health.critical_warning:#04x} ({name})",
            )
    yield from _spare(health, policy)
    if health.percentage_used > policy.max_percentage_used:
        yield (
            HealthFinding.WORN,
            False,
            f"expected at most {policy.max_percentage_used} % of the endurance used, "
            f"found {health.percentage_used} %",
        )
    new = health.media_errors_after - health.media_errors_before
    if new > policy.max_new_media_errors:
        allowed = policy.max_new_media_errors
        yield (
            HealthFinding.MEDIA_ERRORS,
            False,
            f"expected {f'at most {allowed}' if allowed else 'no'} new media errors, found {new} "
            "during this case",
        )
    if health.link is not None:
        yield from _link(health.link)


def _spare(health: HealthRecord, policy: Health) -> Iterator[tuple[HealthFinding, bool, str]]:
    """Both are percentages; some drives leave them 0, or FFh, without a warning: not reported."""
    spare = health.available_spare
    if not 0 < spare <= 100:
        return
    # Above 100 it is no percentage, and nothing is below it then.
    threshold = health.spare_threshold if health.spare_threshold <= 100 else 0
    if spare < threshold:
        finding, whose, least = HealthFinding.SPARE_LOW, "the drive's", threshold
    elif spare < policy.min_available_spare:
        finding, whose, least = (
            HealthFinding.SPARE_SHORT,
            "the policy's",
            policy.min_available_spare,
        )
    else:
        return
    text = f"expected at least {least} % of spare ({whose} threshold), found {spare} %"
    yield finding, False, text


def _link(link: LinkRecord) -> Iterator[tuple[HealthFinding, bool, str]]:
    if 0 < link.width < link.width_able:
        yield (
            HealthFinding.LINK_NARROW,
            False,
            f"expected a PCI Express link of {link.width_able} lanes, which drive and slot both "
            f"have, found {link.width}; reseat the drive",
        )
    if 0 < link.speed < link.speed_able:
        yield (
            HealthFinding.LINK_SLOW,
            False,
            f"expected a PCI Express link at {link.speed_able:g} GT/s, which drive and slot both "
            f"can, found {link.speed:g} GT/s; reseat the drive",
        )
