"""The same logic without Ansible: what cloud-init is given, written and run as cloud-init does."""

from __future__ import annotations

import base64
import gzip
import json
import subprocess

import yaml

from tests.lab.guest.payload import REPOSITORY
from tests.tenants.instance import Instance

_EVERY_BOOT = "run-parts --exit-on-error /var/lib/cloud/scripts/per-boot"


def _write_files(instance: Instance, user_data: str) -> None:
    """The module write_files of cloud-init; the tenant's guest has no cloud-init itself."""
    for entry in yaml.safe_load(user_data)["write_files"]:
        content = entry["content"].encode()
        if entry.get("encoding") == "gz+b64":
            content = gzip.decompress(base64.b64decode(content))
        instance.guest.put(entry["path"], content, mode=int(entry["permissions"], 8))


def test_cloud_init_builds_at_first_boot_and_again_on_other_drives(instance: Instance) -> None:
    tool = [REPOSITORY / "tools/nvme-raid-script", "--cloud-init", "--drives", "2"]
    user_data = subprocess.run(tool, capture_output=True, text=True, check=True).stdout
    instance.start(2)
    _write_files(instance, user_data)

    first = instance.sh(_EVERY_BOOT)

    assert "create /dev/md/nvme" in first
    assert "nothing to do" in instance.sh(_EVERY_BOOT)
    # Ansible and the program are one logic: each finds the other's work in order.
    assert instance.built().changed == 0

    instance.restart(instance.fresh(2))
    assert "create /dev/md/nvme" in instance.sh(_EVERY_BOOT)
    told = instance.sh("nvme-raid --drives 2 --check -f json")
    assert json.loads(told)["changed"] is False
    refused = instance.guest.run(["nvme-raid", "--drives", "3"], check=False)
    assert refused.returncode == 3
    assert "expected 3 NVMe drives, found 2" in refused.stderr
