"""One-time-use devices, born reserved, for Nova 29, which has none.

The behaviour is that of Nova 32 (spec ``2025.2/approved/one-time-use-devices.rst``): a device with
``"one_time_use": "true"`` in its ``[pci]device_spec`` is reserved in Placement while it is claimed
and Nova never lowers that again. The trait has another name, because os-traits has the standard one
only since 3.4.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import nova.conf
from nova import exception
from nova.compute import pci_placement_translator as translator
from nova.compute import resource_tracker
from nova.pci import devspec

from .born_reserved import reserve, wrap
from .replacements import Replacement, unbroken

TRAIT = "CUSTOM_HW_PCI_ONE_TIME_USE"
TAG = "one_time_use"
MANAGED = "COMPUTE_MANAGED_PCI_DEVICE"

_WORDS = {
    **dict.fromkeys(("1", "t", "true", "on", "y", "yes"), "true"),
    **dict.fromkeys(("0", "f", "false", "off", "n", "no"), "false"),
}
"""As ``oslo_utils.strutils.bool_from_string`` reads them when it is strict."""


def _wrap_init_dev_details(original: Callable[..., None]) -> Callable[..., None]:
    """``PciDeviceSpec._init_dev_details`` that knows the tag, and refuses what it cannot keep."""

    @functools.wraps(original)
    def _init_dev_details(self: Any) -> None:
        original(self)
        if self.tags.get(TAG) is None:
            return
        word = _WORDS.get(str(self.tags[TAG]).strip().lower())
        if word is None:
            raise exception.PciConfigInvalidSpec(
                reason=f"expected true or false for {TAG}, found {self.tags[TAG]!r}"
            )
        # Nova 32 and later refuse it in these words (nova/pci/devspec.py).
        if word == "true" and not nova.conf.CONF.pci.report_in_placement:
            raise exception.PciConfigInvalidSpec(
                reason=f"{TAG}=true requires pci.report_in_placement to be enabled"
            )
        self.tags[TAG] = word

    return _init_dev_details


def _wrap_add_parent(original: Callable[..., None]) -> Callable[..., None]:
    """``PciResourceProvider.add_parent`` that marks the provider."""

    @functools.wraps(original)
    def add_parent(self: Any, dev: Any, dev_spec_tags: dict[str, str]) -> None:
        original(self, dev, dev_spec_tags)
        self.is_otu = dev_spec_tags.get(TAG) == "true"
        if self.is_otu:
            self.traits = self.traits | {TRAIT}

    return add_parent


def _wrap_add_child(original: Callable[..., None]) -> Callable[..., None]:
    """``PciResourceProvider.add_child`` that refuses the tag: one of several cannot be burned."""

    @functools.wraps(original)
    def add_child(self: Any, dev: Any, dev_spec_tags: dict[str, str]) -> None:
        if TAG in dev_spec_tags:
            raise exception.PlacementPciException(
                error=f"only type-PCI and type-PF devices may set {TAG}, {self.name} is neither"
            )
        original(self, dev, dev_spec_tags)

    return add_child


def _wrap_update_provider_tree(original: Callable[..., None]) -> Callable[..., None]:
    """``PciResourceProvider.update_provider_tree`` that reserves what is claimed, or new.

    ``_update_to_placement`` runs it at the end of every claim, before the guest is started.
    """
    born_reserved = wrap(original)

    @functools.wraps(original)
    def update_provider_tree(self: Any, provider_tree: Any, *args: Any, **kwargs: Any) -> None:
        born_reserved(self, provider_tree, *args, **kwargs)
        if self.is_otu and _is_claimed(self.parent_dev):
            reserve(self, provider_tree)

    return update_provider_tree


def _is_claimed(dev: Any) -> bool:
    # A field of a Nova object that was never set raises when it is read; `in` asks whether it was.
    return "instance_uuid" in dev and bool(dev.instance_uuid)


def _wrap_claim_resources(original: Callable[..., Any]) -> Callable[..., Any]:
    """``ResourceTracker._claim_resources`` that forgets what was cached of the claimed providers.

    Both claims call it just before they tell Placement. Somebody outside lowered ``reserved`` since
    the last look; a cache that still says "reserved" would keep Nova from reserving it again.
    """

    @functools.wraps(original)
    def _claim_resources(self: Any, allocations: Any) -> Any:
        for uuid in allocations or ():
            try:
                managed = MANAGED in self.provider_tree.data(uuid).traits
            except ValueError:
                # An evacuating instance also has allocations on its old host.
                continue
            if managed:
                # Without a time it is stale, even where regular refreshes are turned off
                # (SchedulerReportClient._associations_stale).
                self.reportclient._association_refresh_time.pop(uuid, None)
        return original(self, allocations)

    return _claim_resources


def replacements() -> list[Replacement]:
    """What Nova 29 needs. Raises ``PatchError`` where another patch was first."""
    wraps: list[tuple[Any, str, Callable[..., Any]]] = [
        (devspec.PciDeviceSpec, "_init_dev_details", _wrap_init_dev_details),
        (translator.PciResourceProvider, "add_parent", _wrap_add_parent),
        (translator.PciResourceProvider, "add_child", _wrap_add_child),
        (translator.PciResourceProvider, "update_provider_tree", _wrap_update_provider_tree),
        (resource_tracker.ResourceTracker, "_claim_resources", _wrap_claim_resources),
    ]
    made = [Replacement(owner, name, wrap(unbroken(owner, name))) for owner, name, wrap in wraps]
    # Providers without a device, or with child devices, are never marked.
    return [*made, Replacement(translator.PciResourceProvider, "is_otu", False)]
