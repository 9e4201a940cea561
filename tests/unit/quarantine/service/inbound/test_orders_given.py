"""Orders: what people approved, stored before they are sent, and repeated as they stand."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from eraser.agent.hoststate import CONTROLLER_FILE, HostState, OrderRefusedError
from eraser.protocol import codec
from eraser.protocol.order import ORDER_TYPE
from eraser.protocol.report import (
    HELLO_TYPE,
    MAX_GENERATION,
    REPORT_TYPE,
    AcceptedOrder,
    Hello,
    Outcome,
    SeenDrive,
    Verdict,
)
from eraser.protocol.transport.signing import PrivateKey
from eraser.state.hostcard import order_file
from quarantine.errors import ConflictError, RefusedError, UnavailableError
from quarantine.record.words.facts import SlotChanges
from quarantine.record.words.reasons import AlarmCode
from quarantine.record.words.states import State
from quarantine.service.issue.dispatch import LEAD, Dispatcher
from tests.unit.quarantine.service.inbound.plane import INCARNATION, Plane, host_of
from tests.unit.quarantine.testimony import IDENTITY, PROFILE, SLOT


def test_an_order_says_what_people_approved_and_is_stored_before_it_is_sent(plane: Plane) -> None:
    record = plane.enrol()
    plane.posted.away = True
    with pytest.raises(UnavailableError):
        plane.dispatcher.order(record)
    stored = plane.record()
    assert (stored.state, stored.attempts) == (State.QUARANTINED, 0)
    assert stored.order_token is not None
    plane.posted.away = False
    plane.dispatcher.order(stored)
    assert plane.posted.tokens == [("cmp1", stored.order_token)]
    order = plane.order()
    assert (order.profile, order.identity, order.generation) == (PROFILE, IDENTITY, 1)
    assert order.incarnation == INCARNATION


def test_an_order_is_repeated_as_it_stands(plane: Plane) -> None:
    plane.ordered()
    record = plane.dispatcher.order(plane.record())
    assert record.state is State.ERASING
    assert record.attempts == 1
    assert len({token for _host, token in plane.posted.tokens}) == 1
    assert len(plane.posted.tokens) == 2


def test_a_host_that_lost_its_state_gets_a_new_order(plane: Plane) -> None:
    first = plane.ordered()
    plane.store.register_host("cmp1", plane.host.public, "incarnation-00007", replace=True)
    plane.dispatcher.order(plane.record())
    second = plane.order()
    assert second.incarnation == "incarnation-00007"
    assert second.nonce != first.nonce
    assert second.generation == first.generation


def greet(plane: Plane, state: HostState) -> None:
    accepted = state.newest()
    message = Hello(
        "cmp1",
        state.card.incarnation,
        state.next_sequence("hello"),
        "0.1.0",
        (SeenDrive(SLOT.address, "nvme", IDENTITY),),
        (),
        accepted,
        counts_looks=True,
    )
    plane.inbox.hello(state.key.sign(codec.canonical(message), HELLO_TYPE))


def test_after_a_lost_record_orders_go_on_above_what_the_host_accepted(
    plane: Plane, tmp_path: Path
) -> None:
    state = host_of(plane, tmp_path / "host")
    plane.ordered()
    plane.store.amend(plane.record(), SlotChanges(consumer="the-user-of-before"))
    of_old = replace(plane.order(), order_id="order-that-we-forgot", generation=7)
    state.accept(plane.controller.sign(codec.canonical(of_old), ORDER_TYPE))
    lost = plane.dispatcher.order(plane.record())
    assert lost.order_token is not None
    with pytest.raises(OrderRefusedError, match="above 7"):
        state.accept(lost.order_token)
    greet(plane, state)
    again = plane.dispatcher.order(plane.record())
    assert again.order_token is not None
    assert state.accept(again.order_token).generation == again.generation == 8
    assert "restored" in plane.store.history(SLOT)[-1].reason
    assert again.consumer is None, "another may have had the drive in the cases that are forgotten"
    # Its own order is no reason to go on: the same one comes again.
    greet(plane, state)
    assert plane.dispatcher.order(plane.record()).order_token == again.order_token


@pytest.mark.parametrize("took", [True, False], ids=["hello first", "order first"])
def test_an_order_of_a_key_that_was_replaced_is_no_case_that_was_forgotten(
    plane: Plane, tmp_path: Path, caplog: pytest.LogCaptureFixture, took: bool
) -> None:
    """Without ``former_keys`` it is void, and its host took it: no second one of its generation."""
    state = host_of(plane, tmp_path / "host")
    plane.ordered()
    plane.store.amend(plane.record(), SlotChanges(consumer="its-user"))
    of_old = state.accept(plane.record().order_token or "")
    if took:
        greet(plane, state)
    plane.dispatcher.key = PrivateKey.generate()
    again = plane.dispatcher.order(plane.record())
    assert again.generation == of_old.generation + 1
    greet(plane, state)
    after = plane.dispatcher.order(plane.record())
    assert after.order_token == again.order_token
    assert after.consumer == "its-user", "nobody else had the drive"
    assert "no key of ours signed" in caplog.text
    assert any("no key of ours signed" in each.reason for each in plane.store.history(SLOT))
    assert AlarmCode.RECORD_BEHIND.value not in caplog.text


@pytest.mark.parametrize("known", [True, False], ids=["on record", "record lost"])
def test_a_host_set_back_with_an_order_that_it_took_takes_another_one(
    plane: Plane, tmp_path: Path, caplog: pytest.LogCaptureFixture, known: bool
) -> None:
    """A newer release took it, with a member that the host's release does not know."""
    state = host_of(plane, tmp_path / "host")
    plane.ordered()
    taken = plane.order()
    if not known:
        taken = replace(taken, order_id="order-that-we-forgot", generation=7)
    state.accept(plane.controller.sign(codec.canonical(taken), ORDER_TYPE))
    path = order_file(state.directory, SLOT.address)
    path.write_bytes(codec.canonical(json.loads(path.read_bytes()) | {"later": 1}))
    greet(plane, state)
    plane.dispatcher.order(plane.record())
    token = plane.record().order_token
    assert token is not None
    again = state.accept(token)
    assert again.generation == taken.generation + 1
    for _ in range(2):
        greet(plane, state)
        assert plane.dispatcher.order(plane.record()).order_token == token, "once"
    called = "order-unread" if known else "record-behind"
    assert f"ALARM {called} {SLOT}: the host" in caplog.text
    assert caplog.text.count("ALARM") == 1


