"""The whole cycle, and what may go wrong in the midst of it, on a whole site.

Real Placement, Redis, control plane, worker, kernel and nvme-cli; Nova is a stand-in. The tests of
this module share one site and one drive that is handed out again and again.
"""

from __future__ import annotations

import contextlib
import json
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager

import pytest

from quarantine.record.words.states import Event, State
from quarantine.rules.action import ServiceLimits
from quarantine.service.reconciler import worst_case_detection
from tests.emulated.cycling import (
    FAST,
    HANDLING,
    LOGGING,
    LOOKING,
    PATIENCE,
    Floor,
    names_since,
)
from tests.lab.demo.tenants import SECRET, search
from tests.lab.rack.guests import ComputeGuest
from tests.lab.services.nova_standin import NoValidHostError
from tests.lab.services.placement_http import PlacementHttp
from tests.lab.services.process import wait_until
from tests.lab.site import Site

SIZE = 64 << 20
SETTLED = (State.AVAILABLE, State.HELD, State.RETIRED)
NOISE_SECONDS = 60.0
"""What a busy machine may add to a duration."""


def blocks_of(block: bytes) -> bool:
    """Whether a block is of the tenant that had the drives before we came."""
    return b"an unknown tenant" in block


@pytest.fixture(scope="module")
def whole(site: Site) -> Floor:
    """A host with three drives: one to hand out, one that lies, one that nobody enrolled.

    Two slots are enrolled when this returns, with an unknown tenant's data on every drive.
    """
    main = site.rack.drive(0, size=SIZE)
    lying = site.rack.drive(1, size=SIZE, preset="lying")
    site.rack.drive(2, size=SIZE)
    site.start()
    compute = site.rack.compute()
    site.add_host(compute)
    site.nova.start_compute(compute.name, [main.address, lying.address])
    site.approve(compute, main)
    for drive in site.rack.drives:
        path = compute.block_device(drive.address)
        compute.sh(
            f"yes 'an unknown tenant' | dd of={path} bs=1M count=4 oflag=direct iflag=fullblock"
        )
    site.start_worker(compute)
    for drive in (main, lying):
        site.enrol(drive)
    return Floor(site, compute, main)


@pytest.fixture
def floor(whole: Floor) -> Floor:
    """The same, with its drive available and everything running."""
    whole.mend()
    return whole


def test_unknown_drives_are_erased_first_and_the_liar_is_held(floor: Floor) -> None:
    site, (honest, lying, _) = floor.site, floor.site.rack.drives
    site.wait([honest, lying], SETTLED, seconds=PATIENCE)
    assert site.slot(honest).state is State.AVAILABLE, site.slot(honest).reason
    assert not honest.audit_blocks(blocks_of)
    record = site.slot(lying)
    assert record.state is State.HELD
    assert "verdict not_erased" in record.reason
    assert record.certificate is None
    assert State.AVAILABLE not in {row.target for row in site.history(lying)}
    assert lying.audit_blocks(blocks_of)
    # What Placement offers is what counts.
    with pytest.raises(NoValidHostError):
        site.nova.claim(2)


def test_the_whole_cycle(floor: Floor) -> None:
    site, drive = floor.site, floor.drive
    floor.begin()
    tenant = site.rack.tenant([drive])
    tenant.sh(
        f"yes '{SECRET}' | dd of={tenant.block_device('0000:01:00.0')} bs=1M count=8 "
        "oflag=direct iflag=fullblock"
    )
    site.rack.delete(tenant)
    stay = floor.ended()
    assert stay.known
    floor.delete(stay)
    certificate = floor.end(stay)
    assert [row.event for row in site.history(drive)[stay.history :] if row.event] == [
        Event.RELEASE_SEEN,
        Event.CUSTODY_TAKEN,
        Event.ORDERED,
        Event.VERIFYING_SEEN,
        Event.CERTIFIED,
        Event.RETURNED,
    ]
    assert certificate["source"]["last_user"] == stay.server.uuid
    assert certificate["drive"]["identity"]["serial"] == drive.serial
    _verify_offline(site, str(site.slot(drive).certificate))
    next_one = floor.begin()
    assert next_one.uuid != stay.server.uuid
    tenant = site.rack.tenant([drive])
    assert search(tenant) == ()
    site.rack.delete(tenant)
    floor.delete(floor.ended())


