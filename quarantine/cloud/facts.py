"""What Placement says about one slot's resource provider: facts without I/O.

Nova names a PCI device's resource provider ``<hypervisor hostname>_<PCI ADDRESS>`` in the compute
host's tree (``nova/compute/pci_placement_translator.py``).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Final

from eraser.protocol.identity import Slot, pci_address

CONSUMER_TYPE: Final = "NVME_QUARANTINE"
"""The consumer type of our own custody allocations (Placement >= 1.38 has types)."""

ONE_TIME_USE: Final = "HW_PCI_ONE_TIME_USE"
"""The trait that Nova >= 32 puts on the providers of ``one_time_use`` devices."""

ONE_TIME_USE_TRAITS: Final = (ONE_TIME_USE, "CUSTOM_HW_PCI_ONE_TIME_USE")
"""Either of them marks such a device: the second is that of ``nova_patch`` for older releases,
where os-traits (< 3.4) and so Placement lack the first."""


def slot_of(name: str) -> Slot | None:
    """The slot that a provider's name stands for; ``None`` for a provider of another kind.

    Split from the right: a host name may contain ``_``.
    """
    host, _, address = name.rpartition("_")
    try:
        return Slot(host, pci_address(address))
    except ValueError:
        return None


def provider_name(slot: Slot) -> str:
    """The name that Nova gives to the slot's provider (the address in upper case)."""
    return f"{slot.host}_{slot.address.upper()}"


@dataclass(frozen=True)
class Provider:
    """A resource provider; ``generation`` rises with each write except ``DELETE /allocations``."""

    uuid: str
    name: str
    generation: int
    parent: str | None = None

    @property
    def slot(self) -> Slot | None:
        """The slot that the name stands for."""
        return slot_of(self.name)

    @property
    def host(self) -> str | None:
        """The compute host."""
        return self.slot.host if self.slot else None

    @property
    def address(self) -> str | None:
        """The PCI address, in lower case."""
        return self.slot.address if self.slot else None


@dataclass(frozen=True)
class Inventory:
    """One inventory record, whole: a PUT replaces every field."""

    resource_class: str
    total: int
    reserved: int
    min_unit: int
    max_unit: int
    step_size: int
    allocation_ratio: float

    @property
    def locked(self) -> bool:
        """Nothing is left to allocate, whatever allocations come or go."""
        return self.reserved >= self.total

    def with_reserved(self, reserved: int) -> Inventory:
        """The same record with another ``reserved``."""
        return replace(self, reserved=reserved)


@dataclass(frozen=True)
class Allocation:
    """What one consumer holds on one provider."""

    consumer: str
    resources: Mapping[str, int]
    consumer_generation: int | None
    consumer_type: str
    project: str
    user: str


@dataclass(frozen=True)
class View:
    """One consistent look at a provider: its generation stood still from first read to last.

    A consumer may be deleted at any time without a new generation, so an allocation that is
    listed may be gone; one that is not listed did not exist when the inventory was as shown.
    """

    provider: Provider
    resource_class: str
    inventories: tuple[Inventory, ...]
    allocations: tuple[Allocation, ...]

    @property
    def inventory(self) -> Inventory | None:
        """The record of our resource class; ``None`` when the class was renamed or removed."""
        return next((i for i in self.inventories if i.resource_class == self.resource_class), None)

    @property
    def locked(self) -> bool:
        """Every inventory record of the provider has ``reserved == total``."""
        return all(inventory.locked for inventory in self.inventories)

    @property
    def on_offer(self) -> bool:
        """Placement would hand out something of it now, also what ``allocation_ratio`` adds."""
        # Placement's own sum: what is used and one more fits into what is not reserved.
        return any(
            1 + sum(a.resources.get(i.resource_class, 0) for a in self.allocations)
            <= (i.total - i.reserved) * i.allocation_ratio
            for i in self.inventories
        )

    def custody(self, consumer: str | None) -> Allocation | None:
        """Our allocation: by its uuid, or by its type when the store forgot the uuid."""
        return next((a for a in self.allocations if _is_ours(a, consumer)), None)

    def foreign(self, consumer: str | None) -> tuple[Allocation, ...]:
        """The allocations of everybody else: servers, migrations, other custodians."""
        ours = self.custody(consumer)
        return tuple(a for a in self.allocations if a is not ours)


def _is_ours(allocation: Allocation, consumer: str | None) -> bool:
    return allocation.consumer == consumer or allocation.consumer_type == CONSUMER_TYPE
