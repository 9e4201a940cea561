"""``[pci]device_spec`` as nova-compute reads it: which line a device falls under.

The lines stand in order and the first that matches a device decides everything about it
(``nova/pci/whitelist.py Whitelist.get_devspec``, ``nova/pci/devspec.py`` of Nova 34). An address is
kept as the set of numbers that each of its parts allows, so that two lines can be compared exactly.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from quarantine.upgrade.nova.names import boolean, class_name, trait_names

_PARTS: Final = (("domain", 0xFFFF, 4), ("bus", 0xFF, 2), ("slot", 0x1F, 2), ("function", 7, 1))
"""Name, largest value and hexadecimal digits, as ``devspec.py`` has them."""

_ANY: Final = "*"
_SWITCHES: Final = ("managed", "live_migratable", "one_time_use")


class SpecError(ValueError):
    """nova-compute does not start with such a line."""


@dataclass(frozen=True)
class PciDevice:
    """A PCI device as hypervisor and driver name it; ids are numbers, ``None`` where unknown."""

    address: str
    vendor: int | None = None
    product: int | None = None

    @property
    def parts(self) -> tuple[int, int, int, int]:
        """Domain, bus, slot and function as numbers."""
        domain, bus, rest = self.address.split(":")
        slot, function = rest.split(".")
        return int(domain, 16), int(bus, 16), int(slot, 16), int(function, 16)


@dataclass(frozen=True)
class DeviceSpec:
    """One dictionary of the option. In a set, ``None`` stands for every value."""

    number: int
    """Counted from 1 over all lines in Nova's order; a list in one line counts for each member."""
    text: str
    vendor: frozenset[int] | None
    product: frozenset[int] | None
    address: tuple[frozenset[int] | None, ...]
    devname: str | None
    physical_network: str | None
    one_time_use: bool
    managed: bool
    live_migratable: bool
    resource_class: str | None
    """As Placement has it; ``None`` where Nova makes it from the device's ids."""
    traits: frozenset[str]

    def matches(self, device: PciDevice) -> bool | None:
        """Whether the device falls under it; ``None`` where its ids are not known.

        ``devname`` names a network interface: no drive has one.
        """
        if self.devname is not None:
            return False
        places = zip(self.address, device.parts, strict=True)
        if not all(allowed is None or value in allowed for allowed, value in places):
            return False
        # None only after both: one id that is known and differs rules the device out.
        unknown = False
        for allowed, value in ((self.vendor, device.vendor), (self.product, device.product)):
            if allowed is None:
                continue
            if value is None:
                unknown = True
            elif value not in allowed:
                return False
        return None if unknown else True

    def overlaps(self, other: DeviceSpec) -> bool:
        """Whether some device would match both."""
        if self.devname is not None or other.devname is not None:
            return False
        mine = (self.vendor, self.product, *self.address)
        theirs = (other.vendor, other.product, *other.address)
        return all(a is None or b is None or a & b for a, b in zip(mine, theirs, strict=True))

    def class_of(self, device: PciDevice) -> str | None:
        """The resource class that Nova gives to the device (``get_resource_class``)."""
        if self.resource_class is not None:
            return self.resource_class
        vendor = _only(self.vendor) if device.vendor is None else device.vendor
        product = _only(self.product) if device.product is None else device.product
        if vendor is None or product is None:
            return None
        return class_name(None, f"{vendor:04x}", f"{product:04x}")


def parse(values: Iterable[str]) -> tuple[tuple[DeviceSpec, ...], tuple[str, ...]]:
    """The lines in order, and in words those that nova-compute would refuse."""
    specs: list[DeviceSpec] = []
    wrong: list[str] = []
    number = 0
    for value in values:
        try:
            found = json.loads(value)
        except (ValueError, RecursionError):
            number += 1
            wrong.append(f"line {number}: expected JSON, found {value[:200]!r}")
            continue
        for member in found if isinstance(found, list) else [found]:
            number += 1
            try:
                specs.append(_parse(number, member))
            except SpecError as error:
                wrong.append(f"line {number}: {error}")
    return tuple(specs), tuple(wrong)


def first(specs: Iterable[DeviceSpec], device: PciDevice) -> tuple[DeviceSpec | None, bool]:
    """The line that decides about the device, and whether that is certain."""
    certain = True
    for spec in specs:
        match = spec.matches(device)
        if match:
            return spec, certain
        if match is None:
            # It may be this line's: what a later line says holds only if it is not.
            certain = False
    return None, certain


