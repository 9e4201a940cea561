"""The rounds over orders: whatever is lost, the case goes on and its report arrives."""

from __future__ import annotations

import dataclasses
import errno
import os
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from eraser.agent.admission import StartQueue
from eraser.agent.hoststate import CONTROLLER_FILE, HostState, keygen
from eraser.agent.orders import SEND_RETRY_SECONDS, CaseLook, Holder, OrderRounds
from eraser.agent.runners import DiskCases
from eraser.errors import DriveError
from eraser.host.sysfs import Host
from eraser.protocol import codec
from eraser.protocol.identity import Slot
from eraser.protocol.inbound import MessageKind
from eraser.protocol.order import ORDER_TYPE, EraseOrder
from eraser.protocol.policy import Label
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
    Verdict,
)
from eraser.protocol.transport.signing import PrivateKey, verify
from eraser.state import answers
from eraser.state.case_dir import CaseEnding
from eraser.state.case_files import CaseFiles
from eraser.state.hostcard import order_file
from tests.unit.case.fakes import ordered
from tests.unit.protocol.test_codec import IDENTITY, ORDER

CONTROLLER = PrivateKey.generate()


def report_for(order: EraseOrder) -> EraseReport:
    return EraseReport(
        order_id=order.order_id,
        slot=order.slot,
        identity=order.identity,
        generation=order.generation,
        nonce=order.nonce,
        incarnation=order.incarnation,
        outcome=Outcome.COMPLETED,
        verdict=Verdict.ERASED,
        fit=True,
        reasons=(),
        policy="purge",
        profile="p",
        asked=Label.PURGE,
        achieved=Label.PURGE,
        downgraded=False,
        facts_before=None,
        facts_after=None,
        profile_differences=(),
        commands=(),
        methods=(),
        verification=None,
        health=None,
        resumed=0,
        started_at="2026-01-01T00:00:00+00:00",
        finished_at="2026-01-01T00:00:01+00:00",
        seconds={},
        tools={},
    )


@dataclass
class FakeCases:
    """Cases in memory: which run, which are done, which are broken."""

    looks: dict[str, CaseLook] = field(default_factory=dict)
    alive: set[str] = field(default_factory=set)
    starts: list[str] = field(default_factory=list)
    broken: set[str] = field(default_factory=set)
    unlockable: set[str] = field(default_factory=set)
    stuck: set[str] = field(default_factory=set)
    """Addresses of slots whose lock a command has that never comes back."""
    words: str = ""
    """How the log of each case ends."""
    retired_with: tuple[EraseOrder, ...] = ()
    retirings: int = 0

    def look(self, order: EraseOrder) -> CaseLook:
        if order.order_id in self.broken:
            raise DriveError("damaged")
        return self.looks.get(order.order_id, CaseLook(None, Step.PROVE_IDLE, 0.0, ""))

    def holder(self, order: EraseOrder) -> Holder:
        if order.order_id in self.unlockable:
            raise DriveError("expected to open the lock")
        if order.slot.address in self.stuck:
            return Holder.COMMAND
        return Holder.RUNNER if order.order_id in self.alive else Holder.NOBODY

    def start(self, order: EraseOrder) -> None:
        self.starts.append(order.order_id)
        self.alive.add(order.order_id)

    def last_words(self, order: EraseOrder) -> str:
        return self.words

    def renew(self, order: EraseOrder) -> None:
        del self.looks[order.order_id]

    def retire(self, orders: tuple[EraseOrder, ...]) -> None:
        self.retired_with = orders
        self.retirings += 1

    def drives(self, orders: tuple[EraseOrder, ...]) -> tuple[SeenDrive, ...]:
        return (SeenDrive("0000:01:00.0", "nvme", None if orders else IDENTITY),)


