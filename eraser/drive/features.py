"""The features that a tenant can change and that outlive it: which there are, and what they hold.

A profile names what drives of its model have (:mod:`eraser.drive.featuresurvey`), and a drive is
asked for that and for nothing else: each question that it refuses is an entry in its error log.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, replace

from eraser.controller.nvme import Controller
from eraser.controller.passthru import (
    FEATURE_CAPABILITIES,
    FEATURE_CURRENT,
    FEATURE_DEFAULT,
    FEATURE_SAVED,
    CommandError,
)
from eraser.drive import bootlocks, hostidentifier, hostmetadata, personality
from eraser.protocol.profile import FEATURE_DATA_BYTES, Comparator, FeatureRule


@dataclass(frozen=True)
class KnownFeature:
    """A feature worth reading, and how a profile is to hold it against a drive."""

    fid: int
    name: str
    comparator: Comparator = Comparator.EQUAL
    per_namespace: bool = False
    saved: bool = True
    """Read as saved where the drive saves features. Not for a state that lasts by itself: a drive
    answers a question for its saved value with the default."""
    data: bool = False
    """A data structure comes with it, which is compared by its digest."""
    metadata: bool = False
    """It is host metadata: elements in any order, each added and deleted by a command."""
    mask: int = 0xFFFF_FFFF
    """The bits of dword 0 that are its value."""
    in_dword_12: bool = False
    """Set Features takes the value in dword 12, and in dword 11 what it is of."""
    in_dword_13: bool = False
    """Set Features takes the value in dword 13."""
    own_default: bool = False
    """Each drive may have another default, so that one is as good as the profile's value."""


FEATURES = (
    KnownFeature(0x01, "arbitration"),
    KnownFeature(0x02, "power management"),
    # NVM 1.0, 4.1.3.1: up to 64 ranges with a GUID each. A drive's own default may name itself.
    KnownFeature(
        0x03, "LBA range type", per_namespace=True, data=True, mask=0x3F, own_default=True
    ),
    # By sensor and direction (Base 2.0, 5.27.1.3). Linux reads them, and sets none by itself.
    KnownFeature(0x04, "temperature threshold", mask=0xFFFF),
    KnownFeature(0x05, "error recovery", per_namespace=True),
    KnownFeature(0x06, "volatile write cache"),
    # Linux never sets it: what a tenant saves delays each completion of the next one by up to
    # 25.5 ms (Base 2.0, 5.27.1.6).
    KnownFeature(0x08, "interrupt coalescing"),
    KnownFeature(0x0A, "write atomicity"),
    KnownFeature(0x10, "host controlled thermal management"),
    KnownFeature(0x11, "non-operational power states"),
    KnownFeature(0x12, "read recovery level", mask=0xF, in_dword_12=True),
    KnownFeature(0x13, "predictable latency mode", data=True, in_dword_12=True),
    KnownFeature(0x17, "sanitize configuration"),
    KnownFeature(0x18, "endurance group events", mask=0xFF_0000),
    # Its drives refuse it while an endurance group has namespaces (Base 2.1, 5.1.25.1.20).
    KnownFeature(0x1D, "flexible data placement", mask=0xFF01, in_dword_12=True),
    KnownFeature(0x1F, "namespace admin label", per_namespace=True, data=True, mask=0),
    KnownFeature(0x78, "embedded management controller address", data=True, mask=0),
    KnownFeature(0x79, "host management agent address", data=True, mask=0),
    # Text that a host leaves in the drive: a message from one tenant to the next. By the standard
    # it is neither saved nor outlives a reset; what counts is what a drive has kept.
    KnownFeature(
        hostmetadata.ENHANCED,
        "enhanced controller metadata",
        saved=False,
        data=True,
        metadata=True,
        mask=0,
    ),
    KnownFeature(
        hostmetadata.CONTROLLER,
        "controller metadata",
        saved=False,
        data=True,
        metadata=True,
        mask=0,
    ),
    KnownFeature(
        hostmetadata.NAMESPACE,
        "namespace metadata",
        per_namespace=True,
        saved=False,
        data=True,
        metadata=True,
        mask=0,
    ),
    # Counts boots that had no operating system: it grows by itself.
    KnownFeature(0x80, "software progress marker", Comparator.REPORTED),
    KnownFeature(0x83, "reservation persistence", per_namespace=True, saved=False),
    KnownFeature(0x84, "namespace write protection", per_namespace=True, saved=False),
    KnownFeature(bootlocks.FEATURE, "boot partition write protection", saved=False),
)
"""By number (Base 2.1, figure 385; NVM 1.0, figure 81)."""

