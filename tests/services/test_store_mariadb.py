"""The store's own tests, all of them, on a real MariaDB."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Final

import pytest
import sqlalchemy as sa
from alembic import command

from quarantine.errors import ConflictError, UnavailableError
from quarantine.record.alarms import AlarmCall
from quarantine.record.database import engine as door
from quarantine.record.database import migrate, models
from quarantine.record.store import Store
from quarantine.record.words.facts import SlotChanges
from tests.lab.services.mariadb import Mariadb
from tests.services.server_suite import ServerSuite, ended
from tests.unit.quarantine.store_suite import SLOT, current, enrol

pytestmark = pytest.mark.services


@pytest.fixture(scope="module")
def server() -> Iterator[Mariadb]:
    with Mariadb() as server:
        yield server


NOW: Final = datetime(2026, 1, 1, tzinfo=UTC)


def collations(engine: sa.Engine) -> set[str]:
    """Of all columns of text."""
    with door.reading(engine) as db:
        return set(
            db.exec_driver_sql(
                "SELECT collation_name FROM information_schema.columns"
                " WHERE table_schema = DATABASE() AND collation_name IS NOT NULL"
            ).scalars()
        )


class TestMariadb(ServerSuite):
    """All that every database must do."""

    def test_the_next_upgrade_sees_what_this_one_did(self, bare_url: str) -> None:
        """Its lock is gone before the transaction is, and what made tables stays either way."""
        one, two = Store.open(bare_url), Store.open(bare_url)
        with one._writing() as db:
            migrate.upgrade(db)
            two.require_schema()
            assert two.migrate() == migrate.head()
        one.close()
        two.close()

    def test_tables_of_an_upgrade_on_a_restored_backup_compare_as_all_others(
        self, bare_url: str
    ) -> None:
        """The dump of one database says nothing of its own character set: it has the server's."""
        engine = door.make_engine(bare_url)
        with door.upgrading(engine) as db:
            config = migrate.configuration()
            config.attributes["connection"] = db
            migrate._compare_exactly(db)
            command.upgrade(config, "0012")
            db.exec_driver_sql("ALTER DATABASE CHARACTER SET latin1")
        store = Store.open(bare_url)
        store.migrate()
        assert collations(engine) == {"utf8mb4_nopad_bin"}
        # As a release before this one left them.
        store.note_alarms({}, [AlarmCall("late", "cmp1", "für", NOW, NOW, 1)])
        with door.upgrading(engine) as db:
            db.exec_driver_sql("ALTER TABLE alarms CONVERT TO CHARACTER SET latin1")
            db.exec_driver_sql("ALTER DATABASE CHARACTER SET latin1")
        store.migrate()
        assert collations(engine) == {"utf8mb4_nopad_bin"}
        store.note_alarms({}, [AlarmCall("late", "CMP1", "\N{FIRE}", NOW, NOW, 1)])
        texts = {line.subject: line.text for line in store.alarm_page(limit=10)}
        assert texts == {"cmp1": "für", "CMP1": "\N{FIRE}"}
        store.close()
        engine.dispose()

    def test_tables_whose_foreign_keys_are_texts_are_converted(self, bare_url: str) -> None:
        """MariaDB converts no end of such a key. The rows stay, and the keys are there again."""
        store, engine = Store.open(bare_url), door.make_engine(bare_url)
        store.migrate()
        tables = [models.campaigns, models.campaign_acts, models.campaign_slots]
        act = {"version": 1, "at": NOW, "state": "open", "reason": "für"}
        whose = {"by_user": "u", "by_project": "p", "by_request": "r"}
        when = {"created_at": NOW, "changed_at": NOW}
        campaign = {"id": "one", "version": 1, "state": "open", "query": "{}", "reason": "für"}
        with door.writing(engine) as db:
            db.execute(sa.insert(models.campaigns).values(keep=0.0, **campaign, **whose, **when))
            db.execute(sa.insert(models.campaign_acts).values(campaign="one", **act))
        with door.upgrading(engine) as db, migrate._without_keys_of_text(db):
            for table in tables:
                db.exec_driver_sql(f"ALTER TABLE {table.name} CONVERT TO CHARACTER SET latin1")
        store.migrate()
        assert collations(engine) == {"utf8mb4_nopad_bin"}
        with door.reading(engine) as db:
            assert db.scalar(sa.select(models.campaign_acts.c.reason)) == "für"
        orphan = sa.insert(models.campaign_acts).values(campaign="none", **act)
        with pytest.raises(ConflictError), door.writing(engine) as db:
            db.execute(orphan)
        store.close()
        engine.dispose()

    def test_a_table_that_a_backup_has_locked_is_not_waited_for_without_end(
        self, url: str, store: Store, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """As mysqldump does by default (--lock-tables)."""
        record = enrol(store)
        monkeypatch.setattr(door, "BUSY_SECONDS", 1.0)
        backup, mine = door.make_engine(url), Store.open(url)
        with backup.connect() as db:
            db.exec_driver_sql("LOCK TABLES slots READ")
            try:
                outcome = ended(lambda: mine.amend(record, SlotChanges(attempts=1)))
            finally:
                db.exec_driver_sql("UNLOCK TABLES")
        backup.dispose()
        mine.close()
        assert isinstance(outcome, ConflictError)
        assert current(store, SLOT).attempts == 0

    def test_a_server_that_stands_still_is_not_waited_for_without_end(
        self, server: Mariadb, url: str, store: Store, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        enrol(store)
        monkeypatch.setattr(door, "ANSWER_SECONDS", 1.0)
        mine = Store.open(url)
        mine.answer()
        os.kill(server.pid, signal.SIGSTOP)
        try:
            outcome = ended(mine.slots)
        finally:
            os.kill(server.pid, signal.SIGCONT)
        mine.close()
        assert isinstance(outcome, UnavailableError)

    def test_an_upgrade_waits_for_others_and_for_answers_as_long_as_it_takes(
        self, bare_url: str
    ) -> None:
        """Cut off between two changes of tables it could not go on."""
        engine = door.make_engine(bare_url)
        with door.upgrading(engine) as db:
            waits = db.exec_driver_sql("SELECT @@lock_wait_timeout").scalar_one()
            driver = db.connection.dbapi_connection
        engine.dispose()
        assert waits > 3600
        assert getattr(driver, "_read_timeout", 0.0) is None
