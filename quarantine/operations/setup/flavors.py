"""Flavors that ask for whole drives, and the nova.conf lines that make Nova able to give them.

Pure but for what takes a plane or Nova. Names and forms are those of Nova 34: the flavor's extra
spec names an alias and a count, the alias names a resource class, and the device_spec of
nova-compute puts each drive into that class (``nova/conf/pci.py``).
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from itertools import groupby
from typing import TYPE_CHECKING, Final, Protocol

from eraser.protocol.identity import ControllerIdentity, Slot
from quarantine.cloud.compute import Flavor
from quarantine.errors import BadInputError
from quarantine.record.words.states import State
from quarantine.upgrade.checks.releases import MANY_DRIVES

if TYPE_CHECKING:
    from quarantine.operations.plane import Plane
    from quarantine.service.parts import Parts

ALIAS_SPEC: Final = "pci_passthrough:alias"
NUMA_SPEC: Final = "hw:pci_numa_affinity_policy"

_FILTERS: Final = (
    "ComputeFilter",
    "ComputeCapabilitiesFilter",
    "ImagePropertiesFilter",
    "ServerGroupAntiAffinityFilter",
    "ServerGroupAffinityFilter",
    "PciPassthroughFilter",
    "NUMATopologyFilter",
)
"""Nova's own default (``nova/conf/scheduler.py``), and the two that drives need."""


@dataclass(frozen=True)
class FlavorSize:
    """A flavor to be; ram in MiB, disk in GiB."""

    name: str
    drives: int
    vcpus: int
    ram: int
    disk: int


SIZES: Final = (
    FlavorSize("i1-45", 1, 8, 46080, 50),
    FlavorSize("i1-90", 2, 16, 92160, 50),
    FlavorSize("i1-180", 4, 32, 184320, 50),
)


@dataclass(frozen=True)
class FlavorTerms:
    """What all the flavors of one kind of drive share."""

    alias: str = "i1-nvme"
    resource_class: str = "CUSTOM_NVME_I1"
    device_type: str = "type-PCI"
    numa_policy: str = "preferred"
    sizes: tuple[FlavorSize, ...] = SIZES
    extra_specs: Mapping[str, str] = field(default_factory=dict)
    """Beside alias and NUMA policy."""

    def specs(self, size: FlavorSize) -> dict[str, str]:
        """The extra specs of a flavor."""
        ours = {ALIAS_SPEC: f"{self.alias}:{size.drives}", NUMA_SPEC: self.numa_policy}
        return {**ours, **self.extra_specs}


class FlavorFate(StrEnum):
    """What became of a flavor."""

    PLANNED = "planned"
    """Nobody asked Nova."""
    CREATED = "created"
    COMPLETED = "completed"
    """It was there without any extra spec: a creation that was cut short, or by hand."""
    PRESENT = "present"
    """It was there just so."""


class FlavorsNova(Protocol):
    """What is asked of :class:`quarantine.cloud.compute.Compute`."""

    def flavors(self) -> list[Flavor]:
        """Every flavor."""

    def create_flavor(self, name: str, *, vcpus: int, ram: int, disk: int) -> Flavor:
        """A new one without extra specs."""

    def put_extra_specs(self, flavor: str, specs: Mapping[str, str]) -> None:
        """Sets extra specs."""


@dataclass(frozen=True)
class FlavorRequest:
    """What the operator says of the flavors; what is not said is as in :class:`FlavorTerms`."""

    alias: str = FlavorTerms.alias
    resource_class: str | None = None
    """None: that of the enrolled slots."""
    device_type: str = FlavorTerms.device_type
    numa_policy: str = FlavorTerms.numa_policy
    sizes: tuple[FlavorSize, ...] = SIZES
    extra_specs: Mapping[str, str] = field(default_factory=dict)
    slots: tuple[Slot, ...] = ()
    """To be written into device_spec; by default those that are enrolled."""


@dataclass(frozen=True)
class FlavorView:
    """One flavor, and what became of it."""

    name: str
    fate: FlavorFate
    drives: int
    vcpus: int
    ram: int
    """MiB."""
    disk: int
    """GiB."""
    extra_specs: Mapping[str, str]


