"""An API and a program, for tests that change nothing and for those that do."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.unit.quarantine.api.client import Site
from tests.unit.quarantine.osc.shell import Program, Wire


@pytest.fixture
def site(tmp_path: Path) -> Site:
    """A site of the test's own, whose pages are short."""
    (tmp_path / "site").mkdir()
    return Site(tmp_path / "site", options="max_limit = 2\n[capacity]\nflavors = one:1,two:2\n")


@pytest.fixture
def program(site: Site, capsys: pytest.CaptureFixture[str]) -> Program:
    """Its administrator's."""
    return Program(Wire(site.client().app), capsys)
