"""Rows of another release, and damaged ones: each costs itself, and no other slot waits for it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa

from eraser.protocol import codec
from eraser.protocol.errors import BadInputError
from eraser.protocol.identity import ControllerIdentity
from eraser.protocol.report import Hello, SeenDrive
from eraser.protocol.ticket import Defence, DefenceSeen, DefenceStanding, GateTestimony
from quarantine.errors import UnreadableError
from quarantine.record.database import models, stored
from quarantine.record.store import Store
from quarantine.record.words.facts import UNSETTLED, Initiator
from quarantine.record.words.states import State
from quarantine.rules.action import ServiceLimits
from quarantine.service.reconciler import Reconciler
from tests.unit.quarantine.smallcloud import (
    LIFE,
    Clock,
    Cloud,
    NoTickets,
    NotingDispatcher,
    available,
    drive_in,
    enrolled,
    open_store,
    slot_at,
)
from tests.unit.quarantine.testimony import POLICY

SLOT, OTHER = slot_at(1), slot_at(2)
GATE = GateTestimony((DefenceSeen(Defence.HOOK, DefenceStanding.PRESENT, ""),), (), (), ())
SEEN = (SeenDrive(SLOT.address, "nvme", drive_in(SLOT)), SeenDrive(OTHER.address, "nvme", None))
HELLO = Hello(SLOT.host, LIFE, 1, "9.9.9", SEEN, (), (), GATE)


@pytest.fixture
def cloud() -> Cloud:
    return Cloud(Clock())


@pytest.fixture
def store(tmp_path: Path, cloud: Cloud) -> Iterator[Store]:
    with open_store(tmp_path, cloud.clock) as store:
        yield store


def loop_of(store: Store, cloud: Cloud) -> Reconciler:
    clock = cloud.clock
    dispatcher = NotingDispatcher(store, clock)
    return Reconciler(
        store,
        cloud,
        dispatcher,
        ServiceLimits(),
        clock,
        tickets=NoTickets(),
        monotonic=clock.monotonic,
    )


def rewrite(store: Store, table: sa.Table, column: str, text: str, **where: str) -> None:
    with store._writing() as db:
        fits = [table.c[name] == value for name, value in where.items()]
        db.execute(sa.update(table).where(*fits).values({column: text}))


def newer(text: str) -> str:
    """With a member that this release does not know, in it and in each part of it."""

    def add(value: Any) -> Any:
        if isinstance(value, dict):
            return {**{key: add(item) for key, item in value.items()}, "new_member": 1}
        return [add(item) for item in value] if isinstance(value, list) else value

    return json.dumps(add(json.loads(text)))


@pytest.mark.parametrize("value", [drive_in(SLOT), HELLO], ids=["identity", "hello"])
def test_what_is_stored_is_read_without_what_is_new_and_what_comes_is_not(value: object) -> None:
    text = newer(codec.canonical(value).decode())
    assert stored.load(type(value), text, "stored") == value
    with pytest.raises(BadInputError, match="new_member"):
        codec.load(type(value), text, "received")
    with pytest.raises(UnreadableError, match="stored"):
        stored.load(type(value), "{", "stored")


def test_a_row_with_a_new_member_stops_nobody(store: Store, cloud: Cloud) -> None:
    enrolled(store, cloud, SLOT)
    enrolled(store, cloud, OTHER)
    text = newer(codec.canonical(drive_in(OTHER)).decode())
    rewrite(store, models.slots, "identity", text, address=OTHER.address)
    loop_of(store, cloud).sweep()
    assert {record.state for record in store.slots()} == {State.ERASING}


@pytest.mark.parametrize(
    ("column", "text"), [("state", "sealed"), ("identity", "{}"), ("step", "polishing")]
)
def test_a_row_that_cannot_be_read_is_told_of_once_and_stops_nobody(
    store: Store, cloud: Cloud, column: str, text: str, caplog: pytest.LogCaptureFixture
) -> None:
    available(store, cloud, OTHER)
    enrolled(store, cloud, SLOT, server="server")
    rewrite(store, models.slots, column, text, address=OTHER.address)
    cloud.burn(SLOT, reserved=False)
    cloud.delete(SLOT)
    loop = loop_of(store, cloud)
    for _ in range(3):
        loop.sweep()
        loop.tend()
        loop.reread()
    record = store.slot(SLOT)
    assert record is not None
    assert record.state is State.ERASING
    assert caplog.text.count(f"ALARM record-unreadable {OTHER}: its row cannot be read") == 1
    # What the safety pass cannot tell to be rightly on offer is taken back.
    assert column == "step" or not cloud.on_offer(OTHER)
    with pytest.raises(UnreadableError):
        store.slot(OTHER)


HELLOS = [newer(codec.canonical(HELLO).decode()), '{"sealed": 1}', "no JSON"]


@pytest.mark.parametrize("hello", HELLOS, ids=["newer", "strange", "damaged"])
def test_a_hello_that_cannot_be_read_keeps_no_drive_on_offer(
    store: Store, cloud: Cloud, hello: str
) -> None:
    enrolled(store, cloud, SLOT, server="server")
    rewrite(store, models.hosts, "hello", hello, name=SLOT.host)
    cloud.burn(SLOT, reserved=False)
    cloud.delete(SLOT)
    (outcome,) = loop_of(store, cloud).bell(SLOT.host)
    assert not outcome.error
    assert not cloud.on_offer(SLOT)
    host = store.host(SLOT.host)
    assert host is not None
    assert host.hello == (HELLO if hello is HELLOS[0] else None)


def test_a_host_whose_key_cannot_be_read_keeps_no_drive_on_offer(
    store: Store, cloud: Cloud, caplog: pytest.LogCaptureFixture
) -> None:
    enrolled(store, cloud, SLOT, server="server")
    rewrite(store, models.hosts, "jwk", "{}", name=SLOT.host)
    cloud.burn(SLOT, reserved=False)
    cloud.delete(SLOT)
    loop = loop_of(store, cloud)
    for _ in range(3):
        assert not [outcome.error for outcome in loop.bell(SLOT.host) if outcome.error]
    assert not cloud.on_offer(SLOT)
    record = store.slot(SLOT)
    assert record is not None
    assert "key" in record.alarm
    assert record.provider_generation == UNSETTLED, "looked at again until it can be read"
    # One for the reservation, one for the row.
    assert caplog.text.count("ALARM") == 2
    assert store.hosts() == []


def test_a_history_of_new_events_is_read_by_its_states(store: Store, cloud: Cloud) -> None:
    enrolled(store, cloud, SLOT)
    before = store.history(SLOT)
    rewrite(store, models.history, "event", "sealed")
    assert store.history(SLOT) == [replace(line, event=None) for line in before]
    assert [line.became for line in store.history(SLOT)] == [line.became for line in before]


def test_who_reads_a_history_is_told_of_an_event_of_another_release(
    store: Store, cloud: Cloud
) -> None:
    enrolled(store, cloud, SLOT)
    before = store.history(SLOT)
    rewrite(store, models.history, "event", "sealed", revision=before[-1].revision)
    odd = before[-1]
    said = replace(odd, event=None, reason=f"sealed (of another release): {odd.reason}")
    assert store.newest_history(SLOT, 9) == [*before[:-1], said]
    assert store.history_page(SLOT, limit=9)[0] == [*before[:-1], said]
    assert store.fleet_history(limit=9)[0] == [said, *before[:-1][::-1]]


def test_an_approved_document_of_a_newer_release_is_not_half_obeyed(store: Store) -> None:
    store.put_policy(POLICY, Initiator("somebody"))
    text = newer(codec.canonical(POLICY).decode())
    rewrite(store, models.documents, "content", text)
    with pytest.raises(UnreadableError, match="new_member"):
        store.policy(POLICY.name)


def test_the_members_of_parts_are_known_too() -> None:
    assert codec.known(ControllerIdentity, 3) == 3
    assert codec.known(tuple[ControllerIdentity, ...], [{"serial": "a", "x": 1}]) == [
        {"serial": "a"}
    ]
    assert codec.known(ControllerIdentity | None, {"serial": "a", "x": 1}) == {"serial": "a"}
    assert codec.known(dict[str, ControllerIdentity], {"k": {"x": 1}}) == {"k": {}}
