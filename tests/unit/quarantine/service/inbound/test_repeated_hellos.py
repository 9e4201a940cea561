"""A hello that says the same again costs little, and hides nothing that changed."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
import sqlalchemy as sa

from eraser.protocol.report import Hello
from eraser.protocol.ticket import GateTestimony, TicketSeen, TicketState
from eraser.protocol.transport.signing import PrivateKey
from quarantine.doors import utc_now
from quarantine.errors import ConflictError, RefusedError
from quarantine.record.database import models
from quarantine.record.store import Store
from quarantine.record.words.facts import HostRecord, SlotChanges
from quarantine.record.words.states import State
from quarantine.service.issue import drive_inventory
from tests.unit.quarantine.service.inbound.plane import (
    ALL_WELL,
    INCARNATION,
    UNHOOKED,
    Plane,
    hello,
    on_offer,
    told,
)
from tests.unit.quarantine.testimony import IDENTITY, SLOT


def test_a_hello_that_says_the_same_again_is_not_compared_with_every_drive(
    plane: Plane, monkeypatch: pytest.MonkeyPatch
) -> None:
    compared: list[int] = []
    take = drive_inventory.take

    def counted(store: Store, message: Hello, clock: Any) -> drive_inventory.InventoryChange:
        compared.append(message.sequence)
        return take(store, message, clock)

    monkeypatch.setattr(drive_inventory, "take", counted)
    plane.enrol(identity=None)
    for sequence in range(1, 5):
        hello(plane, sequence, {SLOT.address: IDENTITY})
    assert compared == [1, 2], "the first one taught us the drive"
    heard = plane.store.host("cmp1")
    assert heard is not None
    assert heard.sequence == 4
    hello(plane, 5, {SLOT.address: replace(IDENTITY, serial="another")})
    assert compared == [1, 2, 5]
    assert plane.record().state is State.HELD


def test_a_hello_that_met_another_writer_is_compared_again(
    plane: Plane, monkeypatch: pytest.MonkeyPatch
) -> None:
    def busy(*_given: object, **_named: object) -> None:
        raise ConflictError("somebody else")

    plane.enrol()
    hello(plane, 1, {SLOT.address: IDENTITY})
    with monkeypatch.context() as patch:
        patch.setattr(plane.store, "transition", busy)
        hello(plane, 2, {SLOT.address: replace(IDENTITY, serial="another")})
    assert plane.record().state is not State.HELD
    hello(plane, 3, {SLOT.address: replace(IDENTITY, serial="another")})
    assert plane.record().state is State.HELD


def at_rest(plane: Plane) -> None:
    """A slot on offer to which nothing happened for an hour; its host names the ticket."""
    on_offer(plane)
    with plane.store._writing() as db:
        db.execute(models.slots.update().values(entered_at=utc_now() - timedelta(hours=1)))


def all_well(plane: Plane, **changes: Any) -> GateTestimony:
    record = plane.record()
    case = record.order_id or "", record.generation
    ticket = TicketSeen(record.slot.address, *case, TicketState.VALID, "")
    return replace(ALL_WELL, tickets=(ticket,), **changes)


@pytest.fixture
def read(plane: Plane, monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The numbers of the hellos that were held against the record."""
    found: list[int] = []
    seen = plane.store.host_seen

    def noted(name: str, sequence: int, message: Hello) -> HostRecord:
        found.append(sequence)
        return seen(name, sequence, message)

    monkeypatch.setattr(plane.store, "host_seen", noted)
    return found


def heard(plane: Plane) -> HostRecord:
    found = plane.store.host("cmp1")
    assert found is not None
    return found


def test_a_hello_of_which_nothing_followed_is_noted_when_it_comes_again(
    plane: Plane, read: list[int]
) -> None:
    at_rest(plane)
    told(plane, 1, all_well(plane))
    first = heard(plane)
    for sequence in (2, 3, 4):
        told(plane, sequence, all_well(plane))
    assert read == [1]
    last = heard(plane)
    assert last.sequence == 4
    assert last.heard_at is not None
    assert first.heard_at is not None
    assert last.heard_at > first.heard_at
    assert plane.looks.slots == []


