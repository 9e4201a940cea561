"""A slot that moves while it is taken into care: what was decided about it stays decided."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from quarantine.cloud.facts import Provider
from quarantine.operations.enrol import EnrolmentFate, EnrolmentTerms, carry_out, survey
from quarantine.record.reasons import HoldCode
from quarantine.record.states import Event, State
from quarantine.record.store import Store
from quarantine.rules.holds import because
from tests.unit.quarantine.smallcloud import Clock, Cloud, enrolled, open_store, slot_at

SLOT = slot_at(1)
TERMS = EnrolmentTerms("p", "q")


class HostsCloud(Cloud):
    """One that lists a host's slots too."""

    def by_host(self, host: str) -> list[Provider]:
        """The slots of one host."""
        return [p for p in self.one_time_use() if p.host == host]


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with open_store(tmp_path, Clock()) as store:
        yield store


@pytest.mark.parametrize("named", [True, False])
def test_a_retired_slot_that_was_named_is_taken_though_it_moved_meanwhile(
    store: Store, named: bool
) -> None:
    cloud = HostsCloud()
    held = store.hold(enrolled(store, cloud, SLOT), because(HoldCode.BY_PERSON, "worn"))
    store.transition(held, Event.RETIRED, reason="worn")
    cloud.seat(SLOT).reserved = False
    address = SLOT.address if named else None
    planned = survey(store, cloud, host=SLOT.host, address=address)
    assert planned[0].fate is (EnrolmentFate.FREE if named else EnrolmentFate.KNOWN)
    cloud.seat(SLOT).moved()
    (done,) = carry_out(store, cloud, planned, TERMS)
    assert done.fate is planned[0].fate
    record = store.slot(SLOT)
    assert record is not None
    assert record.state is (State.RELEASED if named else State.RETIRED)
    assert cloud.seat(SLOT).reserved is named