LATER = (
    KnownFeature(personality.FEATURE, "configurable device personality", saved=False),
    # It takes power states from the drive (Base 2.3, 8.1.18.6), for good where it is saved.
    KnownFeature(0x23, "power limit", in_dword_13=True),
    KnownFeature(0x24, "power threshold"),
)
"""Those of NVMe 2.3: most drives have none, so they are asked only where the drive itself names
them (Base 2.3, figure 403)."""

KNOWN = {known.fid: known for known in (*FEATURES, *LATER)}

LASTING = frozenset(
    {0x03, 0x05, 0x10, 0x12, 0x13, 0x17, 0x18, 0x19, 0x1A, 0x1B, 0x1C, 0x1D, 0x1F, 0x20}
    | {0x78, 0x79, 0x82}
)
"""Features whose current value may outlive resets though nobody saved it: persistent ones of drives
that do not save them (Base 2.1, 4.4 and figure 385; NVM 1.1, figure 91), and those of a wider scope
than the controller, where one of several is reset (Base 2.1, figure 125). Linux sets none of them:
what differs from the saved value is nobody's who is to be trusted. What its driver does set (02h,
06h, 07h, 0Bh to 0Eh, 16h, 81h) goes with each reset, and is not here."""

_NOT_MENDED = frozenset({0x1D})
"""No Set Features is taken of these while there are namespaces (Base 2.1, 5.1.25.1.20)."""

SAVEABLE, NAMESPACE_SPECIFIC, CHANGEABLE = 1 << 0, 1 << 1, 1 << 2
"""Supported Capabilities, dword 0 (Base 2.0, figure 196)."""

PER_NAMESPACE = frozenset(known.fid for known in FEATURES if known.per_namespace)


def known_of(rule: FeatureRule) -> KnownFeature:
    """What is known of a rule's feature. Of any other one the profile says whether it is saved; its
    data is read whether there is any or not."""
    unknown = KnownFeature(rule.fid, rule.name, saved=not rule.current, data=True)
    return KNOWN.get(rule.fid, unknown)


def features(controller: Controller, wanted: tuple[FeatureRule, ...]) -> tuple[FeatureRule, ...]:
    """What the drive has in place of each rule that is compared; nothing where it has none.

    Raises ``DriveError`` where it does not answer.
    """
    saves, active = controller.identify().saves_features, controller.active_namespaces()
    found: list[FeatureRule] = []
    for rule in wanted:
        if rule.comparator is not Comparator.EQUAL:
            continue
        # Such an old rule is asked of the first active namespace, as it was when the profile was
        # made.
        asked = rule
        if _of_any_namespace(rule) and active:
            asked = replace(rule, nsid=active[0])
        other = read(controller, asked, saves=saves)
        if other is not None:
            found.append(_in_its_place(controller, asked, other) if saves else other)
    return tuple(found)


def _of_any_namespace(rule: FeatureRule) -> bool:
    """A rule of an older profile names no namespace: it was read of the first one."""
    return rule.fid in PER_NAMESPACE and not rule.nsid


def read(controller: Controller, rule: FeatureRule, *, saves: bool) -> FeatureRule | None:
    """The rule with what the drive has: as saved, else what is in force; None where it refuses.

    Raises ``DriveError`` where it does not answer.
    """
    saved = saves and known_of(rule).saved and not rule.current
    # The saved value is what outlives a reset; some drives save features and refuse this one's.
    for select in (FEATURE_SAVED, FEATURE_CURRENT) if saved else (FEATURE_CURRENT,):
        found = read_as(controller, rule, select)
        if found is not None:
            return found
    return None


