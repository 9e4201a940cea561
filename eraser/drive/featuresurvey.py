"""Which features a drive has, and what they hold: asked once for each model, for its profile."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from eraser.controller.nvme import Controller
from eraser.controller.passthru import LOG_FEATURES, CommandError
from eraser.controller.spec import IdentifyController, SmartLog
from eraser.drive.features import (
    CHANGEABLE,
    FEATURES,
    KNOWN,
    LASTING,
    LATER,
    NAMESPACE_SPECIFIC,
    SAVEABLE,
    KnownFeature,
    capabilities,
    read,
    same,
    saveable,
)
from eraser.protocol.profile import Comparator, FeatureRule

MAX_NAMESPACES = 32
"""A drive with more is not as its profile anyway, and each answer costs a command."""

_VENDOR = range(0xC0, 0x100)
_OTHERS = (
    *(0x0F, 0x15, 0x19, 0x1A, 0x1B, 0x1C, 0x20, *(known.fid for known in LATER), 0x81, 0x82),
    *_VENDOR,
)
"""Features that only a drive's own word makes worth comparing. Left out are those that the driver
sets with every start (queues 07h, 09h, events 0Bh, power states 0Ch, host memory 0Dh, the time 0Eh,
host behavior 16h), and what moves by itself or is no state (14h, 1Eh, 21h, 25h)."""

_UNDER = 1 << 20
_SENSOR = 16
"""Feature 04h, dword 11 (Base 2.0, 5.27.1.3): THSEL 21:20, TMPSEL 19:16."""

_NVM_SETS = frozenset({0x12, 0x13})
_ENDURANCE_GROUPS = frozenset({0x18, 0x1D})

_LOG_BYTES = 1024


def survey(controller: Controller) -> tuple[FeatureRule, ...]:
    """Every feature that a tenant can change, as saved (as it is where it is not saved).

    What the drive does not have is left out. One that nobody knows is compared only where the drive
    calls it changeable, and where two looks agree: counters move by themselves. Raises
    ``DriveError`` where the drive does not answer.
    """
    identify = controller.identify()
    active = controller.active_namespaces()[:MAX_NAMESPACES]
    found: list[FeatureRule] = []
    for known in FEATURES:
        found += _known(controller, identify, known, active)
    if identify.saves_features:
        found += _others(controller, active)
    return tuple(found)


def _known(
    controller: Controller,
    identify: IdentifyController,
    known: KnownFeature,
    active: tuple[int, ...],
) -> Iterator[FeatureRule]:
    """The feature in each of its places; nothing where the drive does not have it."""
    saves, unsaved = identify.saves_features, None
    for rule in _places(controller, identify, known, active):
        there = read(controller, rule, saves=saves)
        if there is None:
            # A refusal in one place is one in all: more questions would only fill the drive's error
            # log.
            return
        if unsaved is None:
            # Its saved value would be the default (Base 2.1, 4.4), whatever is in force.
            # Where the drive does not tell, the saved one counts: it outlives whatever is in force.
            unsaved = saves and known.fid in LASTING and saveable(controller, rule) is False
        if unsaved:
            there = read(controller, replace(rule, current=True), saves=saves) or there
        yield there


def _places(
    controller: Controller,
    identify: IdentifyController,
    known: KnownFeature,
    active: tuple[int, ...],
) -> Iterator[FeatureRule]:
    """A rule without a value for each place that has one: namespace, sensor, set or group.

    Of NVM sets and endurance groups the first: of several, a profile compares no more.
    """
    rule = FeatureRule(known.fid, known.name, 0, known.comparator)
    if known.per_namespace:
        yield from (replace(rule, nsid=nsid) for nsid in active)
    elif known.fid == 0x04:
        smart = SmartLog.parse(controller.smart_log())
        # Sensor 0 is the composite temperature, which every drive has.
        for sensor in (0, *smart.sensors):
            for direction in (0, _UNDER):
                name = _threshold(sensor, "under" if direction else "over")
                yield replace(rule, name=name, select=sensor << _SENSOR | direction)
    elif known.fid in _ENDURANCE_GROUPS or (known.fid in _NVM_SETS and identify.has_nvm_sets):
        yield replace(rule, select=1)
    else:
        yield rule


def _threshold(sensor: int, direction: str) -> str:
    of = f", sensor {sensor}" if sensor else ""
    return f"temperature threshold, {direction}{of}"


def _others(controller: Controller, active: tuple[int, ...]) -> list[FeatureRule]:
    listed = _listed(controller)
    rules: list[FeatureRule] = []
    for fid in _OTHERS:
        # Each question that is refused is an entry in the drive's error log, so log 12h is asked
        # first.
        if listed is not None and fid not in listed:
            continue
        can = capabilities(controller, fid) or 0
        # What nobody can change, no tenant has changed.
        if can & CHANGEABLE:
            name = "vendor specific" if fid in _VENDOR else "feature"
            name = KNOWN[fid].name if fid in KNOWN else name
            rule = FeatureRule(fid, name, 0, current=not can & SAVEABLE)
            nsids = active if can & NAMESPACE_SPECIFIC else (0,)
            rules += [replace(rule, nsid=nsid) for nsid in nsids]
    # All are read, then all again: between two looks at one feature other commands have passed.
    first = [read(controller, rule, saves=True) for rule in rules]
    second = [read(controller, rule, saves=True) for rule in rules]
    return [
        one if other is not None and same(one, other) else _moving(one)
        for one, other in zip(first, second, strict=True)
        if one is not None
    ]


def _moving(rule: FeatureRule) -> FeatureRule:
    return replace(rule, comparator=Comparator.REPORTED, digest="", data="")


def _listed(controller: Controller) -> frozenset[int] | None:
    """What log 12h says that the drive has (Base 2.0, 5.16.1.18: bit 0 of each dword); None on one
    without it."""
    try:
        raw = controller.log(LOG_FEATURES, _LOG_BYTES, "the Feature Identifiers log (12h)")
    except CommandError as error:
        if not error.status:
            raise
        return None
    found = frozenset(fid for fid in range(256) if raw[4 * fid] & 1)
    # An empty list is not believed: a drive without features would be no NVMe drive.
    return found or None
