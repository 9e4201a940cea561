"""A campaign erases its slots again, each once, and leaves to people what people decide."""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa

from eraser.protocol import codec
from eraser.protocol.identity import Slot
from quarantine.errors import (
    BadInputError,
    BrokerAwayError,
    ConflictError,
    IllegalTransitionError,
    StaleError,
    UnavailableError,
    UnknownError,
    UnreadableError,
)
from quarantine.operations import campaigns
from quarantine.operations.campaigns import CampaignQuery, CampaignState, Initiator
from quarantine.operations.papers import keys
from quarantine.operations.plane import Plane
from quarantine.record.database import models
from quarantine.record.words.campaign_facts import CampaignSlot, CampaignStep
from quarantine.record.words.facts import NewCertificate, NextHold, SlotChanges, SlotRecord
from quarantine.record.words.reasons import HoldCode
from quarantine.record.words.states import Event, State
from quarantine.rules import holds
from quarantine.rules.campaign import CampaignAct, CampaignTerms, next_move, spare
from quarantine.service.campaigns import LEASE_SECONDS, CampaignWork
from tests.unit.quarantine.rules import test_decide as a
from tests.unit.quarantine.service.look.test_burn_grace import Site
from tests.unit.quarantine.smallcloud import (
    RC,
    Clock,
    Cloud,
    NotingDispatcher,
    available,
    drive_in,
    enrolled,
    greet,
    open_store,
    slot_at,
)
from tests.unit.quarantine.store_suite import digest_of

ADA = Initiator("ada", "ops", "req-1")
WHY = "campaign fw1: it lies"
QUERY = CampaignQuery(host="cmp1")
WORDS: dict[str, Any] = {"reason": "why", "by": ADA}


def line(step: CampaignStep, generation: int = 0, **named: Any) -> CampaignSlot:
    return CampaignSlot(
        "fw1", "cmp_1", a.SLOT.address, step, None, generation, False, "", None, a.NOW, **named
    )


OURS, THEIRS = NextHold(WHY), NextHold("odd")
BY_US = {"reason": WHY, "hold_code": "by-person"}
BY_THEM = {"reason": "odd", "hold_code": "data-left"}
NO_PAPER: dict[str, Any] = {"certificate": None}


@pytest.mark.parametrize(
    ("step", "since", "state", "more", "act", "then"),
    [
        ("waiting", 0, "available", {}, "hold", "waiting"),
        ("waiting", 0, "in_use", {}, "ask", "asked"),
        ("waiting", 0, "in_use", {"next_hold": OURS}, "end", "asked"),
        ("waiting", 0, "in_use", {"next_hold": THEIRS}, "end", "skipped"),
        ("waiting", 0, "held", BY_US, "release", "erasing"),
        ("waiting", 0, "held", BY_THEM, "end", "skipped"),
        ("waiting", 0, "released", {}, "end", "erasing"),
        ("waiting", 0, "released", {"next_hold": OURS}, "nothing", "waiting"),
        ("waiting", 0, "quarantined", {}, "end", "erasing"),
        ("waiting", 0, "erasing", {}, "nothing", "waiting"),
        ("waiting", 0, "verifying", {}, "nothing", "waiting"),
        ("waiting", 0, "certified", {}, "nothing", "waiting"),
        ("waiting", 0, "retired", {}, "end", "skipped"),
        ("asked", 0, "in_use", {"next_hold": OURS}, "nothing", "asked"),
        ("asked", 0, "in_use", {}, "end", "skipped"),
        ("asked", 0, "in_use", {"next_hold": THEIRS}, "end", "skipped"),
        ("asked", 0, "released", {"next_hold": OURS}, "nothing", "asked"),
        ("asked", 0, "held", BY_US, "release", "erasing"),
        ("erasing", 8, "held", BY_US, "release", "erasing"),
        ("erasing", 7, "held", {**BY_THEM, **NO_PAPER}, "end", "failed"),
        ("erasing", 8, "held", {**BY_THEM, **NO_PAPER}, "end", "failed"),
        ("erasing", 8, "available", {}, "nothing", "erasing"),
        ("erasing", 7, "quarantined", NO_PAPER, "nothing", "erasing"),
        ("erasing", 7, "certified", {}, "end", "done"),
        ("erasing", 7, "available", {}, "end", "done"),
        ("erasing", 7, "in_use", {}, "end", "done"),
        ("erasing", 7, "retired", {}, "end", "skipped"),
    ],
)
def test_moves(
    step: str, since: int, state: str, more: dict[str, Any], act: str, then: str
) -> None:
    """The record is of generation 7."""
    record = replace(a.RECORD, **{"state": State(state), "next_hold": None, **more})
    found = next_move(line(CampaignStep(step), since), record, CampaignTerms(WHY))
    assert (found.act, found.step) == (CampaignAct(act), CampaignStep(then))
    if then == "done":
        assert found.certificate == record.certificate


def test_who_is_named_by_its_code_is_released() -> None:
    record = replace(a.RECORD, state=State.HELD, **BY_THEM)
    asked = line(CampaignStep.WAITING)
    assert next_move(asked, record, CampaignTerms(WHY, "data-left")).act is CampaignAct.RELEASE
    assert next_move(asked, record, CampaignTerms(WHY, "health")).step is CampaignStep.SKIPPED
    assert next_move(asked, None, CampaignTerms(WHY)).step is CampaignStep.SKIPPED
    another = replace(asked, drive="another")
    assert next_move(another, replace(record, state=State.AVAILABLE), CampaignTerms(WHY)).step is (
        CampaignStep.SKIPPED
    )


