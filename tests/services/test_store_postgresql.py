"""The store's own tests, all of them, on a real PostgreSQL."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from unittest.mock import MagicMock

import pytest

from quarantine.record.database import engine as door
from quarantine.record.store import Store
from quarantine.record.words.facts import SlotChanges
from tests.lab.services.postgresql import Postgresql
from tests.services.server_suite import ServerSuite, ended
from tests.unit.quarantine.store_suite import SLOT, current, enrol

pytestmark = pytest.mark.services


@pytest.fixture(scope="module")
def server() -> Iterator[Postgresql]:
    with Postgresql() as server:
        yield server


class TestPostgresql(ServerSuite):
    """All that every database must do."""

    def test_a_standby_that_is_away_is_not_waited_for_without_end(
        self,
        server: Postgresql,
        url: str,
        store: Store,
        monkeypatch: pytest.MonkeyPatch,
        caplog: pytest.LogCaptureFixture,
    ) -> None:
        """The commit stands, and the operator is told what it lacks."""
        record = enrol(store)
        monkeypatch.setattr(door, "ANSWER_SECONDS", 1.0)
        mine = Store.open(url)
        with server.standby_missing():
            outcome = ended(lambda: mine.amend(record, SlotChanges(attempts=1)))
        mine.close()
        assert outcome is None
        assert current(store, SLOT).attempts == 1
        assert "canceling wait for synchronous replication" in caplog.text

    def test_a_commit_that_was_cancelled_leaves_no_cancel_to_the_next_transaction(
        self, server: Postgresql, url: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """The cancel is on its way still when the commit is over: it names the connection alone."""
        monkeypatch.setattr(door, "ANSWER_SECONDS", 1.0)
        engine = door.make_engine(url)
        pids: list[object] = []

        def write() -> None:
            with door.writing(engine) as db:
                pids.append(db.exec_driver_sql("SELECT pg_backend_pid()").scalar_one())
                # Without a row there is nothing for a standby to have.
                db.exec_driver_sql("CREATE TABLE IF NOT EXISTS one_more (number INTEGER)")
                db.exec_driver_sql("INSERT INTO one_more VALUES (1)")

        write()
        with server.standby_missing():
            assert ended(write) is None
        write()
        with door.writing(engine) as db:
            db.exec_driver_sql("DROP TABLE one_more")
        engine.dispose()
        assert pids[0] == pids[1] != pids[2]

    def test_where_no_thread_can_be_had_a_commit_is_made_all_the_same(
        self, store: Store, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
    ) -> None:
        record = enrol(store)
        full = MagicMock(side_effect=RuntimeError("can't start new thread"))
        monkeypatch.setattr(threading.Thread, "start", full)
        assert store.amend(record, SlotChanges(attempts=1)).attempts == 1
        assert "can't start new thread" in caplog.text

    def test_an_upgrade_waits_for_others_and_for_a_standby_as_long_as_it_takes(
        self, server: Postgresql, bare_url: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """A dump that takes long would end it."""
        monkeypatch.setattr(door, "ANSWER_SECONDS", 0.5)
        engine = door.make_engine(bare_url)
        done: list[str] = []

        def upgrade() -> None:
            with door.upgrading(engine) as db:
                db.exec_driver_sql("CREATE TABLE one_more (number INTEGER)")
                limit = db.exec_driver_sql("SHOW lock_timeout").scalar_one()
            done.append(limit)

        upgrades = threading.Thread(target=upgrade, daemon=True)
        with server.standby_missing():
            upgrades.start()
            time.sleep(3.0)
            waits = not done
        upgrades.join(20.0)
        engine.dispose()
        assert waits
        assert done == ["0"]
