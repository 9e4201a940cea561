"""The store's own tests, all of them, on a real MariaDB."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.lab.services.mariadb import Mariadb
from tests.services.server_suite import ServerSuite

pytestmark = pytest.mark.services


@pytest.fixture(scope="module")
def server() -> Iterator[Mariadb]:
    with Mariadb() as server:
        yield server


class TestMariadb(ServerSuite):
    """All that every database must do."""
