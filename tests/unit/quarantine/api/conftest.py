"""One site for the tests that change nothing, and one for each that does."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.unit.quarantine.api.client import ADMIN, READER, Client, Site


@pytest.fixture(scope="module")
def still(tmp_path_factory: pytest.TempPathFactory) -> Client:
    """A caller of a site that nobody changes."""
    return Site(tmp_path_factory.mktemp("site")).client()


@pytest.fixture(scope="module")
def reader(still: Client) -> Client:
    """Who may read there."""
    return still.as_user(READER)


@pytest.fixture
def site(tmp_path: Path) -> Site:
    """A site of the test's own."""
    return Site(tmp_path)


@pytest.fixture
def admin(site: Site) -> Client:
    """Who may act there."""
    return site.client().as_user(ADMIN)
