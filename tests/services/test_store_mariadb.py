"""The store's own tests, all of them, on a real MariaDB."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from quarantine.record.database import migrate
from quarantine.record.store import Store
from tests.lab.services.mariadb import Mariadb
from tests.services.server_suite import ServerSuite

pytestmark = pytest.mark.services


@pytest.fixture(scope="module")
def server() -> Iterator[Mariadb]:
    with Mariadb() as server:
        yield server


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
