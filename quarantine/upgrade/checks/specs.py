"""Which line of device_spec each drive falls under, and what the lines say."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final

from quarantine.upgrade.facts import Facts, NovaConf, Role, SlotFindings
from quarantine.upgrade.finding import Check, Finding, FindingLevel, confs, not_given, unknown
from quarantine.upgrade.nova.devicespec import DeviceSpec, first


def line(spec: DeviceSpec) -> str:
    """A line of device_spec in findings."""
    return f"device_spec {spec.number} {spec.text[:200]}"


def _refused(facts: Facts) -> Iterator[Finding]:
    for conf in confs(facts, Role.COMPUTE):
        if isinstance(conf, Finding):
            yield conf
            continue
        for words in conf.wrong_specs:
            yield Finding(str(conf.source), words)
        for spec in conf.device_specs:
            if spec.devname is not None and conf.report_in_placement:
                yield Finding(str(conf.source), f"{line(spec)} names a device by devname")
            if spec.one_time_use and not conf.report_in_placement:
                yield Finding(
                    str(conf.source), f"{line(spec)} is one_time_use without report_in_placement"
                )


def _order(facts: Facts) -> Iterator[Finding]:
    for conf in confs(facts, Role.COMPUTE):
        if isinstance(conf, Finding):
            yield conf
            continue
        specs = conf.device_specs
        for place, spec in enumerate(specs):
            if not spec.one_time_use:
                continue
            # The first line that matches decides, so only those before it can take its devices.
            for earlier in specs[:place]:
                if not earlier.one_time_use and _takes_from(facts, conf, earlier, spec):
                    yield Finding(
                        str(conf.source),
                        f"{line(earlier)} is not one_time_use and takes devices of {line(spec)}",
                    )


def _takes_from(facts: Facts, conf: NovaConf, earlier: DeviceSpec, spec: DeviceSpec) -> bool:
    """Whether devices of ``spec`` fall under a line before it.

    A line by address alone overlaps with each line by ids alone: there the drive that sits at the
    address decides, where its host has named it.
    """
    if not earlier.overlaps(spec):
        return False
    # Of more than one address: then any device that both lines match is enough.
    if not all(part is not None and len(part) == 1 for part in spec.address):
        return True
    there = [
        drive.device
        for drive in facts.drives
        if facts.compute_conf(drive.slot.host) is conf and spec.matches(drive.device)
    ]
    # A drive whose ids nobody knows may fall under the earlier line: None counts as a match.
    return not there or any(earlier.matches(device) is not False for device in there)


def _not_one_time(facts: Facts) -> Iterator[Finding]:
    for drive, conf in _configured(facts):
        if isinstance(conf, Finding):
            yield conf
            continue
        spec, certain = first(conf.device_specs, drive.device)
        if spec is None or spec.one_time_use or not drive.cared:
            continue
        words = f"falls under {line(spec)}, which is not one_time_use ({conf.source})"
        yield Finding(str(drive.slot), words, unknown=not certain)


def _unmatched(facts: Facts) -> Iterator[Finding]:
    for drive, conf in _configured(facts):
        if isinstance(conf, Finding):
            yield conf
            continue
        if not drive.cared:
            continue
        spec, certain = first(conf.device_specs, drive.device)
        if spec is None:
            words = f"no line of device_spec names it ({conf.source})"
            yield Finding(str(drive.slot), words, unknown=not certain)
        elif spec.physical_network and spec.one_time_use:
            yield Finding(
                str(drive.slot),
                f"{line(spec)} has a physical_network, so Nova keeps it out of Placement "
                f"({conf.source})",
            )


def _reclassed(facts: Facts) -> Iterator[Finding]:
    for drive, conf in _configured(facts):
        if isinstance(conf, Finding):
            yield conf
            continue
        spec, certain = first(conf.device_specs, drive.device)
        if drive.record is None or spec is None or not spec.one_time_use:
            continue
        name, old = spec.class_of(drive.device), drive.record.resource_class
        if name is not None and name != old:
            words = f"{line(spec)} puts it into {name}, and it is in {old} ({conf.source})"
            yield Finding(str(drive.slot), words, unknown=not certain)


def _managed(facts: Facts) -> Iterator[Finding]:
    yield from _lines(facts, lambda spec: not spec.managed, "managed: no")


def _movable(facts: Facts) -> Iterator[Finding]:
    yield from _lines(facts, lambda spec: spec.live_migratable, "live_migratable")
    for conf in facts.confs:
        for alias in conf.aliases:
            if alias.live_migratable and alias.resource_class in facts.our_classes:
                yield Finding(str(conf.source), f"alias {alias.name} asks for live_migratable")


def _classes(facts: Facts) -> Iterator[Finding]:
    for conf in confs(facts, Role.COMPUTE):
        if isinstance(conf, Finding):
            yield conf
            continue
        for spec in conf.device_specs:
            if not spec.one_time_use and spec.resource_class in facts.our_classes:
                yield Finding(
                    str(conf.source),
                    f"{line(spec)} puts devices that are not one_time_use into "
                    f"{spec.resource_class}",
                )
    # Also what Placement offers already, by whatever configuration it came there.
    for provider in facts.providers:
        view = provider.view
        if view is None or provider.one_time_use:
            continue
        strange = [
            i.resource_class for i in view.inventories if i.resource_class in facts.our_classes
        ]
        if strange:
            yield Finding(
                str(provider.slot), f"offers {strange[0]} without being a one-time-use device"
            )


def _configured(facts: Facts) -> Iterator[tuple[SlotFindings, NovaConf | Finding]]:
    if not facts.of_role(Role.COMPUTE):
        if facts.drives:
            # Once for all drives, and the caller wants a pair.
            yield facts.drives[0], not_given(Role.COMPUTE)
        return
    for drive in facts.drives:
        conf = facts.compute_conf(drive.slot.host)
        if conf is not None:
            yield drive, conf
        elif drive.cared:
            host = drive.slot.host
            yield drive, unknown(str(drive.slot), f"add --nova-conf compute@{host}=FILE")


def _lines(facts: Facts, wrong: Callable[[DeviceSpec], bool], words: str) -> Iterator[Finding]:
    """One-time-use lines, and lines that a drive of ours falls under, with such a tag."""
    for conf in confs(facts, Role.COMPUTE):
        if isinstance(conf, Finding):
            yield conf
            continue
        for spec in conf.device_specs:
            if wrong(spec) and (spec.one_time_use or _takes_ours(facts, conf, spec)):
                yield Finding(str(conf.source), f"{line(spec)} says {words}")


def _takes_ours(facts: Facts, conf: NovaConf, spec: DeviceSpec) -> bool:
    return any(
        drive.cared
        and facts.compute_conf(drive.slot.host) is conf
        and first(conf.device_specs, drive.device)[0] is spec
        for drive in facts.drives
    )


SPEC_CHECKS: Final = (
    Check(
        "device-spec-valid",
        "lines of device_spec that nova-compute takes",
        FindingLevel.FAILURE,
        (),
        "nova-compute does not start with such a line. PCI tracking in Placement refuses devname, "
        "and one_time_use without tracking.",
        "Correct the line; name drives by address.",
        _refused,
    ),
    Check(
        "device-spec-order",
        "no broad line before a one-time-use line",
        FindingLevel.FAILURE,
        (22,),
        "The first line that matches decides. A drive that an earlier line takes is no "
        "one-time-use device: Nova hands it from tenant to tenant without reserving it.",
        "Move the one_time_use line before the broad one, or exclude the drives' addresses from "
        "it.",
        _order,
    ),
    Check(
        "device-spec-one-time-use",
        "every drive falls under a one-time-use line",
        FindingLevel.FAILURE,
        (20, 22),
        "Nova reserves only one-time-use devices: after the next delete this drive is free at "
        "once, with its tenant's data, and searches by trait no longer find it.",
        'Set "one_time_use": "true" in the line that matches the drive.',
        _not_one_time,
        of_slots=True,
    ),
    Check(
        "device-spec-complete",
        "every drive is in device_spec and in Placement",
        FindingLevel.FAILURE,
        (1, 2),
        "At the next start of nova-compute its provider is deleted, and with it the reservation; "
        "when the line comes back the drive is on offer, unless nova_patch is there.",
        "Restore the line before nova-compute is restarted; without physical_network.",
        _unmatched,
        of_slots=True,
    ),
    Check(
        "device-spec-class",
        "every drive stays in its resource class",
        FindingLevel.FAILURE,
        (3,),
        "At its next start nova-compute gives the drive the other class, and the reservation goes "
        "with the old one, unless nova_patch is there. Where a server or our custody has it in the "
        "old class, Placement refuses that, and nova-compute does not start.",
        "Keep the class; or rename it, in the alias too, when every drive of the host is on offer.",
        _reclassed,
        of_slots=True,
    ),
    Check(
        "managed",
        "libvirt takes drives from the host and gives them back",
        FindingLevel.FAILURE,
        (24,),
        "With managed: no the drive stays on vfio-pci: after a guest nothing can read or erase it, "
        "and the gate cannot look at it before the next.",
        "Remove managed from the line (the default is yes).",
        _managed,
        of_slots=True,
    ),
    Check(
        "live-migratable",
        "drives are not called live migratable",
        FindingLevel.FAILURE,
        (11,),
        "Nova would try to move a running server from one drive to another: its data stays behind.",
        "Remove live_migratable from the line and from the alias.",
        _movable,
        of_slots=True,
    ),
    Check(
        "resource-class-meaning",
        "a resource class means one-time-use drives and nothing else",
        FindingLevel.FAILURE,
        (20, 22),
        "A flavor asks for the class: it would as well get a device that nobody erases.",
        "Give the other devices another resource_class.",
        _classes,
        of_slots=True,
    ),
)
