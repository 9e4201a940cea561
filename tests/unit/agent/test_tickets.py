"""A ticket's way through the host: verified, kept, looked at, answered; whatever dies."""

from __future__ import annotations

import contextlib
import dataclasses
import errno
import os
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from eraser.agent.conf import WorkerSettings
from eraser.agent.hoststate import CONTROLLER_FILE, HostState, TicketRefusedError, keygen
from eraser.agent.orders import RESTART_SECONDS
from eraser.agent.runners import DiskLooks
from eraser.agent.tickets import MAX_RUNNING, TicketRounds
from eraser.agent.worker import Worker
from eraser.gate.intake import take_ticket
from eraser.host.children import Processes
from eraser.host.sysfs import Host
from eraser.ownership import pending
from eraser.ownership import store as books
from eraser.ownership.model import Book, SlotEntry
from eraser.protocol import codec
from eraser.protocol.inbound import MessageKind
from eraser.protocol.order import ORDER_TYPE
from eraser.protocol.ticket import RECEIPT_TYPE, TICKET_TYPE, Ticket, TicketReceipt, TicketState
from eraser.protocol.transport.signing import PrivateKey, verify
from tests.unit.agent.test_orders import unlistable
from tests.unit.ownership.parts import ADDRESS, AT, FACTS, OTHER_ADDRESS, TICKET

CONTROLLER = PrivateKey.generate()


@dataclass
class Looks:
    """Processes that a test lets end, with or without an answer."""

    alive: set[str] = field(default_factory=set)
    started: list[str] = field(default_factory=list)

    def start(self, address: str) -> None:
        self.started.append(address)
        self.alive.add(address)

    def running(self, address: str) -> bool:
        return address in self.alive


@dataclass
class Desk:
    """A host's state, its rounds over tickets, and a broker that can be down."""

    state: HostState
    looks: Looks = field(default_factory=Looks)
    sent: list[TicketReceipt] = field(default_factory=list)
    broker_up: bool = True
    now: float = 0.0

    def __post_init__(self) -> None:
        self.restart()

    def restart(self) -> None:
        self.rounds = TicketRounds(self.state, self.looks, self.send, lambda: self.now)

    def send(self, kind: MessageKind, token: str) -> None:
        if not self.broker_up:
            raise OSError("broker: down")
        assert kind is MessageKind.RECEIPT
        payload = verify(token, self.state.key.public, RECEIPT_TYPE, "receipt")
        self.sent.append(codec.load(TicketReceipt, payload, "receipt"))

    def ticket(self, **changes: object) -> Ticket:
        values = {"incarnation": self.state.card.incarnation} | changes
        return dataclasses.replace(TICKET, **values)  # type: ignore[arg-type]

    def come(self, ticket: Ticket) -> None:
        self.rounds.again(self.state.take_ticket(token(ticket)))

    def look_ends(self, ticket: Ticket, *, good: bool = True) -> None:
        """What ``gate intake`` does."""
        self.looks.alive.discard(ticket.slot.address)
        if not good:
            return
        with books.opened(self.state.directory) as book:
            entry = SlotEntry(ticket.slot.address)
            case = dataclasses.replace(
                FACTS.case, order_id=ticket.order_id, generation=ticket.generation
            )
            facts = dataclasses.replace(
                FACTS, entry=entry, incarnation=ticket.incarnation, case=case
            )
            found = take_ticket(book.book, ticket, facts, AT)
            assert isinstance(found, Book)
            book.write(found)


def token(ticket: Ticket, key: PrivateKey = CONTROLLER, typ: str = TICKET_TYPE) -> str:
    return key.sign(codec.canonical(ticket), typ)


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    keygen(tmp_path / "s", "compute-1")
    (tmp_path / "s" / CONTROLLER_FILE).write_bytes(codec.canonical(CONTROLLER.public.jwk()))
    return Desk(HostState(tmp_path / "s"))


