"""``[pci]alias``: whether flavors reach the drives, and the same ones everywhere."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator
from typing import Final

from quarantine.upgrade.facts import Facts, Role, SlotFindings
from quarantine.upgrade.finding import Check, Finding, FindingLevel, confs, not_given
from quarantine.upgrade.nova.alias import Alias
from quarantine.upgrade.nova.devicespec import DeviceSpec, PciDevice

# A device without ids: a line has a class for it only where it names one, or its own ids.
_NOWHERE: Final = PciDevice("0000:00:00.0")


def _refused(facts: Facts) -> Iterator[Finding]:
    # Of these two roles alone a missing file is told; what is wrong is told of every file.
    for conf in confs(facts, Role.API, Role.COMPUTE):
        if isinstance(conf, Finding):
            yield conf
    for conf in facts.confs:
        for words in conf.wrong_aliases:
            yield Finding(str(conf.source), words)
        names = Counter(alias.name for alias in conf.aliases)
        for name, count in names.items():
            if count > 1 and conf.pci_in_placement:
                yield Finding(
                    str(conf.source), f"alias {name} is given {count} times, with pci_in_placement"
                )
        for alias in conf.aliases:
            if alias.ids is None and not conf.pci_in_placement and _wants_ids(facts):
                yield Finding(
                    str(conf.source),
                    f"alias {alias.name} has no vendor_id and product_id, and "
                    "[filter_scheduler]pci_in_placement is false in the same file",
                )


def _wants_ids(facts: Facts) -> bool:
    """From Nova 32 on nova-api and nova-compute look at all aliases first (``request.py``)."""
    return facts.nova_release is None or facts.nova_release >= 32


def _same(facts: Facts) -> Iterator[Finding]:
    for role in (Role.API, Role.COMPUTE):
        if not facts.of_role(role):
            yield not_given(role)
    names = sorted({alias.name for conf in facts.confs for alias in _ours(facts, conf.aliases)})
    for name in names:
        told: dict[str, list[str]] = defaultdict(list)
        for conf in facts.confs:
            mine = [alias.words for alias in conf.aliases if alias.name == name]
            # nova-api and nova-compute make requests of aliases, so there it must stand. Where
            # another service's file leaves it out, nothing disagrees.
            needed = conf.source.role in (Role.API, Role.COMPUTE, Role.ALL)
            if mine or needed:
                told[" and ".join(mine) or "none"].append(str(conf.source))
        if len(told) > 1:
            parts = (f"{words} in {sources[0]}" for words, sources in sorted(told.items()))
            yield Finding(f"alias {name}", "; ".join(parts))


def _types(facts: Facts) -> Iterator[Finding]:
    for conf in confs(facts, Role.API):
        if isinstance(conf, Finding):
            yield conf
            continue
        for alias in _ours(facts, conf.aliases):
            if alias.device_type == "type-VF":
                yield Finding(
                    str(conf.source),
                    f"alias {alias.name} asks for virtual functions, which are never one-time-use",
                )
                continue
            # What Nova looks for where the alias names no type.
            asked = alias.device_type or "type-PCI"
            for drive in facts.drives:
                if _type(drive, alias.resource_class) not in (None, asked):
                    yield Finding(
                        str(conf.source),
                        f"alias {alias.name} asks for {asked}, {drive.slot} is not",
                    )


def _type(drive: SlotFindings, resource_class: str) -> str | None:
    """A drive's type, where it is of that class and its host says."""
    record = drive.record
    if record is None or record.resource_class != resource_class:
        return None
    if drive.seen is None or drive.seen.sriov is None:
        return None
    return "type-PF" if drive.seen.sriov else "type-PCI"


