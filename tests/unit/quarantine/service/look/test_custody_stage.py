"""How far our custody is: four names for what one flag and the slot's state say in the database."""

from __future__ import annotations

from pathlib import Path

import pytest

from quarantine.record.database.rows import custody_stage
from quarantine.record.words.facts import SlotChanges
from quarantine.record.words.states import Custody, Event, State
from quarantine.rules.entitlement import entitled
from tests.unit.quarantine.smallcloud import Clock, Cloud, certified, enrolled, open_store, slot_at


@pytest.mark.parametrize("state", list(State))
@pytest.mark.parametrize("custody", [None, "c"])
@pytest.mark.parametrize("ready", [False, True])
def test_what_a_row_of_any_release_means(state: State, custody: str | None, ready: bool) -> None:
    stage = custody_stage(state, custody, ready=ready)
    assert (stage is Custody.HELD) is ready
    assert (stage is Custody.RETURNING) is (state is State.CERTIFIED and not ready)
    assert (stage is Custody.TAKING) is (
        state is not State.CERTIFIED and custody is not None and not ready
    )


def test_each_stage_is_read_as_it_was_written(tmp_path: Path) -> None:
    cloud = Cloud(Clock())
    with open_store(tmp_path, cloud.clock) as store:
        record = enrolled(store, cloud, slot_at(1))
        assert record.custody_stage is Custody.NONE
        taking = SlotChanges(custody="c", custody_stage=Custody.TAKING)
        record = store.amend(record, taking)
        assert record.custody_stage is Custody.TAKING
        held = SlotChanges(custody_stage=Custody.HELD)
        record = store.transition(record, Event.CUSTODY_TAKEN, changes=held)
        assert record.custody_stage is Custody.HELD
        record = certified(store, cloud, slot_at(2))
        record = store.amend(record, SlotChanges(custody_stage=Custody.RETURNING))
        assert record.custody_stage is Custody.RETURNING
        (claim,) = store.claims(record.slot)
        assert entitled([claim], tickets=False)
        store.amend(record, SlotChanges(custody_stage=Custody.HELD))
        assert not entitled(store.claims(record.slot), tickets=False)
