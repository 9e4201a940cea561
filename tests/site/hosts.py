"""A compute host: its drives, its guests, its gate and its eraser, which is honest.

It verifies what it is sent and signs what it says, as the real one; its erase is a pause after
which the blocks are gone. Its real agent, gate and case code is not run here (docs/site.md).
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from random import Random
from typing import Final

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from eraser.protocol import codec
from eraser.protocol.identity import ControllerIdentity, Slot
from eraser.protocol.order import ORDER_TYPE, EraseOrder
from eraser.protocol.report import (
    HELLO_TYPE,
    PROGRESS_TYPE,
    REPORT_TYPE,
    AcceptedOrder,
    EraseReport,
    Hello,
    Outcome,
    Progress,
    SeenDrive,
    Step,
)
from eraser.protocol.ticket import (
    RECEIPT_TYPE,
    TICKET_TYPE,
    Defence,
    DefenceSeen,
    DefenceStanding,
    DomainSeen,
    GateTestimony,
    Ticket,
    TicketReceipt,
    TicketSeen,
    TicketState,
)
from eraser.protocol.transport import signing
from eraser.protocol.transport.signing import PrivateKey, PublicKey
from eraser.protocol.verdict import Verdict
from quarantine.errors import UnavailableError
from tests.site.broker import Broker
from tests.site.world import World
from tests.unit.quarantine.testimony import IDENTITY, REPORT

HELLO_SECONDS: Final = 60.0
_RETRY_SECONDS: Final = 5.0
_RESTARTED_SECONDS: Final = 60.0
"""So long after a start of nova-compute the host cannot say whether its patch stands."""


def seeded_key(chance: Random) -> PrivateKey:
    """A key that is the same for the same seed."""
    return PrivateKey(Ed25519PrivateKey.from_private_bytes(chance.randbytes(32)))


@dataclass
class Drive:
    """A drive as it is, whatever anybody believes of it."""

    identity: ControllerIdentity
    blocks: str | None = None
    """Whose data lies on it; None where it holds none."""
    user: str | None = None
    """The server whose guest runs with it now."""


@dataclass
class Case:
    """An order that the host works on."""

    order: EraseOrder
    left: float
    """Seconds of work that are still to be done."""
    began: str
    """By the host's clock, which may be set in between."""


