"""Placement in the model: one consistent look at a time, writes by compare-and-set."""

from __future__ import annotations

from eraser.protocol.identity import Slot
from quarantine.cloud.facts import CONSUMER_TYPE, Allocation, Inventory, Provider, View
from quarantine.cloud.facts import provider_name as name_of
from quarantine.errors import ConflictError
from tests.model.papers import (
    CLASS,
    RECORDS,
    drive_of,
    instance,
    provider_uuid,
    slot,
)
from tests.model.search import Slip
from tests.model.tables import Writes
from tests.model.world import NOWHERE, Place, World


class Placement:
    """One consistent look at a time, and writes that carry the look's generation."""

    def __init__(self, world: World, writes: Writes) -> None:
        self.world = world
        self._writes = writes

    def by_slot(self, place: Slot) -> Provider | None:
        p = int(place.host[-1])
        here = self.world.places[p]
        return (
            Provider(provider_uuid(p, here.provider), name_of(place), 0) if here.provider else None
        )

    def view(self, uuid: str, resource_class: str) -> View | None:
        for p, here in enumerate(self.world.places):
            if here.provider and uuid == provider_uuid(p, here.provider):
                inventory = Inventory(CLASS, 1, int(here.reserved), 1, 1, 1, 1.0)
                provider = Provider(uuid, name_of(slot(p)), 0)
                return View(provider, resource_class or CLASS, (inventory,), _held(p, here))
        return None

    def put_reserved(self, view: View, *, full: bool) -> int:
        p = self._unchanged(view)
        self.world = self.world.at(p, reserved=full)
        self._writes.done()
        return 0

    def reshape(self, view: View, consumer: str, *, hold: bool) -> None:
        p = self._unchanged(view)
        self.world = self.world.at(p, reserved=False, holder=consumer if hold else "")
        if not hold:
            _offered(self.world, p)
        self._writes.done()

    def _unchanged(self, view: View) -> int:
        now = self.view(view.provider.uuid, view.resource_class)
        if now != view:
            raise ConflictError("409")
        return int(view.provider.slot.host[-1]) if view.provider.slot else NOWHERE


def _offered(world: World, p: int) -> None:
    """Promise 1: what we ourselves put on offer is clean and can be started on, as we were told."""
    record = RECORDS[world.places[p].record]
    if not record.ticket_ready:
        raise Slip(f"the slot of host {p} was given back before its host has a ticket for it")
    known = world.known[drive_of(record.identity)] if record.identity else None
    if known is None or known.dirty:
        raise Slip(f"the slot of host {p} was given back although its drive is known as dirty")


def _held(p: int, here: Place) -> tuple[Allocation, ...]:
    if not here.holder:
        return ()
    ours = here.holder != "server"
    consumer = here.holder if ours else instance(p)
    kind = CONSUMER_TYPE if ours else "INSTANCE"
    return (Allocation(consumer, {CLASS: 1}, 1, kind, "", ""),)