def _verify_offline(site: Site, digest: str) -> None:
    """With the public key alone: no configuration, no database, no network."""
    key = site.directory / "auditor.jwk"
    key.write_text(site.cli("key", "show"))
    file = site.directory / "certificates" / f"{digest}.json"
    argv = ["certificate", "verify", "--key", str(key), "-f", "json"]
    (found,) = json.loads(site.bare_cli(*argv, str(file)))
    assert found["valid"]
    assert found["digest"] == digest
    forged = site.directory / "forged.json"
    forged.write_bytes(file.read_bytes().replace(b"Rack 1", b"Rack 2"))
    (found,) = json.loads(site.bare_cli(*argv, str(forged), check=False))
    assert not found["valid"]


@pytest.mark.rack
def test_a_release_is_seen_although_the_generation_stood_still(floor: Floor) -> None:
    site = floor.site
    stay = floor.stay()
    placement = PlacementHttp(site.placement.url)
    path = f"/resource_providers/{site.slot(floor.drive).provider}"
    before = placement("GET", path, "1.14").body["generation"]
    deleted = time.monotonic()
    floor.delete(stay, bell=False)
    assert placement("GET", path, "1.14").body["generation"] == before
    limits = ServiceLimits(
        sweep_interval=site.timing.sweep,
        list_interval=site.timing.listing,
        in_use_reread=site.timing.reread,
    )
    worst = worst_case_detection(limits, slots=1)
    floor.wait_row(stay, Event.RELEASE_SEEN)
    assert time.monotonic() - deleted < worst + NOISE_SECONDS
    assert "a release without a bell is seen after" in site.log_tail(100000)
    floor.end(stay)


@pytest.mark.rack
@pytest.mark.parametrize("journal", [pytest.param("kept", marks=pytest.mark.rack), "deleted"])
def test_a_killed_worker_is_succeeded_by_one_that_sends_nothing_again(
    floor: Floor, journal: str
) -> None:
    stay = floor.stay()
    floor.begin_erase(stay)
    floor.site.kill_worker(floor.compute)
    if journal == "deleted":
        floor.compute.sh(f"rm {floor.journal}")
    floor.site.start_worker(floor.compute)
    floor.wait_journal("Resumed" if journal == "kept" else "'\"adopted\":true'")
    certificate = floor.end(stay)
    adopted = [method["adopted"] for method in certificate["sanitization"]["techniques"]]
    said = "\n".join(certificate["exceptions"])
    if journal == "kept":
        assert adopted == [False, False]
        assert certificate["sanitization"]["resumed"] == 1
        assert "interrupted and taken up again" in said
    else:
        assert adopted == [True, False]
        assert "found running without a journal" in said
        assert "Missing probe" in said


@pytest.mark.rack
def test_redis_dies_in_mid_erase_and_comes_back_empty(floor: Floor) -> None:
    site = floor.site
    worker = site.workers[floor.compute.name]
    stay = floor.stay()
    floor.begin_erase(stay)
    site.redis.kill()
    wait_until(
        lambda: "the broker did not take" in worker.stderr(), "the worker alone", PATIENCE, 0.5
    )
    site.redis.start()
    floor.end(stay)
    # Both ends hear again: the next order and its report go through the same processes.
    again = floor.stay()
    floor.delete(again)
    floor.end(again)
    assert worker is site.workers[floor.compute.name]
    assert worker.poll() is None


@pytest.mark.rack
def test_control_plane_killed_between_custody_and_dispatch(floor: Floor) -> None:
    site, drive = floor.site, floor.drive
    stay = floor.stay()
    site.redis.pause()
    floor.delete(stay, bell=False)
    wait_until(
        lambda: site.slot(drive).state is State.QUARANTINED and bool(site.slot(drive).order_token),
        "custody and a stored order",
        PATIENCE,
    )
    site.kill_control()
    site.redis.kill()  # with whatever was on its way into it
    assert site.slot(drive).state is State.QUARANTINED
    assert floor.commands(stay) <= LOOKING
    order = site.slot(drive).order_id
    site.redis.start()
    site.control.start()
    floor.end(stay)
    assert site.slot(drive).order_id == order


@pytest.mark.rack
def test_control_plane_killed_between_certificate_and_return(floor: Floor) -> None:
    site, drive = floor.site, floor.drive
    stay = floor.stay()
    floor.begin_erase(stay)
    site.placement.pause()
    drive.set_faults(FAST)
    site.wait([drive], [State.CERTIFIED, State.HELD], seconds=PATIENCE)
    site.kill_control()
    site.placement.resume()
    assert site.slot(drive).state is State.CERTIFIED
    certificate = site.slot(drive).certificate
    with pytest.raises(NoValidHostError):
        site.nova.claim()
    site.control.start()
    floor.end(stay)
    assert site.slot(drive).certificate == certificate


