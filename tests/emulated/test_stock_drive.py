"""QEMU's own NVMe device through the whole cycle: a drive that nobody wrote to please our eraser.

It has Format and no Sanitize, so the site allows Clear.
"""

from __future__ import annotations

from dataclasses import replace

import pytest

from eraser.protocol.policy import Policy
from quarantine.record.words.states import Event, State
from tests.emulated.cycling import PATIENCE, Floor
from tests.lab.site import DEFAULT_POLICY, Site

pytestmark = pytest.mark.rack

SIZE = 48 << 20
SETTLED = (State.AVAILABLE, State.HELD, State.RETIRED)


@pytest.fixture(scope="module")
def policy() -> Policy:
    """Clear is allowed."""
    return replace(DEFAULT_POLICY, allow_clear=True)


def test_qemus_own_drive_goes_through_the_whole_cycle(site: Site) -> None:
    drive = site.rack.stock(0, size=SIZE)
    site.start()
    compute = site.rack.compute()
    site.add_host(compute)
    site.nova.start_compute(compute.name, [drive.address])
    site.approve(compute, drive)
    site.start_worker(compute)
    site.enrol(drive)
    site.wait([drive], SETTLED, seconds=PATIENCE)
    first = site.slot(drive)
    assert first.state is State.AVAILABLE, first.reason

    floor = Floor(site, compute, drive)
    stay = floor.stay()
    assert len(stay.known) > 2000
    floor.delete(stay)
    floor.wait_row(stay, Event.RELEASE_SEEN)
    site.wait([drive], SETTLED, seconds=PATIENCE)

    record = site.slot(drive)
    assert record.state is State.AVAILABLE, record.reason
    assert drive.count_leaked(stay.known) == 0
    assert record.certificate is not None
    assert record.certificate != first.certificate
    shown = site.json("certificate", "show", record.certificate)["certificate"]
    assert shown["drive"]["identity"]["serial"] == drive.serial
    done = shown["sanitization"]
    assert (done["asked"], done["method"], done["downgraded"]) == ("Purge", "Clear", True)
    assert all(each["command"] == "format-user-data" for each in done["techniques"])
    assert shown["source"]["last_user"] == stay.server.uuid