@dataclass
class World:
    """A host state, its rounds, and a broker that can be down."""

    state: HostState
    cases: FakeCases = field(default_factory=FakeCases)
    sent: list[tuple[MessageKind, str]] = field(default_factory=list)
    broker_up: bool = True
    now: float = 0.0
    max_running: int = 4
    rounds: OrderRounds = field(init=False)

    def __post_init__(self) -> None:
        self.restart()

    def restart(self) -> None:
        """A new process: everything in memory is gone."""
        self.rounds = OrderRounds(
            state=self.state,
            cases=self.cases,
            send=self.send,
            version="1",
            line=StartQueue(self.max_running, self.state.directory / "pause"),
            hello_interval=60,
            progress_interval=1,
            clock=lambda: self.now,
        )

    def send(self, kind: MessageKind, token: str) -> None:
        if not self.broker_up:
            raise ConnectionRefusedError("down")
        self.sent.append((kind, token))

    def turn(self, seconds: float = 10) -> None:
        self.now += seconds
        self.rounds.turn()

    def accept(self, n: int = 1, generation: int = 1) -> EraseOrder:
        order = dataclasses.replace(
            ORDER,
            order_id=f"{n}{generation}" * 10,
            slot=Slot("compute-1", f"0000:0{n}:00.0"),
            generation=generation,
            incarnation=self.state.card.incarnation,
        )
        return self.state.accept(CONTROLLER.sign(codec.canonical(order), ORDER_TYPE))

    def payloads(self, kind: MessageKind, typ: str) -> list[bytes]:
        """What arrived, every signature checked."""
        return [
            verify(token, self.state.key.public, typ, kind)
            for each, token in self.sent
            if each is kind
        ]

    def reports(self) -> list[EraseReport]:
        return [
            codec.load(EraseReport, raw, "report")
            for raw in self.payloads(MessageKind.REPORT, REPORT_TYPE)
        ]

    def finish(self, order: EraseOrder) -> None:
        self.cases.looks[order.order_id] = CaseLook(report_for(order), Step.REPORT, 1, "")
        self.cases.alive.discard(order.order_id)


def unlistable(listing: Callable[..., Any], name: str, number: int) -> Callable[..., Any]:
    """``listing`` as it is, but for the directory of this name, which the disk does not give."""

    def listed(path: Any = ".") -> Any:
        if os.path.basename(path) == name:
            raise OSError(number, os.strerror(number), str(path))
        return listing(path)

    return listed


@pytest.fixture
def world(tmp_path: Path) -> World:
    keygen(tmp_path, "compute-1")
    (tmp_path / CONTROLLER_FILE).write_bytes(codec.canonical(CONTROLLER.public.jwk()))
    return World(HostState(tmp_path))


def test_an_order_is_run_once_and_its_report_sent_once(world: World) -> None:
    order = world.accept()
    world.turn()
    world.turn()
    assert world.cases.starts == [order.order_id]
    world.finish(order)
    for _ in range(3):
        world.turn()
    assert world.reports() == [report_for(order)]
    assert world.cases.starts == [order.order_id]


def test_progress_that_cannot_be_counted_keeps_no_erase_from_its_start(world: World) -> None:
    order = world.accept()
    (world.state.directory / "progress.sequence").write_bytes(b"")
    world.turn()
    assert world.cases.starts == [order.order_id]
    world.finish(order)
    world.turn()
    assert world.reports() == [report_for(order)]


def test_a_dead_runner_is_started_again_with_growing_pauses(world: World) -> None:
    order = world.accept()
    world.turn()
    world.cases.alive.clear()
    world.turn(0.1)
    assert len(world.cases.starts) == 1
    world.turn(1)
    assert len(world.cases.starts) == 2
    world.cases.alive.clear()
    world.turn(1)
    assert len(world.cases.starts) == 2
    world.turn(5)
    assert world.cases.starts == [order.order_id] * 3


def test_people_are_told_why_runner_after_runner_ends_in_one_step(world: World) -> None:
    """A full disk; it is told until a runner comes further, and no word is sent twice."""
    order, cases = world.accept(), world.cases
    cases.words = "nvme-eraser: expected to write fingerprints, found \x1b no space left"

    def details() -> list[str]:
        sent = world.payloads(MessageKind.PROGRESS, PROGRESS_TYPE)
        return [codec.load(Progress, raw, "progress").detail for raw in sent]

    def ends(step: Step) -> None:
        cases.alive.clear()
        cases.looks[order.order_id] = CaseLook(None, step, 0.5, "")
        world.turn(0.4)
        world.turn(31)  # and the next one starts

    world.turn()
    ends(Step.INSPECT)
    for _runner in range(2):
        ends(Step.FINGERPRINT)
    assert not any(details())
    for _runner in range(3):
        ends(Step.FINGERPRINT)
    told = [detail for detail in details() if detail]
    assert told == [
        "runner after runner ends without a report and is started again: "
        "nvme-eraser: expected to write fingerprints, found ? no space left"
    ]
    ends(Step.ERASE)
    assert details()[-1] == ""

    def no_start(_order: EraseOrder) -> None:
        raise OSError(errno.ENOSPC, "x" * 1000)

    start = cases.start
    cases.start = no_start  # type: ignore[method-assign]
    for _runner in range(3):
        ends(Step.ERASE)
    assert "started again: [Errno 28] xxx" in details()[-1]
    assert len(details()[-1]) < 500
    cases.start = start  # type: ignore[method-assign]
    world.finish(order)
    world.turn()
    assert world.reports() == [report_for(order)]