def plan(plane: Plane, wish: FlavorRequest) -> tuple[FlavorView, ...]:
    """The flavors as they would be. Raises ``BadInputError``."""
    with plane.parts() as parts:
        terms, _drives = _terms(parts, wish)
    return _shown(terms, dict.fromkeys((size.name for size in terms.sizes), FlavorFate.PLANNED))


def make(plane: Plane, wish: FlavorRequest) -> tuple[FlavorView, ...]:
    """Makes them in Nova, as :func:`create`."""
    with plane.assembly() as assembly:
        terms, _drives = _terms(assembly, wish)
        return _shown(terms, create(assembly.compute, terms))


def configuration(plane: Plane, wish: FlavorRequest) -> dict[str, str]:
    """The lines that belong to them, as :func:`nova_conf`. Raises ``BadInputError``."""
    with plane.parts() as parts:
        terms, drives = _terms(parts, wish)
    return nova_conf(terms, drives.items())


def _shown(terms: FlavorTerms, fates: Mapping[str, FlavorFate]) -> tuple[FlavorView, ...]:
    return tuple(
        FlavorView(s.name, fates[s.name], s.drives, s.vcpus, s.ram, s.disk, terms.specs(s))
        for s in terms.sizes
    )


def _terms(
    parts: Parts, wish: FlavorRequest
) -> tuple[FlavorTerms, dict[Slot, ControllerIdentity | None]]:
    """The terms, and the slots for device_spec."""
    drives: dict[Slot, ControllerIdentity | None] = dict.fromkeys(wish.slots)
    classes: set[str] = set()
    # What is enrolled has a class, and drives where they are known. Of slots that are given by hand
    # the record need not know anything.
    if not wish.slots:
        records = [
            r
            for r in parts.store.slots()
            if r.state is not State.RETIRED and wish.resource_class in (None, r.resource_class)
        ]
        drives = {r.slot: r.identity for r in records}
        classes = {r.resource_class for r in records}
    terms = FlavorTerms(
        alias=_plain("--alias", wish.alias),
        resource_class=_plain("--resource-class", wish.resource_class or _one(classes)),
        device_type=wish.device_type,
        numa_policy=wish.numa_policy,
        sizes=wish.sizes,
        extra_specs=wish.extra_specs,
    )
    return terms, drives


def _one(classes: set[str]) -> str:
    if len(classes) > 1:
        raise BadInputError(
            f"flavors: expected one resource class, found {', '.join(sorted(classes))} enrolled; "
            "name one with --resource-class"
        )
    return next(iter(classes), FlavorTerms.resource_class)


def _plain(option: str, text: str) -> str:
    """A name that fits a line of nova.conf and an extra spec."""
    if not text or not all(c.isascii() and (c.isalnum() or c in "._-") for c in text):
        raise BadInputError(f"{option}: expected letters, digits, '.', '_' and '-', found {text!r}")
    return text


def differences(terms: FlavorTerms, size: FlavorSize, found: Flavor) -> tuple[str, ...]:
    """In what an existing flavor of that name is another; empty extra specs can be filled in."""
    wanted = {"vcpus": size.vcpus, "ram": size.ram, "disk": size.disk}
    words = [
        f"{name}: expected {value}, found {getattr(found, name)}"
        for name, value in wanted.items()
        if getattr(found, name) != value
    ]
    # Without any it is one whose creation was cut short between its two calls to Nova.
    if found.extra_specs:
        specs, theirs = terms.specs(size), found.extra_specs
        words += [
            f"{name}: expected {specs.get(name, 'none')}, found {theirs.get(name, 'none')}"
            for name in sorted(specs.keys() | theirs.keys())
            if specs.get(name) != theirs.get(name)
        ]
    return tuple(words)


