"""Pages of the record: what they hold, and that none of them is found by reading everything."""

from __future__ import annotations

import itertools
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa
from alembic import command

from eraser.protocol import codec
from eraser.protocol.identity import ControllerIdentity, Slot
from quarantine.record import pages
from quarantine.record.database import engine as door
from quarantine.record.database import migrate, models
from quarantine.record.pages import CampaignQuery, SlotOrder, SlotQuery
from quarantine.record.store import Store
from quarantine.record.words.facts import Initiator, SlotChanges
from quarantine.record.words.reasons import HoldCode
from quarantine.record.words.states import Event, State
from quarantine.rules import holds
from tests.lab.record import migrated_file

DRIVE = ControllerIdentity(0x144D, 0xA80A, 0x144D, 0xA801, "S1", "MODEL A", "nqn.2014.test:1")
NOW = datetime(2026, 11, 24, 12, 0, tzinfo=UTC)
SLOTS = [Slot(f"cmp{host}", f"0000:0{bus}:00.0") for host in (1, 2) for bus in (1, 2, 3)]


@pytest.fixture
def store(tmp_path: Path) -> Store:
    """Six slots, enrolled a second apart and the last one first."""
    moments = itertools.count()
    clock = lambda: NOW + timedelta(seconds=next(moments))  # noqa: E731
    store = Store.open(migrated_file(tmp_path / "record.db"), clock=clock)
    for slot in reversed(SLOTS):
        record = store.enrol(
            slot, provider=f"p-{slot}", resource_class="C", in_use=False, profile="x", policy="y"
        )
        drive = replace(DRIVE, serial=f"S-{slot.address}", model=f"MODEL {slot.host}")
        store.amend(record, SlotChanges(identity=drive, consumer=f"server-{slot.host}"))
    return store


def ids(found: list[pages.SlotLine]) -> list[Slot]:
    return [line.slot for line in found]


@pytest.mark.parametrize("order", SlotOrder)
@pytest.mark.parametrize("descending", [False, True])
def test_pages_hold_each_slot_once_and_in_order(
    store: Store, order: SlotOrder, descending: bool
) -> None:
    found: list[pages.SlotLine] = []
    after: Any = None
    while page := store.slot_page(
        SlotQuery(), limit=4, order=order, descending=descending, after=after
    ):
        found += page
        last = page[-1]
        after = (last.host, last.address) if order is SlotOrder.SLOT else (last.entered_at, last.id)
    expected = SLOTS if order is SlotOrder.SLOT else SLOTS[::-1]
    assert ids(found) == (expected[::-1] if descending else expected)


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        (SlotQuery(host="cmp1"), SLOTS[:3]),
        (SlotQuery(model="MODEL cmp2"), SLOTS[3:]),
        (SlotQuery(serial="S-0000:02:00.0"), [SLOTS[1], SLOTS[4]]),
        (SlotQuery(server="server-cmp2", serial="S-0000:03:00.0"), [SLOTS[5]]),
        (SlotQuery(states=("held",)), [SLOTS[2]]),
        (SlotQuery(states=("held", "released"), host="cmp1"), SLOTS[:3]),
        (SlotQuery(hold_code="by-person"), [SLOTS[2]]),
        (SlotQuery(hold_code="data-left"), []),
        (SlotQuery(host="cmp%"), []),
        (SlotQuery(host="\ud800"), []),
    ],
)
def test_filters(store: Store, query: SlotQuery, expected: list[Slot]) -> None:
    record = store.slot(SLOTS[2])
    assert record is not None
    store.hold(record, holds.because(HoldCode.BY_PERSON, "looked at"))
    assert ids(store.slot_page(query, limit=10)) == expected
    assert ids(list(store.each_slot(query))) == expected


QUERIES = [
    SlotQuery(),
    SlotQuery(states=("available",)),
    SlotQuery(host="cmp1"),
    SlotQuery(model="m"),
    SlotQuery(serial="s"),
    SlotQuery(hold_code="data-left"),
    SlotQuery(hold_code="older"),
    SlotQuery(server="u"),
]


def test_what_a_release_without_codes_held_is_found(store: Store) -> None:
    for slot in SLOTS[1:3]:
        record = store.slot(slot)
        assert record is not None
        store.hold(record, holds.because(HoldCode.BY_PERSON, "looked at"))
    with door.writing(store._engine) as db:
        at = (models.slots.c.host, models.slots.c.address)
        former = sa.tuple_(*at) == (SLOTS[2].host, SLOTS[2].address)
        db.execute(sa.update(models.slots).where(former).values(hold_code=None))
    for states in ((), ("held",), ("held", "available")):
        query = SlotQuery(states=states, hold_code="older")
        assert ids(store.slot_page(query, limit=10)) == [SLOTS[2]]
    assert ids(store.slot_page(SlotQuery(states=("available",), hold_code="older"), limit=10)) == []
    assert len(list(store.campaign_places(CampaignQuery(hold_code="older")))) == 1


