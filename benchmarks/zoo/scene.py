"""One drive with a tenant's data on it, in a compute host, about to be erased by somebody."""

from __future__ import annotations

import contextlib
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tests.lab.errors import LabError
from tests.lab.guest.argv import SHORT_TIMEOUTS, Flavour
from tests.lab.guest.build import Images
from tests.lab.nvme.presetkind import Preset
from tests.lab.nvme.profile import DriveProfile
from tests.lab.rack import Rack, world
from tests.lab.rack.drive import RackDrive
from tests.lab.rack.guests import ComputeGuest

SIZE: Final = 64 << 20
"""Bytes of a drive: every block is read in seconds, and 16,384 blocks are enough to sample."""
PROFILE: Final = "/var/lib/nvme-eraser/profile.json"
_APPROVED: Final[dict[DriveProfile, bytes]] = {}

# The tenant's own tool is nvme-cli too. Blocks at both ends, for drives that forget them.
_WRITE: Final = """
control=/dev/{controller}
for n in {detached}; do nvme attach-ns $control -n $n -c 1 >/dev/null; done
udevadm settle -t 60
for d in ${{control}}n*; do
    size=$(blockdev --getsize64 $d)
    mib=$((size * {percent} / 100 / 1048576))
    if [ {percent} -gt 0 ]; then
        dd if=/dev/urandom of=$d bs=1M count=$mib oflag=direct status=none
        dd if=/dev/urandom of=$d bs=1M seek=$((size / 1048576 - 1)) count=1 oflag=direct status=none
    else
        dd if=/dev/urandom of=$d bs=4096 seek=256 count=1 oflag=direct status=none
    fi
done
for n in {detached}; do nvme detach-ns $control -n $n -c 1 >/dev/null; done
"""


@dataclass(frozen=True)
class Scene:
    """Everything that an eraser and an auditor need. ``known``: what the tenant wrote."""

    rack: Rack
    compute: ComputeGuest
    drive: RackDrive
    preset: Preset
    known: frozenset[bytes]
    commands_before: int

    @property
    def address(self) -> str:
        """The drive's PCI address in the compute host."""
        return self.drive.address

    def count_left(self) -> int:
        """Blocks of 4 KiB with the tenant's data, seen on the backing file from outside."""
        return self.drive.count_leaked(self.known)

    def count_commands(self) -> int:
        """Admin commands that the drive was sent since the scene was set."""
        admin = [command for command in self.drive.commands() if command.is_admin]
        return len(admin) - self.commands_before

    def destructive(self) -> list[str]:
        """What the drive's own log saw of erase commands, with CDW10 and answer."""
        return [
            f"{one.name} nsid={one.nsid:x} cdw10={one.cdws[0]:#x} "
            + ("unanswered" if one.status is None else f"status={one.status:#x}")
            for one in self.drive.commands()
            if one.name in ("sanitize", "format_nvm")
        ]


@contextlib.contextmanager
def scene(
    preset: Preset, *, images: Images | None = None, flavour: Flavour = SHORT_TIMEOUTS
) -> Iterator[Scene]:
    """Set it: an approved profile, a tenant's day, what the tenant left, and the drive's faults.

    Raises ``LabError`` where the rack does not do its part.
    """
    with (
        tempfile.TemporaryDirectory(prefix="nvq-zoo-") as directory,
        Rack(Path(directory) / "rack", images) as rack,
    ):
        yield _set(rack, preset, flavour)


def _set(rack: Rack, preset: Preset, flavour: Flavour) -> Scene:
    drive = world.make(rack, 0, preset, SIZE)
    compute = rack.compute(flavour=flavour)
    _approve(compute, drive, preset)
    _write(compute, drive, preset)
    known = drive.fingerprints()
    if not known:
        raise LabError(f"expected a tenant's data on {preset.name}, the backing file has none")
    world.begin(rack, compute, drive, preset)
    before = len([command for command in drive.commands() if command.is_admin])
    return Scene(rack, compute, drive, preset, known, before)


def _approve(compute: ComputeGuest, drive: RackDrive, preset: Preset) -> None:
    """A model is inspected once, as an operator would; profiles do not name a drive."""
    if (known := _APPROVED.get(preset.profile)) is None:
        compute.run(["nvme-eraser", "inspect", "--pci", drive.address, "--save", PROFILE])
        known = _APPROVED[preset.profile] = compute.get(PROFILE)
    compute.put(PROFILE, known)


def _write(compute: ComputeGuest, drive: RackDrive, preset: Preset) -> None:
    with drive.control() as control:
        detached = [one.nsid for one in control.state().namespaces if not one.attached]
    script = _WRITE.format(
        controller=compute.controller(drive.address),
        detached=" ".join(map(str, detached)),
        percent=round(preset.filled * 100),
    )
    compute.sh(script, timeout=180)