def test_a_report_waits_for_the_broker(world: World) -> None:
    order = world.accept()
    world.turn()
    world.finish(order)
    world.broker_up = False
    world.turn()
    assert world.reports() == []
    world.broker_up = True
    world.turn()
    assert world.reports() == [report_for(order)]


def test_a_restarted_worker_sends_the_report_again(world: World) -> None:
    order = world.accept()
    world.finish(order)
    world.turn()
    world.restart()
    world.turn()
    assert world.reports() == [report_for(order)] * 2


def test_a_repeated_order_brings_the_report_again(world: World) -> None:
    order = world.accept()
    world.finish(order)
    world.turn()
    world.rounds.again(order)
    world.turn()
    assert len(world.reports()) == 2
    assert world.cases.starts == []


def test_an_order_repeated_after_in_use_is_a_new_look_at_the_drive(world: World) -> None:
    order = world.accept()
    in_use = dataclasses.replace(report_for(order), outcome=Outcome.IN_USE, fit=False)
    world.cases.looks[order.order_id] = CaseLook(in_use, Step.PROVE_IDLE, 0, "")
    world.turn()
    assert [report.outcome for report in world.reports()] == [Outcome.IN_USE]
    world.turn()
    assert world.cases.starts == []
    world.rounds.again(order)
    world.turn()
    assert world.cases.starts == [order.order_id]
    world.finish(order)
    world.turn()
    assert [report.outcome for report in world.reports()] == [Outcome.IN_USE, Outcome.COMPLETED]


def test_what_is_repeated_on_the_broker_begins_nothing_that_the_controller_did_not_ask_for(
    world: World,
) -> None:
    """It gave the case up long ago; the drive is somebody's again, and its guest shut off."""
    first = dataclasses.replace(world.accept(), look=1)
    token = CONTROLLER.sign(codec.canonical(first), ORDER_TYPE)
    in_use = dataclasses.replace(report_for(first), outcome=Outcome.IN_USE, fit=False)
    world.state.accept(token)
    world.cases.looks[first.order_id] = CaseLook(in_use, Step.REPORT, 1, "", answered=1)
    world.turn()
    for restarted in (False, True):
        if restarted:
            world.restart()
        world.turn(30 * 86400)
        world.rounds.again(world.state.accept(token))
        world.turn()
        assert world.cases.starts == []
    assert {report.outcome for report in world.reports()} == {Outcome.IN_USE}
    second = dataclasses.replace(first, look=2)
    world.rounds.again(world.state.accept(CONTROLLER.sign(codec.canonical(second), ORDER_TYPE)))
    world.turn()
    assert world.cases.starts == [first.order_id]


@pytest.mark.parametrize("when", ["as the round has read its orders", "and the worker dies"])
def test_a_look_that_comes_at_any_moment_is_taken(
    world: World, monkeypatch: pytest.MonkeyPatch, when: str
) -> None:
    """The controller asks once: the file of the order says so as long as it is not answered."""
    first = dataclasses.replace(world.accept(), look=1)
    world.state.accept(CONTROLLER.sign(codec.canonical(first), ORDER_TYPE))
    in_use = dataclasses.replace(report_for(first), outcome=Outcome.IN_USE, fit=False)
    world.cases.looks[first.order_id] = CaseLook(in_use, Step.REPORT, 1, "", answered=1)
    world.turn()
    second = dataclasses.replace(first, look=2)
    token = CONTROLLER.sign(codec.canonical(second), ORDER_TYPE)
    orders = world.state.orders

    def raced() -> tuple[EraseOrder, ...]:
        found = orders()
        monkeypatch.setattr(world.state, "orders", orders)
        world.rounds.again(world.state.accept(token))
        return found

    if when == "and the worker dies":
        world.state.accept(token)
        world.restart()
    else:
        monkeypatch.setattr(world.state, "orders", raced)
    world.turn()
    world.turn()
    assert world.cases.starts == [first.order_id]


