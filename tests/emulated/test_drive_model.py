"""Debian's own nvme-cli reads what the drive model writes: the layouts are not only ours."""

from __future__ import annotations

import pytest

from tests.lab.nvme.leftovers import Leftovers
from tests.lab.nvme.state import FirmwareState, SecurityState
from tests.lab.rack import Rack
from tests.lab.rack.guests import ComputeGuest

pytestmark = pytest.mark.rack


def lines(compute: ComputeGuest, command: str) -> list[str]:
    """The lines that a command printed, without runs of blanks."""
    return [" ".join(line.split()) for line in compute.sh(command).stdout.splitlines()]


def test_nvme_cli_manages_namespaces_and_reads_the_rest(rack: Rack) -> None:
    drive = rack.drive(0, preset="full-featured", size=64 << 20)
    compute = rack.compute()
    control = "/dev/" + compute.controller(drive.address)

    # A tenant's day, with the tool that a tenant has.
    compute.sh(f"nvme delete-ns {control} -n 1")
    assert lines(compute, f"ls {control}n* 2>/dev/null || true") == []
    made = lines(compute, f"nvme create-ns {control} -s 8192 -c 8192 -f 1")
    assert made == ["create-ns: Success, created nsid:1"]
    compute.sh(f"nvme create-ns {control} -s 64 -c 64 -f 0")
    compute.sh(f"nvme attach-ns {control} -n 1 -c 1")
    assert lines(compute, f"nvme list-ns {control}") == ["[ 0]:0x1"]
    assert lines(compute, f"nvme list-ns {control} --all") == ["[ 0]:0x1", "[ 1]:0x2"]
    compute.wait_drive(drive.address)
    assert lines(compute, f"blockdev --getss --getsize64 {control}n1") == ["4096", str(32 << 20)]
    identify = lines(compute, f"nvme id-ctrl {control}")
    assert f"unvmcap : {(32 << 20) - (32 << 10)}" in identify
    assert "oacs : 0x40b" in identify

    compute.sh(f"nvme resv-register {control}n1 --nrkey=5 --rrega=0 --cptpl=3")
    compute.sh(f"nvme resv-acquire {control}n1 --crkey=5 --rtype=1 --racqa=0")
    report = lines(compute, f"nvme resv-report {control}n1 --eds")
    for line in ("rtype : 1", "regctl : 1", "ptpls : 1"):
        assert line in report
    assert any("rkey : 5" in line for line in report)

    with drive.control() as steering:
        steering.leave(
            Leftovers(
                firmware=FirmwareState(["GDC5602Q", "EVIL0001", "GDC5602Q"], 2),
                security=SecurityState(owned=True, enabled=True),
            )
        )
    slots = lines(compute, f"nvme fw-log {control}")
    assert "afi : 0x2" in slots
    assert any("EVIL0001" in line for line in slots)
    found = compute.sh(f"nvme security-recv {control} -p 1 -s 1 -x 512 -t 512 | grep ^0040")
    assert found.stdout.split()[1:6] == ["00", "02", "10", "0c", "0b"], (
        "locking enabled, not locked"
    )