def create(nova: FlavorsNova, terms: FlavorTerms) -> dict[str, FlavorFate]:
    """Makes the flavors that are missing; the same again changes nothing.

    Raises ``BadInputError`` where one of that name is another: then none was made.
    """
    found = {flavor.name: flavor for flavor in nova.flavors()}
    # All are compared before the first is made: an error leaves Nova as it was.
    wrong = [
        f"{size.name} ({'; '.join(words)})"
        for size in terms.sizes
        if size.name in found and (words := differences(terms, size, found[size.name]))
    ]
    if wrong:
        raise BadInputError(
            f"flavors: expected none of another kind under these names, found {', '.join(wrong)}; "
            "give other names with --flavor, or remove them. Nothing was created"
        )
    fates: dict[str, FlavorFate] = {}
    for size in terms.sizes:
        flavor = found.get(size.name)
        if flavor is not None and flavor.extra_specs:
            fates[size.name] = FlavorFate.PRESENT
            continue
        fates[size.name] = FlavorFate.COMPLETED if flavor else FlavorFate.CREATED
        flavor = flavor or nova.create_flavor(
            size.name, vcpus=size.vcpus, ram=size.ram, disk=size.disk
        )
        nova.put_extra_specs(flavor.id, terms.specs(size))
    return fates


def nova_conf(
    terms: FlavorTerms, drives: Iterable[tuple[Slot, ControllerIdentity | None]]
) -> dict[str, str]:
    """Configuration by service: ``api``, ``scheduler``, ``conductor``, ``compute@HOST``, and
    ``placement`` where a host has many drives."""
    # Sorted first: groupby joins neighbors alone.
    hosts = [
        (host, list(members))
        for host, members in groupby(sorted(drives, key=lambda d: d[0]), lambda d: d[0].host)
    ]
    pci = ["[pci]", f"alias = {_alias(terms)}"]
    placing = ["[filter_scheduler]", "pci_in_placement = true"]
    texts = {
        "api": [*pci, *placing],
        "scheduler": [
            *pci,
            *placing,
            "# Add the last two to your own list.",
            f"enabled_filters = {','.join(_FILTERS)}",
        ],
        "conductor": [*pci, *placing],
    }
    for host, members in hosts:
        texts[f"compute@{host}"] = [
            *pci,
            "# On a host with servers: restart once with this line alone, then add the others.",
            "report_in_placement = true",
            *(f"device_spec = {_device(terms, slot, drive)}" for slot, drive in members),
            # Nova >= 32 does not start nova-compute with an alias of a class alone without it.
            *placing,
        ]
    if any(len(members) > MANY_DRIVES for _host, members in hosts):
        texts["placement"] = [
            "[workarounds]",
            "optimize_for_wide_provider_trees = true",
            "[placement]",
            "allocation_candidates_generation_strategy = breadth-first",
        ]
    return {name: "\n".join(lines) + "\n" for name, lines in texts.items()}


def _alias(terms: FlavorTerms) -> str:
    return json.dumps(
        {
            "name": terms.alias,
            "resource_class": terms.resource_class,
            "device_type": terms.device_type,
            "numa_policy": terms.numa_policy,
        }
    )


def _device(terms: FlavorTerms, slot: Slot, drive: ControllerIdentity | None) -> str:
    """By address, so that no other drive of the host is ever matched; by ids where known."""
    ids = (
        {"vendor_id": f"{drive.vendor_id:04x}", "product_id": f"{drive.device_id:04x}"}
        if drive
        else {}
    )
    return json.dumps(
        {
            "address": slot.address,
            **ids,
            "resource_class": terms.resource_class,
            "one_time_use": "true",
        }
    )


def sizes(texts: Sequence[str]) -> tuple[FlavorSize, ...]:
    """``NAME:DRIVES:VCPUS:RAM:DISK`` from the command line; without any, :data:`SIZES`.

    Raises ``BadInputError`` for another form, and for a name that stands twice.
    """
    found = tuple(_size(text) for text in texts)
    if len({size.name for size in found}) != len(found):
        raise BadInputError("--flavor: expected each name once, found one twice")
    return found or SIZES


def _size(text: str) -> FlavorSize:
    name, *numbers = text.split(":")
    try:
        drives, vcpus, ram, disk = (int(number) for number in numbers)
    except ValueError:
        # Too few parts, too many, or no numbers: all fail the check that follows.
        drives = vcpus = ram = disk = 0
    if not name.strip() or min(drives, vcpus, ram) < 1 or disk < 0:
        raise BadInputError(
            "--flavor: expected NAME:DRIVES:VCPUS:RAM:DISK with ram in MiB and disk in GiB, as in "
            f"i1-45:1:8:46080:50, found {text[:200]!r}"
        )
    return FlavorSize(name, drives, vcpus, ram, disk)
