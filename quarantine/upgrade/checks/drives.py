"""What hosts say of the drives in their slots."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator
from datetime import datetime
from typing import Final

from quarantine.record.words.clock import is_to_come
from quarantine.record.words.states import State
from quarantine.upgrade.checks.specs import line
from quarantine.upgrade.facts import Facts, Role
from quarantine.upgrade.finding import Check, Finding, FindingLevel, not_given, unknown
from quarantine.upgrade.nova.devicespec import first

_AT_REST: Final = frozenset({State.RELEASED, State.QUARANTINED, State.CERTIFIED, State.AVAILABLE})
"""States in which no guest has the drive: it belongs on the nvme driver."""


def _system(facts: Facts) -> Iterator[Finding]:
    if not facts.of_role(Role.COMPUTE):
        yield not_given(Role.COMPUTE)
    for host in facts.hosts:
        if host.hello is None:
            yield unknown(host.name, "the host has not said yet which drives it runs from")
    for drive in facts.drives:
        # Only "no" is no: where the host could not tell (None), the drive may be the host's own.
        if drive.seen is None or drive.seen.system is False:
            continue
        conf = facts.compute_conf(drive.slot.host)
        spec, _certain = first(conf.device_specs, drive.device) if conf else (None, True)
        # No line matches it and nobody enrolled it: neither Nova nor an order will touch it.
        if spec is None and not drive.cared:
            continue
        named = f"{line(spec)} matches it" if spec else "it is enrolled or in Placement"
        if drive.seen.system:
            yield Finding(str(drive.slot), f"the host runs from this drive, and {named}")
        else:
            yield unknown(str(drive.slot), f"whether the host runs from this drive ({named})")


def _groups(facts: Facts) -> Iterator[Finding]:
    silent: Counter[str] = Counter()
    for drive in facts.drives:
        if not drive.cared:
            continue
        if drive.seen is None or drive.seen.group is None:
            silent[drive.slot.host] += 1
        elif drive.seen.group:
            yield Finding(str(drive.slot), f"shares it with {', '.join(drive.seen.group)}")
    # One line for a host: without an IOMMU no drive of it has a group.
    for host, count in sorted(silent.items()):
        yield unknown(host, f"the host names no IOMMU group for {count} drives (is its IOMMU on?)")


def _bound(facts: Facts) -> Iterator[Finding]:
    heard = {host.name: host.heard_at for host in facts.hosts}
    for drive in facts.drives:
        record, seen = drive.record, drive.seen
        if record is None or seen is None or record.state not in _AT_REST:
            continue
        told = heard[drive.slot.host]
        if seen.driver == "nvme" or told is None:
            continue
        # A hello from before the slot came into this state may still name the guest's driver.
        if _is_later(told, record.entered_at, facts.now):
            yield Finding(
                str(drive.slot),
                f"{record.state}, and on the driver {seen.driver or 'of nobody'} of its host",
            )


def _is_later(heard: datetime, entered: datetime, now: datetime | None) -> bool:
    """Whether a hello came after the state began."""
    if now is not None and is_to_come(heard, now) is not is_to_come(entered, now):
        # The one to come was noted before our clock was set back, and the other since.
        return is_to_come(entered, now)
    return heard > entered


def _models(facts: Facts) -> Iterator[Finding]:
    models: dict[str, set[str]] = defaultdict(set)
    for drive in facts.drives:
        identity = drive.record.identity if drive.record else None
        if drive.record is not None and identity is not None:
            ids = f"{identity.vendor_id:04x}:{identity.device_id:04x}"
            models[drive.record.resource_class].add(f"{ids} {identity.model!r}")
    for name, found in sorted(models.items()):
        if len(found) > 1:
            yield Finding(name, f"{len(found)} models: {', '.join(sorted(found)[:4])}")


DRIVE_CHECKS: Final = (
    Check(
        "system-drive",
        "no drive that its host runs from",
        FindingLevel.FAILURE,
        (),
        "Nova would give the host's own drive to a guest, and an erase order would name it.",
        "Exclude the address from device_spec: write one line per drive, by address.",
        _system,
        of_slots=True,
    ),
    Check(
        "iommu-group",
        "each drive is alone in its IOMMU group",
        FindingLevel.FAILURE,
        (24,),
        "What shares a group goes to the guest with the drive: a guest could reach another drive.",
        "Move the drive to a slot with a group of its own, or enable ACS. The finding names what "
        "is in the group; 'ls /sys/bus/pci/devices/ADDRESS/iommu_group/devices' on the host does.",
        _groups,
        of_slots=True,
    ),
    Check(
        "driver-at-rest",
        "drives that nobody has are on the nvme driver",
        FindingLevel.FAILURE,
        (9, 24),
        "Bound to vfio-pci at boot, or left there, a drive can be neither read nor erased.",
        "Remove the binding (vfio-pci.ids, driverctl, modprobe options) and bind it to nvme.",
        _bound,
        of_slots=True,
    ),
    Check(
        "resource-class-model",
        "a resource class means one model of drive",
        FindingLevel.WARNING,
        (),
        "Tenants of one flavor get drives of different sizes and speeds, and one profile does not "
        "fit them all.",
        "Give each model its own resource_class.",
        _models,
        of_slots=True,
    ),
)
