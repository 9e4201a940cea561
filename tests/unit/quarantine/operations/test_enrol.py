"""A slot that moves while it is taken into care: what was decided about it stays decided."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
import sqlalchemy as sa

from quarantine.cloud.facts import Provider, View
from quarantine.cloud.sdk import NotFoundError
from quarantine.errors import BadInputError, MovingError, UnavailableError, UnfinishedError
from quarantine.operations.enrol import EnrolmentFate, EnrolmentTerms, carry_out, enrol
from quarantine.operations.survey import survey
from quarantine.record.database import engine
from quarantine.record.store import Store
from quarantine.record.words.reasons import HoldCode
from quarantine.record.words.states import Event, State
from quarantine.rules.holds import because
from tests.unit.quarantine.smallcloud import RC, Clock, Cloud, enrolled, greet, open_store, slot_at

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


def test_a_provider_that_vanishes_keeps_the_others_out_of_no_care(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """nova-compute took a device away between look and write: Placement answers 404."""
    cloud, other = Cloud(), slot_at(2)
    for slot in (SLOT, other):
        cloud.add(slot)
    planned = survey(store, cloud, host=SLOT.host)
    real = cloud.put_reserved

    def put(view: View, *, full: bool) -> int:
        if view.provider.slot == SLOT:
            cloud.seats.pop(view.provider.uuid, None)
            raise NotFoundError("404")
        return real(view, full=full)

    monkeypatch.setattr(cloud, "put_reserved", put)
    done = carry_out(store, cloud, planned, TERMS)
    assert [one.fate for one in done] == [EnrolmentFate.REFUSED, EnrolmentFate.FREE]
    assert [record.slot for record in store.slots()] == [other]
    cloud.add(SLOT)
    with pytest.raises(BadInputError, match="Placement has none"):
        enrol(store, cloud, SLOT, TERMS)


def test_one_slot_that_may_be_reserved_is_not_called_undecided(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The answer to the write is lost: it was made, and nothing said so."""
    cloud = Cloud()
    cloud.add(SLOT)
    real = cloud.put_reserved

    def put(view: View, *, full: bool) -> int:
        real(view, full=full)
        raise UnavailableError("Placement answered 504")

    with monkeypatch.context() as lost:
        lost.setattr(cloud, "put_reserved", put)
        with pytest.raises(UnfinishedError, match="stays reserved"):
            enrol(store, cloud, SLOT, TERMS)
    assert (cloud.seat(SLOT).reserved, store.slots()) == (True, [])
    assert enrol(store, cloud, SLOT, TERMS).state is State.RELEASED


@pytest.mark.parametrize("after", [False, True], ids=["undone", "done"])
def test_a_placement_that_is_busy_now_and_then_keeps_no_cloud_out_of_care(
    store: Store, monkeypatch: pytest.MonkeyPatch, after: bool
) -> None:
    """One 503 in a thousand: 50,000 requests of a cloud of 10,000 slots never went without one."""
    cloud, slots = Cloud(), [slot_at(n) for n in range(1, 9)]
    for slot in slots:
        cloud.add(slot)
    seen, put = cloud.view, cloud.put_reserved
    refused = set[tuple[str, str]]()

    def refuses_once(what: str, uuid: str) -> None:
        if (what, uuid) not in refused:
            refused.add((what, uuid))
            raise UnavailableError("Placement answered 503")

    def view(uuid: str, resource_class: str) -> View | None:
        refuses_once("view", uuid)
        return seen(uuid, resource_class)

    def put_reserved(view: View, *, full: bool) -> int:
        if not after:
            refuses_once("put", view.provider.uuid)
        done = put(view, full=full)
        refuses_once("put", view.provider.uuid)
        return done

    monkeypatch.setattr(cloud, "view", view)
    monkeypatch.setattr(cloud, "put_reserved", put_reserved)
    planned = survey(store, cloud, resource_class=RC)
    done = carry_out(store, cloud, planned, TERMS)
    assert {one.fate for one in done} == {EnrolmentFate.FREE}
    assert [record.slot for record in store.slots()] == slots
    assert all(cloud.seat(slot).reserved for slot in slots)


@pytest.mark.parametrize("resource_class", [None, RC])
@pytest.mark.parametrize("moves", [["plan", "act"], ["act"]], ids=["always", "later"])
def test_a_provider_that_never_stands_still_keeps_the_others_out_of_no_care(
    store: Store, monkeypatch: pytest.MonkeyPatch, resource_class: str | None, moves: list[str]
) -> None:
    """It is refused by itself, and said to be, whatever class was asked for."""
    cloud, other, phase = HostsCloud(), slot_at(2), "plan"
    for slot in (SLOT, other):
        cloud.add(slot)
    real, restless = cloud.view, cloud.seat(SLOT).provider.uuid

    def view(uuid: str, wanted: str) -> View | None:
        if uuid == restless and phase in moves:
            raise MovingError(f"expected provider {uuid} to stand still")
        return real(uuid, wanted)

    monkeypatch.setattr(cloud, "view", view)
    monkeypatch.setattr(cloud, "offered", lambda _rc: [], raising=False)
    planned = survey(store, cloud, host=SLOT.host, resource_class=resource_class)
    phase = "act"
    cloud.seat(SLOT).moved()
    moving, done = carry_out(store, cloud, planned, TERMS)
    assert (moving.fate, done.fate) == (EnrolmentFate.REFUSED, EnrolmentFate.FREE)
    assert "stand still" in moving.reason
    assert store.slot(SLOT) is None
    assert store.slot(other) is not None


@pytest.mark.parametrize("damage", ["identity = '{'", "reason = CAST(x'ff' AS TEXT)"])
def test_a_slot_whose_row_cannot_be_read_keeps_the_others_out_of_no_care(
    store: Store, damage: str
) -> None:
    """It is enrolled, which is all that anybody knows of it: refused, and said to be."""
    cloud, other = HostsCloud(), slot_at(2)
    enrolled(store, cloud, SLOT)
    cloud.add(other)
    with engine.writing(store._engine) as db:
        assert db.execute(sa.text(f"UPDATE slots SET {damage}")).rowcount == 1  # noqa: S608
    planned = survey(store, cloud, host=SLOT.host)
    unread, done = carry_out(store, cloud, planned, TERMS)
    assert (unread.slot, unread.fate, done.fate) == (
        SLOT,
        EnrolmentFate.REFUSED,
        EnrolmentFate.FREE,
    )
    assert "cannot be read" in unread.reason
    assert store.slot(other) is not None


def test_a_host_whose_row_cannot_be_read_keeps_no_other_hosts_slots_out_of_care(
    store: Store,
) -> None:
    cloud, other = HostsCloud(), slot_at(1, "cmp2")
    greet(store, "cmp2")
    for slot in (SLOT, other):
        cloud.add(slot)
    with engine.writing(store._engine) as db:
        db.execute(sa.text("UPDATE hosts SET jwk = '{' WHERE name = 'cmp1'"))
    unread, done = carry_out(store, cloud, survey(store, cloud), TERMS)
    assert (unread.slot, unread.fate, done.fate) == (
        SLOT,
        EnrolmentFate.REFUSED,
        EnrolmentFate.FREE,
    )
    assert "cannot be read" in unread.reason
