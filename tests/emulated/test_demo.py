"""The demo's own eyes: a search that finds nothing must be able to find something."""

from __future__ import annotations

import pytest

from tests.lab.demo.tenants import SECRET, build_and_write, search
from tests.lab.rack import Rack

pytestmark = pytest.mark.rack


def test_the_search_finds_what_a_tenant_left_where_nobody_erased(rack: Rack) -> None:
    drives = [rack.drive(0, size=256 << 20), rack.drive(1, size=256 << 20)]
    rack.compute()
    first = rack.tenant(drives)
    assert search(first) == ()
    build_and_write(first)
    known = [drive.fingerprints() for drive in drives]
    rack.delete(first)
    second = rack.tenant(drives)
    found = search(second)
    assert any("times the first tenant's marker" in line for line in found)
    assert sum("md member" in line for line in found) == len(drives)
    assert all(drive.count_leaked(seen) for drive, seen in zip(drives, known, strict=True))
    assert any(drive.audit_blocks(lambda block: SECRET.encode() in block) for drive in drives)
