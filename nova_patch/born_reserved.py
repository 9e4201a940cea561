"""Born reserved: what Placement does not know yet as a one-time-use device starts reserved.

Nova >= 32 reserves a one-time-use device when an instance takes it, and remembers that in Placement
only. When the provider is deleted, which a device that was absent at a start, a changed
``device_spec``, a renamed resource class or a deleted compute service all cause, the memory goes,
and what comes back is free with the last tenant's data on it. So whatever is new is reserved until
somebody outside of Nova has shown that it is clean.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from nova.compute import pci_placement_translator as translator

from .plug import Replacement, unbroken

ONE_TIME_USE = frozenset(("HW_PCI_ONE_TIME_USE", "CUSTOM_HW_PCI_ONE_TIME_USE"))
"""The trait of Nova >= 32, and that of our backport: going from one to the other is no birth."""


def is_known(provider: Any, tree: Any) -> bool:
    """Whether Placement has this provider as a one-time-use device, with its resource class.

    ``provider`` is a ``PciResourceProvider``, ``tree`` the ``ProviderTree`` before it is updated. A
    device that only now becomes one-time-use is not known: earlier uses left no mark.
    """
    if not tree.exists(provider.name):
        return False
    data = tree.data(provider.name)
    return provider.resource_class in data.inventory and not ONE_TIME_USE.isdisjoint(data.traits)


def reserve(provider: Any, tree: Any) -> None:
    """Reserves all that the provider has; a provider that was removed stays so."""
    if not tree.exists(provider.name):
        return
    inventory = tree.data(provider.name).inventory
    for record in inventory.values():
        record["reserved"] = record["total"]
    tree.update_inventory(provider.name, inventory)


def wrap(original: Callable[..., None]) -> Callable[..., None]:
    """``PciResourceProvider.update_provider_tree`` that reserves what is new.

    The tree is Nova's own copy: nothing reaches Placement before both are done, and a provider
    whose creation was cut short has no inventory yet, so it is new at the next attempt as well.
    """

    @functools.wraps(original)
    def update_provider_tree(self: Any, provider_tree: Any, *args: Any, **kwargs: Any) -> None:
        new = self.is_otu and not is_known(self, provider_tree)
        original(self, provider_tree, *args, **kwargs)
        if new:
            reserve(self, provider_tree)

    return update_provider_tree


def replacements() -> list[Replacement]:
    """What Nova 32 and later need. Raises ``PatchError`` where another patch was first."""
    provider = translator.PciResourceProvider
    name = "update_provider_tree"
    return [Replacement(provider, name, wrap(unbroken(provider, name)))]
