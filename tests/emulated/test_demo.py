"""The demo's own eyes: a search that finds nothing must be able to find something."""

from __future__ import annotations

import io
import json
import urllib.request
from pathlib import Path
from typing import Any

import pytest

from tests.lab.demo.board import Board
from tests.lab.demo.served import Served
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


def get(address: str) -> Any:
    """What an address answers, as JSON."""
    with urllib.request.urlopen(address, timeout=60) as answer:  # noqa: S310
        return json.load(answer)


@pytest.mark.timeout(1500)
def test_a_served_site_has_tenants_a_liar_and_somebody_who_looks(tmp_path: Path) -> None:
    """Until a drive had its tenant and came back, and the lying one is held."""
    said = io.StringIO()
    served = Served(tmp_path, Board(said), "lying", seed=3)
    slots: dict[str, str] = {}
    firing: list[Any] = []

    def ended() -> bool:
        listed = get(served.addresses["API"])["slots"]
        slots.update({each["address"]: each["state"] for each in listed})
        prometheus = served.addresses["Prometheus"].removesuffix("/alerts")
        found = get(f"{prometheus}/api/v1/query?query=nvme_quarantine_slots")["data"]["result"]
        firing[:] = found
        story = said.getvalue()
        left = story.partition("is deleted")[2]
        return "available" in left and "held" in story and len(slots) == 4 and bool(firing)

    served.run(ended)
    assert slots["0000:04:00.0"] == "held"
    assert "gets LAB0000004" not in said.getvalue(), "expected the liar to have no tenant"
    assert sum(float(each["value"][1]) for each in firing) == 4, firing