def _reach(facts: Facts) -> Iterator[Finding]:
    apis = facts.of_role(Role.API)
    if not apis:
        yield not_given(Role.API)
        return
    lines = [
        (conf, spec)
        for conf in facts.of_role(Role.COMPUTE)
        for spec in conf.device_specs
        if spec.one_time_use
    ]
    for conf in apis:
        asked = {alias.resource_class for alias in conf.aliases}
        for name in sorted(facts.our_classes - asked):
            yield Finding(str(conf.source), f"no alias asks for {name}")
        for alias in conf.aliases:
            for compute, spec in lines:
                missed = _missed(alias, spec)
                if missed:
                    yield Finding(
                        str(conf.source),
                        f"alias {alias.name} {missed} device_spec {spec.number} of "
                        f"{compute.source}",
                    )


def _missed(alias: Alias, spec: DeviceSpec) -> str:
    """In what an alias that is meant for the devices of a line does not reach them."""
    # Meant for the line: an alias of its class, or one that asks for the very ids of the line.
    held = spec.class_of(_NOWHERE)
    if held == alias.resource_class:
        lacking = ", ".join(sorted(alias.traits - spec.traits))
        return f"asks for traits ({lacking}) that are not in" if lacking else ""
    if alias.ids is None or held is None:
        return ""
    vendor, product = (frozenset({int(number, 16)}) for number in alias.ids)
    if spec.vendor == vendor and spec.product == product:
        return f"asks for {alias.resource_class}, and for the same ids {held} is in"
    return ""


def _named(facts: Facts) -> Iterator[Finding]:
    if facts.drive_aliases is None:
        return
    for conf in confs(facts, Role.API):
        if isinstance(conf, Finding):
            yield conf
            continue
        names = {alias.name for alias in _ours(facts, conf.aliases)}
        for name in sorted(names - facts.drive_aliases):
            yield Finding(str(conf.source), f"[compute]drive_aliases is without {name}")


def _ours(facts: Facts, aliases: tuple[Alias, ...]) -> tuple[Alias, ...]:
    return tuple(alias for alias in aliases if alias.resource_class in facts.our_classes)


ALIAS_CHECKS: Final = (
    Check(
        "alias-valid",
        "aliases that Nova takes",
        FindingLevel.FAILURE,
        (),
        "Every request with a flavor of any alias fails; from Nova 32 on nova-api and nova-compute "
        "do not start. With PCI in Placement an alias stands for one resource class: it cannot be "
        "given twice. Without it an alias needs ids.",
        "Correct the alias; give drives of two models the same resource_class, or two aliases; set "
        "pci_in_placement wherever an alias has a resource_class alone, nova-compute included.",
        _refused,
    ),
    Check(
        "alias-same",
        "the same aliases everywhere",
        FindingLevel.FAILURE,
        (),
        "nova-api turns a flavor into a request with its own alias, nova-compute with its own when "
        "a server moves: what they disagree on is another drive, or none.",
        "Write the same alias for nova-api, nova-scheduler, nova-conductor and every nova-compute.",
        _same,
    ),
    Check(
        "alias-type",
        "aliases ask for the type that the drives have",
        FindingLevel.FAILURE,
        (),
        "Nova reports an NVMe drive with SR-IOV as type-PF, any other as type-PCI; without "
        "device_type it looks for type-PCI. Placement finds a drive, the host has none.",
        'Set "device_type" of the alias to the drives\' type.',
        _types,
    ),
    Check(
        "alias-reach",
        "every resource class of drives has an alias that reaches it",
        FindingLevel.FAILURE,
        (),
        "Servers with such a flavor find no valid host, or nobody can ask for the drives.",
        "Name the device_spec's resource_class in the alias, and no trait that the line lacks; "
        "'nvme-quarantine flavor config' prints both.",
        _reach,
    ),
    Check(
        "alias-named",
        "[compute]drive_aliases of our own configuration names every alias that asks for drives",
        FindingLevel.WARNING,
        (),
        "Of a flavor with another alias nobody knows that it asks for drives: a device of another "
        "kind can stand for a drive whose allocation was lost, and that is erased in use where "
        "its host cannot tell.",
        "Name the alias in [compute]drive_aliases, and restart the service.",
        _named,
    ),
)