@dataclass
class Host:
    """One compute host. ``up`` False: off. ``cut``: reasons why nothing reaches or leaves it."""

    name: str
    drives: dict[str, Drive]
    world: World
    broker: Broker
    controller: PublicKey
    key: PrivateKey
    chance: Random
    gate: bool
    patched: bool
    erase_seconds: tuple[float, float]
    changed: Callable[[Slot], None] = lambda slot: None
    erased: Callable[[Slot, Drive], None] = lambda slot, drive: None
    starting: Callable[[str, Slot, Drive], None] = lambda server, slot, drive: None
    up: bool = True
    cut: int = 0
    life: str = "incarnation-00001"
    sequence: int = 0
    restarted: float = -1e9
    """When nova-compute was started last."""
    absent: dict[str, Drive] = field(default_factory=dict)
    cases: dict[str, Case] = field(default_factory=dict)
    guests: dict[str, tuple[str, ...]] = field(default_factory=dict)
    defined: dict[str, tuple[str, ...]] = field(default_factory=dict)
    """Guests that a power cut ended: libvirt keeps a persistent domain, which is off then."""
    owners: dict[str, str] = field(default_factory=dict)
    """Whom the gate let in last."""
    _accepted: dict[str, AcceptedOrder] = field(default_factory=dict)
    _reports: dict[str, str] = field(default_factory=dict)
    _in_use: dict[str, tuple[int, str]] = field(default_factory=dict)
    """By order: the look that was answered, and how."""
    _tickets: dict[str, TicketSeen] = field(default_factory=dict)
    _outbox: list[tuple[str, str]] = field(default_factory=list)
    _boots: int = 0

    def begin(self) -> None:
        """Say hello, now and for ever."""
        self.broker.receivers[self.name] = self.receive
        self.hello()
        self.world.at(
            HELLO_SECONDS * self.chance.random(),
            lambda: self.world.every(HELLO_SECONDS, self.hello),
        )
        self.world.every(_RETRY_SECONDS, self._send_kept)

    def slot(self, address: str) -> Slot:
        """As the control plane calls it."""
        return Slot(self.name, address)

    # What Nova and libvirt do here.

    def start_guest(self, server: str, addresses: tuple[str, ...]) -> str:
        """Why the guest does not start; empty where it runs now."""
        if not self.up:
            return "the host is off"
        for address in addresses:
            drive = self.drives.get(address)
            if drive is None:
                return f"{address} is absent"
            if drive.user not in (None, server) or address in self.cases:
                return f"{address} is busy"
            ticket = self._tickets.get(address)
            valid = ticket is not None and ticket.state is TicketState.VALID
            if self.gate and not valid and self.owners.get(address) != server:
                return f"the gate refuses {address}"
        for address in addresses:
            ticket = self._tickets.get(address)
            if ticket is not None:
                self._tickets[address] = replace(ticket, state=TicketState.USED)
            self.owners[address] = server
            drive = self.drives[address]
            self.starting(server, self.slot(address), drive)
            drive.user = drive.blocks = server
            self.changed(self.slot(address))
        self.defined.pop(server, None)
        self.guests[server] = addresses
        return ""

    def stop_guest(self, server: str) -> None:
        """It lets go of its drives, and libvirt forgets it."""
        self.defined.pop(server, None)
        for address in self.guests.pop(server, ()):
            drive = self.drives.get(address)
            if drive is not None and drive.user == server:
                drive.user = None
                self.changed(self.slot(address))

    # What happens to the machine.

    def power_off(self) -> None:
        """Guests and erases end; journals and definitions of guests stay."""
        self.up = False
        self._boots += 1
        for server, addresses in list(self.guests.items()):
            self.stop_guest(server)
            self.defined[server] = addresses

    def power_on(self) -> None:
        """Erases go on where they were; nothing for a host that is on."""
        if self.up:
            return
        self.up = True
        self.restarted = self.world.now
        for address in list(self.cases):
            self._work(address)
        self.broker.flush(self.name)
        self.hello()

    def pull(self, address: str) -> None:
        """A drive is not there any more."""
        drive = self.drives.pop(address, None)
        if drive is None:
            return
        self.absent[address] = drive
        ticket = self._tickets.get(address)
        if ticket is not None and ticket.state is TicketState.VALID:
            self._tickets[address] = replace(ticket, state=TicketState.VOID, reason="it vanished")
        self.changed(self.slot(address))

    def push(self, address: str) -> None:
        """And is again."""
        if address in self.absent:
            self.drives[address] = self.absent.pop(address)
            self.changed(self.slot(address))

    # What the eraser does.

    def receive(self, task: str, token: str) -> bool:
        """A message of the control plane; False where nobody listens."""
        if not self.up or self.cut:
            return False
        if task == "eraser.order":
            payload = signing.verify(token, self.controller, ORDER_TYPE, "order")
            self._order(codec.load(EraseOrder, payload, "order"))
        elif task == "eraser.ticket":
            payload = signing.verify(token, self.controller, TICKET_TYPE, "ticket")
            self._ticket(codec.load(Ticket, payload, "ticket"))
        return True

    def _order(self, order: EraseOrder) -> None:
        address = order.slot.address
        if order.incarnation != self.life or order.slot.host != self.name:
            return
        if order.order_id in self._reports:
            self._send("report", self._reports[order.order_id])
            return
        look, told = self._in_use.get(order.order_id, (-1, ""))
        if order.look <= look:
            self._send("report", told)
            return
        known = self._accepted.get(address)
        if known is not None and known.order_id != order.order_id:
            if order.generation <= known.generation:
                return
            self.cases.pop(address, None)
        if address in self.cases:
            return
        drive = self.drives.get(address)
        if drive is None:
            self._refuse(order, Outcome.ABSENT)
        elif drive.user is not None or any(address in held for held in self.defined.values()):
            self._in_use[order.order_id] = order.look, self._refuse(order, Outcome.IN_USE)
        elif drive.identity != order.identity:
            self._refuse(order, Outcome.WRONG_DRIVE)
        else:
            self._accepted[address] = AcceptedOrder(address, order.order_id, order.generation)
            self._tickets.pop(address, None)
            self.owners.pop(address, None)
            seconds = self.chance.uniform(*self.erase_seconds)
            self.cases[address] = Case(order, seconds, self._clock())
            self._work(address)

    def _refuse(self, order: EraseOrder, outcome: Outcome) -> str:
        """Reports it; the report."""
        report = self._report(order, self._clock())
        empty = replace(
            report,
            outcome=outcome,
            verdict=Verdict.UNKNOWN,
            fit=False,
            methods=(),
            commands=(),
            verification=None,
            reasons=("nothing was sent",),
        )
        token = self._signed(empty, REPORT_TYPE)
        self._send("report", token)
        return token

    def _work(self, address: str) -> None:
        case, boots = self.cases[address], self._boots
        self._progress(case, Step.ERASE)
        half = case.left / 2

        def verify() -> None:
            if self._boots == boots and self.cases.get(address) is case:
                self._progress(case, Step.VERIFY)
                case.left -= half
                self.world.at(case.left, finish)

        def finish() -> None:
            if self._boots == boots and self.cases.get(address) is case:
                self._finish(address, case)

        self.world.at(half, verify)

    def _finish(self, address: str, case: Case) -> None:
        order = case.order
        del self.cases[address]
        drive = self.drives.get(address)
        if drive is None:
            self._refuse(order, Outcome.ABSENT)
            return
        self.erased(self.slot(address), drive)
        drive.blocks = None
        self.changed(self.slot(address))
        token = self._signed(self._report(order, case.began), REPORT_TYPE)
        self._reports[order.order_id] = token
        self._send("report", token)

    def _ticket(self, ticket: Ticket) -> None:
        address = ticket.slot.address
        seen = self._tickets.get(address)
        if seen is None or seen.order_id != ticket.order_id:
            state, reason = self._judge(ticket)
            seen = TicketSeen(address, ticket.order_id, ticket.generation, state, reason)
            if state is TicketState.VALID:
                self._tickets[address] = seen
        receipt = TicketReceipt(
            ticket.order_id,
            ticket.slot,
            ticket.generation,
            self.life,
            seen.state,
            seen.reason,
            ticket.counters,
        )
        self._send("ticket_receipt", self._signed(receipt, RECEIPT_TYPE))

    def _judge(self, ticket: Ticket) -> tuple[TicketState, str]:
        drive = self.drives.get(ticket.slot.address)
        known = self._accepted.get(ticket.slot.address)
        if known is None or known.order_id != ticket.order_id:
            return TicketState.VOID, "of no case that this host did"
        if drive is None or drive.blocks is not None or drive.identity != ticket.identity:
            return TicketState.VOID, "the drive is not as it was certified"
        return TicketState.VALID, ""

    def hello(self) -> None:
        """Say what is here."""
        if not self.up or self.cut:
            return
        self.sequence += 1
        drives = tuple(
            SeenDrive(
                address,
                "vfio-pci" if drive.user else "nvme",
                None if drive.user else drive.identity,
                (),
                False,
                False,
            )
            for address, drive in sorted(self.drives.items())
        )
        hello = Hello(
            self.name,
            self.life,
            self.sequence,
            "0.1.0",
            drives,
            tuple(case.order.order_id for case in self.cases.values()),
            tuple(accepted for _, accepted in sorted(self._accepted.items())),
            self._testimony(),
            counts_looks=True,
        )
        token = self._signed(hello, HELLO_TYPE)
        try:
            self.broker.to_control(self.name, "hello", token)
        except UnavailableError:
            return  # the next one will do

    def ring(self, address: str) -> None:
        """A bell: something happened to that slot."""
        try:
            self.broker.to_control(self.name, "bell", {"host": self.name, "address": address})
        except UnavailableError:
            return  # a bell is worth no second try

    def _testimony(self) -> GateTestimony:
        patch = DefenceStanding.PRESENT if self.patched else DefenceStanding.ABSENT
        if self.world.now - self.restarted < _RESTARTED_SECONDS:
            patch = DefenceStanding.UNKNOWN
        defences = tuple(
            DefenceSeen(
                each,
                patch if each is Defence.PATCH else DefenceStanding.PRESENT,
                "in the simulation",
            )
            for each in Defence
        )
        domains = tuple(
            DomainSeen(server, f"instance-{server[:8]}", addresses, server in self.guests, True)
            for server, addresses in sorted((self.guests | self.defined).items())
        )
        return GateTestimony(defences, domains, tuple(self._tickets.values()), ())

    def _progress(self, case: Case, step: Step) -> None:
        self.sequence += 1
        order = case.order
        progress = Progress(
            order.order_id,
            order.slot,
            order.generation,
            order.incarnation,
            self.sequence,
            step,
            0.5,
            "",
        )
        if self.up and not self.cut:
            try:
                self.broker.to_control(self.name, "progress", self._signed(progress, PROGRESS_TYPE))
            except UnavailableError:
                return  # shown to people, and nothing else

    def _clock(self) -> str:
        return self.world.wall().isoformat(timespec="milliseconds")

    def _report(self, order: EraseOrder, began: str) -> EraseReport:
        return replace(
            REPORT,
            order_id=order.order_id,
            slot=order.slot,
            identity=order.identity,
            generation=order.generation,
            nonce=order.nonce,
            incarnation=order.incarnation,
            policy=order.policy.name,
            profile=order.profile.name,
            started_at=began,
            finished_at=self._clock(),
        )

    def _signed(self, message: object, typ: str) -> str:
        return self.key.sign(codec.canonical(message), typ)

    def _send(self, task: str, token: str) -> None:
        self._outbox.append((task, token))
        self._send_kept()

    def _send_kept(self) -> None:
        """Reports and receipts are kept until the broker has them."""
        while self._outbox and self.up and not self.cut:
            task, token = self._outbox[0]
            try:
                self.broker.to_control(self.name, task, token)
            except UnavailableError:
                return
            self._outbox.pop(0)


@functools.lru_cache(maxsize=4096)
def identity(host: str, address: str) -> ControllerIdentity:
    """The drive that was in the slot on the first day."""
    return replace(IDENTITY, serial=f"{host}-{address[5:]}")