@pytest.mark.parametrize("ahead", [2, LEAD, LEAD + 1])
def test_a_record_that_is_behind_its_hosts_looks_asks_above_them(
    plane: Plane, tmp_path: Path, ahead: int
) -> None:
    """A backup of the record was taken before the case came back in use for some times more."""
    state = host_of(plane, tmp_path / "host")
    greet(plane, state)
    plane.ordered()
    of_backup = plane.order()
    later = replace(of_backup, look=of_backup.look + ahead)
    state.accept(plane.controller.sign(codec.canonical(later), ORDER_TYPE))
    greet(plane, state)
    plane.dispatcher.order(plane.record())
    asked = plane.order()
    believed = ahead <= LEAD  # what a host says must not use up the numbers
    assert asked == replace(of_backup, look=later.look + 1 if believed else of_backup.look)
    token = plane.record().order_token
    assert token is not None
    assert state.accept(token).look == max(asked.look, later.look)
    greet(plane, state)
    assert plane.dispatcher.order(plane.record()).order_token == token, "once"
    if not believed:
        return
    # In use once more: the attempts on record are those of the backup still.
    in_use = plane.answer(outcome=Outcome.IN_USE, verdict=Verdict.UNKNOWN, fit=False, methods=())
    plane.inbox.report(plane.signed(in_use, REPORT_TYPE, state.key))
    assert plane.record().state is State.QUARANTINED
    plane.posted.away = True
    for _ in range(2):
        with pytest.raises(UnavailableError):
            plane.dispatcher.order(plane.record())
        assert plane.order().look == asked.look + 1, "one above it, however often it is tried"
    plane.posted.away = False
    token = plane.dispatcher.order(plane.record()).order_token
    assert token is not None
    assert state.accept(token).look == asked.look + 1


