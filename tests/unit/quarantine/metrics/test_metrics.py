"""What Prometheus reads: right numbers, few labels, and an answer whatever is away."""

from __future__ import annotations

import http.client
import logging
import socket
import threading
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any
from wsgiref.util import setup_testing_defaults

import pytest
import sqlalchemy as sa
from prometheus_client.parser import text_string_to_metric_families

from eraser.protocol.transport.signing import PrivateKey
from quarantine.conf import metrics as options
from quarantine.conf.capacity import SoldFlavor
from quarantine.doors import MACHINE
from quarantine.errors import BadInputError, ConflictError, UnavailableError
from quarantine.metrics import alarmcount, collector, serving
from quarantine.metrics import exposition as text
from quarantine.metrics.alarmcount import AlarmCounter
from quarantine.metrics.exposition import Exporter, exposition
from quarantine.metrics.limits import MetricsLimits
from quarantine.metrics.names import MODELS, OTHER, ModelNames
from quarantine.record.alarms import AlarmCall
from quarantine.record.database import models
from quarantine.record.database.engine import make_engine, writing
from quarantine.record.store import Store
from quarantine.record.words.facts import Initiator, Subject
from quarantine.record.words.reasons import AlarmCode, HoldCode
from quarantine.rules import alarmbook, holds
from quarantine.rules.alarmbook import SlotInState, alarm
from quarantine.service.watch.lateness import Lateness
from tests.lab.record import migrated_file
from tests.unit.quarantine.totals_suite import Site

LIMITS = MetricsLimits(
    silent_after=420, overdue_after=21600, flavors=(SoldFlavor("one", 1), SoldFlavor("four", 4))
)
Samples = dict[tuple[str, frozenset[tuple[str, str]]], float]


@pytest.fixture
def url(tmp_path: Path) -> str:
    return migrated_file(tmp_path / "record.db")


@pytest.fixture
def site(url: str) -> Iterator[Site]:
    store = Store.open(url, clock=lambda: site.now)
    site = Site(store)
    yield site
    store.close()


class Redis:
    """Lists of which the test says how long they are."""

    def __init__(self) -> None:
        self.lists: dict[str, int] = {}
        self.away = False

    def full(self, keys: Sequence[str]) -> list[str]:
        if self.away:
            raise UnavailableError("broker: away")
        return [key for key in keys if self.lists.get(key)]

    def lengths(self, keys: Sequence[str]) -> list[int]:
        return [self.lists.get(key, 0) for key in keys]


def parsed(raw: bytes) -> Samples:
    return {
        (sample.name.removeprefix("nvme_quarantine_"), frozenset(sample.labels.items())): float(
            sample.value
        )
        for family in text_string_to_metric_families(raw.decode())
        for sample in family.samples
    }


class Scraper:
    """An exporter whose time is the site's."""

    def __init__(self, site: Site, limits: MetricsLimits = LIMITS, **more: Any) -> None:
        self.site = site
        doors = replace(MACHINE, now=lambda: site.now, monotonic=lambda: site.now.timestamp())
        self.exporter = Exporter(site.store, limits, doors=doors, **more)

    def __call__(self) -> Samples:
        self.site.later(text.SAME_SECONDS)
        return parsed(self.exporter.exposition())


def of(samples: Samples, name: str, **labels: str) -> float | None:
    return samples.get((name, frozenset(labels.items())))


def give_class(url: str, address: str, name: str) -> None:
    engine = make_engine(url)
    with writing(engine) as db:
        of_it = models.slots.c.address == address
        db.execute(sa.update(models.slots).where(of_it).values(resource_class=name))
    engine.dispose()


def labels_of(samples: Samples, label: str) -> set[str]:
    return {value for _name, pairs in samples for each, value in pairs if each == label}


def test_slots_by_state_model_and_reason(site: Site) -> None:
    site.released("a/0000:01:00.0")
    site.later(100)
    site.released("a/0000:02:00.0")
    record = site.released("a/0000:03:00.0", "Model B")
    site.store.hold(record, holds.because(HoldCode.NO_SERIAL, "none"))
    found = Scraper(site)()
    assert of(found, "slots", state="released", model="Model A", reason="") == 2
    assert of(found, "slots", state="held", model="Model B", reason="no-serial") == 1
    oldest = of(found, "slots_oldest_seconds", state="released", model="Model A")
    assert oldest == 100 + text.SAME_SECONDS
    assert of(found, "part_up", part="slots") == 1


