"""Placement answers wrongly or not at all; the control plane dies; the drive is burned again."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any, cast

import pytest

from quarantine.cloud import custody
from quarantine.cloud.facts import View
from quarantine.cloud.placement import Placement
from quarantine.errors import ConflictError, UnavailableError
from quarantine.record.words.states import State
from tests.lab.services.faults import Fault, Kind
from tests.lab.services.nova_standin import Server
from tests.services.pool import EITHER, Pool

pytestmark = pytest.mark.services


@pytest.fixture(params=EITHER)
def placement(request: pytest.FixtureRequest) -> Any:
    """The simulated one, where nobody asks for the real one too."""
    return request.getfixturevalue(request.param)


_ROOT = Path(__file__).resolve().parents[2]

WRONG = {
    "409": Fault(Kind.STATUS, status=409),
    "500": Fault(Kind.STATUS, status=500),
    "500 after the change": Fault(Kind.STATUS, status=500, after=True),
    "409 after the change": Fault(Kind.STATUS, status=409, after=True),
    "closed": Fault(Kind.CLOSE),
    "closed after the change": Fault(Kind.CLOSE, after=True),
}

REQUESTS = {
    "provider": ("GET", r"/resource_providers\?uuid"),
    "custody": ("POST", "/reshaper"),
    "second lock": ("PUT", "/inventories$"),
}


def _copy(wrong: str, request: str, left: int) -> Fault:
    method, path = REQUESTS[request]
    kind = WRONG[wrong]
    return Fault(kind.kind, method, path, status=kind.status, after=kind.after, left=left)


@pytest.mark.parametrize(
    ("wrong", "request_name"),
    [(w, "provider") for w, fault in WRONG.items() if not fault.after]
    + [(w, request) for request in ("custody", "second lock") for w in WRONG],
)
def test_on_the_way_into_custody_nothing_is_lost(pool: Pool, wrong: str, request_name: str) -> None:
    server = pool.make_used()
    generation = pool.record.generation
    pool.nova.delete(server)
    fault = pool.proxy.inject(_copy(wrong, request_name, 2))
    for _ in range(4):
        with contextlib.suppress(UnavailableError):
            pool.reconciler.look(pool.slot)
        assert not pool.on_offer
    # What was done although the answer was spoiled is not done again, but for the lock: a return
    # of before is refused by a write of ours alone, and of this one nobody saw the end.
    assert fault.hits == (1 if fault.after and request_name == "custody" else 2)
    record = pool.record
    assert record.state is State.ERASING
    assert record.generation == generation + 1
    assert pool.dispatcher.sent.count(str(record.order_token)) == 1
    view = pool.view
    assert view.locked
    assert [a.consumer for a in view.allocations] == [record.custody]


@pytest.mark.parametrize("wrong", WRONG)
def test_on_the_way_back_nothing_is_lost(pool: Pool, wrong: str) -> None:
    pool.enrol()
    pool.reconciler.look(pool.slot)
    pool.certify()
    fault = pool.proxy.inject(_copy(wrong, "custody", 1))
    for _ in range(3):
        with contextlib.suppress(UnavailableError):
            pool.reconciler.look(pool.slot)
    assert fault.hits == 1
    assert pool.record.state is State.AVAILABLE
    assert pool.on_offer


def test_two_looks_that_give_back_at_once_hold_nothing(pool: Pool) -> None:
    """The service's loop and its worker may both be at it: the loser must not undo the winner."""
    pool.enrol()
    pool.reconciler.look(pool.slot)
    pool.certify()
    other = pool.new_reconciler()
    arrived, returned = threading.Event(), threading.Event()

    def beside() -> None:
        with contextlib.suppress(ConflictError, UnavailableError):
            other.look(pool.slot)

    second = threading.Thread(target=beside)

    def first_asks() -> None:
        """Both have decided to give back before either has asked."""
        second.start()
        assert arrived.wait(60)

    def second_asks() -> None:
        """The second one's request comes after the first one's, and is refused."""
        pool.proxy.inject(Fault(Kind.CALL, "GET", left=1, call=first_looks))
        arrived.set()
        assert returned.wait(60)

    def first_looks() -> None:
        """The first one records its return only after the second one has dealt with the 409."""
        returned.set()
        second.join(60)

    races = [
        pool.proxy.inject(Fault(Kind.CALL, "POST", "/reshaper", left=1, call=call))
        for call in (first_asks, second_asks)
    ]
    with contextlib.suppress(ConflictError, UnavailableError):
        pool.reconciler.look(pool.slot)
    second.join(60)
    assert [race.hits for race in races] == [1, 1]
    for _ in range(2):
        pool.reconciler.look(pool.slot)
    assert State.HELD not in pool.states()
    assert pool.record.state is State.AVAILABLE
    assert pool.on_offer


