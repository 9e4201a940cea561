"""What every database must list: all filters, orders and markers of the record's pages."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest
import sqlalchemy as sa

from eraser.protocol.identity import ControllerIdentity, Slot
from eraser.protocol.transport.signing import PrivateKey
from quarantine.record import pages
from quarantine.record.alarms import AlarmCall, AlarmMark
from quarantine.record.database import engine as door
from quarantine.record.database import models
from quarantine.record.pages import CampaignQuery, DriveQuery, SlotOrder, SlotQuery
from quarantine.record.store import Store
from quarantine.record.words.facts import HistoryRow, Initiator, NewCertificate, SlotChanges
from quarantine.record.words.reasons import AlarmCode, HoldCode
from quarantine.record.words.states import Event, State
from quarantine.rules import holds

START = datetime(2026, 11, 24, 12, tzinfo=UTC)
PLACES = [Slot(f"cmp{host}", f"0000:0{bus}:00.0") for host in (1, 2) for bus in (1, 2, 3)]
NAMES = [str(place) for place in PLACES]
STRANGE = [
    "\0",
    "\ud800",
    "' OR 1=1 --",
    "cmp%",
    "%",
    "_",
    "CMP1",
    "cmp1 ",
    "\U0001f600",
    "x" * 999,
]
"""Words of strangers: none of them is in the record, and none is an error of a list."""


def drive(number: int) -> ControllerIdentity:
    name = f"MODEL {PLACES[number].host}"
    return ControllerIdentity(0x144D, 0xA80A, 0x144D, 0xA801, f"S{number}", name, "nqn.2014.test:1")


class PagesSuite:
    """Give it a fixture ``url``: a migrated record without rows."""

    @pytest.fixture
    def listed(self, url: str) -> Iterator[Store]:
        """Six certified slots, the last one first, the third one held; hosts, servers, alarms."""
        moments = itertools.count()
        store = Store.open(url, clock=lambda: START + timedelta(seconds=next(moments)))
        for number in reversed(range(6)):
            place = PLACES[number]
            record = store.enrol(
                place,
                provider=f"00000000-0000-0000-0000-00000000000{number}",
                resource_class="CUSTOM_A",
                in_use=False,
                profile="x",
                policy="y",
            )
            changes = SlotChanges(identity=drive(number), consumer=f"server-{place.host}")
            record = store.amend(record, changes)
            record = store.transition(
                record, Event.CUSTODY_TAKEN, changes=SlotChanges(custody="ours")
            )
            sent = SlotChanges(
                order_id=f"order-{number}", nonce=f"nonce-{number}", order_token="jws"
            )
            record = store.transition(record, Event.ORDERED, changes=sent)
            last = store.last_certificate()
            paper = NewCertificate(
                f"token {number}",
                f"{number:064}",
                last.digest if last else "",
                f"server-{place.host}",
                firmware=f"FW{number % 2}",
            )
            store.transition(record, Event.CERTIFIED, certificate=paper)
        held = store.slot(PLACES[2])
        assert held is not None
        store.hold(held, holds.because(HoldCode.BY_PERSON, "looked at"))
        for name in ("cmp2", "cmp1", "cmp3"):
            store.register_host(name, PrivateKey.generate().public, f"incarnation-{name}")
            store.record_refusal("report", name, "no", "0" * 64, "x")
            store.note_server(f"server-{name}", f"project-{name}", "ada")
        calls = [
            AlarmCall("on-offer", "cmp1/0000:01:00.0", "a", START, START, 1),
            AlarmCall("silent-host", "host cmp1", "b", START, START + timedelta(hours=1), 2, START),
            AlarmCall("silent-host", "host cmp10", "c", START, START + timedelta(hours=2), 1),
        ]
        store.note_alarms({}, calls)
        yield store
        store.close()

    @pytest.mark.parametrize("states", [(), ("held", "certified", "held", "no such one")])
    @pytest.mark.parametrize("order", SlotOrder)
    @pytest.mark.parametrize("descending", [False, True])
    def test_pages_of_slots_in_each_order(
        self, listed: Store, order: SlotOrder, descending: bool, states: tuple[str, ...]
    ) -> None:
        found: list[str] = []
        after: Any = None
        while page := listed.slot_page(
            SlotQuery(states), limit=4, order=order, descending=descending, after=after
        ):
            found += [str(line.slot) for line in page]
            last, of_place = page[-1], order is SlotOrder.SLOT
            after = (last.host, last.address) if of_place else (last.entered_at, last.id)
        in_time = [*NAMES[:2:-1], NAMES[1], NAMES[0], NAMES[2]]
        expected = NAMES if order is SlotOrder.SLOT else in_time
        assert found == (expected[::-1] if descending else expected)

    @pytest.mark.parametrize(
        ("query", "expected"),
        [
            (SlotQuery(host="cmp1"), NAMES[:3]),
            (SlotQuery(model="MODEL cmp2"), NAMES[3:]),
            (SlotQuery(serial="S4"), [NAMES[4]]),
            (SlotQuery(server="server-cmp2", serial="S5"), [NAMES[5]]),
            (SlotQuery(states=("held",)), [NAMES[2]]),
            (SlotQuery(states=("held", "certified"), host="cmp1"), NAMES[:3]),
            (SlotQuery(hold_code="by-person"), [NAMES[2]]),
        ],
        ids=str,
    )
    def test_slots_by_each_filter(
        self, listed: Store, query: SlotQuery, expected: list[str]
    ) -> None:
        assert [str(one.slot) for one in listed.slot_page(query, limit=9)] == expected
        assert [str(one.slot) for one in listed.each_slot(query)] == expected

    @pytest.mark.parametrize("states", [(), ("held", "certified")])
    def test_slots_of_a_server_and_of_its_migrations(
        self, listed: Store, states: tuple[str, ...]
    ) -> None:
        """What it left behind is its own, until somebody else gets it."""
        query = SlotQuery(states, server="mover")
        assert listed.slot_page(query, limit=9) == []
        listed.note_move("server-cmp2", "mover")
        listed.note_move("server-cmp1", "somebody")
        assert [str(one.slot) for one in listed.slot_page(query, limit=9)] == NAMES[3:]
        assert [str(one.slot) for one in listed.slot_page(query, limit=2)] == NAMES[3:5]
        of_migration = SlotQuery(states, server="server-cmp2")
        assert [str(one.slot) for one in listed.each_slot(of_migration)] == NAMES[3:]

    def test_strange_words_and_markers_are_no_error(self, listed: Store) -> None:
        for word in STRANGE:
            for name in ("host", "model", "serial", "server", "hold_code"):
                assert listed.slot_page(SlotQuery(**{name: word}), limit=9) == [], (name, word)
            listed.slot_page(SlotQuery(), limit=9, after=(word, word))
            listed.host_page(limit=9, after=word)
            listed.server_page(limit=9, after=word)
            listed.drive_page(DriveQuery(), limit=9, after=word)
            listed.campaign_list(limit=9, after=word)

    def test_certificates_by_each_filter(self, listed: Store) -> None:
        def numbers(**words: Any) -> list[int]:
            return [one.number for one in listed.certificate_page(**{"limit": 9, **words})]

        assert numbers() == [1, 2, 3, 4, 5, 6]
        assert numbers(after=2, limit=2) == [3, 4]
        assert numbers(slot=PLACES[5]) == [1]
        assert numbers(server="server-cmp1") == numbers(user="server-cmp1") == [4, 5, 6]
        assert numbers(drive=drive(4).digest) == [2]
        for word in STRANGE:
            for name in ("server", "user", "drive"):
                assert numbers(**{name: word}) == [], (name, word)

    def test_an_export_of_certificates_by_time(self, listed: Store) -> None:
        moments = [one.created_at for one in listed.certificate_page(limit=9)]
        for since, until, expected in (
            (None, None, [1, 2, 3, 4, 5, 6]),
            (moments[2], None, [3, 4, 5, 6]),
            (None, moments[2], [1, 2]),
            (moments[2], moments[4], [3, 4]),
        ):
            first, last, count = listed.certificate_span(since, until)
            found = list(listed.each_certificate((first, last), since, until))
            assert [one.number for one in found] == expected
            assert (first, last, count) == (expected[0], expected[-1], len(expected))
            assert found[0].token == f"token {6 - expected[0]}"
        assert listed.certificate_span(START + timedelta(days=1), None) == (0, 0, 0)

    def test_hosts_servers_and_refusals(self, listed: Store) -> None:
        assert [one.name for one in listed.host_page(limit=2)] == ["cmp1", "cmp2"]
        assert [one.name for one in listed.host_page(limit=2, after="cmp2")] == ["cmp3"]
        assert [one.uuid for one in listed.server_page(limit=2, after="server-cmp1")] == [
            "server-cmp2",
            "server-cmp3",
        ]
        (one,) = listed.server_page(limit=9, project="project-cmp2")
        assert one.uuid == "server-cmp2"
        refused = listed.refusal_page(limit=9)
        assert [one.host for one in refused] == ["cmp2", "cmp1", "cmp3"]
        assert listed.refusal_page(limit=9, after=refused[0].id, host="cmp1") == [refused[1]]
        for word in STRANGE:
            assert listed.server_page(limit=9, project=word) == []
            assert listed.refusal_page(limit=9, host=word) == []

    def test_drives_by_each_filter(self, listed: Store) -> None:
        def serials(**words: str) -> set[str | None]:
            return {one.serial for one in listed.drive_page(DriveQuery(**words), limit=9)}

        assert serials() == {f"S{number}" for number in range(6)}
        assert serials(model="MODEL cmp1") == {"S0", "S1", "S2"}
        assert serials(firmware="FW1", model="MODEL cmp1") == {"S1"}
        assert serials(serial="S3") == {"S3"}
        first, *rest = listed.drive_page(DriveQuery(), limit=9)
        assert listed.drive_page(DriveQuery(), limit=9, after=first.digest) == rest
        for word in STRANGE:
            for name in ("model", "serial", "firmware"):
                assert serials(**{name: word}) == set(), (name, word)

    def test_a_slot_that_is_another_affair_by_now_is_left_out_of_a_campaign(
        self, listed: Store, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(pages, "PLACES", 2)
        found = listed.campaign_places(CampaignQuery(model="MODEL cmp1"))
        about = [next(found)]
        for place in PLACES[:3]:
            record = listed.slot(place)
            assert record is not None
            if record.id != about[0].id:
                other = replace(drive(0), serial=f"N{record.id}", model="ANOTHER MODEL")
                listed.amend(record, SlotChanges(identity=other))
        about += found
        # Those that were read with the first one are of that moment.
        assert len(about) == 2

    def test_what_a_campaign_is_about_by_each_filter(
        self, listed: Store, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(pages, "PLACES", 2)

        def about(**words: Any) -> list[str]:
            found = listed.campaign_places(CampaignQuery(**words))
            names = sorted(f"{place.host}/{place.address}" for place in found)
            first = listed.campaign_page(CampaignQuery(**words), limit=2)
            assert [str(line.slot) for line in first] == names[:2]
            return names

        assert about() == NAMES
        assert about(host="cmp2", firmware="FW1") == [NAMES[3], NAMES[5]]
        assert about(model="MODEL cmp1", hold_code="by-person") == [NAMES[2]]
        third = listed.certificate_page(limit=9)[2].created_at
        assert about(certified_before=third) == NAMES[4:]
        for word in STRANGE:
            for name in ("model", "firmware", "host", "hold_code"):
                assert about(**{name: word}) == [], (name, word)

    def test_alarms_by_each_filter(self, listed: Store) -> None:
        def texts(**words: Any) -> list[str]:
            return [one.text for one in listed.alarm_page(**{"limit": 9, **words})]

        assert texts() == ["a", "b", "c"]
        assert texts(host="cmp1") == ["a", "b"]
        assert texts(codes=["silent-host"]) == ["b", "c"]
        assert texts(is_over=True) == ["b"]
        assert texts(is_over=False) == ["a", "c"]
        assert texts(since=START + timedelta(hours=1)) == ["b", "c"]
        assert texts(codes=[]) == []
        assert texts(codes=["silent-host", "on-offer", "silent-host"]) == ["a", "b", "c"]
        assert texts(codes=["silent-host", "on-offer"], newest=True, limit=2) == ["c", "b"]
        assert texts(codes=["silent-host"], host="cmp1", is_over=True) == ["b"]
        assert texts(slot=PLACES[0], is_over=True) == []
        assert texts(slot=PLACES[0]) == ["a"]
        assert texts(slot=PLACES[1]) == []
        assert texts(limit=1, after=listed.alarm_page(limit=1)[0].mark) == ["b"]
        for word in STRANGE:
            assert texts(host=word) == texts(codes=[word]) == [], word

    def test_alarms_of_a_host_that_an_earlier_release_wrote(self, listed: Store) -> None:
        """It wrote no host; a part of the service has none."""
        listed.note_alarms({}, [AlarmCall("queue-odd", "queue a/b", "d", START, START, 1)])
        with listed._engine.begin() as db:
            alarms = models.alarms
            by_text = db.execute(sa.select(alarms.c.text, alarms.c.host)).all()
            expected = {"a": "cmp1", "b": "cmp1", "c": "cmp10", "d": None}
            assert {row.text: row.host for row in by_text} == expected
            db.execute(sa.update(alarms).values(host=None))
        assert [one.text for one in listed.alarm_page(limit=9, host="cmp1")] == ["a", "b"]
        assert [one.text for one in listed.alarm_page(limit=9, host="cmp10")] == ["c"]

    def test_hosts_that_were_heard_and_those_that_were_not(self, listed: Store) -> None:
        """One that was never heard counts from when it was registered."""

        def names(**words: Any) -> list[str]:
            return [one.name for one in listed.host_page(**{"limit": 9, **words})]

        at = {one.name: one.registered_at for one in listed.host_page(limit=9)}
        assert names(not_since=at["cmp1"]) == ["cmp2"]
        assert names(heard_since=at["cmp1"]) == ["cmp1", "cmp3"]
        with listed._engine.begin() as db:
            late = START - timedelta(days=1)
            values = sa.case((models.hosts.c.name == "cmp3", late), else_=None)
            db.execute(sa.update(models.hosts).values(heard_at=values))
        assert names(not_since=START) == ["cmp3"]
        assert names(not_since=at["cmp3"], after="cmp1", limit=1) == ["cmp2"]

    def test_alarms_with_the_last_call_first(self, listed: Store) -> None:
        """Two that were called in one moment stay apart; who is called again moves no mark."""
        same = [
            AlarmCall("late", f"part {n}", f"{n}", START, START + timedelta(hours=2), 1)
            for n in range(3)
        ]
        listed.note_alarms({}, same)
        every = listed.alarm_page(limit=9, newest=True)
        assert [one.text for one in every][:3] == ["2", "1", "0"]
        assert [one.last_at for one in every] == sorted((o.last_at for o in every), reverse=True)
        zoned = every[0].last_at.astimezone(timezone(timedelta(hours=-9)))
        behind = listed.alarm_page(limit=9, newest=True, after=AlarmMark(every[0].id, zoned))
        assert behind == every[1:]
        found: list[str] = []
        mark = None
        while page := listed.alarm_page(limit=2, newest=True, after=mark):
            found += [one.text for one in page]
            mark = page[-1].mark
            later = START + timedelta(hours=3, seconds=len(found))
            listed.note_alarms({}, [AlarmCall("late", page[-1].subject, "again", later, later, 1)])
        assert found == [one.text for one in every]

    def test_what_was_wrong_with_a_slot_is_over_when_its_record_says_so(
        self, listed: Store
    ) -> None:
        """No process has to remember it, so it is over whoever sees that, and after a restart."""
        at, other = PLACES[0], PLACES[1]
        codes = (AlarmCode.OVERDUE, AlarmCode.UNGUARDED, AlarmCode.ON_OFFER)
        calls = [
            AlarmCall(code, str(place), "x", START, START, 1)
            for code in codes
            for place in (at, other)
        ]
        # The record first, as always: a call about a slot that says nothing of it is over.
        for place in (at, other):
            record = listed.slot(place)
            assert record is not None
            listed.amend(record, SlotChanges(alarm="no step for more than 6 h"))
        listed.note_alarms({}, calls)

        def over() -> set[tuple[str, str]]:
            page = listed.alarm_page(limit=99, is_over=True)
            return {(one.code, one.subject) for one in page if one.subject in map(str, PLACES)}

        record = listed.slot(at)
        assert record is not None
        record = listed.amend(record, SlotChanges(detail="it waits"))
        assert over() == set()
        record = listed.amend(record, SlotChanges(alarm="a domain runs with the drive"))
        assert over() == set(), "behind something worse it stands as before"
        listed.amend(record, SlotChanges(alarm=""))
        assert over() == {("overdue", str(at)), ("unguarded", str(at))}
        record = listed.slot(other)
        assert record is not None
        listed.hold(record, holds.because(HoldCode.BY_PERSON, "looked at"))
        assert ("overdue", str(other)) in over()

    def test_a_hold_is_over_when_the_slot_leaves_it(self, listed: Store) -> None:
        place = PLACES[2]
        listed.note_alarms({}, [AlarmCall("held", str(place), "x", START, START, 1)])
        record = listed.slot(place)
        assert record is not None
        assert record.state is State.HELD
        record = listed.amend(record, SlotChanges(detail="looked at"))
        (one,) = listed.alarm_page(limit=9, codes=["held"])
        assert one.over_at is None
        listed.transition(record, Event.RELEASED_BY_OPERATOR, reason="r")
        (one,) = listed.alarm_page(limit=9, codes=["held"])
        assert one.over_at is not None
        later = START + timedelta(days=999)
        listed.note_alarms({}, [AlarmCall("held", str(place), "", later, later, 0, later)])
        assert listed.alarm_page(limit=9, codes=["held"]) == [one], "it was over before"

    def test_history_by_pages(self, listed: Store) -> None:
        lines, more = listed.history_page(PLACES[0], limit=2)
        assert more is not None
        rest, end = listed.history_page(PLACES[0], limit=9, after=more)
        assert end is None
        assert [*lines, *rest] == listed.history(PLACES[0])
        assert listed.newest_history(PLACES[0], 2) == [*lines, *rest][-2:]

    def test_the_history_of_all_slots_the_last_first(self, listed: Store) -> None:
        every = [line for place in PLACES for line in listed.history(place)]
        every.sort(key=lambda line: -line.seq)

        def walked(limit: int, **words: Any) -> list[HistoryRow]:
            found, more = listed.fleet_history(limit=limit, **words)
            while more is not None:
                lines, more = listed.fleet_history(limit=limit, before=more, **words)
                found += lines
            return found

        for limit in (1, 4, len(every), 1000):
            assert walked(limit) == every
            host = PLACES[0].host
            assert walked(limit, host=host) == [one for one in every if one.slot.host == host]
            held = [one for one in every if one.event is Event.HELD]
            assert held
            assert walked(limit, event=Event.HELD) == held
            assert walked(limit, event=Event.HELD, host=held[0].slot.host) == held
        assert walked(9, host="cmp9") == walked(9, event=Event.RETIRED) == []
        for word in STRANGE:
            assert walked(9, host=word) == []

    def test_the_history_of_a_host_with_a_long_name(self, listed: Store) -> None:
        """A name of DNS has up to 253 characters: none of them is cut away."""
        host = ".".join(["h" * 63] * 3 + ["h" * 61])
        others = [host[:63], host[:252] + "x"]
        for number, name in enumerate([host, *others]):
            listed.enrol(
                Slot(name, "0000:01:00.0"),
                provider=f"p-long-{number}",
                resource_class="CUSTOM_NVME",
                in_use=False,
                profile="x",
                policy="purge",
            )
        for name in (host, *others):
            found, _more = listed.fleet_history(limit=9, host=name)
            assert {line.slot.host for line in found} == {name}

    def test_a_line_that_cannot_be_read_ends_no_history(self, listed: Store) -> None:
        every, _ = listed.fleet_history(limit=1000)
        with door.writing(listed._engine) as db:
            newer = sa.update(models.history).where(models.history.c.seq == every[1].seq)
            db.execute(newer.values(target="newer_release"))
        found, more = listed.fleet_history(limit=2)
        assert (found, more) == ([every[0]], every[1].seq)
        assert listed.fleet_history(limit=1000, before=more)[0] == every[2:]

    @pytest.mark.parametrize("keep", [0.0, 0.3333, 0.6667, 0.1234, 0.9999])
    def test_the_share_of_a_campaign_is_read_as_it_was_said(
        self, listed: Store, keep: float
    ) -> None:
        """MariaDB shows six digits of a FLOAT: 'operations' rounds to fewer."""
        words: dict[str, Any] = {"query": "{}", "reason": "r", "by": Initiator("ada")}
        made = listed.begin_campaign("c", **words, keep=keep, slots=[])
        assert made.keep == keep
        assert listed.campaign("c") == made
