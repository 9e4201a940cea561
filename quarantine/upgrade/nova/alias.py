"""``[pci]alias`` as Nova reads it (``nova/pci/request.py get_alias_from_config``, Nova 34)."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from quarantine.upgrade.nova.names import boolean, class_name, trait_names

_TEXTS: Final = frozenset(
    {
        "name",
        "capability_type",
        "product_id",
        "vendor_id",
        "device_type",
        "numa_policy",
        "resource_class",
        "traits",
        "live_migratable",
    }
)
_TYPES: Final = ("type-PCI", "type-PF", "type-VF")
_POLICIES: Final = ("required", "legacy", "preferred", "socket")
"""``PCINUMAAffinityPolicy.ALL``."""

_IDS: Final = re.compile("[0-9a-fA-F]{4}")


@dataclass(frozen=True)
class Alias:
    """One value of the option; two are the same where Nova asks Placement and the host for the
    same by them."""

    name: str
    device_type: str | None
    numa_policy: str
    resource_class: str
    """As Placement has it, made from the ids where none is named."""
    traits: frozenset[str]
    live_migratable: bool | None
    ids: tuple[str, str] | None
    """Vendor and product, where the alias asks for them."""

    @property
    def words(self) -> str:
        """For findings."""
        traits = f", traits {', '.join(sorted(self.traits))}" if self.traits else ""
        ids = f", ids {':'.join(self.ids)}" if self.ids else ""
        moves = "" if self.live_migratable is None else f", live_migratable {self.live_migratable}"
        return (
            f"{self.resource_class}, {self.device_type or 'no device_type'}, "
            f"numa_policy {self.numa_policy}{ids}{traits}{moves}"
        )


def parse(values: Iterable[str]) -> tuple[tuple[Alias, ...], tuple[str, ...]]:
    """The aliases in order, and in words those that Nova would refuse."""
    found: list[Alias] = []
    wrong: list[str] = []
    for number, value in enumerate(values, 1):
        try:
            found.append(_parse(json.loads(value)))
        except (ValueError, RecursionError) as error:
            wrong.append(f"alias {number}: {error} ({value[:200]!r})")
    return tuple(found), tuple(wrong)


def _parse(members: Any) -> Alias:
    if not isinstance(members, dict):
        raise ValueError("expected a dictionary")
    for name, value in members.items():
        if name not in _TEXTS:
            raise ValueError(f"expected no member {name[:60]!r}")
        if not isinstance(value, str):
            raise ValueError(f"expected a string as {name}")
    _one_of(members, "capability_type", ("pci",))
    _one_of(members, "device_type", _TYPES)
    _one_of(members, "numa_policy", _POLICIES)
    name = members.get("name", "")
    if not name:
        raise ValueError("expected a name")
    for member in ("vendor_id", "product_id"):
        if member in members and not _IDS.fullmatch(members[member]):
            raise ValueError(f"expected four hexadecimal digits as {member}")
    vendor, product = members.get("vendor_id"), members.get("product_id")
    requested = members.get("resource_class")
    # Nova looks whether they are given, not whether they are empty.
    if requested is None and (vendor is None or product is None):
        raise ValueError("expected vendor_id and product_id, or resource_class")
    moves = members.get("live_migratable")
    if moves is not None and boolean(moves) is None:
        raise ValueError("expected yes or no as live_migratable")
    return Alias(
        name=name.strip(),
        device_type=members.get("device_type"),
        numa_policy=members.get("numa_policy") or "legacy",
        # An empty class and no ids are taken too, and ask for something that nobody has.
        resource_class=class_name(requested, str(vendor), str(product)),
        traits=trait_names(members.get("traits", "")),
        live_migratable=None if moves is None else boolean(moves),
        ids=(vendor.lower(), product.lower()) if vendor and product else None,
    )


def _one_of(members: Mapping[str, Any], name: str, values: tuple[str, ...]) -> None:
    if name in members and members[name] not in values:
        raise ValueError(f"expected one of {', '.join(values)} as {name}")
