"""A tenant's instance under test: a guest with drives, the role run against it, its reboot."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

from tests.lab.guest import trees
from tests.lab.guest.payload import REPOSITORY
from tests.lab.rack import Rack, RackDrive, TenantGuest
from tests.lab.tenant.flavour import TENANT
from tests.lab.tenant.relay import Relay

SIZE: Final = 1 << 30
"""Bytes of a drive: with stripes XFS wants a log of 64 MiB and room around it."""
_RUN_S: Final = 600
"""Of the role or the program: each may update an initramfs, minutes beside another guest."""
_RESULT: Final = "result.json"
_WRITES: Final = frozenset({"write", "write-zeroes", "dsm", "flush", "format", "sanitize"})
_PLAYBOOK: Final = """
- hosts: tenant
  gather_facts: false
  roles:
    - nvme_quarantine.tenant.nvme_raid
  post_tasks:
    - ansible.builtin.copy:
        content: "{{ nvme_raid_result | to_json }}"
        dest: "{{ lab_result }}"
      delegate_to: localhost
      check_mode: false
      diff: false
      changed_when: false
"""


def environment(collections: Path) -> dict[str, str]:
    """Ansible's, away from whatever is configured on this machine."""
    home = collections / "home"
    return {
        **{key: value for key, value in os.environ.items() if not key.startswith("ANSIBLE_")},
        "ANSIBLE_COLLECTIONS_PATH": str(collections),
        "ANSIBLE_CONFIG": str(collections / "ansible.cfg"),
        "ANSIBLE_CONNECTION_PLUGINS": str(REPOSITORY / "tests/lab/tenant/connection"),
        "ANSIBLE_HOME": str(home),
        "ANSIBLE_NOCOLOR": "1",
        "ANSIBLE_PIPELINING": "1",
        "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
    }


@dataclass(frozen=True)
class Play:
    """What a run of the role said."""

    code: int
    output: str
    result: dict[str, Any]
    """What the module returned; empty after a failure."""

    @property
    def changed(self) -> int:
        """The number in the recap."""
        found = re.search(r"changed=(\d+)", self.output)
        assert found is not None, self.output
        return int(found.group(1))

    @property
    def steps(self) -> list[str]:
        """What was done, in words."""
        return list(self.result.get("steps", ()))


class Instance:
    """One guest with drives. Its root disk outlives ``restart``."""

    guest: TenantGuest

    def __init__(self, rack: Rack, collections: Path, directory: Path) -> None:
        self.rack = rack
        self._collections = collections
        self._directory = directory
        self._relay: Relay | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._relay is not None:
            self._relay.__exit__(kind, error, trace)

    # The machine

    def start(self, count: int, *, preset: str = "honest") -> Self:
        """Start it with drives in slots 0, 1, ..."""
        self.guest = self.rack.tenant(self.fresh(count, preset=preset), flavour=TENANT)
        self._own_root()
        socket = self.rack.drives[0].host_socket.parent.parent / "relay"
        self._relay = Relay(self.guest, socket)
        self._relay.__enter__()
        return self

    def fresh(self, count: int, *, preset: str = "honest") -> list[RackDrive]:
        """Blank drives that no guest has."""
        return [self.rack.drive(slot, preset=preset, size=SIZE) for slot in range(count)]

    def restart(self, drives: Sequence[RackDrive] | None = None) -> None:
        """Reboot, or stop and start with other drives. What systemd does at boot is not done."""
        drives = self.guest.drives if drives is None else drives
        for drive in drives:
            drive.wait_ready()
        self.guest.reboot()
        self._own_root()
        self.guest.plug_all(drives)
        self.guest.run(["udevadm", "settle"])

    def _own_root(self) -> None:
        """The lab keeps some directories on a disk of their own; a tenant has one root disk."""
        for name in trees.PERSISTENT:
            self.guest.run(["umount", f"/{name}"])

    def sh(self, script: str) -> str:
        """Run a shell script in it; returns what it printed."""
        return self.guest.sh(script, timeout=_RUN_S).stdout

    def device(self, slot: int) -> str:
        """The present node of the drive in a slot."""
        return self.guest.block_device(f"0000:{slot + 1:02x}:00.0")

    def mark(self) -> list[int]:
        """Where each drive's log of commands is now."""
        return [len(drive.commands()) for drive in self.guest.drives]

    def written(self, mark: list[int]) -> list[str]:
        """The commands since then that change a drive."""
        return [
            f"{drive.serial}: {command.name}"
            for drive, start in zip(self.guest.drives, mark, strict=True)
            for command in drive.commands()[start:]
            if command.name in _WRITES
        ]

    # The role

    def play(self, *options: str, **variables: object) -> Play:
        """Run the role from this machine, with ``nvme_raid_`` variables and Ansible's options."""
        (self._directory / "site.yml").write_text(_PLAYBOOK)
        result = self._directory / _RESULT
        result.unlink(missing_ok=True)
        assert self._relay is not None
        given: dict[str, object] = {
            "nvme_raid_drives": len(self.guest.drives),
            # They are there, and asking apt takes most of the time of a run under emulation; so
            # does an initramfs, half a minute each. The tests that are about these ask for them.
            "nvme_raid_packages": [],
            "nvme_raid_initramfs": False,
            **{f"nvme_raid_{name}": value for name, value in variables.items()},
            "lab_result": str(result),
            "lab_socket": str(self._relay.path),
            "ansible_python_interpreter": "/usr/bin/python3",
        }
        inventory = {
            "all": {"hosts": {"tenant": {"ansible_connection": "lab", **given}, "localhost": _HERE}}
        }
        (self._directory / "hosts.yml").write_text(json.dumps(inventory))
        done = subprocess.run(
            ["ansible-playbook", "-i", "hosts.yml", *options, "site.yml"],
            cwd=self._directory,
            env=environment(self._collections),
            capture_output=True,
            text=True,
            timeout=_RUN_S,
            check=False,
        )
        found = json.loads(result.read_text()) if result.exists() else {}
        return Play(done.returncode, done.stdout + done.stderr, found)

    def built(self, **variables: object) -> Play:
        """Run the role, which has to succeed."""
        play = self.play(**variables)
        assert play.code == 0, play.output
        return play


_HERE: Final = {
    "ansible_connection": "local",
    "ansible_python_interpreter": "{{ ansible_playbook_python }}",
}
