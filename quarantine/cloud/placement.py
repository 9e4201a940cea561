"""The one door to Placement: reads, and the four writes of the custody protocol.

Every write carries the provider generation that the caller decided on. A 409 is a
``ConflictError``: the caller looks again and decides again, it never repeats the write. A service
that answers 5xx, slowly or not at all is an ``UnavailableError``: whether the write happened is
then unknown, and only the next look tells.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Mapping
from dataclasses import asdict
from typing import Any, Final
from urllib.parse import quote, urlencode

from eraser.protocol.identity import Slot
from quarantine.cloud import sdk
from quarantine.cloud.facts import (
    CONSUMER_TYPE,
    ONE_TIME_USE_TRAITS,
    Allocation,
    Inventory,
    Provider,
    View,
    provider_name,
)
from quarantine.cloud.sdk import NotFoundError
from quarantine.errors import BadInputError, ConflictError, MovingError

LOG = logging.getLogger(__name__)

MICROVERSION: Final = "1.39"
"""1.26: reserved may equal total; 1.38: consumer types; 1.39: the newest we tested."""

_LOOKS: Final = 5
"""How often a look is repeated while the provider changes under it before we give up."""

_ROLES: Final = "the service and admin roles (the reshaper is for the service role alone)"

_OWNER: Final = "nvme-quarantine"
"""Project and user of our allocations: Placement wants both, and usages then name us."""


class Placement(sdk.Service):
    """Placement as this project needs it."""

    def one_time_use(self, host: str | None = None) -> list[Provider]:
        """Every provider with the one-time-use trait that stands for a slot, with generation.

        Two requests (80,000 providers: some seconds, tens of megabytes).
        """
        traits = self.burning_traits()
        found = self._list(required=_any_of(traits)) if traits else []
        return [p for p in found if p.slot and (host is None or p.host == host)]

    def burning_traits(self) -> list[str]:
        """The traits of one-time-use devices that Placement knows: it answers 400 to the name of
        one that it has never heard of."""
        # Not kept: the first nova-compute that reports such a device makes its trait known.
        answer = self._call("GET", f"/traits?{urlencode({'name': _any_of(ONE_TIME_USE_TRAITS)})}")
        return [str(name) for name in answer["traits"]]

    def burns(self, uuid: str) -> bool:
        """Whether the provider has the one-time-use trait: Nova reserves it at its next use.

        Raises ``ConflictError`` where it is gone since it was looked at: that is no answer.
        """
        generation, traits = self.traits(uuid)
        if generation < 0:
            raise ConflictError(f"expected the traits of provider {uuid}, it is gone; look again")
        return not traits.isdisjoint(ONE_TIME_USE_TRAITS)

    def traits(self, uuid: str) -> tuple[int, frozenset[str]]:
        """Generation and traits of a provider; -1 and none where there is no such provider."""
        try:
            answer = self._call("GET", f"/resource_providers/{uuid}/traits")
        except NotFoundError:
            return -1, frozenset()
        return int(answer["resource_provider_generation"]), frozenset(answer["traits"])

    def offered(self, resource_class: str, traits: Collection[str] = ()) -> list[Provider]:
        """The slots of that class that Placement would hand out at this moment, trait or not;
        with ``traits`` those that have one of them."""
        query = {"resources": f"{resource_class}:1"}
        if traits:
            query["required"] = _any_of(traits)
        try:
            return [p for p in self._list(**query) if p.slot]
        except BadInputError:
            # 400 is what it says to a class that nobody has made yet, or that somebody deleted.
            if self._knows(resource_class):
                raise
            return []

    def _knows(self, resource_class: str) -> bool:
        try:
            self._call("GET", f"/resource_classes/{quote(resource_class, safe='')}")
        except NotFoundError:
            return False
        return True

    def resource_classes(self) -> frozenset[str]:
        """All that Placement knows, Nova's own and those that somebody made."""
        rows = self._call("GET", "/resource_classes")["resource_classes"]
        return frozenset(str(row["name"]) for row in rows)

    def root(self, host: str) -> Provider | None:
        """The compute host's own provider: its CPUs and memory."""
        return next((p for p in self._list(name=host) if p.parent is None), None)

    def tree(self, host: str) -> Mapping[str, Slot | None]:
        """Every provider in the compute host's tree by uuid, with the slot that it stands for."""
        root = self.root(host)
        if root is None:
            return {}
        return {p.uuid: p.slot for p in self._list(in_tree=root.uuid)}

    def users(self, host: str) -> frozenset[str]:
        """Who has CPUs or memory of the compute host: its servers, and migrations from it."""
        root = self.root(host)
        found = None if root is None else self.holders(root.uuid)
        return frozenset() if found is None else found[1]

    def burning(self, near: str) -> frozenset[str]:
        """The providers with a one-time-use trait in the tree that the provider ``near`` is of."""
        traits = self.burning_traits()
        found = self._list(in_tree=near, required=_any_of(traits)) if traits else []
        return frozenset(p.uuid for p in found)

    def held(self, consumer: str) -> Mapping[str, int]:
        """Units that a consumer has of each provider: ``GET /allocations/{consumer}``."""
        found = self._call("GET", f"/allocations/{quote(consumer)}")["allocations"]
        return {uuid: sum(map(int, row["resources"].values())) for uuid, row in found.items()}

    def by_host(self, host: str) -> list[Provider]:
        """The slots in the tree of that compute host, with the trait or without."""
        root = self.root(host)
        if root is None:
            return []
        return [p for p in self._list(in_tree=root.uuid) if p.slot and p.host == host]

    def by_slot(self, slot: Slot) -> Provider | None:
        """The slot's provider, whichever case its address is written in, and no other host's."""
        # Placement compares names as its database does: most exactly, MySQL's usual collations take
        # CMP1 for cmp1.
        upper, lower = provider_name(slot), f"{slot.host}_{slot.address}"
        for name in dict.fromkeys((upper, lower)):
            for provider in self._list(name=name):
                if provider.slot == slot:
                    return provider
        return None

    def by_uuid(self, uuid: str) -> Provider | None:
        """The provider with that uuid."""
        return next(iter(self._list(uuid=uuid)), None)

    def view(self, uuid: str, resource_class: str) -> View | None:
        """One consistent look; ``None`` when the provider does not exist.

        Raises ``MovingError`` when the provider does not stand still.
        """
        for _ in range(_LOOKS):
            # First: what follows is of one moment only where it has this very generation.
            provider = self.by_uuid(uuid)
            if provider is None:
                return None
            try:
                view = self._read(provider, resource_class)
            except NotFoundError:
                # Deleted between two requests: the next round sees that it is gone.
                continue
            if view is not None:
                return view
        raise MovingError(
            f"expected provider {uuid} to stand still while it is read, it changed {_LOOKS} times; "
            "look again later"
        )

    def holders(self, uuid: str) -> tuple[int, frozenset[str]] | None:
        """Generation and consumers of a provider, in one request; ``None`` when it is gone.

        Enough to see that a slot in use is still in use: a ``DELETE /allocations/{consumer}``
        leaves the generation as it was, so nothing cheaper tells.
        """
        try:
            answer = self._call("GET", f"/resource_providers/{uuid}/allocations")
        except NotFoundError:
            return None
        return int(answer["resource_provider_generation"]), frozenset(answer["allocations"])

    def put_reserved(self, view: View, *, full: bool) -> int:
        """Set ``reserved`` of every inventory record to its total (or 0); the new generation.

        ``PUT /resource_providers/{uuid}/inventories`` with the view's generation.
        """
        body = {
            "resource_provider_generation": view.provider.generation,
            "inventories": _inventories(view, full=full),
        }
        answer = self._call("PUT", f"/resource_providers/{view.provider.uuid}/inventories", body)
        return int(answer["resource_provider_generation"])

    def reshape(self, view: View, consumer: str, *, hold: bool) -> None:
        """``POST /reshaper``: in one transaction reserved becomes 0 and our allocation appears.

        With ``hold=False`` reserved becomes 0 and our allocation disappears: the way back to the
        pool. The provider's generation is the view's, so nothing happened since the look; our
        consumer's generation guards the allocation in the same way.
        """
        ours = view.custody(consumer)
        resources = {i.resource_class: i.total for i in view.inventories}
        allocation = {
            # An empty object takes all allocations of the consumer away.
            "allocations": {view.provider.uuid: {"resources": resources}} if hold else {},
            "project_id": ours.project if ours else _OWNER,
            "user_id": ours.user if ours else _OWNER,
            # None tells Placement that the consumer is new: it refuses where there is one already.
            "consumer_generation": ours.consumer_generation if ours else None,
            "consumer_type": CONSUMER_TYPE,
        }
        body = {
            "inventories": {
                view.provider.uuid: {
                    "resource_provider_generation": view.provider.generation,
                    "inventories": _inventories(view, full=False),
                }
            },
            "allocations": {consumer: allocation},
        }
        self._call("POST", "/reshaper", body)

    def _list(self, **query: str) -> list[Provider]:
        answer = self._call("GET", f"/resource_providers?{urlencode(query)}")
        return [
            Provider(
                uuid=str(row["uuid"]),
                name=str(row["name"]),
                generation=int(row["generation"]),
                parent=row.get("parent_provider_uuid"),
            )
            for row in answer["resource_providers"]
        ]

    def _read(self, provider: Provider, resource_class: str) -> View | None:
        """``None`` when something moved meanwhile."""
        base = f"/resource_providers/{provider.uuid}"
        inventories = self._call("GET", f"{base}/inventories")
        held = self._call("GET", f"{base}/allocations")
        generations = {int(a["resource_provider_generation"]) for a in (inventories, held)}
        if generations != {provider.generation}:
            return None
        allocations: list[Allocation] = []
        for consumer, record in held["allocations"].items():
            # The consumer's type and owner stand in its own answer.
            owner = self._call("GET", f"/allocations/{quote(consumer)}")
            mine = owner["allocations"].get(provider.uuid)
            # Let go, or written to, since the list was read.
            if mine is None or int(mine["generation"]) != provider.generation:
                return None
            allocations.append(
                Allocation(
                    consumer=consumer,
                    resources=dict(record["resources"]),
                    consumer_generation=owner.get("consumer_generation"),
                    consumer_type=str(owner.get("consumer_type", "unknown")),
                    project=str(owner.get("project_id", "")),
                    user=str(owner.get("user_id", "")),
                )
            )
        if not allocations and self.by_uuid(provider.uuid) != provider:
            # Placement reads the generation first and the allocations after it, not in one
            # transaction: what went in between is seen by the generation of now alone.
            return None
        return View(
            provider,
            resource_class,
            tuple(_inventory(name, row) for name, row in inventories["inventories"].items()),
            tuple(allocations),
        )

    def _call(
        self, method: str, path: str, body: Mapping[str, Any] | None = None
    ) -> Mapping[str, Any]:
        return sdk.call(
            "Placement",
            lambda: self._connection.placement,
            method,
            path,
            microversion=MICROVERSION,
            roles=_ROLES,
            body=body,
        )


def _any_of(names: Collection[str]) -> str:
    return f"in:{','.join(names)}"


def _inventory(resource_class: str, row: Mapping[str, Any]) -> Inventory:
    return Inventory(
        resource_class=resource_class,
        total=int(row["total"]),
        reserved=int(row["reserved"]),
        min_unit=int(row["min_unit"]),
        max_unit=int(row["max_unit"]),
        step_size=int(row["step_size"]),
        allocation_ratio=float(row["allocation_ratio"]),
    )


def _inventories(view: View, *, full: bool) -> dict[str, dict[str, int | float]]:
    records: dict[str, dict[str, int | float]] = {}
    for inventory in view.inventories:
        record = asdict(inventory.with_reserved(inventory.total if full else 0))
        records[record.pop("resource_class")] = record
    return records