def _only(values: frozenset[int] | None) -> int | None:
    return next(iter(values)) if values is not None and len(values) == 1 else None


def _parse(number: int, member: Any) -> DeviceSpec:
    if not isinstance(member, dict):
        raise SpecError(f"expected a dictionary, found {json.dumps(member)[:200]}")
    address, devname = member.get("address"), _text(member, "devname") or None
    if address and devname:
        raise SpecError("expected either address or devname, found both")
    # All are read, for a bad word in any of them keeps nova-compute from starting.
    switches = {name: _switch(member, name) for name in _SWITCHES}
    requested = _text(member, "resource_class")
    return DeviceSpec(
        number=number,
        text=json.dumps(member),
        vendor=_ids(member, "vendor_id"),
        product=_ids(member, "product_id"),
        address=_regex(address) if isinstance(address, dict) else _glob(address or ""),
        devname=devname,
        physical_network=_text(member, "physical_network"),
        one_time_use=bool(switches["one_time_use"]),
        managed=switches["managed"] is not False,
        live_migratable=bool(switches["live_migratable"]),
        resource_class=class_name(requested, "", "") if requested else None,
        traits=trait_names(_text(member, "traits") or ""),
    )


def _text(member: Mapping[str, Any], name: str) -> str | None:
    value = member.get(name)
    if value is None or isinstance(value, str):
        return value
    raise SpecError(f"expected {name} as a string, found {json.dumps(value)[:200]}")


def _switch(member: Mapping[str, Any], name: str) -> bool | None:
    value = member.get(name)
    if value is None:
        return None
    found = boolean(value)
    if found is None:
        raise SpecError(f"expected true or false as {name}, found {json.dumps(value)[:200]}")
    return found


def _ids(member: Mapping[str, Any], name: str) -> frozenset[int] | None:
    if name not in member:
        return None
    value = member[name]
    if not isinstance(value, str):
        raise SpecError(f"expected {name} as a string, found {json.dumps(value)[:200]}")
    # Nova strips the one and not the other.
    return _number(name, value.strip() if name == "vendor_id" else value, 0xFFFF)


def _number(name: str, text: str, largest: int) -> frozenset[int] | None:
    if text == _ANY:
        return None
    try:
        value = int(text, 16)
    except ValueError:
        raise SpecError(f"expected a hexadecimal number as {name}, found {text[:60]!r}") from None
    if value > largest:
        raise SpecError(f"expected {name} of at most {largest:X}, found {text[:60]!r}")
    return frozenset({value})


def _glob(text: Any) -> tuple[frozenset[int] | None, ...]:
    """``[[domain:]bus:][slot][.[function]]``; ``*`` or nothing is any (``PciAddressGlobSpec``)."""
    if not isinstance(text, str):
        raise SpecError(f"expected a string or a dictionary as address, found {text!r:.200}")
    places, _dot, function = text.partition(".")
    fields = places.split(":") if places else []
    if len(fields) > 3:
        raise SpecError(f"expected DOMAIN:BUS:SLOT.FUNCTION as address, found {text[:60]!r}")
    # What is left out is on the left: "81:00" is a bus and a slot of any domain.
    texts = [_ANY] * (3 - len(fields)) + [field.strip() or _ANY for field in fields]
    texts.append(function.strip() if function else _ANY)
    return tuple(
        _number(name, field, largest)
        for (name, largest, _digits), field in zip(_PARTS, texts, strict=True)
    )


def _regex(parts: Mapping[str, Any]) -> tuple[frozenset[int] | None, ...]:
    """Each part a regular expression, matched from its start only (``PciAddressRegexSpec``)."""
    return tuple(
        _matching(name, parts.get(name, ".*"), largest, digits) for name, largest, digits in _PARTS
    )


def _matching(name: str, text: Any, largest: int, digits: int) -> frozenset[int] | None:
    if text == ".*":
        return None
    if not isinstance(text, str):
        raise SpecError(f"expected a regular expression as {name}, found {text!r:.200}")
    try:
        pattern = re.compile(text)
    except (re.error, RecursionError, OverflowError) as error:
        raise SpecError(
            f"expected a regular expression as {name}, found {text[:60]!r}: {error}"
        ) from None
    # Each number as Nova spells it: in hexadecimal, with leading zeros.
    return frozenset(n for n in range(largest + 1) if pattern.match(f"{n:0{digits}x}"))