def test_capacity_is_not_counted_where_nobody_says_of_which_class(
    site: Site, url: str, caplog: pytest.LogCaptureFixture
) -> None:
    """Neither as if all drives were of one class while those of one are free, nor silently not."""
    site.store.register_host("a", PrivateKey.generate().public, "incarnation-1")
    site.available("a/0000:01:00.0")
    site.available("a/0000:02:00.0")
    site.released("a/0000:03:00.0")
    scrape = Scraper(site)
    assert of(scrape(), "capacity_sellable", flavor="one") == 2
    for other in ("0000:03:00.0", "0000:02:00.0"):
        give_class(url, other, "CUSTOM_OTHER")
        found = scrape()
        assert of(found, "part_up", part="capacity") == 0
        assert of(found, "capacity_sellable", flavor="one") is None
    assert "name each flavor's in [capacity]flavors" in caplog.text


def test_capacity_of_flavors_that_name_their_class(site: Site, url: str) -> None:
    site.store.register_host("a", PrivateKey.generate().public, "incarnation-1")
    site.available("a/0000:01:00.0")
    site.available("a/0000:02:00.0")
    give_class(url, "0000:02:00.0", "CUSTOM_OTHER")
    flavors = (SoldFlavor("one", 1, "CUSTOM_OTHER"), SoldFlavor("two", 2, "CUSTOM_NONE"))
    found = Scraper(site, limits=replace(LIMITS, flavors=flavors))()
    assert of(found, "part_up", part="capacity") == 1
    assert of(found, "capacity_sellable", flavor="one") == 1
    assert of(found, "capacity_sellable", flavor="two") == 0


def test_capacity_in_whole_flavors(site: Site) -> None:
    for host, count in (("a", 5), ("b", 3), ("silent", 4)):
        site.store.register_host(host, PrivateKey.generate().public, "incarnation-1")
        for number in range(count):
            site.available(f"{host}/0000:0{number + 1}:00.0")
    # Whoever was not heard since is silent: both are registered anew in time.
    site.later(1000)
    for host in ("a", "b"):
        site.store.register_host(host, PrivateKey.generate().public, "incarnation-2", replace=True)
    found = Scraper(site)()
    assert of(found, "capacity_sellable", flavor="one") == 8
    assert of(found, "capacity_sellable", flavor="four") == 1
    assert of(found, "capacity_left_over_drives", flavor="four") == 4
    assert of(found, "capacity_doubtful_drives", flavor="four") == 4
    assert of(found, "hosts") == 3
    assert of(found, "hosts_silent") == 1
    assert of(found, "hosts_silent_needed") == 1
    assert of(found, "hosts_heard", within="60") == 2
    assert of(found, "hosts_heard", within="+Inf") == 3


def test_histograms_grow_with_what_is_new_and_a_record_that_was_set_back_is_read_anew(
    site: Site, url: str
) -> None:
    scrape = Scraper(site)
    assert of(scrape(), "erase_seconds_count", model="Model A") is None
    for number in range(3):
        site.certified(f"a/0000:0{number + 1}:00.0", erase=50, verify=10)
    first = scrape()
    assert of(first, "erase_seconds_count", model="Model A") == 3
    assert of(first, "erase_seconds_sum", model="Model A") == 150
    assert of(first, "erase_seconds_bucket", model="Model A", le="30.0") == 0
    assert of(first, "erase_seconds_bucket", model="Model A", le="60.0") == 3
    assert of(first, "verify_seconds_bucket", model="Model A", le="15.0") == 3
    assert of(first, "certificates_total") == 3
    assert of(first, "ledger_position") == 3
    asked: list[int] = []
    read = site.store.duration_totals
    site.store.duration_totals = lambda edges, after=0: (  # type: ignore[method-assign]
        asked.append(after) or read(edges, after)
    )
    scrape()
    assert asked == []
    site.certified("a/0000:05:00.0", erase=1000, verify=10)
    second = scrape()
    assert asked == [3]
    assert of(second, "erase_seconds_count", model="Model A") == 4
    assert of(second, "erase_seconds_bucket", model="Model A", le="60.0") == 3
    assert of(second, "erase_seconds_sum", model="Model A") == 1150
    engine = make_engine(url)
    with writing(engine) as db:
        db.execute(sa.delete(models.certificates).where(models.certificates.c.number > 2))
        db.execute(sa.delete(models.durations).where(models.durations.c.number > 2))
    engine.dispose()
    assert of(scrape(), "erase_seconds_count", model="Model A") == 2