def test_a_ticket_is_looked_at_and_answered_once(desk: Desk) -> None:
    ticket = desk.ticket()
    desk.come(ticket)
    for _ in range(3):
        desk.rounds.turn()
    assert desk.looks.started == [ADDRESS]
    assert desk.sent == []
    desk.look_ends(ticket)
    for _ in range(3):
        desk.rounds.turn()
    (receipt,) = desk.sent
    assert (receipt.state, receipt.order_id) == (TicketState.VALID, ticket.order_id)
    assert receipt.incarnation == desk.state.card.incarnation


def test_the_same_again_is_answered_again_and_not_looked_at(desk: Desk) -> None:
    ticket = desk.ticket()
    desk.come(ticket)
    desk.rounds.turn()
    desk.look_ends(ticket)
    desk.rounds.turn()
    with books.opened(desk.state.directory) as book:
        entry = book.book.entry(ADDRESS)
        assert entry.ticket is not None
        used = dataclasses.replace(entry.ticket, state=TicketState.USED)
        book.write(book.book.with_entry(dataclasses.replace(entry, ticket=used)))
    desk.come(ticket)
    desk.rounds.turn()
    assert [receipt.state for receipt in desk.sent] == [TicketState.VALID, TicketState.USED]
    assert desk.looks.started == [ADDRESS]


def test_killed_anywhere_it_goes_on(desk: Desk) -> None:
    ticket = desk.ticket()
    desk.come(ticket)
    desk.restart()
    desk.rounds.turn()
    assert desk.looks.started == [ADDRESS]
    desk.restart()
    desk.look_ends(ticket)
    desk.rounds.turn()
    assert [receipt.state for receipt in desk.sent] == [TicketState.VALID]
    desk.restart()
    desk.rounds.turn()
    assert len(desk.sent) == 2, "whether the first arrived is not known"


def test_a_broker_that_is_down_loses_nothing(desk: Desk) -> None:
    ticket = desk.ticket()
    desk.come(ticket)
    desk.look_ends(ticket)
    desk.broker_up = False
    desk.rounds.turn()
    desk.broker_up = True
    desk.rounds.turn()
    assert desk.sent == [], "not hammered"
    desk.now += 10
    desk.rounds.turn()
    assert len(desk.sent) == 1


def test_a_look_that_came_to_nothing_is_repeated_with_patience(desk: Desk) -> None:
    ticket = desk.ticket()
    desk.come(ticket)
    desk.rounds.turn()
    for pause in (*RESTART_SECONDS, RESTART_SECONDS[-1]):
        desk.look_ends(ticket, good=False)
        count = len(desk.looks.started)
        desk.now += pause - 0.01
        desk.rounds.turn()
        assert len(desk.looks.started) == count
        desk.now += 0.02
        desk.rounds.turn()
        assert len(desk.looks.started) == count + 1


def test_a_mute_drive_keeps_no_other_waiting(desk: Desk) -> None:
    tickets = [
        desk.ticket(
            slot=dataclasses.replace(TICKET.slot, address=f"0000:{number:02x}:00.0"),
            order_id=f"order-0000-0000-{number:04}",
        )
        for number in range(MAX_RUNNING + 2)
    ]
    for ticket in tickets:
        desk.come(ticket)
    desk.rounds.turn()
    assert len(desk.looks.started) == MAX_RUNNING
    desk.look_ends(tickets[1])
    desk.rounds.turn()
    assert len(desk.sent) == 1
    desk.rounds.turn()
    assert len(desk.looks.started) == MAX_RUNNING + 1


def test_a_damaged_book_stops_nothing_else_and_is_tried_again(
    desk: Desk, caplog: pytest.LogCaptureFixture
) -> None:
    ticket = desk.ticket()
    desk.come(ticket)
    desk.look_ends(ticket)
    path = books.book_file(desk.state.directory)
    good = path.read_bytes()
    path.write_bytes(b"x")
    for _ in range(3):
        desk.rounds.turn()
    assert desk.sent == []
    assert caplog.text.count("gate adopt --renew") == 1, "said once"
    path.write_bytes(good)
    desk.rounds.turn()
    assert len(desk.sent) == 1


