"""What every database must count, for capacity and metrics."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

import pytest
import sqlalchemy as sa

from eraser.protocol.identity import ControllerIdentity, Slot
from eraser.protocol.report import Hello
from eraser.protocol.transport.signing import PrivateKey
from quarantine.record import alarms
from quarantine.record.alarms import AlarmCall
from quarantine.record.database import models
from quarantine.record.database.engine import make_engine, writing
from quarantine.record.store import Store
from quarantine.record.totals import ComingSlot, FreeTotal, MaintenanceTotal, StockTotal
from quarantine.record.words.facts import (
    Initiator,
    NewCertificate,
    SlotChanges,
    SlotRecord,
    Subject,
)
from quarantine.record.words.reasons import HoldCode
from quarantine.record.words.states import Event, State
from quarantine.rules import holds

CLASS = "CUSTOM_NVME_I1"
START = datetime(2026, 11, 24, 12, tzinfo=UTC)


def drive(serial: str, model: str = "Model A") -> ControllerIdentity:
    return ControllerIdentity(0x1AF4, 0x10, 0x1AF4, 0x1100, serial, model, "nqn.2026-11.test:1")


@dataclass
class Site:
    """A record whose clock the test moves."""

    store: Store
    now: datetime = START

    def later(self, seconds: float) -> datetime:
        self.now += timedelta(seconds=seconds)
        return self.now

    def released(self, place: str, model: str = "Model A") -> SlotRecord:
        record = self.store.enrol(
            Slot.parse(place),
            provider="11111111-1111-1111-1111-111111111111",
            resource_class=CLASS,
            in_use=False,
            profile="p",
            policy="purge",
        )
        return self.store.amend(record, SlotChanges(identity=drive(place, model)))

    def erasing(self, place: str, model: str = "Model A") -> SlotRecord:
        record = self.store.transition(self.released(place, model), Event.CUSTODY_TAKEN)
        changes = SlotChanges(order_id=f"order of {place}", order_token="jws")
        return self.store.transition(record, Event.ORDERED, changes=changes)

    def certified(
        self, place: str, model: str = "Model A", erase: float = 60, verify: float | None = 20
    ) -> SlotRecord:
        record = self.erasing(place, model)
        self.later(erase + (verify or 0))
        return self.certify(record, verify)

    def certify(self, record: SlotRecord, verify: float | None) -> SlotRecord:
        last, text = self.store.last_certificate(), f"{record.slot} {record.generation}"
        made = NewCertificate(
            f"token {text}",
            hashlib.sha256(text.encode()).hexdigest(),
            last.digest if last else "",
            verify_seconds=verify,
        )
        return self.store.transition(record, Event.CERTIFIED, certificate=made)

    def available(self, place: str, model: str = "Model A") -> SlotRecord:
        return self.store.transition(self.certified(place, model), Event.RETURNED)


class TotalsSuite:
    """Counts are made by the database; the tests are the same for each."""

    @pytest.fixture
    def site(self, url: str) -> Iterator[Site]:
        store = Store.open(url, clock=lambda: site.now)
        site = Site(store)
        yield site
        store.close()

    def test_slots_are_counted_by_state_code_and_model(self, site: Site) -> None:
        site.released("a/0000:01:00.0")
        site.later(5)
        site.released("a/0000:02:00.0")
        site.released("a/0000:03:00.0", "Model B")
        held = site.store.hold(
            site.released("b/0000:01:00.0"), holds.because(HoldCode.NO_SERIAL, "none")
        )
        assert {
            (t.state, t.hold_code, t.model): (t.slots, t.oldest) for t in site.store.slot_totals()
        } == {
            ("released", None, "Model A"): (2, START),
            ("released", None, "Model B"): (1, site.now),
            ("held", "no-serial", "Model A"): (1, held.entered_at),
        }

    def test_a_slot_without_a_drive_has_no_model_and_a_hostile_one_is_stored(
        self, site: Site
    ) -> None:
        record = site.released("a/0000:01:00.0", "\0\x07'; --\u00ff" + "\0" * 30)
        (total,) = site.store.slot_totals()
        assert total.model is not None
        assert total.model.startswith("\\x00\x07'; --\u00ff\\x00")
        assert len(total.model) <= 64
        site.store.amend(record, SlotChanges(identity=None))
        assert [t.model for t in site.store.slot_totals()] == [None]

    def test_late_slots_are_those_that_came_before_their_models_time(self, site: Site) -> None:
        site.erasing("a/0000:01:00.0")
        site.erasing("a/0000:02:00.0", "Model B")
        site.released("a/0000:03:00.0")
        now = site.later(100)
        site.erasing("a/0000:04:00.0")
        ago = now - timedelta(seconds=50)
        assert site.store.late({}, {}) == {}
        assert site.store.late({(State.ERASING, "Model A"): ago}, {}) == {("erasing", "Model A"): 1}
        found = site.store.late(
            {(State.ERASING, "Model B"): START}, {State.ERASING: ago, State.RELEASED: ago}
        )
        assert found == {("erasing", "Model A"): 1, ("released", "Model A"): 1}

    def test_free_drives_are_counted_by_what_a_host_has_of_them(self, site: Site) -> None:
        key = PrivateKey.generate().public
        site.store.register_host("silent", key, "incarnation-1")
        for host in ("a", "b", "silent"):
            site.available(f"{host}/0000:01:00.0")
        site.available("c/0000:01:00.0")
        site.available("c/0000:02:00.0")
        since = site.later(100)
        for host in ("a", "b", "c"):
            site.store.register_host(host, PrivateKey.generate().public, "incarnation-1")
        assert sorted(site.store.free_totals(since), key=str) == [
            FreeTotal(CLASS, 1, False, 2),
            FreeTotal(CLASS, 1, True, 1),
            FreeTotal(CLASS, 2, False, 1),
        ]

    def test_a_free_drive_of_an_unregistered_host_is_silent(self, site: Site) -> None:
        site.available("gone/0000:01:00.0")
        assert site.store.free_totals(START) == [FreeTotal(CLASS, 1, True, 1)]

    def test_the_stock_of_a_host(self, site: Site) -> None:
        site.available("a/0000:01:00.0")
        site.available("a/0000:02:00.0")
        site.released("b/0000:01:00.0")
        for number in (3, 4, 5, 6):
            code = HoldCode.HEALTH if number % 2 else HoldCode.NO_SERIAL
            record = site.released(f"a/0000:0{number}:00.0")
            site.store.hold(record, holds.because(code, "why"))
        mine = [
            StockTotal("a", CLASS, "available", None, 2),
            StockTotal("a", CLASS, "held", "health", 2),
            StockTotal("a", CLASS, "held", "no-serial", 2),
        ]
        assert sorted(site.store.stock("a"), key=str) == mine
        theirs = StockTotal("b", CLASS, "released", None, 1)
        assert sorted(site.store.stock(), key=str) == [*mine, theirs]

    def test_the_pool_by_class(self, site: Site) -> None:
        assert site.store.free_of_each_class() == {}
        site.available("a/0000:01:00.0")
        site.available("b/0000:02:00.0")
        site.released("b/0000:01:00.0")
        assert site.store.free_of_each_class() == {CLASS: 2}

    def test_what_comes_back_by_itself(self, site: Site) -> None:
        site.available("a/0000:01:00.0")
        working = site.erasing("a/0000:02:00.0")
        waiting = site.released("b/0000:01:00.0")
        site.store.hold(site.released("b/0000:02:00.0"), holds.because(HoldCode.HEALTH, "why"))
        mine = ComingSlot("a", "0000:02:00.0", CLASS, "erasing", "Model A", working.entered_at)
        theirs = ComingSlot("b", "0000:01:00.0", CLASS, "released", "Model A", waiting.entered_at)
        assert site.store.coming("a") == [mine]
        assert site.store.coming() == [mine, theirs]

    def test_hosts_by_when_they_were_heard(self, site: Site) -> None:
        assert site.store.hosts_within([START]) == ([0], 0)
        for host in ("a", "b"):
            site.store.register_host(host, PrivateKey.generate().public, "incarnation-1")
            site.later(10)
        times = [START, START + timedelta(seconds=1), site.now]
        assert site.store.hosts_within(times) == ([2, 1, 0], 2)

    def test_who_was_heard_in_a_time_to_come_is_silent(self, site: Site) -> None:
        """Our clock was set back since, and a host that speaks is heard anew within a minute."""
        for host in ("speaks", "gone"):
            site.store.register_host(host, PrivateKey.generate().public, "incarnation-1")
            site.available(f"{host}/0000:01:00.0")
        site.later(3600)
        for host in ("speaks", "gone"):
            site.store.host_seen(host, 1, Hello(host, "incarnation-1", 1, "1", (), ()))
        site.later(-1800)
        site.store.host_seen("speaks", 2, Hello("speaks", "incarnation-1", 2, "1", (), ()))
        since = site.now - timedelta(seconds=300)
        assert site.store.hosts_within([since]) == ([1], 2)
        assert site.store.silent_and_needed(since) == 1
        free = {(one.silent, one.hosts) for one in site.store.free_totals(since)}
        assert free == {(False, 1), (True, 1)}
        silent = site.store.host_page(limit=9, not_since=since)
        heard = site.store.host_page(limit=9, heard_since=since)
        assert [one.name for one in silent] == ["gone"]
        assert [one.name for one in heard] == ["speaks"]

    def test_a_silent_host_is_needed_where_a_case_or_an_offer_depends_on_it(
        self, site: Site
    ) -> None:
        for host in ("works", "offers", "idle"):
            site.store.register_host(host, PrivateKey.generate().public, "incarnation-1")
        since = site.later(1)
        site.erasing("works/0000:01:00.0")
        site.erasing("works/0000:02:00.0")
        site.available("offers/0000:01:00.0")
        site.released("idle/0000:01:00.0")
        assert site.store.silent_and_needed(START) == 0
        assert site.store.silent_and_needed(since) == 2

    def test_what_is_in_maintenance_is_counted_apart(self, site: Site) -> None:
        for host in ("a", "b", "c"):
            site.store.register_host(host, PrivateKey.generate().public, "incarnation-1")
        since = site.later(1)
        for name in ("a/0000:01:00.0", "b/0000:01:00.0", "b/0000:02:00.0"):
            site.erasing(name)
        site.erasing("c/0000:01:00.0", "Model B")
        now = site.later(100)
        ask = {State.ERASING: now}
        until, by = now + timedelta(seconds=50), Initiator("ada")
        for subject in (Subject("a"), Subject("b", "0000:01:00.0")):
            site.store.put_maintenance(subject, until=until, reason="x", by=by)
        assert site.store.late({}, ask) == {("erasing", "Model A"): 3, ("erasing", "Model B"): 1}
        assert site.store.late({}, ask, maintained=True) == {("erasing", "Model A"): 2}
        assert site.store.silent_and_needed(since) == 2
        assert site.store.silent_in_maintenance(since) == 1
        assert site.store.maintenance_totals() == MaintenanceTotal(hosts=1, slots=1)
        site.store.put_maintenance(Subject("a"), until=None, reason="x", by=by)
        assert site.store.late({}, ask, maintained=True) == {("erasing", "Model A"): 1}
        site.later(50)
        assert site.store.late({}, ask, maintained=True) == {}
        assert site.store.silent_and_needed(since) == 3
        assert site.store.silent_in_maintenance(since) == 0
        assert site.store.maintenance_totals().hosts == 0

    def test_a_case_that_is_certified_leaves_what_it_took(self, site: Site) -> None:
        site.certified("a/0000:01:00.0", erase=60, verify=20)
        site.certified("a/0000:02:00.0", erase=100, verify=40)
        site.certified("b/0000:01:00.0", "Model B", erase=7, verify=0)
        site.certified("b/0000:02:00.0", verify=None)
        times = site.store.last_durations("Model A", 10)
        assert [(t.number, t.erase, t.verify) for t in times] == [(2, 100, 40), (1, 60, 20)]
        assert [t.number for t in site.store.last_durations("Model A", 1)] == [2]
        a, b = sorted(site.store.duration_totals([30, 60]), key=lambda total: total.model)
        assert (a.model, a.cases, a.erase, a.verify, a.last) == ("Model A", 2, 160, 60, 2)
        assert (a.erase_within, a.verify_within) == ((0, 1), (1, 2))
        assert (b.model, b.cases, b.last, b.erase_within) == ("Model B", 1, 3, (1, 1))
        (after,) = site.store.duration_totals([30, 60], after=1)[:1]
        assert after.last in (2, 3)
        assert site.store.duration_totals([30, 60], after=3) == []

    def test_erases_of_a_model_are_told_with_their_hosts(self, site: Site) -> None:
        site.certified("a/0000:01:00.0", erase=60, verify=20)
        site.certified("b/0000:01:00.0", erase=100, verify=40)
        site.certified("b/0000:02:00.0", "Model B", erase=7, verify=0)
        assert site.store.last_erases("Model A", 10) == [("b", 100), ("a", 60)]
        assert site.store.last_erases("Model A", 1) == [("b", 100)]
        assert site.store.last_erases("Model C", 10) == []

    def test_what_a_host_says_is_never_more_than_our_clock(self, site: Site) -> None:
        record = site.erasing("a/0000:01:00.0")
        site.later(50)
        site.certify(record, 1e9)
        (time,) = site.store.last_durations("Model A", 1)
        assert (time.erase, time.verify) == (0, 50)

    def test_a_clock_that_was_set_leaves_no_nonsense(self, site: Site) -> None:
        record = site.erasing("a/0000:01:00.0")
        site.later(-1000)
        site.certify(record, 5)
        record = site.erasing("a/0000:02:00.0")
        site.later(1e9)
        site.certify(record, 5)
        new, old = site.store.last_durations("Model A", 2)
        assert (old.erase, old.verify) == (0, 0)
        assert (new.erase + new.verify, new.verify) == (30 * 86400, 5)

    def test_only_the_last_order_of_this_case_counts(self, site: Site) -> None:
        record = site.erasing("a/0000:01:00.0")
        site.later(1000)
        record = site.store.transition(record, Event.POSTPONED, reason="in use")
        record = site.store.transition(
            record, Event.ORDERED, changes=SlotChanges(order_id="again", order_token="jws")
        )
        site.later(30)
        site.certify(record, 10)
        (time,) = site.store.last_durations("Model A", 1)
        assert (time.erase, time.verify) == (20, 10)

    def test_refusals_are_counted_as_often_as_they_were_made(self, site: Site) -> None:
        for host in ("a", "a", "b"):
            site.store.record_refusal(kind="report", host=host, reason="r", digest="d", excerpt="e")
        site.store.record_refusal(kind="hello", host="a", reason="r", digest="d", excerpt="e")
        assert site.store.refusal_totals() == {"report": 3, "hello": 1}

    def test_alarms_are_counted_by_code(self, site: Site) -> None:
        assert site.store.alarm_totals() == {}
        site.store.note_alarms({"late": 1, "on-offer": 1})
        site.store.note_alarms({"late": 4})
        assert site.store.alarm_totals() == {"late": 5, "on-offer": 1}

    def test_a_subject_has_one_line_for_each_code(self, site: Site) -> None:
        first, again = site.now, site.later(60)
        slot, other = "cmp1/0000:01:00.0", "cmp10/0000:01:00.0"
        odd = "host cmp1\0 \ud800" + "x" * 400
        site.store.note_alarms(
            {},
            [
                AlarmCall("held", slot, "held: a", first, first, 1),
                AlarmCall("held", other, "held: b", first, first, 2),
                AlarmCall("host-silent", "host cmp1", "silent", first, first, 1),
                AlarmCall("message-refused", odd, "\0" + "y" * 9000, first, first, 1),
            ],
        )
        site.store.note_alarms(
            {},
            [
                AlarmCall("held", slot, "held: c", again, again, 3),
                AlarmCall("host-silent", "host cmp1", "back", again, again, 0, again),
                AlarmCall("late", "nobody called", "over", again, again, 0, again),
            ],
        )
        lines = {(one.subject[:20], one.code): one for one in site.store.alarm_page(limit=9)}
        assert len(lines) == 4
        line = lines[slot, "held"]
        assert (line.text, line.count, line.first_at, line.last_at) == ("held: c", 4, first, again)
        assert line.over_at is None
        silent = lines["host cmp1", "host-silent"]
        assert (silent.text, silent.count, silent.over_at) == ("silent", 1, again)
        named = site.store.alarm_page(limit=9, host="cmp1")
        assert {one.subject for one in named} == {slot, "host cmp1"}
        assert [one.subject for one in site.store.alarm_page(limit=9, codes=["held"], host="cmp10")]
        assert [one.text for one in site.store.alarm_page(limit=9, since=again)] == ["held: c"]
        assert [one.id for one in site.store.alarm_page(limit=9, is_over=True)] == [silent.id]
        assert len(site.store.alarm_page(limit=9, is_over=False)) == 3
        everyone = site.store.alarm_page(limit=9)
        assert site.store.alarm_page(limit=2, after=everyone[1].mark) == everyone[2:]
        site.store.note_alarms({}, [AlarmCall("host-silent", "host cmp1", "x", again, again, 1)])
        assert site.store.alarm_page(limit=9, codes=["host-silent"])[0].over_at is None

    def test_the_oldest_alarms_make_way(self, site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(alarms, "MOST", 3)
        for number in range(5):
            at = site.later(1)
            site.store.note_alarms({}, [AlarmCall("held", f"s{number}", "x", at, at, 1)])
            if number == 2:
                at = site.later(1)
                site.store.note_alarms({}, [AlarmCall("held", "s0", "again", at, at, 1)])
        assert [one.subject for one in site.store.alarm_page(limit=9)] == ["s0", "s3", "s4"]

    def test_what_comes_by_the_thousand_pushes_nothing_else_out(
        self, site: Site, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(alarms, "MOST", 6)
        first = site.now
        site.store.note_alarms({}, [AlarmCall("on-offer", "cmp1", "x", first, first, 1)])
        for number in range(3):
            at = site.later(1)
            site.store.note_alarms({}, [AlarmCall("held", f"s{number}", "x", at, at, 1)])
        at = site.later(1)
        flood = [AlarmCall("gate-news", f"n{number}", "x", at, at, 1) for number in range(20)]
        site.store.note_alarms({}, flood)
        kept = [one.subject for one in site.store.alarm_page(limit=9)]
        assert kept[:1] == ["cmp1"]
        assert {"s1", "s2"} <= set(kept)
        assert len(kept) == 6

    def test_how_long_the_chain_is(self, site: Site) -> None:
        empty = site.store.chain_total()
        assert (empty.certificates, empty.position, empty.last_at) == (0, 0, None)
        site.certified("a/0000:01:00.0")
        site.certified("a/0000:02:00.0")
        full = site.store.chain_total()
        assert (full.certificates, full.position, full.last_at) == (2, 2, site.now)

    def test_a_state_of_another_release_is_counted_under_its_own_name(
        self, site: Site, url: str
    ) -> None:
        site.released("a/0000:01:00.0")
        engine = make_engine(url)
        with writing(engine) as db:
            db.execute(sa.update(models.slots).values(state="dreaming", hold_code="of-a-sort"))
        engine.dispose()
        (total,) = site.store.slot_totals()
        assert (total.state, total.hold_code) == ("dreaming", "of-a-sort")
        assert [stock.state for stock in site.store.stock()] == ["dreaming"]