def test_late_by_what_the_model_takes(site: Site) -> None:
    scrape = Scraper(site)
    for number in range(6):
        site.certified(f"a/0000:0{number + 1}:00.0", erase=600, verify=60)
    site.erasing("b/0000:01:00.0")
    site.erasing("b/0000:02:00.0", "Model B")
    found = scrape()
    assert of(found, "late_after_seconds", state="erasing", model="Model A") == 1200
    assert of(found, "slots_late", state="erasing", model="Model A") == 0
    site.later(1300)
    found = scrape()
    assert of(found, "slots_late", state="erasing", model="Model A") == 1
    assert of(found, "slots_late", state="erasing", model="Model B") == 0
    site.later(21600)
    assert of(scrape(), "slots_late", state="erasing", model="Model B") == 1


def test_a_damaged_maintenance_brings_no_late_slots_of_others_back(site: Site, url: str) -> None:
    for host in ("a", "b"):
        site.store.register_host(host, PrivateKey.generate().public, "incarnation-1")
        site.erasing(f"{host}/0000:01:00.0")
    until = site.later(21700) + timedelta(hours=1)
    for host in ("a", "b"):
        site.store.put_maintenance(Subject(host), until=until, reason="x", by=Initiator("ada"))
    engine = make_engine(url)
    with writing(engine) as db:
        unread = sa.literal_column("CAST(x'ff' AS TEXT)")
        first = models.maintenances.c.host == "a"
        db.execute(sa.update(models.maintenances).where(first).values(reason=unread))
    engine.dispose()
    found = Scraper(site)()
    assert of(found, "part_up", part="late") == of(found, "part_up", part="hosts") == 1
    # Of the damaged one the database itself says that it is in effect.
    assert of(found, "slots_late", state="erasing", model="Model A") == 0
    assert of(found, "slots_late_in_maintenance") == 2


