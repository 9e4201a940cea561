"""The store's own tests, all of them, on a real PostgreSQL."""

from __future__ import annotations

from collections.abc import Iterator

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
