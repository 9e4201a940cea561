"""The collection itself: its lint, and that what is shipped is whole."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from tests.lab.guest.payload import REPOSITORY
from tests.tenants.instance import environment

ROLE = REPOSITORY / "ansible/roles/nvme_raid"


@pytest.mark.parametrize("where", ["installed", "source"])
def test_ansible_lint_passes_the_production_profile(collections: Path, where: str) -> None:
    directory = {
        "installed": collections / "ansible_collections/nvme_quarantine/tenant",
        "source": REPOSITORY / "ansible",
    }[where]

    done = subprocess.run(
        ["ansible-lint", "--offline", "--nocolor", "--profile", "production"],
        cwd=directory,
        env=environment(collections),
        capture_output=True,
        text=True,
        check=False,
    )

    assert done.returncode == 0, done.stdout + done.stderr
    assert "'production' was required, and it passed" in done.stdout + done.stderr


def test_ansible_doc_reads_the_module(collections: Path) -> None:
    done = subprocess.run(
        ["ansible-doc", "-t", "module", "nvme_quarantine.tenant.nvme_raid"],
        env=environment(collections),
        capture_output=True,
        text=True,
        check=False,
    )

    assert done.returncode == 0, done.stderr
    assert "require_blank" in done.stdout


def test_role_and_module_have_the_same_options_and_defaults() -> None:
    specs = yaml.safe_load((ROLE / "meta/argument_specs.yml").read_text())
    options = specs["argument_specs"]["main"]["options"]
    defaults = yaml.safe_load((ROLE / "defaults/main.yml").read_text())
    text = (REPOSITORY / "ansible/plugins/modules/nvme_raid.py").read_text()
    found = re.search(r'DOCUMENTATION = r"""(.*?)"""', text, re.DOTALL)
    assert found is not None
    module = yaml.safe_load(found.group(1))["options"]

    names = {name.removeprefix("nvme_raid_") for name in options} - {"packages"}
    assert names == set(module)
    for name, option in options.items():
        if "default" in option:
            assert defaults[name] == option["default"], name
        if name != "nvme_raid_packages":
            short = name.removeprefix("nvme_raid_")
            assert option.get("default") == module[short].get("default"), name
            assert option["type"] == module[short]["type"], name


INSTALLER = """#!/usr/bin/python
from ansible.module_utils.basic import AnsibleModule
module = AnsibleModule({"name": {"type": "list"}, "state": {}}, supports_check_mode=True)
module.exit_json(changed=%s)
"""
PLAYBOOK = """
- hosts: localhost
  gather_facts: false
  pre_tasks:
    - ansible.builtin.set_fact: {pkg_mgr: lab.stand_in.installer, cacheable: true}
  roles:
    - {role: nvme_quarantine.tenant.nvme_raid, nvme_raid_drives: 0}
"""


@pytest.mark.parametrize("missing", [True, False])
def test_check_mode_on_an_instance_without_the_packages_ends_well(
    collections: Path, tmp_path: Path, missing: bool
) -> None:
    """The module asks mdadm what is on the drives, and check mode has not installed it. No drives
    are asked for, so wherever the module runs it refuses before it looks at anything."""
    modules = tmp_path / "ansible_collections/lab/stand_in/plugins/modules"
    modules.mkdir(parents=True)
    (modules / "installer.py").write_text(INSTALLER % missing)
    (tmp_path / "play.yml").write_text(PLAYBOOK)

    done = subprocess.run(
        [
            *("ansible-playbook", "--check", "-c", "local", "-i", "localhost,"),
            *("-e", f"ansible_python_interpreter={sys.executable}", tmp_path / "play.yml"),
        ],
        env={
            **environment(collections),
            "ANSIBLE_COLLECTIONS_PATH": f"{collections}:{tmp_path}",
        },
        capture_output=True,
        text=True,
        check=False,
    )

    assert (done.returncode == 0) == missing, done.stdout + done.stderr
    assert ("check mode has not installed mdadm, util-linux, xfsprogs" in done.stdout) == missing
