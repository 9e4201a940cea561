"""What tests of an erase share: a drive with a tenant's data, and the command line on it."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from tests.lab.guest.argv import DEFAULT, Flavour
from tests.lab.nvme.commandlog import LoggedCommand
from tests.lab.nvme.faults import Faults
from tests.lab.rack import Rack
from tests.lab.rack.drive import RackDrive
from tests.lab.rack.guests import ComputeGuest

SIZE = 64 << 20
"""Bytes: every block is read in a second or two, and probes are still far above the floor."""

QUICK: dict[str, Any] = {
    "name": "quick",
    "verification": {"residual": 0.001, "canaries": 700, "visit": 0, "settle": 0},
    "limits": {"stuck": 4, "poll": 0.1, "command": 10, "format": 60, "ready": 60},
}
VISITED = QUICK | {"verification": QUICK["verification"] | {"visit": 16}}
"""With the next tenant's first acts, which the other tests can do without."""
CLEAR = QUICK | {"name": "clear allowed", "allow_clear": True}

STATE = "/var/lib/nvme-eraser"
PROFILE = "/var/lib/nvme-eraser/profile.json"
POLICY = "/var/lib/nvme-eraser/policy.json"
"""In the directory that a power cut leaves."""


@dataclass(frozen=True)
class Erased:
    """What one call of ``nvme-eraser erase`` came to."""

    code: int
    stdout: str
    stderr: str

    @property
    def object(self) -> dict[str, Any]:
        """The one JSON object on stdout."""
        assert len(self.stdout.splitlines()) == 1, f"code {self.code}: {self.stderr}"
        found = json.loads(self.stdout)
        assert isinstance(found, dict)
        return found

    def __getattr__(self, name: str) -> Any:
        try:
            return self.object[name]
        except KeyError:
            raise AttributeError(name) from None


@dataclass
class Bench:
    """One compute host with one used drive, and a profile of what it should look like."""

    rack: Rack
    drive: RackDrive
    compute: ComputeGuest
    known: frozenset[bytes]

    def argv(self, *more: str) -> list[str]:
        """The command line of an erase."""
        base = ["nvme-eraser", "erase", "--pci", self.drive.address, "--profile", PROFILE]
        return [*base, "--any-drive", "--policy", POLICY, "--state-dir", STATE, "-f", "json", *more]

    def policy(self, policy: dict[str, Any]) -> None:
        """Gives the next erase another policy."""
        self.compute.put(POLICY, json.dumps(policy).encode())

    def erase(self, *more: str) -> Erased:
        """Erases and waits for the end."""
        done = self.compute.run(self.argv(*more), check=False, timeout=480)
        return Erased(done.returncode, done.stdout, done.stderr)

    def plan(self) -> Any:
        """What would be done to the drive under the policy that was written last."""
        argv = ["nvme-eraser", "plan", "--pci", self.drive.address, "--policy", POLICY]
        return json.loads(self.compute.run([*argv, "-f", "json"]).stdout)

    def report(self, erased: Erased) -> dict[str, Any]:
        """The whole report that the erase left."""
        found = json.loads(self.compute.get(erased.report))
        assert isinstance(found, dict)
        return found

    def destructive(self) -> list[LoggedCommand]:
        """What the drive's own log saw."""
        return [c for c in self.drive.commands() if c.name in ("sanitize", "format_nvm")]

    def sanitizes(self) -> list[int]:
        """SANACT of every sanitize that the drive accepted."""
        return [c.cdws[0] & 7 for c in self.drive.commands("sanitize") if c.succeeded]

    @property
    def leaked(self) -> int:
        """Blocks of the tenant that are still on the backing file, seen from outside."""
        return self.drive.count_leaked(self.known)


def bench(
    rack: Rack,
    preset: str = "honest",
    *,
    faults: Faults | None = None,
    policy: dict[str, Any] | None = None,
    mib: int = 8,
    flavour: Flavour = DEFAULT,
    options: Sequence[str] = (),
    serial: str | None = None,
) -> Bench:
    """A drive of ``preset`` that a tenant has written ``mib`` MiB of noise and text to."""
    drive = rack.drive(0, preset=preset, size=SIZE, options=options, serial=serial)
    compute = rack.compute(flavour=flavour)
    compute.sh(
        f"for d in $(ls /dev/nvme0n*); do dd if=/dev/urandom of=$d bs=1M count={mib} oflag=direct;"
        " yes 'the tenant owns this' | dd of=$d bs=1M count=1 seek=40 oflag=direct"
        " iflag=fullblock; done",
        check=False,
        timeout=120,
    )
    if faults is not None:
        drive.set_faults(faults)
    made = Bench(rack, drive, compute, drive.fingerprints())
    made.policy(policy or QUICK)
    compute.run(["nvme-eraser", "inspect", "--pci", drive.address, "--save", PROFILE])
    return made
