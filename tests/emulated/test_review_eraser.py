"""What a review of the eraser found, on real parts: gaps between two runs, disks that come late."""

from __future__ import annotations

import pytest

from tests.emulated.erasing import bench
from tests.emulated.test_erase_resume import wait_for_entry
from tests.lab.nvme.faults import Faults
from tests.lab.rack import Rack

pytestmark = pytest.mark.rack

CRYPTO, BLOCK = 4, 2


def test_what_was_written_between_two_runs_is_erased_again(rack: Rack) -> None:
    """The erase had ended when its process was killed; then somebody used the drive."""
    made = bench(rack, faults=Faults(sanitize_seconds=1))
    process = made.compute.spawn(made.argv())
    wait_for_entry(made, "WasReset")
    process.signal(9)
    process.wait(60)
    made.compute.sh("dd if=/dev/urandom of=/dev/nvme0n1 bs=1M count=4 oflag=direct")
    known = made.drive.fingerprints()
    erased = made.erase()
    assert (erased.code, erased.verdict, erased.fit) == (0, "erased", True), erased.reasons
    assert made.sanitizes() == [CRYPTO, BLOCK, BLOCK]
    assert made.drive.count_leaked(known) == 0


def test_a_drive_that_has_just_come_from_a_guest_keeps_all_its_probes(rack: Rack) -> None:
    """On the nvme driver it is live before its disk is there."""
    made = bench(rack)
    made.compute.bind(made.drive.address, "vfio-pci")
    erased = made.erase()
    assert (erased.code, erased.verdict, erased.fit) == (0, "erased", True), erased.reasons
    proof = made.report(erased)["verification"]
    assert proof["canaries_checked"] >= 700
    assert proof["fingerprints_checked"] > 0
    assert proof["missing_probes"] == []
