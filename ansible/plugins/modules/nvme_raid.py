#!/usr/bin/python
# Copyright: the nvme-quarantine authors
# Apache-2.0 (see LICENSE)
"""Ansible's door to the module_utils package of the same name."""

from __future__ import annotations

DOCUMENTATION = r"""
module: nvme_raid
short_description: RAID 0 and XFS over an instance's own NVMe drives
version_added: "1.0.0"
description:
  - Finds the NVMe drives that were passed through to the instance, makes a named md array of
    level 0 over them, an XFS aligned to it, and mounts it by UUID. One drive gets an XFS alone.
  - Changes only drives that hold nothing, or an array and filesystem that it made itself. Where a
    drive holds anything else, is in use, is missing or is one too many, it fails, names them, and
    changes nothing.
  - Looks again after each change and ends when nothing is left to do.
options:
  drives:
    description:
      - How many passed-through drives the flavor has.
      - An instance with another number is left alone.
    type: int
    required: true
  name:
    description: Name of the array, found as C(/dev/md/NAME).
    type: str
    default: nvme
  label:
    description:
      - Label of the filesystem, 12 characters at most. By default the first 12 of O(name).
      - On a single drive the label is what the module knows its own filesystem by.
    type: str
  mount:
    description: Mount point. Directories that the system lives in are refused.
    type: path
    default: /mnt/nvme
  chunk:
    description:
      - KiB on one drive before the next one's turn. An array with another chunk is refused.
    type: int
    default: 512
  only:
    description:
      - PCI addresses, serial numbers or models, with C(*) and C(?).
      - Set this where the instance has other NVMe volumes beside its passed-through drives.
    type: list
    elements: str
    default: []
  require_blank:
    description:
      - Refuse drives of random bytes, which is how a drive looks after a crypto erase.
      - Set this where an encrypted volume without a header may be on a drive or the array.
    type: bool
    default: false
  device_timeout:
    description: Seconds that systemd waits for the device at boot.
    type: int
    default: 30
  mount_options:
    description: Mount options beside C(nofail) and systemd's, which are always there.
    type: list
    elements: str
    default: [noatime]
  before:
    description: systemd units that start after the mount and not without it.
    type: list
    elements: str
    default: []
  trim:
    description: Enable C(fstrim.timer).
    type: bool
    default: true
  initramfs:
    description: Rebuild the initramfs when C(mdadm.conf) has changed.
    type: bool
    default: true
author:
  - the nvme-quarantine authors (@nvme-quarantine)
attributes:
  check_mode:
    description: Says what it would do and writes nothing.
    support: full
  diff_mode:
    description: Shows each step, and how files change.
    support: full
"""

EXAMPLES = r"""
- name: Four drives of an i1-180
  nvme_quarantine.tenant.nvme_raid:
    drives: 4
    mount: /srv/db
    before: [postgresql.service]
"""

RETURN = r"""
steps:
  description:
    - What was done, or would be in check mode, in words.
    - After a refusal or a failure what was done before it, usually nothing.
  type: list
  elements: str
  returned: success, and when refused or failed
drives:
  description: Device nodes in the array's order.
  type: list
  elements: str
  returned: success
device:
  description: What carries the filesystem.
  type: str
  returned: success
uuid:
  description: UUID of the filesystem; empty in check mode where it is not made yet.
  type: str
  returned: success
mount:
  description: The mount point.
  type: str
  returned: success
reasons:
  description: Why it stopped, one line each.
  type: list
  elements: str
  returned: when refused
"""

from ansible.module_utils.basic import AnsibleModule  # noqa: E402

from ..module_utils.nvme_raid import diffs  # noqa: E402
from ..module_utils.nvme_raid.act import act  # noqa: E402
from ..module_utils.nvme_raid.converge import converge  # noqa: E402
from ..module_utils.nvme_raid.errors import RaidError, Refusal  # noqa: E402
from ..module_utils.nvme_raid.look import look  # noqa: E402
from ..module_utils.nvme_raid.model import Wish  # noqa: E402
from ..module_utils.nvme_raid.program import locked  # noqa: E402


def main():
    """Run the module."""
    module = AnsibleModule(
        argument_spec={
            "drives": {"type": "int", "required": True},
            "name": {"type": "str", "default": "nvme"},
            "label": {"type": "str"},
            "mount": {"type": "path", "default": "/mnt/nvme"},
            "chunk": {"type": "int", "default": 512},
            "only": {"type": "list", "elements": "str", "default": []},
            "require_blank": {"type": "bool", "default": False},
            "device_timeout": {"type": "int", "default": 30},
            "mount_options": {"type": "list", "elements": "str", "default": ["noatime"]},
            "before": {"type": "list", "elements": "str", "default": []},
            "trim": {"type": "bool", "default": True},
            "initramfs": {"type": "bool", "default": True},
        },
        supports_check_mode=True,
    )
    asked = module.params
    wish = Wish(
        drives=asked["drives"],
        name=asked["name"],
        label=asked["label"] or asked["name"][:12],
        mount=asked["mount"].rstrip("/") or "/",
        chunk=asked["chunk"] * 1024,
        only=tuple(asked["only"]),
        require_blank=asked["require_blank"],
        device_timeout=asked["device_timeout"],
        options=tuple(asked["mount_options"]),
        before=tuple(asked["before"]),
        trim=asked["trim"],
        initramfs=asked["initramfs"],
    )
    try:
        with locked(make=not module.check_mode):
            outcome = converge(wish, look=look, act=act, check=module.check_mode)
    except Refusal as refusal:
        module.fail_json(
            msg=refusal.heading + ": " + "; ".join(refusal.reasons),
            reasons=list(refusal.reasons),
            changed=bool(refusal.done),
            steps=list(refusal.done),
        )
    except RaidError as error:
        module.fail_json(
            msg=error.heading + ": " + str(error),
            changed=bool(error.done),
            steps=list(error.done),
        )
    for warning in outcome.warnings:
        module.warn(warning)
    module.exit_json(
        changed=outcome.changed,
        steps=[step.text for step in outcome.steps],
        drives=list(outcome.plan.drives),
        device=outcome.plan.device,
        uuid=outcome.plan.filesystem,
        mount=wish.mount,
        diff=diffs.of(outcome.steps),
    )


if __name__ == "__main__":
    main()