def test_a_case_whose_request_is_gone_begins_anew_when_it_is_asked_for_alone(world: World) -> None:
    order = dataclasses.replace(world.accept(), look=1)
    token = CONTROLLER.sign(codec.canonical(order), ORDER_TYPE)
    world.state.accept(token)
    in_use = dataclasses.replace(report_for(order), outcome=Outcome.IN_USE, fit=False)
    world.cases.looks[order.order_id] = CaseLook(in_use, Step.REPORT, 1, "", answered=None)
    world.turn()
    world.restart()
    world.turn()
    assert world.cases.starts == []
    world.rounds.again(world.state.accept(token))
    world.turn()
    assert world.cases.starts == [order.order_id]


def test_commands_that_never_come_back_take_no_place_in_line(world: World) -> None:
    stuck = [world.accept(number) for number in range(1, world.max_running + 1)]
    world.cases.stuck.update(order.slot.address for order in stuck)
    sound = world.accept(world.max_running + 1)
    world.turn()
    world.turn()
    assert world.cases.starts == [sound.order_id]
    sent = world.payloads(MessageKind.PROGRESS, PROGRESS_TYPE)
    each = [codec.load(Progress, raw, "progress") for raw in sent]
    said = {one.order_id: one.detail for one in each}
    assert all("a command of an earlier run" in said[order.order_id] for order in stuck)


@pytest.mark.parametrize("open_case", [False, True])
def test_while_the_broker_is_away_nothing_is_made_to_be_said_to_it(
    world: World, monkeypatch: pytest.MonkeyPatch, open_case: bool
) -> None:
    """A hello asks every drive of the host who it is."""
    if open_case:
        world.cases.alive.add(world.accept().order_id)
    asked: list[float] = []
    drives = world.cases.drives

    def noted(orders: tuple[EraseOrder, ...]) -> tuple[SeenDrive, ...]:
        asked.append(world.now)
        return drives(orders)

    monkeypatch.setattr(world.cases, "drives", noted)
    world.broker_up = False
    for _ in range(600):
        world.turn(0.1)
    tried = 60 / SEND_RETRY_SECONDS + 1
    assert len(asked) <= tried
    for name in ("hello", "progress"):
        path = world.state.directory / f"{name}.sequence"
        assert int(path.read_text() if path.exists() else "0") <= tried


def test_no_more_drives_than_allowed_are_erased_at_once(world: World) -> None:
    world.max_running = 2
    world.restart()
    orders = [world.accept(n) for n in (1, 2, 3)]
    world.turn()
    world.turn()
    assert len(world.cases.starts) == 2
    world.finish(orders[0])
    world.turn()
    world.turn()
    assert len(world.cases.starts) == 3


def details(world: World, order: EraseOrder) -> list[str]:
    raw = world.payloads(MessageKind.PROGRESS, PROGRESS_TYPE)
    seen = [codec.load(Progress, each, "progress") for each in raw]
    return [p.detail for p in seen if p.order_id == order.order_id]


def test_who_came_first_starts_first_and_the_others_know_their_place(world: World) -> None:
    world.max_running = 1
    world.restart()
    orders = [world.accept(n) for n in (4, 2, 9, 1)]
    world.turn()
    assert world.cases.starts == [orders[0].order_id]
    most = "waiting: 1 drives are being erased, the most at once on this host"
    assert details(world, orders[1]) == [most]
    assert details(world, orders[3]) == [f"{most}, 2 before this one"]
    for order in orders:
        world.finish(order)
        world.turn()
        world.turn()
    assert world.cases.starts == [order.order_id for order in orders]


