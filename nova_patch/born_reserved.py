"""Born reserved: what Placement does not know yet as a one-time-use device starts reserved.

Nova >= 32 reserves a one-time-use device when an instance takes it, and remembers that in Placement
only. When the provider is deleted, which a device that was absent at a start, a changed
``device_spec``, a renamed resource class or a deleted compute service all cause, the memory goes,
and what comes back is free with the last tenant's data on it. So whatever is new is reserved until
somebody outside of Nova has shown that it is clean.

The memory goes as well when Nova rewrites a record. It wants ``total`` and ``max_unit`` as it has
them, and no other class on the provider; where Placement differs it puts its own record in place of
the whole, without ``reserved``. So what was reserved stays so.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from typing import Any

from nova.compute import pci_placement_translator as translator

from .replacements import Replacement, unbroken
from .said import LOG

ONE_TIME_USE = frozenset(("HW_PCI_ONE_TIME_USE", "CUSTOM_HW_PCI_ONE_TIME_USE"))
"""The trait of Nova >= 32, and that of our backport: going from one to the other is no birth."""


def known(provider: Any, tree: Any) -> Mapping[str, int]:
    """``reserved`` by resource class, where Placement has this provider as a one-time-use device.

    ``provider`` is a ``PciResourceProvider``, ``tree`` the ``ProviderTree`` before it is updated. A
    device that only now becomes one-time-use is not known: earlier uses left no mark.
    """
    if not tree.exists(provider.name):
        return {}
    data = tree.data(provider.name)
    if ONE_TIME_USE.isdisjoint(data.traits):
        return {}
    return {name: record.get("reserved", 0) for name, record in data.inventory.items()}


def reserve(provider: Any, tree: Any) -> None:
    """Reserves all that the provider has; a provider that was removed stays so."""
    if not tree.exists(provider.name):
        return
    inventory = tree.data(provider.name).inventory
    # ProviderTree.data() hands out a copy: it is written back below.
    for record in inventory.values():
        record["reserved"] = record["total"]
    tree.update_inventory(provider.name, inventory)


def keep_reserved(provider: Any, tree: Any, before: Mapping[str, int]) -> None:
    """Writes ``reserved`` of before into what Nova rewrote without it.

    A record that Nova left alone, or reserved itself, says what it is.
    """
    if not tree.exists(provider.name):
        return
    inventory = tree.data(provider.name).inventory
    lost = [name for name in inventory if before.get(name) and "reserved" not in inventory[name]]
    for name in lost:
        # Placement refuses more reserved than there is (400).
        inventory[name]["reserved"] = min(before[name], inventory[name]["total"])
        LOG.info("%s stays reserved, although Nova corrects its inventory", provider.name)
    if lost:
        tree.update_inventory(provider.name, inventory)


def wrap(original: Callable[..., None]) -> Callable[..., None]:
    """``PciResourceProvider.update_provider_tree`` that reserves what is new, and keeps reserved
    what was.

    The tree is Nova's own copy: nothing reaches Placement before both are done, and a provider
    whose creation was cut short has no inventory yet, so it is new at the next attempt as well. A
    picture that is older than Placement's does no harm: Nova writes with the generation of what it
    read, is refused, and reads again.
    """

    @functools.wraps(original)
    def update_provider_tree(self: Any, provider_tree: Any, *args: Any, **kwargs: Any) -> None:
        # Looked at first: Nova's own step writes inventory and traits into this very tree.
        before = known(self, provider_tree)
        new = self.is_otu and self.resource_class not in before
        # What else it is given differs between releases of Nova.
        original(self, provider_tree, *args, **kwargs)
        if new:
            reserve(self, provider_tree)
        else:
            keep_reserved(self, provider_tree, before)

    return update_provider_tree


def replacements() -> list[Replacement]:
    """What Nova 32 and later need. Raises ``PatchError`` where another patch was first."""
    provider = translator.PciResourceProvider
    name = "update_provider_tree"
    return [Replacement(provider, name, wrap(unbroken(provider, name)))]