def test_strangers_are_refused(desk: Desk) -> None:
    other = dataclasses.replace(TICKET.slot, host="compute-2")
    for wrong in (
        token(desk.ticket(), PrivateKey.generate()),
        token(desk.ticket(), typ=ORDER_TYPE),
        token(desk.ticket(slot=other)),
        CONTROLLER.sign(b"{}", TICKET_TYPE),
        "rubbish",
    ):
        with pytest.raises(TicketRefusedError):
            desk.state.take_ticket(wrong)
    assert pending.everything(desk.state.directory) == ()


def test_an_older_one_does_not_replace_a_newer(desk: Desk) -> None:
    desk.come(desk.ticket(generation=7))
    with pytest.raises(TicketRefusedError, match="generation 6"):
        desk.come(desk.ticket(generation=6))
    desk.come(desk.ticket(generation=8))
    (kept,) = pending.everything(desk.state.directory)
    assert kept.generation == 8


def _torn(path: Path) -> None:
    path.write_bytes(b"{")


def _unreadable(path: Path) -> None:
    path.unlink()
    path.mkdir()  # reading it is an OSError, as of a bad sector


@pytest.mark.parametrize("damage", [_torn, _unreadable])
def test_a_damaged_file_hinders_no_other_slot(desk: Desk, damage: Callable[[Path], None]) -> None:
    slot = dataclasses.replace(TICKET.slot, address=OTHER_ADDRESS)
    desk.come(desk.ticket())
    desk.come(desk.ticket(slot=slot, order_id="order-0000-0000-0002"))
    (path, _other) = sorted((desk.state.directory / "gate" / "tickets").iterdir())
    damage(path)
    assert len(pending.everything(desk.state.directory)) == 1
    desk.restart()
    desk.rounds.turn()
    assert len(desk.looks.started) == 1


def test_tickets_that_could_not_be_listed_are_looked_at_in_the_next_turn(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    desk.come(desk.ticket())
    desk.restart()
    with monkeypatch.context() as broken:
        for name in ("scandir", "listdir"):
            broken.setattr(os, name, unlistable(getattr(os, name), "tickets", errno.EACCES))
        with contextlib.suppress(OSError):
            desk.rounds.turn()
    assert desk.looks.started == []
    desk.rounds.turn()
    assert len(desk.looks.started) == 1


def test_the_process_that_looks(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """A real one, which finds no ticket: it ends, and the worker's own log has why."""
    looks = DiskLooks(tmp_path, tmp_path / "run", Host())
    assert not looks.running(ADDRESS)
    looks.start(ADDRESS)
    deadline = time.monotonic() + 60
    while looks.running(ADDRESS) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not looks.running(ADDRESS)
    assert "expected a ticket of this slot" in capfd.readouterr().err


def test_the_worker_passes_tickets_on(desk: Desk, caplog: pytest.LogCaptureFixture) -> None:
    settings = WorkerSettings(
        broker="redis://127.0.0.1:1/0",
        state_dir=desk.state.directory,
        run_dir=desk.state.directory / "run",
        max_running=1,
        hello_interval=60.0,
        progress_interval=1.0,
    )
    begun: list[Sequence[str]] = []

    class Noted(Processes):
        def start(self, argv: Sequence[str], log: Path | None = None) -> Any:
            begun.append(argv)
            return SimpleNamespace(running=False)

    worker = Worker(settings, desk.state, Host(processes=Noted()))
    assert "eraser.ticket" in worker.app.tasks
    worker.ticket("rubbish")
    assert "refused" in caplog.text
    for looks in (worker.tickets.looks, worker.rests.looks):
        looks.start(ADDRESS)
    assert [argv[4] for argv in begun] == ["intake", "rest"]
    worker.tickets.send = desk.send
    worker.tickets.looks = desk.looks
    ticket = desk.ticket()
    worker.ticket(token(ticket))
    worker.tickets.turn()
    assert desk.looks.started == [ADDRESS]
    desk.look_ends(ticket)
    worker.tickets.turn()
    assert [receipt.state for receipt in desk.sent] == [TicketState.VALID]
