"""The store's own tests, all of them, on a real PostgreSQL."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.lab.services.postgresql import Postgresql
from tests.services.server_suite import ServerSuite

pytestmark = pytest.mark.services


@pytest.fixture(scope="module")
def server() -> Iterator[Postgresql]:
    with Postgresql() as server:
        yield server


class TestPostgresql(ServerSuite):
    """All that every database must do."""
