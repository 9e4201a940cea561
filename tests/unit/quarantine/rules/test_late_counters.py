"""A sealed drive that counts late, from its erase to the next guest's start.

The eraser's own case on a drive of the lab, the control plane's ticket, the host's gate.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from pathlib import Path

import pytest

from eraser.gate import accept_ticket, admit
from eraser.ownership import pending
from eraser.ownership import store as books
from eraser.protocol import codec
from eraser.protocol.hostcard import HostCard
from eraser.protocol.order import EraseOrder
from eraser.protocol.policy import Verification
from eraser.protocol.ticket import TicketReceipt, TicketState
from eraser.state import hostcard
from quarantine.rules.reports import ticket as tickets
from tests.lab.nvme.counters import Counter
from tests.lab.nvme.profile import SmartProfile
from tests.unit.case.bed import POLICY, TENANT, Bed
from tests.unit.case.fakes import DRIVE, SLOT, ordered
from tests.unit.gate.world import domain
from tests.unit.ownership.parts import AT

LAG = 600.0
LAGGING = dataclasses.replace(DRIVE, size=8 << 20, smart=SmartProfile(lag_seconds=LAG))
ASKED = Verification(residual=0.05, canaries=200, visit=50, settle=0, reread=0)


class Slot:
    """A slot of an ordinary host with such a drive, whose erase is certified."""

    def __init__(self, directory: Path) -> None:
        self.bed = Bed(directory, LAGGING, dataclasses.replace(POLICY, verification=ASKED))
        self.state, self.run = directory / "state", directory / "run"
        asked = self.bed.request = ordered(self.bed.request)
        assert asked.identity is not None
        order = EraseOrder(
            asked.order_id,
            asked.slot,
            asked.identity,
            asked.profile,
            asked.policy,
            asked.generation,
            asked.nonce,
            asked.incarnation,
            asked.seconds_allowed,
        )
        file = hostcard.order_file(self.state, SLOT.address)
        file.parent.mkdir(parents=True)
        file.write_bytes(codec.canonical(order))
        card = HostCard(SLOT.host, asked.incarnation, {})
        (self.state / hostcard.CARD_FILE).write_bytes(codec.canonical(card))
        with books.opened(self.state) as book:
            book.write(dataclasses.replace(book.book, adopted_at=AT))
        # What the tenant wrote is counted by the first look of the case, and nothing after it.
        self.later()
        report = self.bed.run()
        assert (report.fit, report.reasons) == (True, ())
        health = report.health
        assert health is not None
        self.uncounted = self.bed.drive.counters[Counter.HOST_WRITES] - health.host_write_commands
        self.ticket = tickets.build(order, report, "c" * 64)

    def later(self) -> None:
        """The drive will have brought its log up to date."""
        self.bed.clock.wait(LAG)

    def taken(self) -> TicketReceipt:
        pending.put(self.state, self.ticket)
        found = accept_ticket.take_in(self.state, self.run, self.bed.machine.host, SLOT.address)
        assert isinstance(found, TicketReceipt)
        return found

    def start(self) -> admit.StartPassed:
        return admit.check(self.state, self.run, self.bed.machine.host, domain(SLOT.address))

    def used(self) -> None:
        """Somebody writes one sector."""
        self.bed.kernel.write(self.bed.kernel.path(1), 0, TENANT * 16)


@pytest.fixture
def slot(tmp_path: Path) -> Iterator[Slot]:
    made = Slot(tmp_path)
    assert made.uncounted > 2 * ASKED.canaries + 2 * ASKED.visit
    yield made
    made.bed.close()


def test_what_the_case_wrote_is_counted_before_the_ticket_comes(slot: Slot) -> None:
    slot.later()
    receipt = slot.taken()
    assert (receipt.state, receipt.reason) == (TicketState.VALID, "")
    assert receipt.counters is not None
    counted = receipt.counters.host_write_commands - slot.ticket.counters.host_write_commands
    assert counted == slot.uncounted
    assert slot.start().admissions


def test_what_the_case_wrote_is_counted_after_the_ticket_came(slot: Slot) -> None:
    receipt = slot.taken()
    assert (receipt.state, receipt.counters) == (TicketState.VALID, slot.ticket.counters)
    slot.later()
    assert slot.start().admissions


@pytest.mark.parametrize("taken", [False, True])
def test_one_sector_of_somebody_else_takes_the_seal(slot: Slot, taken: bool) -> None:
    if taken:
        slot.taken()
    slot.used()
    slot.later()
    if not taken:
        receipt = slot.taken()
        assert receipt.state is TicketState.VOID
        assert "Global Data Erased is gone" in receipt.reason
    with pytest.raises(admit.GateRefusedError, match="Global Data Erased is gone"):
        slot.start()