def test_an_order_that_another_look_gave_meanwhile_is_no_lost_record(
    plane: Plane, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    state = host_of(plane, tmp_path / "host")
    before = plane.enrol()
    greet(plane, state)
    given = plane.dispatcher.order(before)
    assert given.order_token is not None
    state.accept(given.order_token)
    greet(plane, state)
    with pytest.raises(ConflictError):
        plane.dispatcher.order(before)
    assert "ALARM" not in caplog.text
    assert plane.dispatcher.order(plane.record()).order_token == given.order_token


def test_after_a_new_signing_key_the_host_takes_orders_again(plane: Plane, tmp_path: Path) -> None:
    state = host_of(plane, tmp_path / "host")
    plane.ordered()
    old = plane.record().order_token
    assert old is not None
    state.accept(old)
    new = PrivateKey.generate()
    (state.directory / CONTROLLER_FILE).write_bytes(codec.canonical(new.public.jwk()))
    state = HostState(state.directory)
    greet(plane, state)
    dispatcher = Dispatcher(plane.store, new, plane.posted)
    for _ in range(2):
        dispatcher.order(plane.record())
    token = plane.record().order_token
    assert token is not None
    assert state.accept(token).order_id == plane.record().order_id


@pytest.mark.parametrize(
    "change",
    [
        {"sequence": 2**70},
        {"sequence": -1},
        {"drives": (SeenDrive("0000:01:00.0", "nvme", IDENTITY),) * 2},
        {"drives": tuple(SeenDrive(f"0000:{n:02x}:00.0", "", None) for n in range(256)) * 2},
    ],
)
def test_a_hello_beyond_all_reason_is_refused(plane: Plane, change: dict[str, Any]) -> None:
    plain = {
        **codec.plain(Hello("cmp1", INCARNATION, 1, "0.1.0", (), ())),
        **codec.plain(change),
    }
    with pytest.raises(RefusedError):
        plane.inbox.hello(plane.signed(plain, HELLO_TYPE))
    assert [refusal.kind for refusal in plane.store.refusals()] == ["hello"]


@pytest.mark.parametrize("address", ["0000:0A:00.0", "../../x", ""])
def test_a_hello_of_a_place_that_is_none_is_refused(plane: Plane, address: str) -> None:
    plain = codec.plain(Hello("cmp1", INCARNATION, 1, "0.1.0", (), ()))
    plain["drives"] = [{"address": address, "driver": "nvme", "identity": codec.plain(IDENTITY)}]
    with pytest.raises(RefusedError, match="PCI address"):
        plane.inbox.hello(plane.signed(plain, HELLO_TYPE))


@pytest.mark.parametrize("lacks", ["host", "profile", "policy"])
def test_an_order_waits_for_what_people_must_do(plane: Plane, lacks: str) -> None:
    record = plane.enrol()
    if lacks == "host":
        plane.store.remove_host("cmp1")
    else:
        field_name: dict[str, Any] = {lacks: "unheard-of"}
        record = plane.store.amend(record, SlotChanges(**field_name))
    after = plane.dispatcher.order(record)
    assert after.state is State.QUARANTINED
    assert lacks in after.detail
    assert plane.posted.tokens == []
    assert plane.dispatcher.order(after) == after  # said once


def test_no_order_is_given_outside_a_case(plane: Plane) -> None:
    plane.ordered()
    plane.inbox.report(plane.report())
    with pytest.raises(ConflictError):
        plane.dispatcher.order(plane.record())


@pytest.mark.parametrize("lead", [LEAD, LEAD + 1, MAX_GENERATION])
def test_no_host_uses_up_the_generations_of_its_slot(
    plane: Plane, tmp_path: Path, lead: int
) -> None:
    """They never get smaller: what one lie made of them is there when the host is honest again."""
    began = plane.enrol()
    lie = AcceptedOrder(SLOT.address, "made-up", min(began.generation + lead, MAX_GENERATION))
    seen = (SeenDrive(SLOT.address, "nvme", IDENTITY),)
    hello = Hello("cmp1", INCARNATION, 1, "0.1.0", seen, (), (lie,))
    plane.inbox.hello(plane.signed(hello, HELLO_TYPE))
    after = plane.dispatcher.order(plane.record())
    believed = lead <= LEAD
    assert (after.generation > lie.generation) == believed
    assert (after.state is State.ERASING) == believed
    assert believed or f"accepted generation {lie.generation}" in after.detail
    state = host_of(plane, tmp_path / "host")  # installed anew, and registered with --replace
    greet(plane, state)
    state.accept(plane.dispatcher.order(plane.record()).order_token or "")
    greet(plane, state)
    assert plane.record().state is State.ERASING
