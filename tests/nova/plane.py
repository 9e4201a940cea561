"""Our real control plane beside the real Nova, put together as :mod:`quarantine.service.assembly`
does: record, doors to Placement and Nova, ghost checks, reconciler, dispatcher, inbox, certificates
and tickets. The broker is a list.

:meth:`Plane.turn` is what the service does all day: hosts say hello, the sweep looks, orders and
tickets go out, reports and receipts come in, until nothing moves any more.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path

from eraser.protocol.identity import Slot
from eraser.protocol.transport.believed import Believed
from eraser.protocol.transport.signing import PrivateKey
from quarantine.cloud.compute import Compute
from quarantine.cloud.placement import Placement
from quarantine.errors import RefusedError
from quarantine.evidence.sections import Issuer
from quarantine.operations.enrol import EnrolmentTerms, enrol
from quarantine.record.store import Store
from quarantine.record.words.facts import Initiator, SlotRecord
from quarantine.record.words.states import State
from quarantine.rules.action import ServiceLimits
from quarantine.service.inbound.messages import Inbox
from quarantine.service.issue.dispatch import Dispatcher
from quarantine.service.issue.registrar import Registrar
from quarantine.service.issue.tickets import Tickets
from quarantine.service.reconciler import Reconciler
from quarantine.service.sweep.orphan_guests import OrphanGuestCheck
from tests.lab.services.placement import CLOUD
from tests.nova.host import StandInHost
from tests.nova.shelf import Shelf
from tests.unit.quarantine.testimony import PROFILE

LIMITS = ServiceLimits(in_use_reread=0.001, max_attempts=3)
"""Every slot in use is read in every turn; a drive that stays in use is held after three tries."""

_ROUNDS = 6

Domains = Callable[[str], Iterable[tuple[str, bool, tuple[str, ...]]]]


@dataclass
class Clock:
    """A wall clock that stands still until it is moved."""

    now: datetime = datetime(2026, 11, 21, 12, 0, tzinfo=UTC)

    def __call__(self) -> datetime:
        return self.now

    def forward(self, seconds: float) -> None:
        """Let time pass."""
        self.now += timedelta(seconds=seconds)


@dataclass
class Letters:
    """The broker: orders and tickets lie here until a host takes them."""

    orders: list[tuple[str, str]] = field(default_factory=list)
    tickets: list[tuple[str, str]] = field(default_factory=list)

    def order(self, host: str, token: str) -> None:
        """An order for that host."""
        self.orders.append((host, token))

    def ticket(self, host: str, token: str) -> None:
        """A ticket for that host."""
        self.tickets.append((host, token))


class Plane:
    """One control plane. ``placement`` is made before Nova's fixtures, which patch openstacksdk."""

    def __init__(
        self, placement: Placement, directory: Path, limits: ServiceLimits = LIMITS
    ) -> None:
        self.clock = Clock()
        self.placement = placement
        self.key = PrivateKey.generate()
        self.letters = Letters()
        self.hosts: dict[str, StandInHost] = {}
        self.store = Store.open(f"sqlite:///{directory}/quarantine.sqlite", clock=self.clock)
        self.store.migrate()
        self.store.put_profile(PROFILE, Initiator("a person"))
        self.reconciler = Reconciler(
            self.store,
            placement,
            Dispatcher(self.store, self.key, self.letters.order, clock=self.clock),
            limits,
            self.clock,
            tickets=Tickets(self.store, self.key, self.letters.ticket, clock=self.clock),
            # Every question is asked anew: time stands still in a test.
            orphan_guests=OrphanGuestCheck(
                Compute.connect(CLOUD), placement, itertools.count(step=60).__next__
            ),
        )
        self.inbox = Inbox(
            self.store,
            Believed.both(self.key.public),
            Registrar(self.store, self.key, Issuer("Example Cloud"), clock=self.clock),
            self.reconciler,
            limits=limits,
            clock=self.clock,
        )
        self.reports: list[str] = []
        """Every report that a host sent, to be sent again by whoever likes."""

    @staticmethod
    def connect() -> Placement:
        """The door to Placement, with its client made: ``clouds.yaml`` is in the environment."""
        placement = Placement.connect(CLOUD, timeout=30.0)
        placement.by_host("nobody")
        return placement

    def add_host(self, name: str, shelf: Shelf, domains: Domains, *, patched: bool) -> StandInHost:
        """Registers a host, as a person does."""
        host = StandInHost(name, self.key.public, shelf, domains, patched)
        self.store.register_host(name, host.key.public, host.incarnation)
        self.hosts[name] = host
        return host

    def enrol(self, *slots: Slot) -> None:
        """Takes slots into care: free ones are reserved at once."""
        for slot in slots:
            enrol(self.store, self.placement, slot, EnrolmentTerms(PROFILE.name, "purge"))

    def record(self, slot: Slot) -> SlotRecord:
        """The slot's record now."""
        found = self.store.slot(slot)
        assert found is not None
        return found

    def state(self, slot: Slot) -> State:
        """The slot's state now."""
        return self.record(slot).state

    def certificates(self, slot: Slot) -> int:
        """How many were written for the slot."""
        return sum(row.event == "certified" for row in self.store.history(slot))

    def hellos(self) -> None:
        """Every host that has power says hello."""
        for host in self.hosts.values():
            if not host.down:
                self.inbox.hello(host.hello())

    def turn(self) -> None:
        """Everything that the service would do now, until nothing moves any more."""
        self.hellos()
        self.reconciler.sweep()
        self.reconciler.reread()
        for _ in range(_ROUNDS):
            if not self.deliver():
                return
            self.reconciler.tend()
        raise AssertionError(f"still moving after {_ROUNDS} rounds")

    def deliver(self) -> bool:
        """Hosts with power answer their orders and tickets; whether there was one."""
        orders, tickets = self._take(self.letters.orders), self._take(self.letters.tickets)
        for host, token in orders:
            report = host.answer(token)
            if report is not None:
                self.reports.append(report)
                self.hear(report)
        for host, token in tickets:
            self.inbox.receipt(host.take_ticket(token))
        return bool(orders or tickets)

    def _take(self, letters: list[tuple[str, str]]) -> list[tuple[StandInHost, str]]:
        """The letters whose hosts have power; they are on their way then."""
        ready = [letter for letter in letters if not self.hosts[letter[0]].down]
        for letter in ready:
            letters.remove(letter)
        return [(self.hosts[name], token) for name, token in ready]

    def hear(self, report: str) -> str:
        """A report arrives; the ruling, or why it was refused."""
        try:
            return str(self.inbox.report(report).ruling)
        except RefusedError as error:
            return str(error)

    def close(self) -> None:
        """Gives back the database."""
        self.store.close()