def test_a_look_with_an_old_record_takes_nothing_from_the_pool(
    pool: Pool, caplog: pytest.LogCaptureFixture
) -> None:
    """Another look gave the slot back after this one had read its record: that is no alarm."""
    pool.enrol()
    pool.reconciler.look(pool.slot)
    pool.certify()
    other = pool.new_reconciler()

    def beside() -> None:
        other.look(pool.slot)
        assert pool.record.state is State.AVAILABLE

    race = pool.proxy.inject(Fault(Kind.CALL, "GET", left=1, call=beside))
    with contextlib.suppress(ConflictError, UnavailableError):
        pool.reconciler.look(pool.slot)
    assert race.hits == 1
    pool.reconciler.look(pool.slot)
    assert pool.record.state is State.AVAILABLE
    assert pool.on_offer
    assert pool.states().count(State.ERASING) == 1
    assert "ALARM" not in caplog.text


def test_an_alarm_is_told_though_placement_fails_in_mid_step(
    pool: Pool, caplog: pytest.LogCaptureFixture
) -> None:
    pool.make_used()
    pool.put_reserved(0)
    pool.clock.forward(pool.limits.burn_grace + 1)
    pool.proxy.inject(Fault(Kind.STATUS, "PUT", status=500, left=1))
    with pytest.raises(UnavailableError):
        pool.reconciler.look(pool.slot)
    assert "lowered reserved" in caplog.text
    pool.reconciler.look(pool.slot)
    assert pool.view.locked


def test_a_placement_that_does_not_answer_decides_nothing(
    pool: Pool, monkeypatch: pytest.MonkeyPatch
) -> None:
    server = pool.make_used()
    pool.nova.delete(server)
    before = pool.record
    monkeypatch.setattr(pool, "placement", Placement.connect("lab", timeout=1.0))
    hasty = pool.new_reconciler()
    pool.proxy.inject(Fault(Kind.HANG))
    with pytest.raises(UnavailableError):
        hasty.look(pool.slot)
    assert pool.record == before
    pool.proxy.heal()
    hasty.look(pool.slot)
    assert pool.record.state is State.ERASING


def test_a_409_for_a_return_that_went_through_holds_no_drive_in_use(pool: Pool) -> None:
    """A proxy repeats our request, and before that a build that waited has taken the drive."""
    pool.enrol()
    pool.reconciler.look(pool.slot)
    pool.certify()
    inner, servers = pool.placement, list[Server]()

    class Repeated:
        def __getattr__(self, name: str) -> object:
            return getattr(inner, name)

        def reshape(self, view: View, consumer: str, *, hold: bool) -> None:
            inner.reshape(view, consumer, hold=hold)
            servers.append(pool.nova.boot())
            inner.reshape(view, consumer, hold=hold)

    pool.placement = cast(Placement, Repeated())
    pool.new_reconciler().look(pool.slot)
    pool.placement = inner
    assert State.HELD not in pool.states()
    assert pool.record.state is State.IN_USE
    assert pool.record.consumer == servers[0].uuid
    pool.nova.delete(servers[0])
    pool.reconciler.look(pool.slot)
    assert pool.record.state is State.ERASING


