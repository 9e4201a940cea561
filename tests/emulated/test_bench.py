"""The bench on real drives and arrays: what it refuses, and what it leaves as it was."""

from __future__ import annotations

import json

import pytest

from tests.lab.rack import Rack
from tests.lab.rack.guests import TenantGuest

pytestmark = pytest.mark.rack

RESULT = "/run/result.json"
SHORT = ("--size", "16M", "--seconds", "1", "--rounds", "1", "--jobs", "1", "--emulated")


def bench(tenant: TenantGuest, target: str, *options: str) -> tuple[int, str, str]:
    """Exit code, output, errors of one short run."""
    tenant.run(["rm", "-f", RESULT])
    done = tenant.run(
        ["nvme-bench", "run", "quick", target, *SHORT, "--output", RESULT, *options],
        env={"PYTHONPATH": "/opt/src"},
        timeout=120,
        check=False,
    )
    return done.returncode, done.stdout, done.stderr


def refused(tenant: TenantGuest, target: str, *words: str) -> None:
    """Even where overwriting is allowed."""
    code, _, said = bench(tenant, target, "--overwrite")
    assert code == 3, said
    for word in words:
        assert word in said, said


def test_an_array_from_its_members_to_its_file_system(rack: Rack) -> None:
    tenant = rack.tenant([rack.drive(0), rack.drive(1)])
    first, second = (tenant.block_device(f"0000:0{slot}:00.0") for slot in (1, 2))
    tenant.sh(
        f"mdadm --create /dev/md1 --run --level 0 --raid-devices 2 {first} {second} 2>/dev/null\n"
        "udevadm settle"
    )

    refused(tenant, first, "is part of md1")
    code, out, said = bench(tenant, "/dev/md1", "--overwrite", "-f", "json")
    assert code == 0, said
    found = json.loads(out)
    assert found["target"]["description"] == "md raid0 of 2"
    assert sorted(found["target"]["members"]) == sorted(
        d.rpartition("/")[2] for d in (first, second)
    )
    assert all(cell["iops"] > 0 for cell in found["cells"])

    tenant.sh(
        "mkfs.xfs -q -f /dev/md1; mkdir -p /mnt/a; mount /dev/md1 /mnt/a; echo x >/mnt/a/mine"
    )
    refused(tenant, "/dev/md1", "is mounted at /mnt/a")
    assert bench(tenant, "/dev/md1", "--readonly")[0] == 0
    assert bench(tenant, "/mnt/a")[0] == 0
    assert tenant.sh("ls /mnt/a").stdout == "mine\n"

    tenant.sh("umount /mnt/a")
    refused(tenant, "/dev/md1", "it holds xfs")
    tenant.sh("mdadm --stop /dev/md1 2>/dev/null")
    refused(tenant, first, "it holds linux_raid_member")
    tenant.sh(f"mdadm --assemble /dev/md1 {first} {second} 2>/dev/null; mount /dev/md1 /mnt/a")
    assert tenant.sh("cat /mnt/a/mine").stdout == "x\n"