@contextlib.contextmanager
def defined_domain(compute: ComputeGuest, address: str) -> Iterator[None]:
    """libvirt has a shut-off domain with the drive, and nobody has it open."""
    file = "/etc/libvirt/qemu/instance-0000002a.xml"
    compute.put(
        file,
        "<domain type='kvm'><name>instance-0000002a</name><devices>"
        "<hostdev mode='subsystem' type='pci' managed='yes'><source>"
        f"<address domain='0x0000' bus='0x{address[5:7]}' slot='0x00' function='0x0'/>"
        "</source></hostdev></devices></domain>",
    )
    try:
        yield
    finally:
        compute.sh(f"rm {file}")


HOLD_GROUP = """
import os, sys, time
group = os.path.basename(os.readlink(f"/sys/bus/pci/devices/{sys.argv[1]}/iommu_group"))
descriptor = os.open(f"/dev/vfio/{group}", os.O_RDWR)
open("/tmp/held", "w").close()
time.sleep(3600)
"""


@contextlib.contextmanager
def ghost_guest(compute: ComputeGuest, address: str) -> Iterator[None]:
    """A guest that Nova deleted while its host was down runs on, and has the drive."""
    compute.hand_over(address)
    process = compute.spawn(["python3", "-c", HOLD_GROUP, address])
    compute.wait_for("/tmp/held")
    try:
        yield
    finally:
        process.kill()


@pytest.mark.rack
@pytest.mark.parametrize(
    ("use", "named"),
    [
        pytest.param(
            *(defined_domain, "libvirt domain 'instance-0000002a'"),
            id="defined",
            marks=pytest.mark.rack,
        ),
        pytest.param(ghost_guest, "vfio user", id="ghost"),
    ],
)
def test_a_drive_in_use_is_left_alone_until_it_is_free(
    floor: Floor, use: Callable[[ComputeGuest, str], AbstractContextManager[None]], named: str
) -> None:
    site, drive = floor.site, floor.drive
    stay = floor.stay()
    drive.set_faults(LOGGING)
    with use(floor.compute, drive.address):
        floor.delete(stay)
        row = floor.wait_row(stay, Event.POSTPONED)
        assert named in row.reason
        # Asked again after a while, the host gives the same answer; what it says of its domains
        # by itself spares it the question.
        wait_until(
            lambda: (
                len(floor.rows(stay, Event.POSTPONED)) > 1
                or "names the drive on its host" in site.slot(drive).detail
            ),
            "another answer",
            PATIENCE,
        )
        assert floor.commands(stay) <= HANDLING
        assert drive.fingerprints() == stay.known
        assert site.slot(drive).certificate is None
    floor.end(stay)


@pytest.mark.rack
def test_a_hosts_power_cut_in_mid_erase(floor: Floor) -> None:
    rack = floor.site.rack
    stay = floor.stay()
    floor.begin_erase(stay)
    rack.power_cut(floor.compute)
    rack.power_on(floor.compute)
    floor.site.start_worker(floor.compute)
    floor.wait_journal("Resumed")
    certificate = floor.end(stay)
    assert certificate["sanitization"]["resumed"] == 1


@pytest.mark.rack
def test_another_drive_in_the_slot_is_not_touched(floor: Floor) -> None:
    site, drive, stranger = floor.site, floor.drive, floor.site.rack.drives[2]
    stay = floor.stay()
    floor.begin_erase(stay)
    site.rack.power_cut(floor.compute)
    known, seq = stranger.fingerprints(), stranger.commands()[-1].seq
    site.rack.move(drive, 0, host="the shelf")
    site.rack.move(stranger, 0)
    stranger.set_faults(LOGGING)
    site.rack.power_on(floor.compute)
    site.start_worker(floor.compute)
    site.wait([stranger], [State.HELD, State.AVAILABLE, State.RETIRED], seconds=PATIENCE)
    record = site.slot(stranger)
    assert record.state is State.HELD
    assert stranger.serial in record.reason
    assert drive.serial in record.reason
    assert names_since(stranger, seq) <= HANDLING
    assert stranger.fingerprints() == known
    # Its data is neither erased nor offered.
    with pytest.raises(NoValidHostError):
        site.nova.claim()
