"""Releases of Nova and Placement, and Placement's own configuration."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Final

from quarantine.upgrade.facts import Facts
from quarantine.upgrade.finding import Check, Finding, FindingLevel, unknown
from quarantine.upgrade.nova.releases import NOVA_RELEASES

MANY_DRIVES: Final = 8
"""With more equal drives in one host Placement needs its wide provider trees (bug 2126751)."""


def _wide_trees(facts: Facts) -> Iterator[Finding]:
    drives = Counter(drive.slot.host for drive in facts.drives if drive.cared)
    wide = [f"{host} with {count}" for host, count in sorted(drives.items()) if count > MANY_DRIVES]
    if not wide:
        return
    named = f"{len(wide)} hosts have more than {MANY_DRIVES} drives ({', '.join(wide[:3])})"
    if not facts.placement_confs:
        yield unknown(
            "placement", f"{named}; no placement.conf was given, add --nova-conf placement=FILE"
        )
    for conf in facts.placement_confs:
        if not conf.wide_trees:
            yield Finding(
                str(conf.source),
                f"[workarounds]optimize_for_wide_provider_trees is false, and {named}",
            )
        # depth-first takes all candidates of one host before it looks at the next: the first hosts
        # may use up [placement]max_allocation_candidates.
        elif conf.strategy != "breadth-first":
            yield Finding(
                str(conf.source),
                f"[placement]allocation_candidates_generation_strategy is {conf.strategy}, "
                f"and {named}",
            )


def _placement_release(facts: Facts) -> Iterator[Finding]:
    release = facts.placement_release
    if release is None:
        yield unknown("placement", "its release is not known; add --placement-release NUMBER")
    elif release < 14:
        yield Finding("placement", f"release {release}")


def _nova_release(facts: Facts) -> Iterator[Finding]:
    release = facts.nova_release
    if release is None:
        yield unknown("nova", "its release is not known; add --nova-release NUMBER")
    elif release not in NOVA_RELEASES:
        yield Finding("nova", f"release {release}")


RELEASE_CHECKS: Final = (
    Check(
        "nova-release",
        "a release of Nova that is known here",
        FindingLevel.FAILURE,
        (1, 2, 3, 4),
        "Nova 32 (2025.2) is the first with one-time-use devices, for 29 there is a patch of "
        "ours; 30 and 31 have neither. Without the patch a provider that is made anew is on offer "
        "at once.",
        "Upgrade to a release that nova_patch supports (docs/nova-patch.md).",
        _nova_release,
    ),
    Check(
        "placement-release",
        "Placement can move one-time-use devices",
        FindingLevel.WARNING,
        (11,),
        "Before 14 (2025.2) a cold migration, resize or revert of a server with a reserved drive "
        "is refused with a 409 (bug 1943191).",
        "Upgrade Placement, or forbid migrate and resize for these flavors.",
        _placement_release,
    ),
    Check(
        "wide-trees",
        "Placement is ready for many drives in one host",
        FindingLevel.WARNING,
        (),
        "With many equal drives in one host the search for candidates grows beyond all measure, "
        "and servers with several drives fail with no valid host (bug 2126751).",
        "Set [workarounds]optimize_for_wide_provider_trees = true and "
        "[placement]allocation_candidates_generation_strategy = breadth-first in placement.conf.",
        _wide_trees,
        of_slots=True,
    ),
)
