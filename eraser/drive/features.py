"""The features that a tenant can change and that outlive it, by name (Base 2.0, figure 317)."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

from eraser.drive import hostmetadata
from eraser.drive.nvme import Controller
from eraser.drive.passthru import CommandError
from eraser.wire.profile import FEATURE_DATA_BYTES, Comparator, FeatureRule


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
    """Host metadata comes with it: compared by digest, element by element in any order."""


FEATURES = (
    KnownFeature(0x01, "arbitration"),
    KnownFeature(0x02, "power management"),
    # The driver sets the temperature thresholds and may coalesce interrupts: shown, not compared.
    KnownFeature(0x04, "temperature threshold", Comparator.REPORTED),
    KnownFeature(0x05, "error recovery", per_namespace=True),
    KnownFeature(0x06, "volatile write cache"),
    KnownFeature(0x08, "interrupt coalescing", Comparator.REPORTED),
    KnownFeature(0x0A, "write atomicity"),
    KnownFeature(0x10, "host controlled thermal management"),
    KnownFeature(0x11, "non-operational power states"),
    KnownFeature(0x17, "sanitize configuration"),
    # Counts boots that had no operating system: it grows by itself.
    KnownFeature(0x80, "software progress marker", Comparator.REPORTED),
    KnownFeature(0x83, "reservation persistence", per_namespace=True, saved=False),
    KnownFeature(0x84, "namespace write protection", per_namespace=True, saved=False),
    KnownFeature(0x85, "boot partition write protection", saved=False),
    # Text that a host leaves in the drive: a message from one tenant to the next. By the standard
    # it is neither saved nor outlives a reset; what counts is what a drive has kept.
    KnownFeature(hostmetadata.ENHANCED, "enhanced controller metadata", saved=False, data=True),
    KnownFeature(hostmetadata.CONTROLLER, "controller metadata", saved=False, data=True),
    KnownFeature(
        hostmetadata.NAMESPACE, "namespace metadata", per_namespace=True, saved=False, data=True
    ),
)
"""What the driver sets anew with every start (queues, power states, host memory, events), and what
belongs to no single drive (NVM sets, endurance groups), is left out."""

PER_NAMESPACE = frozenset(known.fid for known in FEATURES if known.per_namespace)

MAX_NAMESPACES = 32
"""A drive with more is not as its profile anyway, and each answer costs a command."""


def features(controller: Controller) -> tuple[FeatureRule, ...]:
    """The saved values (current ones where nothing is saved) of :data:`FEATURES`.

    What the drive does not know is left out. Raises ``DriveError`` where it does not answer.
    """
    saves = controller.identify().saves_features
    active = controller.active_namespaces()[:MAX_NAMESPACES]
    found: list[FeatureRule] = []
    for known in FEATURES:
        for nsid in active if known.per_namespace else (0,):
            rule = _read(controller, known, nsid, saved=saves and known.saved)
            if rule is None:
                break
            found.append(rule)
    return tuple(found)


def _read(
    controller: Controller, known: KnownFeature, nsid: int, *, saved: bool
) -> FeatureRule | None:
    for kind in (True, False) if saved else (False,):
        try:
            value, digest, data = 0, "", b""
            if known.data:
                data = hostmetadata.in_order(
                    controller.feature_data(known.fid, nsid, length=FEATURE_DATA_BYTES, saved=kind)
                )
                digest = hashlib.sha256(data).hexdigest()
            else:
                value = controller.get_feature(known.fid, nsid, saved=kind)
        except CommandError as error:
            if error.status is None:
                raise
        else:
            return FeatureRule(
                known.fid,
                known.name,
                value,
                known.comparator,
                nsid,
                digest,
                data.rstrip(b"\0").hex(),
            )
    return None


def differing(
    wanted: tuple[FeatureRule, ...], found: tuple[FeatureRule, ...]
) -> tuple[tuple[FeatureRule, FeatureRule | None], ...]:
    """Rules that a drive does not keep, each with what it has instead. Pure.

    A rule of an older profile names no namespace: it was read of the first one, and is held
    against that.
    """
    result: list[tuple[FeatureRule, FeatureRule | None]] = []
    for rule in wanted:
        if rule.comparator is not Comparator.EQUAL:
            continue
        anywhere = rule.fid in PER_NAMESPACE and not rule.nsid
        same = (f for f in found if f.fid == rule.fid and (anywhere or f.nsid == rule.nsid))
        other = next(same, None)
        if other is None or (other.value, other.digest) != (rule.value, rule.digest):
            result.append((rule, other))
    return tuple(result)
