"""The store's own tests, all of them, on a real PostgreSQL."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import pytest

from quarantine.errors import UnavailableError
from quarantine.record.facts import SlotChanges
from quarantine.record.store import Store
from tests.lab.services.postgresql import Postgresql
from tests.unit.quarantine.store_suite import StoreSuite, enrol

pytestmark = pytest.mark.services

_NUMBERS = itertools.count()


@pytest.fixture(scope="module")
def server() -> Iterator[Postgresql]:
    with Postgresql() as server:
        yield server


@pytest.fixture
def url(server: Postgresql) -> str:
    return server.new_database(f"record_{next(_NUMBERS)}")


class TestPostgresql(StoreSuite):
    """All that every database must do."""


def test_a_server_that_is_gone_is_unavailable_and_comes_back() -> None:
    with Postgresql() as server:
        store = Store.open(server.new_database("record"))
        store.migrate()
        record = enrol(store)
        server.down()
        with pytest.raises(UnavailableError, match="nothing was changed"):
            store.slots()
        server.up()
        # The pool notices by itself that its connections are from before.
        assert store.amend(record, SlotChanges(attempts=1)).attempts == 1
        store.close()
