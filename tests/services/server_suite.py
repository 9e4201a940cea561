"""What every database server behind the store must do beyond what a file does."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable
from typing import Protocol

import pytest
import sqlalchemy as sa

from eraser.protocol.identity import Slot
from quarantine.errors import ConflictError, UnavailableError
from quarantine.record.database import engine as door
from quarantine.record.database import models
from quarantine.record.store import Store
from quarantine.record.words.facts import SlotChanges
from tests.lab.record import empty
from tests.unit.quarantine.store_suite import OTHER, SLOT, StoreSuite, current, enrol


class Server(Protocol):
    """A real server of the lab."""

    def new_database(self, name: str) -> str:
        """An empty database, as a URL."""

    def reader(self, name: str) -> str:
        """The URL of a user who may read that database and do nothing else."""

    def down(self) -> None:
        """End it."""

    def up(self) -> None:
        """Serve the same data again."""


def ended(act: Callable[[], object]) -> Exception | None:
    """What an act ended with, in a thread of its own: it has 20 s."""
    ends: list[Exception | None] = []

    def run() -> None:
        try:
            act()
        except Exception as error:
            ends.append(error)
        else:
            ends.append(None)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    thread.join(20.0)
    assert ends, "still waits"
    return ends[0]


class ServerSuite(StoreSuite):
    """Give it a fixture ``server`` of the module's scope."""

    _numbers = itertools.count()

    @pytest.fixture
    def bare_url(self, server: Server) -> str:
        """A database of each test's own, with nothing in it."""
        return server.new_database(f"bare_{next(self._numbers)}")

    @pytest.fixture
    def url(self, migrated: str) -> str:
        """The migrated database without rows."""
        empty(migrated)
        return migrated

    def test_a_server_that_is_gone_is_unavailable_and_comes_back(
        self, server: Server, store: Store
    ) -> None:
        record = enrol(store)
        server.down()
        with pytest.raises(UnavailableError, match="changed nothing"):
            store.slots()
        server.up()
        # The pool notices by itself that its connections are from before.
        assert store.amend(record, SlotChanges(attempts=1)).attempts == 1

    def test_a_user_who_may_only_read_is_told_of_rights_and_not_of_the_schema(
        self, server: Server, bare_url: str
    ) -> None:
        engine = door.make_engine(bare_url)
        models.metadata.create_all(engine)
        name = engine.url.database
        assert name is not None
        weak = Store.open(server.reader(name))
        assert weak.slots() == []
        with pytest.raises(UnavailableError, match="the right to read and write"):
            enrol(weak)

    def test_a_column_that_is_not_there_is_a_matter_of_the_schema(self, bare_url: str) -> None:
        models.metadata.create_all(engine := door.make_engine(bare_url))
        with engine.begin() as db:
            db.exec_driver_sql("ALTER TABLE slots DROP COLUMN detail")
        with pytest.raises(UnavailableError, match="run 'nvme-quarantine db upgrade'"):
            Store.open(bare_url).slots()

    def test_a_row_that_a_transaction_of_others_has_is_not_waited_for_without_end(
        self, url: str, store: Store, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        record = enrol(store)
        monkeypatch.setattr(door, "BUSY_SECONDS", 1.0)
        other, mine = door.make_engine(url), Store.open(url)
        ends: list[Exception] = []

        def write() -> None:
            try:
                mine.amend(record, SlotChanges(attempts=1))
            except (ConflictError, UnavailableError) as error:
                ends.append(error)

        writer = threading.Thread(target=write, daemon=True)
        with door.writing(other) as db:
            db.execute(sa.update(models.slots).values(reason="looked at by a person"))
            writer.start()
            writer.join(15.0)
            waits = writer.is_alive()
        writer.join(15.0)
        other.dispose()
        mine.close()
        assert not waits
        assert len(ends) == 1
        assert current(store, SLOT).attempts == 0

    def test_what_one_look_reads_is_of_one_moment(self, url: str, store: Store) -> None:
        """Else a slot that is held between two questions is counted twice, or not at all."""
        record = enrol(store)
        engine = door.make_engine(url)
        attempts = sa.select(models.slots.c.attempts)
        with door.reading(engine) as db:
            before = db.scalar(attempts)
            store.amend(record, SlotChanges(attempts=7))
            after = db.scalar(attempts)
        with door.reading(engine) as db:
            now = db.scalar(attempts)
        engine.dispose()
        assert (before, after, now) == (0, 0, 7)

    def test_of_two_writers_in_each_others_way_one_decides_again(
        self, url: str, store: Store
    ) -> None:
        enrol(store)
        enrol(store, OTHER)
        both = threading.Barrier(2, timeout=60)
        outcomes: list[str] = []

        def write(first: Slot, second: Slot) -> None:
            engine = door.make_engine(url)
            try:
                with door.writing(engine) as db:
                    for slot, wait in ((first, True), (second, False)):
                        db.execute(
                            sa.update(models.slots)
                            .where(models.slots.c.host == slot.host)
                            .values(attempts=models.slots.c.attempts + 1)
                        )
                        if wait:
                            both.wait()
                outcomes.append("written")
            except ConflictError:
                outcomes.append("again")
            finally:
                engine.dispose()

        writers = [
            threading.Thread(target=write, args=order) for order in ((SLOT, OTHER), (OTHER, SLOT))
        ]
        for writer in writers:
            writer.start()
        for writer in writers:
            writer.join()
        assert sorted(outcomes) == ["again", "written"]
        assert [current(store, slot).attempts for slot in (SLOT, OTHER)] == [1, 1]