def test_a_scrape_reads_no_maintenance(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    """Thousands are in effect while a hall is rebuilt; they are counted in the database."""

    def read(*_: Any, **__: Any) -> None:
        raise AssertionError("read row by row")

    monkeypatch.setattr(Store, "maintenance_page", read)
    monkeypatch.setattr(Store, "maintenances", read)
    found = Scraper(site)()
    assert of(found, "part_up", part="late") == of(found, "part_up", part="hosts") == 1


def test_what_is_in_maintenance_is_late_and_silent_apart(site: Site) -> None:
    for host in ("a", "b"):
        site.store.register_host(host, PrivateKey.generate().public, "incarnation-1")
        site.erasing(f"{host}/0000:01:00.0")
    now = site.later(21700)
    until, by = now + timedelta(hours=1), Initiator("ada")
    for subject in (Subject("a"), Subject("a", "0000:01:00.0")):
        site.store.put_maintenance(subject, until=until, reason="fans", by=by)
    found = Scraper(site)()
    assert of(found, "maintenances", of="host") == 1
    assert of(found, "maintenances", of="slot") == 1
    assert of(found, "slots_late", state="erasing", model="Model A") == 1
    assert of(found, "slots_late_in_maintenance") == 1
    assert of(found, "hosts_silent") == of(found, "hosts_silent_needed") == 1
    assert of(found, "hosts_silent_in_maintenance") == 1
    site.later(3600)
    found = Scraper(site)()
    assert of(found, "maintenances", of="host") == 0
    assert of(found, "slots_late", state="erasing", model="Model A") == 2
    assert of(found, "slots_late_in_maintenance") == 0
    assert of(found, "hosts_silent") == of(found, "hosts_silent_needed") == 2


def test_hosts_on_which_nothing_waits_are_silent_for_long(site: Site) -> None:
    """A dead host whose drives are all in use, or held: no other number that rings has it."""
    for host in ("dead", "needed", "kept", "young"):
        site.store.register_host(host, PrivateKey.generate().public, "incarnation-1")
    site.available("needed/0000:01:00.0")
    site.store.hold(site.released("dead/0000:01:00.0"), holds.because(HoldCode.OTHER, "odd"))
    now = site.later(21500)
    site.store.register_host("young", PrivateKey.generate().public, "incarnation-2", replace=True)
    until, by = now + timedelta(hours=9), Initiator("ada")
    site.store.put_maintenance(Subject("kept"), until=until, reason="fans", by=by)
    assert of(Scraper(site)(), "hosts_silent_long") == 0
    site.later(1000)
    found = Scraper(site)()
    assert of(found, "hosts_silent") == 3
    assert of(found, "hosts_silent_needed") == 1
    assert of(found, "hosts_silent_long") == 1


def test_no_count_of_late_slots_is_below_zero(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    """A slot that came late between the two questions is among the second's alone."""
    site.erasing("a/0000:01:00.0")
    until, by = site.later(21700) + timedelta(hours=1), Initiator("ada")
    site.store.put_maintenance(Subject("a"), until=until, reason="fans", by=by)
    late = Store.late

    def once(store: Store, *words: Any, maintained: bool = False) -> Any:
        return late(store, *words, maintained=True) if maintained else {}

    monkeypatch.setattr(Store, "late", once)
    found = Scraper(site)()
    assert of(found, "slots_late", state="erasing", model="Model A") == 0
    assert of(found, "slots_late_in_maintenance") == 1


def test_queues_and_a_broker_that_is_away_is_a_number_and_no_error(site: Site) -> None:
    redis = Redis()
    scrape = Scraper(site, lists=redis)
    for host in ("a", "b"):
        site.store.register_host(host, PrivateKey.generate().public, "incarnation-1")
    site.erasing("a/0000:01:00.0")
    redis.lists = {"quarantine:report:a": 3, "quarantine:report:b": 2, "eraser.a": 1, "eraser.b": 9}
    found = scrape()
    assert of(found, "queue_entries", kind="report") == 5
    assert of(found, "queue_hosts", kind="report") == 2
    assert of(found, "queue_waiting_seconds", kind="report") == 0
    assert of(found, "queue_entries", kind="order") == 1
    assert of(found, "queue_entries", kind="hello") == 0
    site.later(100)
    redis.lists.pop("quarantine:report:a")
    found = scrape()
    assert of(found, "queue_waiting_seconds", kind="report") == 100 + text.SAME_SECONDS
    redis.away = True
    found = scrape()
    assert of(found, "part_up", part="queues") == 0
    assert of(found, "queue_entries", kind="report") is None
    assert of(found, "part_up", part="slots") == 1


def test_a_record_that_is_away_is_a_number_and_said_once(
    site: Site, url: str, caplog: pytest.LogCaptureFixture
) -> None:
    scrape = Scraper(site)
    site.released("a/0000:01:00.0")
    scrape()
    engine = make_engine(url)
    with writing(engine) as db:
        db.execute(sa.text("ALTER TABLE slots RENAME TO gone"))
    with caplog.at_level(logging.WARNING):
        for _ in range(3):
            found = scrape()
    assert of(found, "part_up", part="slots") == 0
    assert of(found, "part_up", part="refusals") == 1
    assert sum("no numbers of slots" in line for line in caplog.messages) == 1
    with writing(engine) as db:
        db.execute(sa.text("ALTER TABLE gone RENAME TO slots"))
    engine.dispose()
    with caplog.at_level(logging.WARNING):
        assert of(scrape(), "part_up", part="slots") == 1
    assert "over: metrics have numbers of slots again" in caplog.messages


def test_a_damaged_count_of_alarms_costs_its_own_sample(
    site: Site, url: str, caplog: pytest.LogCaptureFixture
) -> None:
    """It ended /metrics as a whole, and with it every alert."""
    site.store.note_alarms({"late": 1, "held": 2}, [])
    engine = make_engine(url)
    with writing(engine) as db:
        db.execute(sa.text("UPDATE alarm_counts SET count = 'garbage' WHERE code = 'late'"))
    engine.dispose()
    scrape = Scraper(site)
    with caplog.at_level(logging.WARNING):
        found = [scrape() for _ in range(3)][-1]
    assert of(found, "alarms_total", code="held", severity="warning") == 2
    assert of(found, "alarms_total", code="late", severity="critical") is None
    assert of(found, "part_up", part="slots") == 1
    assert sum("a damaged row" in line for line in caplog.messages) == 1


def test_models_are_few_whatever_drives_call_themselves(site: Site, url: str) -> None:
    evil = 'A"} 1\nnvme_quarantine_slots 7\x07\0\\'
    for number in range(3):
        site.released(f"a/0000:0{number + 1}:00.0", evil)
    engine = make_engine(url)
    with writing(engine) as db:
        row = dict(db.execute(sa.select(models.slots).limit(1)).mappings().one())
        row.pop("id")
        for number in range(MODELS + 30):
            row |= {"host": f"h{number}", "model": f"model {number}"}
            db.execute(sa.insert(models.slots).values(row))
    engine.dispose()
    found = Scraper(site)()
    named = labels_of(found, "model")
    assert len(named) == MODELS + 1
    assert (named & {OTHER}, len([name for name in named if name.startswith("A")])) == ({OTHER}, 1)
    assert all(name.isprintable() for name in named)
    slots = [value for (name, _labels), value in found.items() if name == "slots"]
    assert sum(slots) == MODELS + 33
    assert of(found, "slots", state="released", model=OTHER, reason="") == 31


def test_a_model_keeps_its_label() -> None:
    names = ModelNames(2)
    seen = [names.label(model) for model in ("a", "b", "c", None, "a")]
    assert seen == ["a", "b", OTHER, "", "a"]


def test_models_that_are_gone_give_their_labels_to_those_that_are_here() -> None:
    names = ModelNames(3)
    assert names.seen(["a", "b"]) == ("a", "b")
    assert names.label("old") == "old", "of a certificate; no slot has it"
    names.seen(["b", "a"])
    assert names.seen(["b", "new", "a"]) == ("a", "b", "new")
    assert names.label("old") == OTHER
    names.seen(["new", "b"])
    assert names.seen(["new", "newest"]) == ("b", "new", "newest"), "least recently seen goes"
    assert names.seen(["1", "2", "3", "newest"]) == ("1", "2", "newest")
    assert names.seen(["3", "2", "1", "newest"]) == ("1", "2", "newest"), "who is here keeps it"
    assert names.label("3") == OTHER


def test_a_model_that_lost_its_label_is_in_no_series(
    site: Site, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    scrape = Scraper(site)
    monkeypatch.setattr(scrape.exporter.collector._models, "_most", 1)
    site.certified("a/0000:01:00.0", erase=50, verify=10)
    assert of(scrape(), "erase_seconds_count", model="Model A") == 1
    engine = make_engine(url)
    with writing(engine) as db:
        db.execute(sa.update(models.slots).values(model="Model B"))
    engine.dispose()
    found = scrape()
    assert labels_of(found, "model") == {"Model B"}


def test_a_record_that_hangs_costs_a_scrape_one_wait(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And says so in time; what needs no record is said all the same."""
    goes_on, asked = threading.Event(), []
    lateness = Lateness(lambda: site.now.timestamp())
    lateness.expect("sweep", lambda: 90.0)
    scrape = Scraper(site, lateness=lateness)

    def hangs(_store: Store) -> None:
        asked.append(1)
        goes_on.wait(60)
        raise UnavailableError("database: does not answer")

    with monkeypatch.context() as patched:
        patched.setattr(collector, "ANSWER_SECONDS", 0.2)
        patched.setattr(Store, "answer", hangs)
        for _ in range(2):
            found = scrape()
            assert of(found, "part_up", part="service") == 1
            assert of(found, "duty_bound_seconds", duty="sweep") == 90
            parts = ("slots", "certificates", "late", "capacity", "hosts", "refusals", "alarms")
            assert [of(found, "part_up", part=part) for part in parts] == [0] * len(parts)
        assert asked == [1], "one question, and nobody asks beside it"
        goes_on.set()
    monkeypatch.setattr(collector, "ANSWER_SECONDS", 60)
    assert of(scrape(), "part_up", part="slots") == 1


def test_a_record_that_is_away_is_asked_once(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    def away(*_words: object) -> None:
        raise UnavailableError("database: does not answer")

    def never(*_words: object) -> None:
        raise AssertionError("expected nobody to ask")

    monkeypatch.setattr(Store, "answer", away)
    for name in ("slot_totals", "chain_total", "free_totals", "refusal_totals", "alarm_totals"):
        monkeypatch.setattr(Store, name, never)
    found = Scraper(site)()
    assert of(found, "part_up", part="slots") == 0
    assert of(found, "part_up", part="alarms") == 0


def test_who_waited_for_a_slow_scrape_gets_its_answer(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else each of them would begin another one when its turn comes."""
    asked: list[int] = []
    real = Store.slot_totals

    def slow(store: Store) -> Any:
        asked.append(1)
        site.later(10 * text.SAME_SECONDS)
        time.sleep(0.3)
        return real(store)

    monkeypatch.setattr(Store, "slot_totals", slow)
    exporter = Scraper(site).exporter
    threads = [threading.Thread(target=exporter.exposition) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert asked == [1]


def test_states_codes_and_kinds_of_another_release_are_other(site: Site, url: str) -> None:
    site.released("a/0000:01:00.0")
    site.store.hold(site.released("a/0000:02:00.0"), holds.because(HoldCode.HEALTH, "w"))
    site.store.record_refusal("dream", "a", "r", "d", "e")
    site.store.record_refusal("report", "a", "r", "d", "e")
    engine = make_engine(url)
    with writing(engine) as db:
        slots = models.slots
        db.execute(sa.update(slots).where(slots.c.state == "held").values(hold_code="of-tomorrow"))
        db.execute(sa.update(slots).where(slots.c.state == "released").values(state="dreaming"))
    engine.dispose()
    found = Scraper(site)()
    assert of(found, "slots", state=OTHER, model="Model A", reason="") == 1
    assert of(found, "slots", state="held", model="Model A", reason=OTHER) == 1
    assert of(found, "refusals_total", kind=OTHER) == 1
    assert of(found, "refusals_total", kind="report") == 1
    assert of(found, "refusals_total", kind="hello") == 0


def test_no_slot_host_serial_or_server_is_in_what_is_exported(site: Site) -> None:
    record = site.available("hid/0000:5a:00.0")
    site.store.register_host("hid", PrivateKey.generate().public, "incarnation-1")
    site.store.record_refusal("report", "hid", "r", "d", "e")
    assert record.identity is not None
    raw = exposition(site.store, LIMITS).decode()
    serial, provider = record.identity.serial, record.provider
    for word in ("hid", "5a:00", serial, provider, record.certificate):
        assert str(word) not in raw
    assert 'model="Model A"' in raw


def test_duties_of_the_process(site: Site) -> None:
    lateness = Lateness(lambda: site.now.timestamp())
    lateness.expect("sweep", lambda: 90.0)
    scrape = Scraper(site, lateness=lateness)
    site.later(30)
    found = scrape()
    assert of(found, "duty_age_seconds", duty="sweep") == 30 + text.SAME_SECONDS
    assert of(found, "duty_bound_seconds", duty="sweep") == 90


def test_alarms_are_counted_by_whoever_calls_people(site: Site, url: str) -> None:
    scrape = Scraper(site)
    found = scrape()
    assert of(found, "alarms_total", code="on-offer", severity="critical") == 0
    for _process in range(2):
        counter = AlarmCounter(partial(Store.open, url))
        counter.start()
        alarm("cmp1", AlarmCode.ON_OFFER, "a % is no format")
        counter.emit(logging.makeLogRecord({"msg": "no alarm %s", "args": ("x",)}))
        counter.end()
        alarm("cmp1", AlarmCode.ON_OFFER, "nobody counts any more")
    found = scrape()
    assert of(found, "alarms_total", code="on-offer", severity="critical") == 2
    assert of(found, "alarms_total", code="late", severity="critical") == 0


def test_an_alarm_is_counted_when_the_record_is_back(
    site: Site, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(alarmcount, "RETRY_SECONDS", 0.01)
    note, tries = site.store.note_alarms, []

    def away(more: Mapping[str, int], calls: Iterable[AlarmCall] = ()) -> None:
        tries.append(dict(more))
        if len(tries) < 3:
            raise UnavailableError("database: away")
        note(more, calls)

    site.store.note_alarms = away  # type: ignore[method-assign]
    counter = AlarmCounter(lambda: site.store)
    counter.start()
    try:
        standing = alarmbook.StandingAlarms()
        alarm("cmp1", AlarmCode.LATE, "a")
        alarm("cmp1", AlarmCode.LATE, "b")
        standing.tell("host cmp1", AlarmCode.HOST_SILENT, "silent")
        standing.end("host cmp1", AlarmCode.HOST_SILENT, "heard again")
        alarm(SlotInState("cmp1/0000:01:00.0", "in_use"), AlarmCode.ON_OFFER, "reserved")
        end = time.monotonic() + 60
        while site.store.alarm_totals() != {"late": 2, "host-silent": 1, "on-offer": 1}:
            assert time.monotonic() < end, tries
            time.sleep(0.01)
    finally:
        counter.end()
    assert caplog.text.count("not counted, for now") == 1
    assert caplog.text.count("(in_use)") == 1
    found = {one.subject: one for one in site.store.alarm_page(limit=9)}
    assert (found["cmp1"].text, found["cmp1"].count) == ("b", 2)
    assert found["cmp1"].over_at is None
    silent = found["host cmp1"]
    assert silent.text == "silent"
    assert silent.over_at is not None
    assert silent.over_at >= silent.first_at
    assert found["cmp1/0000:01:00.0"].code == "on-offer"


def test_an_error_of_ours_ends_no_counting(
    site: Site, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """A driver raises what it likes while it connects; the thread has to live on."""
    monkeypatch.setattr(alarmcount, "RETRY_SECONDS", 0.01)
    note, tries = site.store.note_alarms, []

    def breaks(more: Mapping[str, int], calls: Iterable[AlarmCall] = ()) -> None:
        tries.append(1)
        if len(tries) == 1:
            raise OSError("transport endpoint is not connected")
        note(more, calls)

    site.store.note_alarms = breaks  # type: ignore[method-assign]
    counter = AlarmCounter(lambda: site.store)
    counter.start()
    try:
        alarm("cmp1", AlarmCode.LATE, "a")
        end = time.monotonic() + 10
        while site.store.alarm_totals() != {"late": 1} and time.monotonic() < end:
            time.sleep(0.01)
        assert site.store.alarm_totals() == {"late": 1}
    finally:
        counter.end()
    assert "not connected" in caplog.text


def test_a_text_that_the_database_refuses_keeps_no_other_alarm_from_its_count(
    site: Site, caplog: pytest.LogCaptureFixture
) -> None:
    """A host's own words in a table of MariaDB that has another character set."""
    note = site.store.note_alarms

    def latin(more: Mapping[str, int], calls: Iterable[AlarmCall] = ()) -> None:
        calls = list(calls)
        if not all(call.text.isascii() for call in calls):
            raise BadInputError("database: (1366, \"Incorrect string value: '\\xF0\\x9F'\")")
        note(more, calls)

    site.store.note_alarms = latin  # type: ignore[method-assign]
    counter = AlarmCounter(lambda: site.store)
    for about, code, words in (
        ("host cmp1", AlarmCode.GATE_NEWS, "let in: \N{FIRE}"),
        ("host cmp2", AlarmCode.HOST_SILENT, "silent"),
    ):
        said = {"msg": alarmbook.CALLED, "args": (code, about, words), "created": time.time()}
        counter.emit(logging.makeLogRecord(said))
    assert counter.write()
    assert counter.write(), "nothing is left to write"
    assert site.store.alarm_totals() == {"gate-news": 1, "host-silent": 1}
    lines = {line.subject: (line.text, line.count) for line in site.store.alarm_page(limit=10)}
    assert lines == {"host cmp1": ("let in: \\U0001f525", 1), "host cmp2": ("silent", 1)}
    assert "1366" in caplog.text


def test_what_is_written_one_by_one_is_not_written_twice(site: Site) -> None:
    note, away = site.store.note_alarms, [True]

    def refuses(more: Mapping[str, int], calls: Iterable[AlarmCall] = ()) -> None:
        calls = list(calls)
        if len(calls) > 1:
            raise BadInputError("database: a text")
        if away and any(call.subject == "host cmp2" for call in calls):
            away.clear()
            raise UnavailableError("database: away")
        note(more, calls)

    site.store.note_alarms = refuses  # type: ignore[method-assign]
    counter = AlarmCounter(lambda: site.store)
    for about in ("host cmp1", "host cmp2"):
        words = AlarmCode.HOST_SILENT, about, "silent"
        said = {"msg": alarmbook.CALLED, "args": words, "created": time.time()}
        counter.emit(logging.makeLogRecord(said))
    assert not counter.write()
    assert counter.write()
    assert site.store.alarm_totals() == {"host-silent": 2}
    assert [line.count for line in site.store.alarm_page(limit=10)] == [1, 1]


def test_a_process_that_ends_tries_again_where_another_was_quicker(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A deadlock of two that write alarms: the one that lost has no later time for it."""
    note, tries = site.store.note_alarms, []

    def late(more: Mapping[str, int], calls: Iterable[AlarmCall] = ()) -> None:
        tries.append(1)
        if len(tries) < 3:
            raise ConflictError("database: deadlock")
        note(more, calls)

    site.store.note_alarms = late  # type: ignore[method-assign]
    counter = AlarmCounter(lambda: site.store)
    counter.emit(
        logging.makeLogRecord(
            {"msg": alarmbook.CALLED, "args": (AlarmCode.LATE, "cmp1", "a"), "created": time.time()}
        )
    )
    assert counter.write()
    assert site.store.alarm_totals() == {"late": 1}


def test_who_asks_again_at_once_makes_no_work(site: Site) -> None:
    scrape = Scraper(site)
    before = scrape.exporter.exposition()
    site.released("a/0000:01:00.0")
    assert scrape.exporter.exposition() == before
    site.later(text.SAME_SECONDS)
    assert scrape.exporter.exposition() != before


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("GET", "/metrics", "200 OK"),
        ("HEAD", "/metrics", "200 OK"),
        ("GET", "/", "404 Not Found"),
        ("GET", "/metrics/../etc", "404 Not Found"),
        ("POST", "/metrics", "405 Method Not Allowed"),
    ],
)
def test_as_an_application(site: Site, method: str, path: str, status: str) -> None:
    environ: dict[str, Any] = {"REQUEST_METHOD": method, "PATH_INFO": path}
    setup_testing_defaults(environ)
    said: list[Any] = []
    app = Scraper(site).exporter
    body = b"".join(app(environ, lambda *answer: said.append(answer)))
    ((found, headers),) = said
    assert found == status
    assert bool(body) == (method != "HEAD")
    assert dict(headers).get("Allow") == ("GET, HEAD" if status.startswith("405") else None)
    if found == "200 OK":
        assert dict(headers)["Content-Type"] == text.CONTENT_TYPE


@contextmanager
def served(site: Site, where: tuple[str, int]) -> Iterator[threading.Event]:
    stop = threading.Event()
    arguments = (where, lambda: Scraper(site).exporter, stop)
    thread = threading.Thread(target=serving.run, args=arguments)
    thread.start()
    try:
        yield stop
    finally:
        stop.set()
        thread.join(20)
        assert not thread.is_alive()


def get(where: tuple[str, int]) -> tuple[int, bytes]:
    end = time.monotonic() + 60
    while True:
        connection = http.client.HTTPConnection(*where, timeout=60)
        try:
            connection.request("GET", "/metrics")
            answer = connection.getresponse()
            return answer.status, answer.read()
        except (ConnectionError, http.client.HTTPException):  # not yet, or no place
            assert time.monotonic() < end
            time.sleep(0.05)
        finally:
            connection.close()


@pytest.mark.parametrize("host", ["127.0.0.1", "::1"])
def test_served_at_an_address_while_somebody_says_nothing(site: Site, host: str) -> None:
    site.released("a/0000:01:00.0")
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.socket(family) as probe:
        probe.bind((host, 0))
        where = (host, int(probe.getsockname()[1]))
    with served(site, where):
        get(where)
        with socket.create_connection(where) as mute:
            status, body = get(where)
            mute.send(b"GET /met")
            assert get(where)[0] == 200
    assert (status, of(parsed(body), "slots", state="released", model="Model A", reason="")) == (
        200,
        1,
    )


def test_clients_that_say_nothing_take_no_more_than_their_places(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A byte now and then kept a thread and a descriptor of the process of the safety pass."""
    monkeypatch.setattr(serving, "REQUEST_SECONDS", 2.0)
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        where = ("127.0.0.1", int(probe.getsockname()[1]))
    with served(site, where), ExitStack() as stack:
        get(where)
        before = threading.active_count()
        for _ in range(4 * serving.CLIENTS):
            mute = stack.enter_context(socket.create_connection(where))
            mute.send(b"G")
        assert threading.active_count() - before <= 2 * serving.CLIENTS  # each with its deadline
        assert get(where)[0] == 200, "their time is over"


def test_an_address_that_is_taken_is_tried_again(
    site: Site, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(serving, "RETRY_SECONDS", 0.05)
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        where = ("127.0.0.1", int(other.getsockname()[1]))
        with served(site, where):
            while "expected to listen" not in caplog.text:
                time.sleep(0.01)
            other.close()
            assert get(where)[0] == 200
    assert caplog.text.count("expected to listen") == 1


def test_without_the_library_it_is_said_and_nothing_else_stops(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def missing() -> None:
        raise BadInputError("metrics: expected the library")

    monkeypatch.setattr(text, "require_library", missing)
    serving.run(("127.0.0.1", 1), lambda: Exporter(None, LIMITS), threading.Event())  # type: ignore[arg-type]
    assert "none are served: metrics: expected the library" in caplog.text


def test_addresses() -> None:
    assert options.address("") is None
    assert options.address("127.0.0.1:9736") == ("127.0.0.1", 9736)
    assert options.address("[::1]:9736") == ("::1", 9736)
    for wrong in ("9736", ":9736", "::1:9736", "h:0", "h:65536", "h:x", "[h]:1:2", "[]:1", "[h:1"):
        with pytest.raises(ValueError, match=r"\[metrics\]listen"):
            options.address(wrong)
