"""Approved profiles held against what this release's ``inspect --save`` asks a drive for."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Final

from eraser.protocol.profile import Comparator, Profile
from quarantine.upgrade.checks.slots import enrolled
from quarantine.upgrade.facts import Facts
from quarantine.upgrade.finding import Check, Finding, FindingLevel

ADDED: Final = (0x03, 0x12, 0x13, 0x18, 0x1D, 0x1F, 0x22, 0x23, 0x24, 0x78, 0x79)
"""Features that earlier releases asked no drive for; and they asked for none of a vendor's."""

ONLY_REPORTED: Final = {0x04: "temperature threshold", 0x08: "interrupt coalescing"}
"""What every drive has, and earlier releases proposed to report: now it is compared."""

EARLIER: Final = frozenset(
    {0x01, 0x02, 0x05, 0x06, 0x0A, 0x10, 0x11, 0x17, 0x7D, 0x7E, 0x7F, 0x80, 0x83, 0x84, 0x85}
    | ONLY_REPORTED.keys()
)
"""All that they asked for."""


def newly_surveyed(profile: Profile) -> bool:
    """Whether a profile shows that this release's survey, or a later one, proposed it.

    A profile does not say who proposed it, and what a drive lacks is in none: that features are
    missing shows nothing. A person may have set a comparator to ``reported`` since, which takes
    away no more than one sign; without any the profile counts as an earlier one.
    """
    rules = profile.features
    compared = {rule.fid for rule in rules if rule.comparator is Comparator.EQUAL}
    # One sign is enough: both features compared, or a rule that earlier releases could not propose.
    return compared >= ONLY_REPORTED.keys() or any(
        rule.select or rule.current or rule.data or rule.fid not in EARLIER for rule in rules
    )


def _older(facts: Facts) -> Iterator[Finding]:
    slots = Counter(drive.record.profile for drive in enrolled(facts, retired=True) if drive.record)
    for name, count in sorted(slots.items()):
        profile = facts.profiles.get(name)
        if profile is None or newly_surveyed(profile):
            continue
        compared = {rule.fid for rule in profile.features if rule.comparator is Comparator.EQUAL}
        missing = [
            f"{text} ({fid:02X}h)" for fid, text in ONLY_REPORTED.items() if fid not in compared
        ]
        rest = ", ".join(f"{fid:02X}h" for fid in ADDED)
        yield Finding(
            f"profile {name!r}",
            f"{count} slots are enrolled with it, and an earlier release proposed it: it does not "
            f"compare {', '.join((*missing, f'features {rest}'))} or those of the vendor, where "
            "the drives have them",
        )


PROFILE_CHECKS: Final = (
    Check(
        "profile-features",
        "profiles of enrolled slots compare every feature that this release asks drives for",
        FindingLevel.WARNING,
        (),
        "What a profile does not name is neither compared nor set back: a text, a threshold or a "
        "delay of completions that a tenant saves in such a feature goes to the next one, with a "
        "certificate that says erased and fit.",
        "Propose it anew from a drive of that model fresh from its maker (nvme-eraser inspect "
        "--save FILE --name NAME, with the name that it has), read it, and "
        "nvme-quarantine profile approve FILE --by NAME: it counts from the next order on.",
        _older,
        of_slots=True,
    ),
)
