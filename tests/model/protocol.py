"""The whole protocol as one transition system, and what must never be in it."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import dataclass

from quarantine.record.words.states import State
from tests.model import nova
from tests.model.canonical import canonical
from tests.model.control import ALARM
from tests.model.papers import RECORDS
from tests.model.parts import Parts
from tests.model.search import Step
from tests.model.system import REFUSED, System
from tests.model.tables import fresh_record
from tests.model.world import CLEAN, NOWHERE, Drive, Place, World

ALL = frozenset(
    {"ghost", "suspend", "absence", "elsewhere", "typo", "operator", "reinstall", "amnesia"}
)
"""Every kind of misfortune."""


@dataclass(frozen=True)
class Config:
    """What is searched."""

    name: str
    kinds: frozenset[str] = frozenset()
    budget: int = 0
    """How many misfortunes may happen in one history."""
    hosts: int = 1
    drives: int = 1
    born_reserved: bool = True
    limit: int = 6_000_000


class Protocol(System[World]):
    """One configuration with one version of the product's decisions."""

    def __init__(self, config: Config, parts: Parts | None = None) -> None:
        parts = parts or Parts()
        super().__init__(parts.switch)
        self.config, self.name = config, config.name
        self.limit = config.limit
        self.control, self.host = parts.control, parts.host
        self._held: dict[int, str] = {}

    def start(self, first: int = 0) -> int:
        """Every slot just enrolled, every drive unknown; the drives lie from host ``first`` on."""
        places = []
        for p in range(self.config.hosts):
            record = RECORDS.number(fresh_record(p, in_use=False))
            drive = (p - first) % self.config.hosts
            drive = drive if drive < self.config.drives else NOWHERE
            places.append(Place(drive=drive, provider="known", reserved=True, record=record))
        drives = tuple(Drive() for _ in range(self.config.drives))
        unknown = (None,) * self.config.drives
        return self._worlds.number(
            canonical(World(drives, tuple(places), unknown, self.config.budget))
        )

    def _all_steps(self, number: int) -> tuple[Step[int], ...]:
        found: dict[Step[int], None] = {}
        for name, after in self._steps(self._worlds[number]):
            following = self._worlds.number(canonical(after))
            if following != number or name.startswith(REFUSED) or ALARM in name:
                found[sys.intern(name), following] = None
        return tuple(found)

    def _steps(self, world: World) -> Iterator[tuple[str, World]]:
        for p in range(self.config.hosts):
            yield from self.steps_of(world, p)

    def steps_of(self, world: World, p: int) -> Iterator[tuple[str, World]]:
        """What may happen next at one host, to it, and between it and the control plane."""
        yield from self.tenant(world, p)
        yield from self.control.looks(world, p)
        yield from self.host.steps(world, p)
        yield from self.control.hello(world, p)
        yield from self.control.letters(world, p)
        yield from nova.returns(world, p)
        yield from self.people(world, p)
        yield from self.misfortunes(world, p)
        yield from self.losses(world, p)

    def tenant(self, world: World, p: int) -> Iterator[tuple[str, World]]:
        """What Nova does for tenants."""
        born = self.config.born_reserved
        return nova.nova(world, p, self.host.start, born_reserved=born)

    def people(self, world: World, p: int) -> Iterator[tuple[str, World]]:
        """What an operator does when told to: none of it can be taken for granted or excluded."""
        here = world.places[p]
        if not here.registered:
            yield f"host {p} is registered again", world.at(p, registered=True, hello=NOWHERE)
        if here.record == NOWHERE:
            if here.provider and not (here.holder == "" and not here.reserved):
                in_use = here.holder == "server"
                record = RECORDS.number(fresh_record(p, in_use=in_use))
                yield f"slot of host {p} is enrolled", world.at(p, record=record, provider="known")
            elif here.provider:
                yield f"slot of host {p} is reserved to be enrolled", world.at(p, reserved=True)
            return
        yield from self.control.released(world, p)

    def misfortunes(self, world: World, p: int) -> Iterator[tuple[str, World]]:
        """Those that befall Nova, a drive, or what people do by hand."""
        if world.budget:
            for name, after in nova.misfortunes(world, p, self.config.kinds):
                if after.places[p].drive == NOWHERE != world.places[p].drive:
                    after = self.host.vanished(after, p)
                yield name, after

    def losses(self, world: World, p: int) -> Iterator[tuple[str, World]]:
        """Those that lose files or tables of ours."""
        if not world.budget:
            return
        kinds = self.config.kinds
        spent = world._replace(budget=world.budget - 1)
        if "reinstall" in kinds and world.places[p].registered:
            yield f"host {p} is installed anew", self.host.reinstalled(spent, p)
        if "amnesia" in kinds and p == 0 and any(r.record != NOWHERE for r in world.places):
            lost = spent._replace(known=(None,) * len(world.known))
            for q in range(self.config.hosts):
                lost = lost.at(q, record=NOWHERE)
            yield "the control plane's database is lost", lost

    def broken(self, before: int, name: str, after: int) -> str:
        """What is wrong with a step, besides what was noticed within it."""
        if self._worlds[before].budget == self.config.budget:
            if ALARM in name:
                return "people are called although nothing went wrong"
            if name.startswith(REFUSED):
                return "an honest guest is refused although nothing went wrong"
        if after not in self._held:
            self._held[after] = self._honest_held(self._worlds[after])
        return self._held[after]

    def _honest_held(self, world: World) -> str:
        if world.budget == self.config.budget:
            for place in world.places:
                if place.record != NOWHERE and RECORDS[place.record].state is State.HELD:
                    return "an honest drive is held although nothing went wrong"
        return ""

    def budget(self, number: int) -> int:
        """How many misfortunes may still happen."""
        return self.world(number).budget

    def good(self, number: int) -> bool:
        """Every slot is on offer again, with a clean drive and a ticket for it."""
        world = self._worlds[number]
        return all(self.offered(world, place) for place in world.places if place.drive != NOWHERE)

    @staticmethod
    def offered(world: World, place: Place) -> bool:
        """The slot is on offer, with a clean drive."""
        return (
            place.record != NOWHERE
            and RECORDS[place.record].state is State.AVAILABLE
            and not place.reserved
            and not place.holder
            and world.drives[place.drive].data == CLEAN
        )
