"""A made-up host with slots, and a drive in each that says whatever a test wants."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from eraser.gate import accept_ticket, admit, by_person, read_idle
from eraser.host.sysfs import Host
from eraser.ownership import pending
from eraser.ownership import store as books
from eraser.ownership.facts import DriveSeen
from eraser.ownership.model import Book, SlotEntry
from eraser.protocol import codec
from eraser.protocol.hostcard import HostCard
from eraser.protocol.order import EraseOrder
from eraser.protocol.report import EraseReport, Outcome, Verdict
from eraser.protocol.ticket import Ticket
from eraser.state import hostcard
from eraser.state.case_files import CaseFiles, CaseRequest
from eraser.state.hostcard import CARD_FILE
from tests.unit.agent.test_orders import report_for
from tests.unit.host.fakehost import FakeHost
from tests.unit.ownership.parts import ADDRESS, AT, DRIVE, INCARNATION, MINE, ORDER_ID, SEEN, TICKET
from tests.unit.protocol.test_codec import ORDER

NVME = "0x010802"
HOSTDEV = """<hostdev mode='subsystem' type='pci' managed='yes'>
<source><address domain='0x{0}' bus='0x{1}' slot='0x{2}' function='0x{3}'/></source>
<address type='pci' domain='0x0000' bus='0x01' slot='0x00' function='0x0'/>
</hostdev>"""


def domain(*addresses: str, uuid: str = MINE, name: str = "instance-1", more: str = "") -> bytes:
    """A domain as libvirt writes it."""
    devices = "".join(HOSTDEV.format(*a.replace(".", ":").split(":")) for a in addresses)
    return (
        f"<domain type='kvm'><name>{name}</name><uuid>{uuid}</uuid>"
        f"<devices>{devices}{more}</devices></domain>"
    ).encode()


@dataclass
class World:
    """One host's directories, its files of libvirt, and what its drives say."""

    directory: Path
    fake: FakeHost
    drives: dict[str, DriveSeen] = field(default_factory=dict)
    looked: list[str] = field(default_factory=list)
    patience: float = 0.0
    """Seconds that the drives of the last look had."""

    @property
    def state(self) -> Path:
        return self.directory / "state"

    @property
    def run(self) -> Path:
        return self.directory / "run"

    @property
    def host(self) -> Host:
        return self.fake.host

    def slot(self, address: str, seen: DriveSeen = SEEN, code: str = NVME) -> None:
        """A function in the host, and what its drive will say."""
        self.fake.put(f"/sys/bus/pci/devices/{address}/class", code)
        self.drives[address] = seen

    def look(
        self,
        _host: Host,
        addresses: Iterable[str],
        seconds: float,
        meanwhile: Callable[[], None] = lambda: None,
    ) -> dict[str, DriveSeen]:
        meanwhile()
        self.patience = seconds
        found = {address: self.drives.get(address, DriveSeen(None)) for address in addresses}
        self.looked += found
        return found

    def check(self, document: bytes) -> admit.StartPassed:
        return admit.check(self.state, self.run, self.host, document)

    @property
    def book(self) -> Book:
        return books.load(self.state)

    def know(self, *entries: SlotEntry, adopted_at: str = AT) -> None:
        """Puts entries into the book."""
        with books.opened(self.state) as book:
            found = dataclasses.replace(book.book, adopted_at=adopted_at)
            for entry in entries:
                found = found.with_entry(entry)
            book.write(found)

    def order(self, address: str = ADDRESS, **changes: object) -> EraseOrder:
        """An order that this host accepted; :meth:`end` ends its case."""
        slot = dataclasses.replace(TICKET.slot, address=address)
        values = {"order_id": ORDER_ID, "generation": 5, "incarnation": INCARNATION} | changes
        order = dataclasses.replace(ORDER, slot=slot, identity=DRIVE, **values)  # type: ignore[arg-type]
        path = hostcard.order_file(self.state, address)
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(codec.canonical(order))
        return order

    def end(self, order: EraseOrder, **changes: object) -> EraseReport:
        """The order's case ends, erased and fit unless told otherwise."""
        values: dict[str, object] = {"outcome": Outcome.COMPLETED, "verdict": Verdict.ERASED}
        report = dataclasses.replace(report_for(order), **(values | changes))  # type: ignore[arg-type]
        files = CaseFiles.of_order(self.state, order.order_id)
        files.make()
        files.write_report(report)
        return report

    def begin_by_hand(self, address: str = ADDRESS) -> CaseFiles:
        """A stand-alone erase that was interrupted."""
        slot = dataclasses.replace(TICKET.slot, address=address)
        request = CaseRequest(slot, None, ORDER.profile, ORDER.policy)
        files = CaseFiles.of(self.state, request)
        files.make()
        files.write_request(request)
        files.journal.write_bytes(b"x")
        return files

    def certified(self, address: str = ADDRESS) -> Ticket:
        """A slot whose ticket was taken in."""
        if address not in self.drives:
            self.slot(address)
        self.end(self.order(address, order_id=f"order-0000-{address.replace(':', '-')[:-2]}"))
        order = hostcard.accepted(self.state, address)
        assert order is not None
        ticket = dataclasses.replace(TICKET, slot=order.slot, order_id=order.order_id)
        pending.put(self.state, ticket)
        accept_ticket.take_in(self.state, self.run, self.host, address)
        return ticket


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> World:
    """A host with a card and no slot yet."""
    found = World(tmp_path, FakeHost(tmp_path / "root"))
    found.state.mkdir()
    card = HostCard("compute-1", INCARNATION, {})
    (found.state / CARD_FILE).write_bytes(codec.canonical(card))
    monkeypatch.setattr(admit, "look", found.look)
    monkeypatch.setattr(accept_ticket, "look", found.look)
    monkeypatch.setattr(by_person, "look", found.look)
    monkeypatch.setattr(read_idle, "look", found.look)
    return found
