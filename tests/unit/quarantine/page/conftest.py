"""One site for the tests that change nothing, and one for each that does."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.unit.quarantine.api.client import ADMIN, READER, Site
from tests.unit.quarantine.page.visitor import Visitor, visitor


@pytest.fixture(scope="module")
def still(tmp_path_factory: pytest.TempPathFactory) -> Visitor:
    """Nobody, at a site that nobody changes."""
    return visitor(Site(tmp_path_factory.mktemp("site")))


@pytest.fixture(scope="module")
def reader(still: Visitor) -> Visitor:
    """Who may read there."""
    return still.as_user(READER)


@pytest.fixture
def site(tmp_path: Path) -> Site:
    """A site of the test's own."""
    return Site(tmp_path)


@pytest.fixture
def admin(site: Site) -> Visitor:
    """Who may act there."""
    return visitor(site).as_user(ADMIN)