@pytest.mark.parametrize("step", [CampaignStep.WAITING, CampaignStep.ASKED])
@pytest.mark.parametrize("state", CampaignState)
def test_its_own_hold_is_ended_whichever_drive_is_there(
    step: CampaignStep, state: CampaignState
) -> None:
    held = replace(a.RECORD, state=State.HELD, **BY_US)
    another = replace(line(step), drive="another")
    assert next_move(another, held, CampaignTerms(WHY, state=state)).act is CampaignAct.RELEASE


@pytest.mark.parametrize(
    ("free", "taken", "keep", "expected"),
    [
        (10, 0, 0.9, 1),
        (9, 1, 0.9, 0),
        (10, 0, 0.5, 5),
        (7, 3, 0.5, 2),
        (4, 6, 0.5, 0),
        (10, 0, 1.0, 0),
        (1, 5, 0.0, 1),
        (0, 5, 0.0, 0),
        (1, 0, 0.5, 0),
        (100, 0, 0.07, 93),
        (-1, 3, 0.5, 0),
    ],
)
def test_the_pool_keeps_its_share(free: int, taken: int, keep: float, expected: int) -> None:
    assert spare(free, taken, keep) == expected


# The work.


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    clock = Clock()
    with open_store(tmp_path, clock) as store:
        yield Site(store, Cloud(clock))


@pytest.fixture
def plane(tmp_path: Path, site: Site) -> Plane:
    file = tmp_path / "nvme-quarantine.conf"
    file.write_text(
        f"[database]\nurl = sqlite:///{tmp_path}/record.db\n"
        f"[evidence]\nsigning_key = {tmp_path}/controller.pem\n"
        f"certificates_dir = {tmp_path}/certificates\nheads_dir = {tmp_path}/heads\n"
        "[placement]\ncloud = no-such-cloud\n"
    )
    keys.create(Plane([file]))
    return Plane([file])


def damage(site: Site, slot: Slot) -> None:
    with site.store._writing() as db:
        which = sa.and_(models.slots.c.host == slot.host, models.slots.c.address == slot.address)
        db.execute(sa.update(models.slots).where(which).values(state="of-a-newer-release"))


def begin(plane: Plane, **named: Any) -> campaigns.CampaignView:
    words: dict[str, Any] = {"reason": "it lies", "by": ADA, "keep": 0.0, **named}
    return campaigns.begin(plane, "fw1", QUERY, **words)


def state(site: Site, slot: Slot) -> State:
    record = site.store.slot(slot)
    assert record is not None
    return record.state


def work(site: Site) -> CampaignWork:
    return CampaignWork(site.store, site.loop.look, site.loop.consumers)


def erase(site: Site, slot: Slot) -> None:
    """What host and registrar do, as far as the record shows it."""
    record = site.store.slot(slot)
    assert record is not None

    last = site.store.last_certificate()
    digest = digest_of(f"{slot} {record.generation}")
    paper = NewCertificate("token", digest, last.digest if last else "")
    site.store.transition(record, Event.CERTIFIED, certificate=paper)


FREE = [slot_at(number) for number in (1, 2, 3)]
USED = slot_at(4)


def filled(site: Site) -> None:
    for slot in FREE:
        available(site.store, site.cloud, slot)
    enrolled(site.store, site.cloud, USED, server="server")


def unknown(site: Site, slot: Slot, *, server: str | None = None) -> None:
    """Enrolled, and its host has not named the drive yet."""
    provider = site.cloud.add(slot)
    if server is not None:
        site.cloud.claim(slot, server)
    site.cloud.burn(slot)
    site.store.enrol(
        slot,
        provider=provider,
        resource_class=RC,
        in_use=server is not None,
        profile="p",
        policy="q",
        consumer=server,
    )


def test_one_about_no_slot_is_not_begun(site: Site, plane: Plane) -> None:
    """A word of it is misspelt: it would be done at once, with each of its slots erased."""
    with pytest.raises(BadInputError, match="expected at least one slot that is as asked for"):
        begin(plane)
    filled(site)
    assert begin(plane).slots == {"waiting": 4}


def test_a_whole_campaign(site: Site, plane: Plane) -> None:
    filled(site)
    begun = begin(plane)
    assert begun.slots == {"waiting": 4}
    for _ in range(3):
        work(site).advance("fw1")
    assert {state(site, slot) for slot in FREE} == {State.ERASING}
    assert campaigns.show(plane, "fw1").slots == {"asked": 1, "erasing": 3}
    assert begin(plane) == campaigns.show(plane, "fw1"), "the same again does nothing"
    for slot in FREE:
        erase(site, slot)
    work(site).advance("fw1")
    assert campaigns.show(plane, "fw1").slots == {"asked": 1, "done": 3}
    site.cloud.delete(USED)
    site.go_on(600)
    assert state(site, USED) is State.ERASING
    erase(site, USED)
    work(site).advance("fw1")
    found = campaigns.show(plane, "fw1")
    assert (found.campaign.state, found.slots) == (CampaignState.DONE, {"done": 4})
    assert [(one.state, one.by) for one in found.acts] == [("running", ADA), ("done", None)]
    lines = campaigns.lines(plane, "fw1", limit=10)
    assert [one.result for one in lines] == ["erased"] * 4
    assert all(one.certificate for one in lines)
    released = [row for row in site.store.history(FREE[0]) if row.reason == WHY]
    assert [row.event for row in released] == [Event.HELD, Event.RELEASED_BY_OPERATOR]
    assert {row.by for row in released} == {ADA}


def test_one_drive_at_a_time_where_the_pool_spares_no_more(site: Site, plane: Plane) -> None:
    filled(site)
    begin(plane, keep=0.5)
    for _ in range(4):
        work(site).advance("fw1")
    assert sum(state(site, slot) is State.AVAILABLE for slot in FREE) == 2
    first = next(slot for slot in FREE if state(site, slot) is not State.AVAILABLE)
    erase(site, first)
    for _ in range(4):
        work(site).advance("fw1")
    assert campaigns.show(plane, "fw1").slots["done"] == 1
    # Erased, but not back: a host that takes no ticket must not empty the pool.
    assert sum(state(site, slot) is State.AVAILABLE for slot in FREE) == 2


