"""A stand-in for the eraser on one compute host: it signs what a real one signs.

It is not the eraser: the drives are those of :mod:`tests.nova.shelf`, and an erase takes no time.
Its answers are those that the real eraser gives in the same place: a drive that a libvirt domain
names, or that vfio holds, is "in use"; another drive is "wrong drive"; one that keeps its data is
"not erased"; one that is not as its profile says is erased and not fit. That the real eraser finds
all this out on a real kernel is tested on the emulated rack (tests/emulated).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace

from eraser.protocol import codec
from eraser.protocol.identity import Slot
from eraser.protocol.order import ORDER_TYPE, EraseOrder
from eraser.protocol.report import (
    HELLO_TYPE,
    REPORT_TYPE,
    AcceptedOrder,
    EraseReport,
    Hello,
    Outcome,
    SeenDrive,
    Verdict,
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
from eraser.protocol.transport.signing import PrivateKey, PublicKey, verify
from tests.nova.shelf import LIES, STUCK, Shelf
from tests.unit.quarantine.testimony import REPORT


@dataclass
class StandInHost:
    """One registered host; ``domains`` are what its libvirt has: server, running, addresses."""

    name: str
    controller: PublicKey
    shelf: Shelf
    domains: Callable[[str], Iterable[tuple[str, bool, tuple[str, ...]]]]
    patched: bool = True
    """Whether its nova-compute has born reserved."""
    down: bool = False
    """No power: orders wait, nothing is said."""
    crashing: bool = False
    """The power fails in the midst of the next erase."""
    key: PrivateKey = field(default_factory=PrivateKey.generate)
    sequence: int = 0
    accepted: dict[str, EraseOrder] = field(default_factory=dict)
    orders: list[EraseOrder] = field(default_factory=list)
    """Every order that came, repetitions too."""
    tickets: dict[str, TicketSeen] = field(default_factory=dict)
    """The newest ticket of each slot, by address."""

    @property
    def incarnation(self) -> str:
        """Random in a real host's state directory; here one for each name."""
        return f"incarnation-{self.name}"

    def hello(self) -> str:
        """The signed word about every drive that the host sees."""
        self.sequence += 1
        drives = tuple(
            SeenDrive(slot.address, "nvme", drive.identity)
            for slot, drive in sorted(self.shelf.drives.items())
            if slot.host == self.name
        )
        accepted = tuple(
            AcceptedOrder(address, order.order_id, order.generation)
            for address, order in sorted(self.accepted.items())
        )
        hello = Hello(
            self.name, self.incarnation, self.sequence, "0", drives, (), accepted, self._gate()
        )
        return self.key.sign(codec.canonical(hello), HELLO_TYPE)

    def _gate(self) -> GateTestimony:
        domains = tuple(
            DomainSeen(server, server, addresses, running, True)
            for server, running, addresses in self.domains(self.name)
            if addresses
        )
        for address in {address for domain in domains for address in domain.addresses}:
            if address in self.tickets:
                self.tickets[address] = replace(self.tickets[address], state=TicketState.USED)
        missing = {Defence.PATCH} if not self.patched else set()
        defences = tuple(
            DefenceSeen(
                name, DefenceStanding.ABSENT if name in missing else DefenceStanding.PRESENT, ""
            )
            for name in Defence
        )
        tickets = tuple(self.tickets[address] for address in sorted(self.tickets))
        return GateTestimony(defences, domains, tickets, ())

    def busy(self, slot: Slot) -> str:
        """As the real eraser reads ``/etc/libvirt/qemu`` and ``/run/libvirt/qemu``."""
        for server, running, addresses in self.domains(slot.host):
            if slot.address in addresses:
                return f"libvirt domain of {server} ({'running' if running else 'defined'})"
        return ""

    def take_ticket(self, token: str) -> str:
        """The signed receipt: nothing here writes to a drive between the report and the ticket."""
        payload = verify(token, self.controller, TICKET_TYPE, "ticket")
        ticket = codec.load(Ticket, payload, "ticket")
        here = self.shelf.drives.get(ticket.slot)
        same = here is not None and here.identity == ticket.identity
        state, reason = (TicketState.VALID, "") if same else (TicketState.VOID, "another drive")
        address = ticket.slot.address
        self.tickets[address] = TicketSeen(
            address, ticket.order_id, ticket.generation, state, reason
        )
        receipt = TicketReceipt(
            order_id=ticket.order_id,
            slot=ticket.slot,
            generation=ticket.generation,
            incarnation=ticket.incarnation,
            state=state,
            reason=reason,
            counters=ticket.counters,
        )
        return self.key.sign(codec.canonical(receipt), RECEIPT_TYPE)

    def answer(self, token: str) -> str | None:
        """The signed report on an order; ``None`` for an order that a real host would refuse, and
        where the power fails."""
        payload = verify(token, self.controller, ORDER_TYPE, "order")
        order = codec.load(EraseOrder, payload, "order")
        self.orders.append(order)
        known = self.accepted.get(order.slot.address)
        if order.incarnation != self.incarnation:
            return None
        if known is not None and known != order and order.generation <= known.generation:
            return None
        self.accepted[order.slot.address] = order
        if self.crashing:
            self.crashing, self.down = False, True
            return None
        return self.key.sign(codec.canonical(self._carry_out(order)), REPORT_TYPE)

    def _carry_out(self, order: EraseOrder) -> EraseReport:
        report = replace(
            REPORT,
            order_id=order.order_id,
            slot=order.slot,
            identity=order.identity,
            generation=order.generation,
            nonce=order.nonce,
            incarnation=order.incarnation,
            policy=order.policy.name,
            profile=order.profile.name,
            # As with a real clock, no two reports are the same.
            finished_at=f"2026-11-21T11:00:{len(self.orders):02d}Z",
        )
        drive = self.shelf.drives.get(order.slot)
        if drive is None:
            return _untouched(report, Outcome.ABSENT, "no controller")
        if drive.identity != order.identity:
            report = replace(report, identity=drive.identity)
            return _untouched(report, Outcome.WRONG_DRIVE, "another drive")
        busy = self.busy(order.slot) or (STUCK if STUCK in drive.faults else "")
        if busy:
            return _untouched(report, Outcome.IN_USE, busy)
        self.shelf.erase(order.slot)
        if LIES in drive.faults:
            reasons = ("a canary is still there",)
            return replace(report, verdict=Verdict.NOT_ERASED, fit=False, reasons=reasons)
        if drive.changed_by is not None:
            differences = ("profile: firmware",)
            return replace(report, fit=False, reasons=differences, profile_differences=differences)
        return report


def _untouched(report: EraseReport, outcome: Outcome, reason: str) -> EraseReport:
    """Nothing was sent to the drive, and the report says so."""
    return replace(
        report,
        outcome=outcome,
        verdict=Verdict.UNKNOWN,
        fit=False,
        reasons=(reason,),
        achieved=None,
        facts_before=None,
        facts_after=None,
        commands=(),
        methods=(),
        verification=None,
        health=None,
    )