def test_a_defence_that_goes_after_many_same_hellos_is_heard(
    plane: Plane, read: list[int], caplog: pytest.LogCaptureFixture
) -> None:
    at_rest(plane)
    for sequence in (1, 2, 3):
        told(plane, sequence, all_well(plane))
    for sequence in (4, 5):
        told(plane, sequence, all_well(plane, defences=UNHOOKED.defences))
    assert read == [1, 4, 5]
    assert plane.looks.slots == [SLOT, SLOT], "looked at until it is settled"
    assert caplog.text.count("ALARM gate-news host cmp1: hook is absent: gone") == 1
    told(plane, 6, all_well(plane))
    assert read == [1, 4, 5, 6]


@pytest.mark.parametrize("sequence", [1, 2, 3])
def test_a_hello_that_comes_again_late_changes_nothing(plane: Plane, sequence: int) -> None:
    at_rest(plane)
    for number in (1, 2, 3):
        told(plane, number, all_well(plane))
    before = heard(plane)
    told(plane, sequence, all_well(plane))
    assert heard(plane) == before


def test_a_slot_that_somebody_wrote_to_is_held_against_the_next_hello(
    plane: Plane, read: list[int]
) -> None:
    at_rest(plane)
    told(plane, 1, all_well(plane))
    plane.store.amend(plane.record(), SlotChanges(detail="a word"))
    told(plane, 2, all_well(plane))
    told(plane, 3, all_well(plane))
    assert read == [1, 2]
    other = replace(SLOT, address="0000:02:00.0")
    plane.enrol(other, None)
    told(plane, 4, all_well(plane))
    assert read == [1, 2, 4]


def test_a_slot_whose_step_is_to_come_is_held_against_the_next_hello(
    plane: Plane, read: list[int]
) -> None:
    """Our clock was set back."""
    at_rest(plane)
    told(plane, 1, all_well(plane))
    with plane.store._writing() as db:
        db.execute(models.slots.update().values(entered_at=utc_now() + timedelta(hours=1)))
    told(plane, 2, all_well(plane))
    assert read == [1, 2]
    assert plane.record().entered_at <= utc_now()


def test_what_another_worker_heard_in_between_is_not_passed_over(
    plane: Plane, read: list[int]
) -> None:
    at_rest(plane)
    told(plane, 1, all_well(plane))
    beside = replace(plane, inbox=replace(plane.inbox))
    told(beside, 2, all_well(plane, defences=UNHOOKED.defences))
    told(plane, 3, all_well(plane))
    assert read == [1, 2, 3]
    kept = heard(plane).hello
    assert kept is not None
    assert kept.gate == all_well(plane)


def test_a_host_that_was_registered_anew_or_removed_says_nothing_again(plane: Plane) -> None:
    at_rest(plane)
    told(plane, 1, all_well(plane))
    plane.store.register_host("cmp1", plane.host.public, "incarnation-00009", replace=True)
    with pytest.raises(RefusedError):
        told(plane, 2, all_well(plane))
    plane.store.register_host("cmp1", PrivateKey.generate().public, INCARNATION, replace=True)
    with pytest.raises(RefusedError):
        told(plane, 3, all_well(plane))
    plane.store.remove_host("cmp1")
    with pytest.raises(RefusedError):
        told(plane, 4, all_well(plane))
    assert len(plane.store.refusals()) == 3


def test_the_same_hello_with_anothers_signature_is_refused(plane: Plane) -> None:
    at_rest(plane)
    told(plane, 1, all_well(plane))
    with pytest.raises(RefusedError):
        told(replace(plane, host=plane.other_host), 2, all_well(plane))
    assert heard(plane).sequence == 1


@pytest.mark.parametrize("value", ["'noon'", "x'ff00'"])
def test_a_slot_whose_row_was_damaged_since_keeps_its_host_from_no_hearing(
    plane: Plane, read: list[int], value: str
) -> None:
    at_rest(plane)
    gate = all_well(plane)
    told(plane, 1, gate)
    with plane.store._writing() as db:
        db.execute(sa.text(f"UPDATE slots SET entered_at = {value}"))  # noqa: S608
    told(plane, 2, gate)
    assert read == [1, 2], "it may mean something else now"
    assert heard(plane).sequence == 2
    told(plane, 3, gate)
    assert heard(plane).sequence == 3