@pytest.mark.parametrize("query", QUERIES, ids=str)
@pytest.mark.parametrize("order", SlotOrder)
def test_every_list_of_slots_has_an_index(
    store: Store, query: SlotQuery, order: SlotOrder, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One that no index serves would read all 80,000 rows for a page."""
    asked: list[Any] = []
    listen = lambda _c, _cursor, text, words, *_: asked.append((text, words))  # noqa: E731
    sa.event.listen(store._engine, "before_cursor_execute", listen)
    after = ("cmp1", "x") if order is SlotOrder.SLOT else (NOW, 3)
    store.slot_page(query, limit=10, order=order, after=after)
    text, words = next(one for one in asked if "FROM slots" in one[0])
    with store._engine.begin() as db:
        plan = db.exec_driver_sql(f"EXPLAIN QUERY PLAN {text}", words).all()
    said = [row[-1] for row in plan]
    assert all("INDEX" in line or "B-TREE" in line for line in said), said
    # In its own order an index is read no further than the page.
    if order is SlotOrder.SLOT and query.serial is None:
        assert not any("B-TREE" in line for line in said), said


def test_a_page_reads_no_document(store: Store) -> None:
    names = {column.name for column in pages._LINE}
    assert not names & {"identity", "order_token", "ticket_token", "nonce"}


def test_who_decided_is_in_the_history(store: Store) -> None:
    record = store.slot(SLOTS[0])
    assert record is not None
    by = Initiator("u" * 300, "pr\0ject", "req-1")
    after = store.hold(record, holds.because(HoldCode.BY_PERSON, "why"), by=by)
    store.transition(after, Event.RELEASED_BY_OPERATOR, reason="again")
    page, more = store.history_page(SLOTS[0], limit=2)
    assert len(page) == 2
    rest, end = store.history_page(SLOTS[0], limit=10, after=more or 0)
    lines = [*page, *rest]
    assert end is None
    assert lines == store.history(SLOTS[0])
    assert store.newest_history(SLOTS[0], 2) == lines[-2:]
    held = next(line for line in lines if line.target is State.HELD)
    assert held.by is not None
    assert (len(held.by.user), held.by.project, held.by.request) == (255, "pr\\x00ject", "req-1")
    assert lines[-1].by is None


def test_servers_and_passes(store: Store) -> None:
    for uuid, project in (("a", "p1"), ("b", "p2"), ("c", "p1"), ("a", "p3")):
        store.note_server(uuid, project, "somebody")
    assert [s.uuid for s in store.server_page(project="p1", limit=5)] == ["c"]
    assert [s.uuid for s in store.server_page(limit=2, after="a")] == ["b", "c"]
    known = store.server("a")
    assert known is not None
    assert known.project == "p3"
    store.note_pass("sweep", 60)
    store.note_pass("sweep", 90)
    assert [(one.name, one.within) for one in store.passes()] == [("sweep", 90.0)]


def test_an_older_record_learns_its_drives_serials(tmp_path: Path) -> None:
    """Rows of before the columns, one of them damaged, have them after the upgrade."""
    engine = door.make_engine(f"sqlite:///{tmp_path}/record.db")
    door.make_file_private(engine.url)
    with door.writing(engine) as db:
        config = migrate.configuration()
        config.attributes["connection"] = db
        command.upgrade(config, "0009")
        table = models.slots
        for number, identity in enumerate((codec.canonical(DRIVE).decode(), "{", None), 1):
            db.execute(
                sa.text(
                    "INSERT INTO slots (id, host, address, provider, resource_class, state,"
                    " generation, revision, reason, profile, policy, identity, custody_ready,"
                    " attempts, fraction, detail, entered_at, created_at) VALUES (:id, 'h', :id,"
                    " 'p', 'c', 'released', 0, 1, '', 'x', 'y', :identity, 0, 0, 0, '', '2026', '')"
                ),
                {"id": number, "identity": identity},
            )
    with door.writing(engine) as db:
        migrate.upgrade(db)
        found = db.execute(sa.select(table.c.serial).order_by(table.c.id)).scalars().all()
    assert list(found) == ["S1", None, None]