def read_as(controller: Controller, rule: FeatureRule, select: int) -> FeatureRule | None:
    """The same of one of its values: current, default or saved."""
    known = known_of(rule)
    length = FEATURE_DATA_BYTES if known.data else 0
    try:
        value, data = controller.feature(
            rule.fid, rule.nsid, cdw11=rule.select, select=select, length=length
        )
    except CommandError as error:
        if not error.status:
            raise
        return None
    # Order does not count: two drives that got the same elements in another order are the same.
    if known.metadata:
        data = hostmetadata.in_order(data)
    # An inspection may have named us to the drive; a reset of the controller takes that off.
    if rule.fid == hostidentifier.FID and hostidentifier.is_ours(data):
        data = bytes(len(data))
    # Data that is all zeros is the same as none: nobody can tell whether the drive sent any.
    there = known.metadata or any(data)
    return replace(
        rule,
        value=value & known.mask,
        digest=hashlib.sha256(data).hexdigest() if there else "",
        data=data.rstrip(b"\0").hex(),
    )


def capabilities(controller: Controller, fid: int, nsid: int = 0) -> int | None:
    """What the drive says that can be done with a feature; None where it refuses, as some do for
    one of a namespace that is not named."""
    try:
        return controller.feature(fid, nsid, select=FEATURE_CAPABILITIES)[0]
    except CommandError as error:
        if not error.status:
            raise
        return None


def saveable(controller: Controller, rule: FeatureRule) -> bool | None:
    """Whether the drive says that it saves a feature; None where it does not tell."""
    can = capabilities(controller, rule.fid, rule.nsid)
    return None if can is None else bool(can & SAVEABLE)


def _in_its_place(controller: Controller, rule: FeatureRule, found: FeatureRule) -> FeatureRule:
    """``found``, or where that is as it should be the value beside it: of what lasts unsaved, the
    saved value and the one in force are both compared."""
    known = known_of(rule)
    found = _default_as_good(controller, rule, found, known.own_default)
    if rule.fid not in LASTING or not same(rule, found):
        return found
    select = FEATURE_SAVED if rule.current else FEATURE_CURRENT
    beside = read_as(controller, rule, select)
    if beside is None or same(rule, beside):
        return found
    saved = saveable(controller, rule)
    # Whatever a drive says of a saved value that it does not have, nobody has left it there. One
    # that does not tell may have it: a reset would bring it to the next user.
    if saved is False and rule.current:
        return found
    # Such a rule has a default in place of what was in force on the maker's drives: to hold all of
    # them for that would mend nothing. A profile that is proposed anew has it.
    if not saved and rule.fid in _NOT_MENDED and not rule.current:
        return found
    # Nor its default, which an older profile may not have.
    return _default_as_good(controller, rule, beside, known.own_default or not saved)


def _default_as_good(
    controller: Controller, rule: FeatureRule, found: FeatureRule, as_good: bool
) -> FeatureRule:
    """``rule`` where the drive has what it says is its default, and that is as good."""
    # Asked only where the values differ: most drives are spared the question.
    if not as_good or same(rule, found):
        return found
    default = read_as(controller, rule, FEATURE_DEFAULT)
    return rule if default is not None and same(default, found) else found


def same(one: FeatureRule, other: FeatureRule) -> bool:
    """Whether two rules of one feature have the same value and data."""
    return (one.value, one.digest) == (other.value, other.digest)


def differing(
    wanted: tuple[FeatureRule, ...], found: tuple[FeatureRule, ...]
) -> tuple[tuple[FeatureRule, FeatureRule | None], ...]:
    """Rules that a drive does not keep, each with what it has instead. Pure."""
    result: list[tuple[FeatureRule, FeatureRule | None]] = []
    for rule in wanted:
        if rule.comparator is not Comparator.EQUAL:
            continue
        anywhere = _of_any_namespace(rule)
        of_it = (f for f in found if (f.fid, f.select) == (rule.fid, rule.select))
        other = next((f for f in of_it if anywhere or f.nsid == rule.nsid), None)
        if other is None or not same(rule, other):
            result.append((rule, other))
    return tuple(result)