def test_a_pause_file_keeps_all_from_starting_and_says_why(world: World) -> None:
    pause = world.state.directory / "pause"
    pause.write_bytes(b"rack 7: one power feed\nsecond line\x1b")
    order = world.accept()
    world.turn()
    world.turn(99999)
    assert world.cases.starts == []
    assert details(world, order) == [f"waiting: {pause} is there (rack 7: one power feed)"]
    pause.unlink()
    world.turn()
    assert world.cases.starts == [order.order_id]


def test_one_broken_case_stops_no_other(world: World) -> None:
    broken, sound = world.accept(1), world.accept(2)
    world.cases.broken.add(broken.order_id)
    world.turn()
    assert world.cases.starts == [sound.order_id]


def test_an_order_that_cannot_be_read_stops_no_other_and_its_case_is_not_removed(
    world: World,
) -> None:
    sound = world.accept(1)
    broken = world.state.directory / "orders" / "0000-7f-00.0.json"
    broken.mkdir()
    world.turn()
    assert world.cases.starts == [sound.order_id]
    assert world.cases.retired_with == ()
    broken.rmdir()
    world.turn()
    assert world.cases.retired_with == (sound,)


@pytest.mark.parametrize("number", [errno.EIO, errno.EACCES, errno.EMFILE])
def test_a_directory_of_orders_that_cannot_be_listed_is_none_without_orders(
    world: World, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    """Else each finished case would be removed, and its order carried out once more."""
    order = world.accept()
    world.finish(order)
    world.broker_up = False
    world.turn()
    before = world.cases.retirings, len(world.sent)
    with monkeypatch.context() as broken:
        for name in ("scandir", "listdir"):
            broken.setattr(os, name, unlistable(getattr(os, name), "orders", number))
        with pytest.raises(OSError, match="orders"):
            world.turn()
    assert (world.cases.retirings, len(world.sent)) == before
    world.broker_up = True
    world.turn()
    assert world.reports() == [report_for(order)]
    assert world.cases.starts == []


def test_an_order_that_was_answered_is_not_carried_out_again_without_its_case(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    """Somebody made room on the disk by removing cases; the drive may be anybody's by now."""
    order = dataclasses.replace(world.accept(), look=2)
    token = CONTROLLER.sign(codec.canonical(order), ORDER_TYPE)
    world.state.accept(token)
    world.finish(order)
    world.turn()
    for step in ("lost", "a new worker", "repeated"):
        if step == "a new worker":
            world.restart()
        if step == "repeated":
            world.rounds.again(world.state.accept(token))
        world.cases.looks.clear()
        world.turn(99)
        world.turn(99)
        assert world.cases.starts == [], step
    assert f"order {order.order_id} for {order.slot}: expected the case" in caplog.text
    (raw,) = world.payloads(MessageKind.HELLO, HELLO_TYPE)[-1:]
    assert codec.load(Hello, raw, "hello").cases == (), "nothing works on its drive"
    # A greater look is the controller's own word that it wants the case begun anew.
    newer = dataclasses.replace(order, look=3)
    world.rounds.again(world.state.accept(CONTROLLER.sign(codec.canonical(newer), ORDER_TYPE)))
    world.turn()
    assert world.cases.starts == [order.order_id]


def test_a_case_of_an_earlier_release_is_marked_when_its_report_is_sent_again(
    world: World,
) -> None:
    order, flying = world.accept(1), world.accept(2)
    world.finish(order)
    world.turn()
    for mark in (world.state.directory / "orders").glob("*.answered"):
        mark.unlink()  # that release wrote none
    world.restart()
    world.turn()
    world.cases.looks.clear()
    world.cases.alive.clear()
    world.cases.starts.clear()
    world.restart()
    world.turn()
    assert world.cases.starts == [flying.order_id], "in flight, as it was"


def test_people_hear_at_once_of_a_mark_that_is_damaged_as_its_order_was(world: World) -> None:
    """One torn file system; the order's file was removed, so that it comes again."""
    answered = world.accept(1, generation=1)
    world.finish(answered)
    world.turn()
    world.cases.looks.clear()
    order_file(world.state.directory, answered.slot.address).unlink()
    mark = answers.answer_file(world.state.directory, answered.slot.address)
    mark.write_bytes(b"{")
    world.restart()
    for generation in (1, 2):  # whether it was here nobody can tell
        order_file(world.state.directory, answered.slot.address).unlink(missing_ok=True)
        order = world.accept(1, generation)
        world.turn()
        world.turn()
        (told,) = details(world, order)
        assert "nothing is sent to the drive" in told
        assert str(mark) in told
        assert "hold and release the slot" in told
        assert world.cases.starts == []
    newer = world.accept(1, generation=3)  # the slot was held and released
    world.turn()
    assert world.cases.starts == [newer.order_id]


def ended(order: EraseOrder, outcome: Outcome) -> CaseLook:
    """A case whose report has what only a newer release reads."""
    ending = CaseEnding(outcome, Verdict.UNKNOWN, False, order.identity)
    return CaseLook(None, Step.REPORT, 1, "expected no member 'later'", 1, ending)


def test_a_case_that_ended_under_a_newer_release_is_over(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    """The host was set back; its drive is named in hellos, and nothing is begun on it."""
    order = dataclasses.replace(world.accept(), look=1)
    world.state.accept(CONTROLLER.sign(codec.canonical(order), ORDER_TYPE))
    world.cases.looks[order.order_id] = ended(order, Outcome.COMPLETED)
    for _ in range(3):
        world.turn(61)
    assert (world.cases.starts, world.reports()) == ([], [])
    hello = codec.load(Hello, world.payloads(MessageKind.HELLO, HELLO_TYPE)[-1], "hello")
    assert (hello.cases, hello.drives[0].identity) == ((), IDENTITY)
    assert caplog.text.count("has ended, and this release cannot send its report") == 1
    world.finish(order)  # the newer release is there again
    world.restart()
    world.turn()
    assert world.reports() == [report_for(order)]


def test_a_case_in_use_under_a_newer_release_is_begun_anew_when_it_is_asked_for(
    world: World,
) -> None:
    order = dataclasses.replace(world.accept(), look=1)
    world.cases.looks[order.order_id] = ended(order, Outcome.IN_USE)
    for look, starts in ((1, []), (2, [order.order_id])):
        asked = dataclasses.replace(order, look=look)
        world.rounds.again(world.state.accept(CONTROLLER.sign(codec.canonical(asked), ORDER_TYPE)))
        world.turn()
        assert world.cases.starts == starts


def test_a_case_that_begins_anew_is_in_flight_whenever_the_worker_dies(world: World) -> None:
    """Of a controller that counts no looks the order itself does not tell that."""
    order = world.accept()
    in_use = dataclasses.replace(report_for(order), outcome=Outcome.IN_USE, fit=False)
    world.cases.looks[order.order_id] = CaseLook(in_use, Step.PROVE_IDLE, 0, "")
    world.turn()
    world.cases.unlockable.add(order.order_id)
    world.rounds.again(order)
    world.turn()
    assert world.cases.looks == {}
    world.cases.unlockable.clear()
    world.restart()
    world.turn()
    assert world.cases.starts == [order.order_id]


def test_a_mark_that_the_disk_did_not_take_is_of_no_case_that_begins_anew(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its files were removed in part, by a disk that fails."""
    order = world.accept()
    in_use = dataclasses.replace(report_for(order), outcome=Outcome.IN_USE, fit=False)
    world.cases.looks[order.order_id] = CaseLook(in_use, Step.PROVE_IDLE, 0, "")

    def fails(*_: object) -> None:
        world.cases.looks.clear()
        raise OSError(errno.EIO, "Input/output error")

    with monkeypatch.context() as disk:
        disk.setattr(answers, "note", fails)
        world.turn()
        world.cases.looks[order.order_id] = CaseLook(in_use, Step.PROVE_IDLE, 0, "")
        disk.setattr(world.cases, "renew", fails)
        world.rounds.again(order)
        world.turn()
    world.turn()
    world.restart()
    world.turn()
    assert world.cases.starts == [order.order_id]


def test_a_mark_that_a_full_disk_did_not_take_is_made_later(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    order = world.accept()
    world.finish(order)

    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as disk:
        disk.setattr(answers, "note", full)
        for _ in range(3):
            world.turn()
    assert world.reports() == [report_for(order)], "it waits for no disk, and is sent once"
    world.turn()
    world.cases.looks.clear()
    world.restart()
    world.turn()
    assert world.cases.starts == []


def test_progress_is_sent_when_it_moves_and_not_too_often(world: World) -> None:
    order = world.accept()
    world.turn()
    for fraction in (0.1, 0.2, 0.3):
        world.cases.looks[order.order_id] = CaseLook(None, Step.ERASE, fraction, "x")
        world.turn(0.4)
    seen = [
        codec.load(Progress, raw, "progress")
        for raw in world.payloads(MessageKind.PROGRESS, PROGRESS_TYPE)
    ]
    assert [(p.step, p.fraction) for p in seen] == [(Step.PROVE_IDLE, 0), (Step.ERASE, 0.1)]
    world.turn(1)
    assert len(world.payloads(MessageKind.PROGRESS, PROGRESS_TYPE)) == 3
    assert [p.sequence for p in seen] == sorted({p.sequence for p in seen})


def test_hellos_come_at_once_and_then_at_their_interval(world: World) -> None:
    world.turn()
    world.turn(30)
    world.turn(31)
    hellos = [
        codec.load(Hello, raw, "hello") for raw in world.payloads(MessageKind.HELLO, HELLO_TYPE)
    ]
    assert [hello.sequence for hello in hellos] == [1, 2]
    assert hellos[0].drives == (SeenDrive("0000:01:00.0", "nvme", IDENTITY),)


def test_a_drive_under_a_case_is_not_asked_for_its_identity(world: World) -> None:
    order = world.accept()
    world.turn()
    (raw,) = world.payloads(MessageKind.HELLO, HELLO_TYPE)
    hello = codec.load(Hello, raw, "hello")
    assert hello.cases == (order.order_id,)
    assert hello.accepted == (AcceptedOrder(order.slot.address, order.order_id, order.generation),)
    assert hello.drives[0].identity is None


def test_only_the_newest_order_of_a_slot_is_worked_on(world: World) -> None:
    old = world.accept(1, generation=1)
    world.finish(old)
    world.turn()
    new = world.accept(1, generation=2)
    world.turn()
    assert world.cases.starts == [new.order_id]
    assert world.cases.retired_with == (new,)


@pytest.mark.parametrize("kind", ["broken", "unlockable"])
def test_what_is_wrong_with_a_case_is_said_once_and_stops_no_other(
    world: World, caplog: pytest.LogCaptureFixture, kind: str
) -> None:
    bad, good = world.accept(1), world.accept(2)
    getattr(world.cases, kind).add(bad.order_id)
    for _ in range(5):
        world.turn()
    assert world.cases.starts == [good.order_id]
    assert len([r for r in caplog.records if bad.order_id in r.getMessage()]) == 1


def test_a_case_that_cannot_be_read_keeps_no_other_from_being_cleared(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A damaged directory on the host's disk."""
    for name in ("a" * 64, "c" * 64):
        files = CaseFiles(tmp_path, name)
        files.make()
        (files.directory / "report.json").write_text("{}")
        (files.directory / "request.json").write_bytes(codec.canonical(ordered()))
    CaseFiles(tmp_path, "b" * 64).make()
    newer = dataclasses.replace(ORDER, slot=ordered().slot)
    finished = CaseFiles.finished

    def unless_damaged(files: CaseFiles) -> bool:
        if files.key == "b" * 64:
            raise OSError(errno.EUCLEAN, "Structure needs cleaning")
        return finished(files)

    monkeypatch.setattr(CaseFiles, "finished", unless_damaged)
    DiskCases(tmp_path, tmp_path / "run", Host()).retire((newer,))
    assert [each.name for each in (tmp_path / "cases").iterdir()] == ["b" * 64]


def test_an_ended_case_without_a_request_hinders_nobody(tmp_path: Path) -> None:
    for name in ("a" * 64, "b" * 64):
        files = CaseFiles(tmp_path, name)
        files.make()
        (files.directory / "report.json").write_text("{}")
    (files.directory / "request.json").write_bytes(codec.canonical(ordered()))
    cases = DiskCases(tmp_path, tmp_path / "run", Host())
    cases.retire(())
    assert files.directory.exists(), "its slot has no newer order"
    cases.retire((dataclasses.replace(ORDER, slot=ordered().slot),))
    assert not files.directory.exists()
    assert CaseFiles(tmp_path, "a" * 64).directory.exists()