class Died(BaseException):
    """The process ended."""


@pytest.mark.parametrize("dies_at", range(1, 12))
def test_a_death_in_the_midst_erases_no_slot_twice_and_none_less(
    site: Site, plane: Plane, dies_at: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After each write of the record in turn, and before the next."""
    filled(site)
    begin(plane)
    count = 0
    store = site.store

    def dying(name: str) -> None:
        real = getattr(type(store), name)

        def call(self: Any, *words: Any, **named: Any) -> Any:
            nonlocal count
            found = real(self, *words, **named)
            count += 1
            if count == dies_at:
                raise Died
            return found

        monkeypatch.setattr(store, name, call.__get__(store))

    for name in ("hold", "transition", "write_campaign_slot"):
        dying(name)
    try:
        for _ in range(4):
            work(site).advance("fw1")
    except Died:
        pass
    monkeypatch.undo()
    site.clock.forward(61)
    site.restart()
    for _ in range(6):
        work(site).advance("fw1")
        site.go_on(30)
    assert sum(site.store.taken_from_the_pool().values()) == len(FREE)
    for slot in FREE:
        assert state(site, slot) is State.ERASING, slot
        erase(site, slot)
    work(site).advance("fw1")
    assert campaigns.show(plane, "fw1").slots == {"asked": 1, "done": 3}
    for slot in FREE:
        orders = [row for row in site.store.history(slot) if row.event is Event.ORDERED]
        assert len(orders) == 2, "the one that made it available, and the campaign's"


def test_a_person_has_the_last_word(site: Site, plane: Plane) -> None:
    filled(site)
    held = site.store.slot(FREE[0])
    assert held is not None
    site.store.hold(held, holds.because(HoldCode.DATA_LEFT, "old"))
    begin(plane)
    work(site).advance("fw1")
    used = site.store.slot(USED)
    assert used is not None
    site.store.amend(used, SlotChanges(next_hold=None))
    work(site).advance("fw1")
    found = {one.address: one.step for one in campaigns.lines(plane, "fw1", limit=9)}
    assert found[FREE[0].address] == found[USED.address] == CampaignStep.SKIPPED
    assert state(site, FREE[0]) is State.HELD


@pytest.mark.parametrize("put", [CampaignState.PAUSED, CampaignState.STOPPED])
def test_one_that_does_not_run_does_nothing(site: Site, plane: Plane, put: CampaignState) -> None:
    filled(site)
    version = begin(plane).campaign.version
    campaigns.put(plane, "fw1", put, behind=(version,), **WORDS)
    with pytest.raises(StaleError):
        campaigns.put(plane, "fw1", CampaignState.RUNNING, behind=(version,), **WORDS)
    site.go_on(60)
    assert {state(site, slot) for slot in FREE} == {State.AVAILABLE}
    if put is CampaignState.STOPPED:
        now = campaigns.show(plane, "fw1").campaign.version
        for behind in ((), (now,)):
            with pytest.raises(IllegalTransitionError, match="for good"):
                campaigns.put(plane, "fw1", CampaignState.RUNNING, behind=behind, **WORDS)
    else:
        campaigns.put(plane, "fw1", CampaignState.RUNNING, **WORDS)
        site.go_on(60)
        assert State.AVAILABLE not in {state(site, slot) for slot in FREE}


def test_one_works_at_a_time(site: Site, plane: Plane) -> None:
    filled(site)
    begin(plane)
    assert site.store.lease_campaign("fw1", 60)
    assert work(site).advance("fw1") == 0
    site.clock.forward(61)
    assert work(site).advance("fw1") > 0


def test_of_two_at_once_one_begins(site: Site, plane: Plane) -> None:
    filled(site)

    def start(_: int) -> str:
        try:
            return begin(plane).campaign.id
        except ConflictError:
            return "again"

    with ThreadPoolExecutor(4) as pool:
        assert "fw1" in set(pool.map(start, range(4)))
    assert campaigns.show(plane, "fw1").slots == {"waiting": 4}
    with pytest.raises(StaleError):
        begin(plane, keep=0.5)


def test_campaigns_of_one_class_keep_its_share_together(site: Site, plane: Plane) -> None:
    """Whoever begins one for each host means the share of the pool all the same."""
    hosts = [f"cmp{number}" for number in range(1, 6)]
    slots = [slot_at(number, host) for host in hosts for number in range(2)]
    for host in hosts[1:]:
        greet(site.store, host)
    for slot in slots:
        available(site.store, site.cloud, slot)
    for host in hosts:
        query = CampaignQuery(host=host)
        campaigns.begin(plane, f"fw-{host}", query, reason="x", by=ADA, keep=0.8)
    hands = work(site)
    for _ in range(3):
        hands.advance_all()
    assert [state(site, slot) for slot in slots].count(State.AVAILABLE) == 8
    assert sum(site.store.taken_from_the_pool().values()) == 2


def test_a_hold_by_a_machine_whose_clock_is_behind_calls_nobody(
    site: Site, caplog: pytest.LogCaptureFixture
) -> None:
    """The API's: the drive was looked at just now, and is free until the look after its hold."""
    record = available(site.store, site.cloud, slot_at(1))
    site.cloud.clock.forward(-5)
    held = site.store.hold(record, holds.because(HoldCode.BY_PERSON, "x"), by=ADA)
    assert record.read_at is not None
    assert held.entered_at > record.read_at
    site.cloud.clock.forward(5)
    site.loop.look(record.slot)
    assert "ALARM" not in caplog.text


def test_a_campaign_takes_what_another_one_lets_go_of(site: Site, plane: Plane) -> None:
    enrolled(site.store, site.cloud, USED, server="server")
    site.loop.sweep()
    hands, query = work(site), CampaignQuery(host=USED.host)
    for name in ("a", "b"):
        campaigns.begin(plane, name, query, reason=f"for {name}", by=ADA, keep=0.0)
        hands.advance_all()
    campaigns.put(plane, "a", CampaignState.STOPPED, reason="b does it", by=ADA)
    for _ in range(2):
        hands.advance_all()
    record = site.store.slot(USED)
    assert record is not None
    assert record.next_hold is not None
    assert record.next_hold.reason == "campaign b: for b"


@pytest.mark.parametrize("names", [("a", "b"), ("b", "a")])
def test_a_drive_that_two_asked_for_is_left_to_neither_s_hold(
    site: Site, plane: Plane, names: tuple[str, str]
) -> None:
    """The one that waited comes while the other one's hold stands."""
    filled(site)
    for name in names:
        campaigns.begin(plane, name, QUERY, reason=f"for {name}", by=ADA, keep=1.0)
        work(site).advance(name)
    site.cloud.delete(USED)
    site.go_on(600)
    assert state(site, USED) is State.ERASING
    for name in names:
        assert "skipped" not in campaigns.show(plane, name).slots


def test_two_that_take_at_once_keep_the_share_together(site: Site, plane: Plane) -> None:
    """Each in a process of its own, and each has counted before the other one took."""
    hosts = ["cmp1", "cmp2"]
    slots = [slot_at(number, host) for host in hosts for number in range(5)]
    greet(site.store, "cmp2")
    for slot in slots:
        available(site.store, site.cloud, slot)
    for host in hosts:
        query = CampaignQuery(host=host)
        campaigns.begin(plane, f"fw-{host}", query, reason="x", by=ADA, keep=0.5)
    others = [work(site)]

    def look(slot: Slot) -> SlotRecord | None:
        if others:
            others.pop().advance("fw-cmp2")
        return site.loop.look(slot)

    CampaignWork(site.store, look, site.loop.consumers).advance("fw-cmp1")
    assert [state(site, slot) for slot in slots].count(State.AVAILABLE) == 5


@pytest.mark.parametrize("then", ["free", "let", "paused"])
def test_who_dies_before_it_holds_took_nothing(
    site: Site, plane: Plane, monkeypatch: pytest.MonkeyPatch, then: str
) -> None:
    """The drive stays in the pool, or comes to a tenant who was quicker."""
    filled(site)
    begin(plane, keep=0.5)

    def died(*_words: Any, **_named: Any) -> None:
        raise Died

    with monkeypatch.context() as patch:
        patch.setattr(site.store, "hold", died)
        with pytest.raises(Died):
            work(site).advance("fw1")
    assert sum(site.store.taken_from_the_pool(claimed=True).values()) == 1
    site.clock.forward(61)
    if then == "let":
        site.cloud.claim(FREE[0], "tenant")
        site.go_on(60)
    if then == "paused":
        campaigns.put(plane, "fw1", CampaignState.PAUSED, **WORDS)
    work(site).advance("fw1")
    free = [state(site, slot) is State.AVAILABLE for slot in FREE]
    took = {"free": 1, "let": 1, "paused": 0}[then]
    assert sum(site.store.taken_from_the_pool(claimed=True).values()) == took
    assert free.count(True) == {"free": 2, "let": 1, "paused": 3}[then]


def test_a_moment_is_one_in_every_zone(site: Site, plane: Plane) -> None:
    """Its repetition from a shell elsewhere is the same campaign, and its preview the same."""
    filled(site)
    here = datetime(2026, 11, 24, 18, tzinfo=UTC)
    there = here.astimezone(timezone(timedelta(hours=2)))
    queries = [CampaignQuery(certified_before=at) for at in (here, there)]
    one, other = (campaigns.preview(plane, query, limit=1).version for query in queries)
    assert one == other
    for query in queries:
        campaigns.begin(plane, "fw1", query, reason="x", by=ADA, seen=(one,))
    assert len(campaigns.page(plane, limit=9)) == 1


@pytest.mark.parametrize("at", ["0001-01-01T00:00:00+14:00", "9999-12-31T23:59:59-12:00"])
def test_a_moment_that_no_calendar_has_in_utc(plane: Plane, at: str) -> None:
    query = CampaignQuery(certified_before=datetime.fromisoformat(at))
    with pytest.raises(BadInputError, match="certified_before"):
        campaigns.preview(plane, query, limit=1)
    with pytest.raises(BadInputError, match="certified_before"):
        campaigns.begin(plane, "fw1", query, reason="x", by=ADA)


@pytest.mark.parametrize("name", ["", "-x", "a b", "x" * 65, "a/b", "\ud800", "x\n"])
def test_bad_ids(plane: Plane, name: str) -> None:
    with pytest.raises(BadInputError):
        campaigns.begin(plane, name, QUERY, reason="x", by=ADA)
    with pytest.raises(UnknownError):
        campaigns.show(plane, name)


def test_bad_words(plane: Plane) -> None:
    for bad in ({"keep": -0.1}, {"keep": 1.1}, {"keep": float("nan")}, {"reason": " "}):
        with pytest.raises(BadInputError):
            begin(plane, **bad)
    with pytest.raises(BadInputError):
        campaigns.preview(plane, CampaignQuery(), limit=1)


def test_a_campaign_has_a_bound(site: Site, plane: Plane, monkeypatch: pytest.MonkeyPatch) -> None:
    filled(site)
    monkeypatch.setattr(campaigns, "MOST", 3)
    with pytest.raises(BadInputError, match="expected 3 slots at most"):
        campaigns.preview(plane, QUERY, limit=2)
    monkeypatch.setattr(campaigns, "MOST", 4)
    assert campaigns.preview(plane, QUERY, limit=2).slots == 4


def test_a_preview_counts_what_other_campaigns_have_taken(site: Site, plane: Plane) -> None:
    """It said that five drives could go at a time, and the next campaign took none."""
    for number in range(1, 11):
        available(site.store, site.cloud, slot_at(number))
    begin(plane, keep=0.5)
    for _turn in range(4):
        work(site).advance("fw1")
    found = campaigns.preview(plane, QUERY, keep=0.5, limit=0)
    assert (found.free, found.at_a_time, found.pool_seconds) == (5, 0, None)
    assert campaigns.preview(plane, QUERY, keep=0.2, limit=0).at_a_time == 3
    campaigns.begin(plane, "fw2", QUERY, keep=0.2, **WORDS)
    for _turn in range(4):
        work(site).advance("fw2")
    free = sum(state(site, slot_at(number)) is State.AVAILABLE for number in range(1, 11))
    assert free == 5 - 3


def test_one_preview_counts_at_a_time(
    site: Site, plane: Plane, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever asks most gets the process to themselves else; the others wait, and not for ever."""
    filled(site)
    places, inside, go = campaigns._places, threading.Semaphore(0), threading.Event()
    most, counting = [0], [0]

    def counted(*args: Any) -> Any:
        counting[0] += 1
        most[0] = max(most[0], counting[0])
        inside.release()
        go.wait(30)
        found = list(places(*args))
        counting[0] -= 1
        return found

    def previewed() -> int:
        return campaigns.preview(plane, QUERY, limit=2).slots

    monkeypatch.setattr(campaigns, "_places", counted)
    with ThreadPoolExecutor(4) as pool:
        try:
            first = pool.submit(previewed)
            assert inside.acquire(timeout=30)
            monkeypatch.setattr(campaigns, "WAIT_SECONDS", 0.01)
            with pytest.raises(UnavailableError, match="expected a turn"):
                previewed()
            monkeypatch.setattr(campaigns, "WAIT_SECONDS", 60.0)
            rest = [pool.submit(previewed) for _ in range(3)]
        finally:
            go.set()
        assert [one.result(60) for one in (first, *rest)] == [4] * 4
    assert most == [1]
    # One that fails gives its turn back.
    monkeypatch.setattr(campaigns, "_places", places)
    monkeypatch.setattr(campaigns, "MOST", 3)
    with pytest.raises(BadInputError):
        previewed()
    monkeypatch.setattr(campaigns, "MOST", 4)
    assert previewed() == 4


def test_a_preview_changes_nothing(site: Site, plane: Plane) -> None:
    filled(site)
    before = [site.store.slot(slot) for slot in (*FREE, USED)]
    found = campaigns.preview(plane, QUERY, keep=0.5, limit=2)
    assert (found.slots, found.free, found.in_use, found.held) == (4, 3, 1, 0)
    assert (found.at_a_time, found.drive_seconds, found.pool_seconds) == (1, None, None)
    assert len(found.which) == 2
    assert [site.store.slot(slot) for slot in (*FREE, USED)] == before
    late = site.clock() - timedelta(days=1)
    assert campaigns.preview(plane, CampaignQuery(certified_before=late), limit=2).slots == 0
    later = site.clock() + timedelta(days=1)
    assert campaigns.preview(plane, CampaignQuery(certified_before=later), limit=2).slots == 3
    assert campaigns.preview(plane, CampaignQuery(firmware="FW"), limit=2).slots == 0


def test_a_placement_that_is_away_releases_nothing(site: Site, plane: Plane) -> None:
    filled(site)
    begin(plane)
    for slot in FREE:
        site.cloud.broken[f"rp-{slot}"] = UnavailableError("away")
    with pytest.raises(UnavailableError):
        work(site).advance("fw1")
    assert State.RELEASED not in {state(site, slot) for slot in FREE}
    site.cloud.broken.clear()
    site.go_on(120)
    assert {state(site, slot) for slot in FREE} == {State.ERASING}


def test_a_broker_that_is_away_ends_no_turn(
    site: Site, plane: Plane, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Placement has answered, and the slots are released: their orders go out on later rounds."""
    filled(site)
    begin(plane, keep=0.0)
    with monkeypatch.context() as patch:

        def away(_self: NotingDispatcher, _record: SlotRecord) -> SlotRecord:
            raise BrokerAwayError("the broker does not answer")

        patch.setattr(NotingDispatcher, "order", away)
        assert work(site).advance("fw1") == 4
    assert {state(site, slot) for slot in FREE} == {State.QUARANTINED}
    assert next_hold(site, USED) == NextHold(WHY, ADA)
    site.go_on(120)
    assert {state(site, slot) for slot in FREE} == {State.ERASING}


# What a hostile reviewer found.


def next_hold(site: Site, slot: Slot) -> NextHold | None:
    record = site.store.slot(slot)
    assert record is not None
    return record.next_hold


def test_a_stopped_one_leaves_no_drive_to_be_held(site: Site, plane: Plane) -> None:
    """Nobody would release it: who stopped the campaign is done with it."""
    filled(site)
    begin(plane, keep=1.0)
    work(site).advance("fw1")
    assert next_hold(site, USED) == NextHold(WHY, ADA)
    campaigns.put(plane, "fw1", CampaignState.STOPPED, **WORDS)
    site.go_on(60)
    assert next_hold(site, USED) is None
    assert campaigns.show(plane, "fw1").slots == {"skipped": 4}
    site.cloud.delete(USED)
    site.go_on(600)
    assert state(site, USED) is State.ERASING
    assert {state(site, slot) for slot in FREE} == {State.AVAILABLE}


@pytest.mark.parametrize("put", [CampaignState.PAUSED, CampaignState.STOPPED])
def test_what_was_taken_is_finished_though_it_does_not_run(
    site: Site, plane: Plane, put: CampaignState, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It was held, the process died, and then a person put it."""
    filled(site)
    begin(plane, keep=0.5)
    die_behind_the_first_hold(site, monkeypatch)
    campaigns.put(plane, "fw1", put, **WORDS)
    site.go_on(120)
    assert state(site, FREE[0]) is State.ERASING
    assert {state(site, slot) for slot in FREE[1:]} == {State.AVAILABLE}
    assert next_hold(site, USED) is None
    erase(site, FREE[0])
    work(site).advance("fw1")
    rest = "waiting" if put is CampaignState.PAUSED else "skipped"
    assert campaigns.show(plane, "fw1").slots == {"done": 1, rest: 3}
    assert campaigns.show(plane, "fw1").campaign.state is put


def test_who_is_let_go_of_while_it_is_paused_is_not_left_held(site: Site, plane: Plane) -> None:
    filled(site)
    begin(plane, keep=1.0)
    work(site).advance("fw1")
    campaigns.put(plane, "fw1", CampaignState.PAUSED, **WORDS)
    site.cloud.delete(USED)
    site.go_on(600)
    assert state(site, USED) is State.ERASING


def test_a_drive_that_is_named_before_the_hold_that_was_asked_for_is_not_left_held(
    site: Site, plane: Plane, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It was not known when the campaign began; the loop died between release and hold."""
    unknown(site, USED, server="server")
    begin(plane)
    work(site).advance("fw1")
    site.cloud.delete(USED)
    transition = type(site.store).transition

    def dying(*words: Any, **named: Any) -> None:
        transition(site.store, *words, **named)
        raise Died

    with monkeypatch.context() as patch:
        patch.setattr(site.store, "transition", dying)
        with pytest.raises(Died):
            site.go_on(600)
    record = site.store.slot(USED)
    assert record is not None
    assert record.state is State.RELEASED
    site.store.amend(record, SlotChanges(identity=drive_in(USED)))
    site.clock.forward(61)
    site.restart()
    site.go_on(120)
    assert state(site, USED) is State.ERASING


def test_it_stops_at_the_next_slot(
    site: Site, plane: Plane, monkeypatch: pytest.MonkeyPatch
) -> None:
    filled(site)
    begin(plane)
    hold = site.store.hold

    def stopped(*words: Any, **named: Any) -> Any:
        campaigns.put(plane, "fw1", CampaignState.STOPPED, **WORDS)
        return hold(*words, **named)

    monkeypatch.setattr(site.store, "hold", stopped)
    work(site).advance("fw1")
    assert sum(state(site, slot) is State.AVAILABLE for slot in FREE) == 2


def test_who_is_held_by_a_person_in_the_midst_is_left_to_that_person(site: Site) -> None:
    """Though the campaign names the code: it named those that were held then."""
    filled(site)
    for slot in FREE[:2]:
        record = site.store.slot(slot)
        assert record is not None
        site.store.hold(record, holds.because(HoldCode.BY_PERSON, "an old story"))
        site.clock.forward(1)
    lines = [(one.host, one.address, drive_in(one).digest) for one in FREE[:2]]
    query = codec.canonical({"hold_code": "by-person"}).decode()
    site.store.begin_campaign("fw1", query=query, reason="x", keep=0.0, by=ADA, slots=lines)
    site.clock.forward(1)
    record = site.store.slot(FREE[0])
    assert record is not None
    released = site.store.transition(record, Event.RELEASED_BY_OPERATOR, reason="looked at")
    site.store.hold(released, holds.because(HoldCode.BY_PERSON, "evidence: do not touch"))
    for _ in range(3):
        work(site).advance("fw1")
    assert state(site, FREE[0]) is State.HELD
    assert state(site, FREE[1]) is State.ERASING
    assert site.store.campaign_counts("fw1") == {"erasing": 1, "skipped": 1}


@pytest.mark.parametrize("exchanged", [False, True])
def test_a_drive_that_is_named_after_the_campaign_began_has_its_result(
    site: Site, plane: Plane, exchanged: bool
) -> None:
    unknown(site, FREE[0])
    unknown(site, USED, server="server")
    begin(plane)
    for _ in range(2):
        work(site).advance("fw1")
    site.cloud.delete(USED)
    site.go_on(600)
    for slot in (FREE[0], USED):
        record = site.store.slot(slot)
        assert record is not None
        assert record.state is State.ERASING
        named = site.store.amend(record, SlotChanges(identity=drive_in(slot)))
        work(site).advance("fw1")
        if exchanged:
            other = replace(drive_in(slot), serial=f"X{slot.address}")
            site.store.amend(named, SlotChanges(identity=other))
        erase(site, slot)
    work(site).advance("fw1")
    found = campaigns.lines(plane, "fw1", limit=9)
    if exchanged:
        assert {one.step for one in found} == {CampaignStep.SKIPPED}
        return
    assert [(one.step, one.result) for one in found] == [(CampaignStep.DONE, "erased")] * 2
    assert {one.drive for one in found} == {drive_in(slot).digest for slot in (FREE[0], USED)}
    assert all(one.certificate for one in found)


def test_another_drive_s_certificate_is_no_result(site: Site, plane: Plane) -> None:
    """It was exchanged after its release."""
    filled(site)
    begin(plane)
    work(site).advance("fw1")
    for slot in FREE:
        record = site.store.slot(slot)
        assert record is not None
        if slot == FREE[0]:
            other = replace(drive_in(slot), serial="OTHER")
            site.store.amend(record, SlotChanges(identity=other))
        erase(site, slot)
    work(site).advance("fw1")
    found = {one.address: one for one in campaigns.lines(plane, "fw1", limit=9)}
    assert found[FREE[0].address].step == CampaignStep.SKIPPED
    assert "another drive" in found[FREE[0].address].result
    assert found[FREE[0].address].certificate is None
    assert found[FREE[1].address].step == CampaignStep.DONE


def test_a_server_that_was_quicker_keeps_its_drive(
    site: Site, plane: Plane, caplog: pytest.LogCaptureFixture
) -> None:
    """The record still has it on offer."""
    filled(site)
    begin(plane)
    site.cloud.claim(FREE[0], "tenant")
    site.cloud.burn(FREE[0])
    with caplog.at_level(logging.WARNING):
        work(site).advance("fw1")
        work(site).advance("fw1")
    assert state(site, FREE[0]) is State.IN_USE
    assert next_hold(site, FREE[0]) == NextHold(WHY, ADA)
    assert not [row for row in site.store.history(FREE[0]) if row.event is Event.HELD]
    assert "claimed-unerased" not in caplog.text
    assert "used-again" not in caplog.text


@pytest.mark.parametrize("burned", [True, False])
def test_a_server_that_is_quicker_than_the_reservation_keeps_its_drive(
    site: Site,
    plane: Plane,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    burned: bool,
) -> None:
    """The record has the hold, Placement not yet."""
    filled(site)
    begin(plane)
    hold = site.store.hold

    def quick(*words: Any, **named: Any) -> SlotRecord:
        after = hold(*words, **named)
        if after.slot == FREE[0]:
            site.cloud.claim(FREE[0], "tenant")
            if burned:
                site.cloud.burn(FREE[0])
        return after

    monkeypatch.setattr(site.store, "hold", quick)
    site.clock.forward(1)
    work(site).advance("fw1")
    record = site.store.slot(FREE[0])
    assert record is not None
    assert (record.state, record.consumer) == (State.IN_USE, "tenant")
    assert record.next_hold == NextHold(WHY, ADA)
    assert record.certificate is not None
    assert campaigns.show(plane, "fw1").slots == {"asked": 2, "erasing": 2}
    for code in ("used-again", "claimed-unerased", "on-offer"):
        assert code not in caplog.text
    site.cloud.burn(FREE[0])
    site.go_on(60)
    site.cloud.delete(FREE[0])
    site.go_on(600)
    assert state(site, FREE[0]) is State.ERASING


def test_what_somebody_has_is_not_released(
    site: Site, plane: Plane, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """One alarm tells of it; a release would make another of it, and no erase."""
    filled(site)
    begin(plane)
    die_behind_the_first_hold(site, monkeypatch)
    site.loop.look(FREE[0])
    site.cloud.seat(FREE[0]).reserved = False
    site.cloud.claim(FREE[0], "tenant")
    site.cloud.burn(FREE[0])
    site.go_on(60)
    assert state(site, FREE[0]) is State.HELD
    assert "used-again" in caplog.text
    assert "claimed-unerased" not in caplog.text
    site.cloud.delete(FREE[0])
    site.go_on(60)
    assert state(site, FREE[0]) is State.ERASING


def test_one_slot_that_cannot_be_read_stops_no_other(site: Site, plane: Plane) -> None:
    filled(site)
    begin(plane)
    damage(site, FREE[0])
    for _ in range(3):
        work(site).advance_all()
    assert {state(site, slot) for slot in FREE[1:]} == {State.ERASING}
    assert next_hold(site, USED) is not None
    assert campaigns.show(plane, "fw1").slots["waiting"] == 1


def test_one_campaign_that_cannot_be_read_stops_no_other(site: Site, plane: Plane) -> None:
    filled(site)
    begin(plane)
    campaigns.begin(plane, "a-damaged-one", QUERY, **WORDS)
    with site.store._writing() as db:
        broken = sa.update(models.campaigns).where(models.campaigns.c.id == "a-damaged-one")
        db.execute(broken.values(created_at=sa.literal_column("'garbage'")))
    site.go_on(120)
    assert {state(site, slot) for slot in FREE} == {State.ERASING}


def die_behind_the_first_hold(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    real = site.store.hold

    def died(*words: Any, **named: Any) -> None:
        real(*words, **named)
        raise Died

    with monkeypatch.context() as patch:
        patch.setattr(site.store, "hold", died)
        with pytest.raises(Died):
            work(site).advance("fw1")
    assert state(site, FREE[0]) is State.HELD
    site.clock.forward(61)
    site.restart()


@pytest.mark.parametrize(
    ("broken", "why"),
    [
        ({"changed_at": sa.literal_column("'garbage'")}, "changed_at"),
        ({"step": sa.literal_column("x'ff'")}, "step"),
        ({"step": "of-a-newer-release"}, "step of-a-newer-release"),
    ],
)
def test_one_line_that_cannot_be_read_stops_no_other_and_calls_people_once(
    site: Site,
    plane: Plane,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    broken: dict[str, Any],
    why: str,
) -> None:
    filled(site)
    begin(plane)
    die_behind_the_first_hold(site, monkeypatch)
    which = models.campaign_slots.c.address == FREE[2].address
    with site.store._writing() as db:
        db.execute(sa.update(models.campaign_slots).where(which).values(**broken))
    site.go_on(600)
    assert [state(site, slot) for slot in FREE[:2]] == [State.ERASING] * 2
    assert state(site, FREE[2]) is State.AVAILABLE
    calls = [text for text in caplog.messages if "ALARM record-unreadable campaign fw1" in text]
    assert len(calls) == 1
    assert f"{FREE[2]} ({why})" in calls[0]
    assert "Traceback" not in caplog.text
    assert campaigns.show(plane, "fw1").campaign.state is CampaignState.RUNNING
    with site.store._writing() as db:
        mended = {"changed_at": site.clock(), "step": "waiting"}
        db.execute(sa.update(models.campaign_slots).where(which).values(**mended))
    site.go_on(60)
    assert state(site, FREE[2]) is State.ERASING
    assert "over: record-unreadable campaign fw1: " in caplog.text


@pytest.mark.parametrize(
    "broken",
    [
        {"created_at": sa.literal_column("'garbage'")},
        {"state": "of-a-newer-release"},
    ],
)
def test_a_campaign_that_cannot_go_on_calls_people_once(
    site: Site,
    plane: Plane,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    broken: dict[str, Any],
) -> None:
    """The slots that it holds would stay held, and nobody would know why."""
    filled(site)
    begin(plane)
    die_behind_the_first_hold(site, monkeypatch)
    with site.store._writing() as db:
        db.execute(sa.update(models.campaigns).values(**broken))
    site.go_on(600)
    assert state(site, FREE[0]) is State.HELD
    calls = [text for text in caplog.messages if "ALARM record-unreadable campaign fw1" in text]
    assert len(calls) == 1
    assert "slot release" in calls[0]
    with site.store._writing() as db:
        mended = {"created_at": site.clock(), "state": "running"}
        db.execute(sa.update(models.campaigns).values(**mended))
    site.go_on(60)
    assert state(site, FREE[0]) is State.ERASING
    assert caplog.text.count("over: record-unreadable campaign fw1: ") == 1


@pytest.mark.parametrize(
    "broken",
    [{"created_at": sa.literal_column("'garbage'")}, {"state": "of-a-newer-release"}],
    ids=["date", "state"],
)
def test_one_campaign_that_cannot_be_read_ends_no_list(
    site: Site, plane: Plane, broken: dict[str, Any], caplog: pytest.LogCaptureFixture
) -> None:
    filled(site)
    for name in ("a", "b", "c", "d"):
        campaigns.begin(plane, name, QUERY, **WORDS)
    with site.store._writing() as db:
        which = models.campaigns.c.id.in_(["b", "c"])
        db.execute(sa.update(models.campaigns).where(which).values(**broken))
    assert [one.id for one in campaigns.page(plane, limit=2)] == ["a", "d"]
    assert "campaign b: it cannot be read" in caplog.text
    assert campaigns.page(plane, limit=9, after="d") == ()
    with pytest.raises(UnreadableError, match="campaign b: it cannot be read"):
        campaigns.show(plane, "b")


def test_the_share_is_kept_as_every_database_can_say_it(site: Site, plane: Plane) -> None:
    """MariaDB shows six digits of a FLOAT; the same words again would be another campaign."""
    filled(site)
    made = begin(plane, keep=1 / 3)
    assert made.campaign.keep == 0.3333
    assert begin(plane, keep=1 / 3).campaign == made.campaign


def test_a_slow_placement_keeps_the_loop_from_nothing_for_long(site: Site, plane: Plane) -> None:
    """Safety has a thread of its own; releases that nobody rang for are seen by this loop."""
    filled(site)
    begin(plane)
    campaigns.begin(plane, "fw2", QUERY, **WORDS)
    looked: list[Slot] = []

    def slow(slot: Slot) -> SlotRecord | None:
        looked.append(slot)
        site.clock.forward(30)
        return site.store.slot(slot)

    busy = CampaignWork(site.store, slow, site.loop.consumers, site.clock.monotonic)
    before = site.clock.monotonic()
    busy.advance_all(seconds=10)
    assert site.clock.monotonic() - before <= 3 * 30
    for _ in range(20):
        busy.advance_all(seconds=10)
    assert set(looked) >= set(FREE), "each comes to its turn"


@pytest.mark.parametrize("chunk", [1, 2, 3, 4])
def test_lines_that_wait_keep_none_behind_them_from_its_turn(
    site: Site, plane: Plane, monkeypatch: pytest.MonkeyPatch, chunk: int
) -> None:
    """A turn looks at some lines, and the first ones may wait for their servers for years."""
    monkeypatch.setattr("quarantine.service.campaigns._CHUNK", chunk)
    used = [slot_at(number) for number in range(1, 4)]
    for slot in used:
        enrolled(site.store, site.cloud, slot, server="server")
    begin(plane)
    hands = work(site)
    for _ in range(9):
        hands.advance("fw1")
    available(site.store, site.cloud, last := slot_at(4))
    campaigns.begin(plane, "fw2", QUERY, **{**WORDS, "keep": 0.0})
    for _ in range(9):
        hands.advance("fw2")
    steps = {one.address: one.step for one in site.store.campaign_lines("fw2", limit=9)}
    assert steps.pop(last.address) == CampaignStep.ERASING
    assert set(steps.values()) == {CampaignStep.WAITING}


@pytest.mark.parametrize("names", [["fw1", "fw2"], ["fw1", "fw-2", "Fw3"]])
def test_campaigns_take_turns_where_there_is_time_for_one_alone(
    site: Site, monkeypatch: pytest.MonkeyPatch, names: list[str]
) -> None:
    """Also in the order of a PostgreSQL of most locales, which passes over hyphens and case."""
    turns: list[str] = []

    def held(name: str, _seconds: float) -> None:
        """Another process works on it."""
        turns.append(name)

    monkeypatch.setattr(site.store, "open_campaigns", lambda: names)
    monkeypatch.setattr(site.store, "lease_campaign", held)
    busy = CampaignWork(site.store, site.loop.look, site.loop.consumers, site.clock.monotonic)
    for _ in 2 * names:
        busy.advance_all(seconds=0)
    assert turns == 2 * sorted(names)
    turns.clear()
    busy.advance_all()
    assert turns == sorted(names), "each once where there is time for all"


def test_a_turn_is_over_before_its_lease_is(site: Site, plane: Plane) -> None:
    """Somebody else may go on then."""
    filled(site)
    begin(plane, keep=0.0)
    looked: list[Slot] = []

    def slow(slot: Slot) -> SlotRecord | None:
        looked.append(slot)
        site.clock.forward(LEASE_SECONDS / 2)
        return site.store.slot(slot)

    CampaignWork(site.store, slow, site.loop.consumers, site.clock.monotonic).advance("fw1")
    assert set(looked) == {FREE[0]}