def test_a_drive_taken_by_hand_while_its_return_is_decided_is_erased_when_let_go(
    pool: Pool,
) -> None:
    """Nothing tells that from a return whose answer was lost; it was clean, and has a user."""
    pool.enrol()
    pool.reconciler.look(pool.slot)
    pool.certify()
    generation = pool.record.generation
    servers = []

    def burn_again() -> None:
        """Between our look and our request: custody deleted, slot freed, a server boots on it."""
        pool.drop_custody()
        pool.put_reserved(0)
        servers.append(pool.nova.boot())

    race = pool.proxy.inject(Fault(Kind.CALL, "POST", "/reshaper", left=1, call=burn_again))
    pool.reconciler.look(pool.slot)
    assert race.hits == 1
    assert (pool.record.state, pool.record.consumer) == (State.IN_USE, servers[0].uuid)
    assert pool.view.locked
    pool.nova.delete(servers[0])
    pool.reconciler.sweep()
    pool.reconciler.reread()
    pool.reconciler.look(pool.slot)
    assert pool.record.state is State.ERASING
    assert pool.record.generation == generation + 1
    assert not pool.on_offer


def test_a_custody_dropped_by_hand_while_its_return_is_decided(pool: Pool) -> None:
    pool.enrol()
    pool.reconciler.look(pool.slot)
    pool.certify()
    generation = pool.record.generation
    drop = Fault(Kind.CALL, "POST", "/reshaper", left=1, call=pool.drop_custody)
    pool.proxy.inject(drop)
    pool.reconciler.look(pool.slot)
    assert drop.hits == 1
    assert not pool.on_offer
    assert pool.record.state is State.ERASING, "used and let go, as far as we know"
    assert pool.record.generation == generation + 1


def _killed(pool: Pool, point: str) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "tests.services.doomed", pool.database, str(pool.slot), point],
        env={**os.environ, "PYTHONPATH": str(_ROOT)},
        cwd=_ROOT,
        check=False,
        timeout=300,
    )
    assert done.returncode == -signal.SIGKILL, point


@pytest.mark.parametrize(
    "point",
    ["before custody", "after custody", "between the locks", "after the locks", "at dispatch"],
)
def test_killed_between_release_and_dispatch(pool: Pool, point: str) -> None:
    server = pool.make_used()
    pool.nova.delete(server)
    _killed(pool, point)
    assert not pool.on_offer
    assert pool.record.state in (State.RELEASED, State.QUARANTINED)
    # Whoever takes the case up uses the consumer that was stored before the request.
    stored = pool.record.custody
    assert stored is not None
    pool.new_reconciler().sweep()
    record = pool.record
    assert record.state is State.ERASING
    assert record.generation == 2
    assert record.custody == stored
    assert [a.consumer for a in pool.view.allocations] == [stored]
    assert pool.view.locked
    assert pool.dispatcher.sent.count(str(record.order_token)) == 1


@pytest.mark.parametrize("point", ["before the return", "after the return"])
def test_killed_between_certificate_and_return(pool: Pool, point: str) -> None:
    pool.enrol()
    pool.reconciler.look(pool.slot)
    pool.certify()
    _killed(pool, point)
    assert pool.record.state is State.CERTIFIED
    assert pool.on_offer == (point == "after the return")
    pool.new_reconciler().sweep()
    assert pool.record.state is State.AVAILABLE
    assert pool.on_offer
    assert pool.record.generation == 1


def test_killed_after_the_return_and_claimed_before_we_are_back(pool: Pool) -> None:
    pool.enrol()
    pool.reconciler.look(pool.slot)
    pool.certify()
    _killed(pool, "after the return")
    server = pool.nova.boot()
    pool.new_reconciler().sweep()
    assert pool.record.state is State.IN_USE
    assert pool.record.consumer == server.uuid
    pool.nova.delete(server)
    pool.new_reconciler().bell(pool.slot.host)
    assert pool.record.state is State.ERASING
    assert pool.record.generation == 2


def test_freed_and_used_while_certified_without_our_doing_is_held(pool: Pool) -> None:
    pool.enrol()
    pool.reconciler.look(pool.slot)
    pool.certify()
    pool.drop_custody()
    pool.put_reserved(0)
    pool.nova.fail_spawn()
    pool.reconciler.look(pool.slot)
    assert pool.record.state is State.HELD
    assert pool.record.certificate is None
    assert custody.returnable(pool.view, pool.record.custody) is False
