"""What happens to a drive between a tenant and its erase, and during it: a preset put to work.

A drive is first started as the factory made it (``PRISTINE``), so that its profile can be approved
and a tenant can write; then the preset's leftovers and faults come over it.
"""

from __future__ import annotations

import contextlib
import json
from typing import Final

from tests.lab.errors import LabError
from tests.lab.nvme.faults import HEALTHY
from tests.lab.nvme.presetkind import Event, Preset
from tests.lab.rack.drive import RackDrive
from tests.lab.rack.guests import ComputeGuest
from tests.lab.rack.rack import Rack

PRISTINE: Final = ("--pristine", "--faults", "{}")
"""Options of a drive that is not yet what its preset makes of it."""
_READY_S: Final = 60.0


def make(rack: Rack, slot: int, preset: Preset, size: int) -> RackDrive:
    """A pristine drive; ``begin`` makes it what its preset says."""
    return rack.drive(slot, preset=preset.name, size=size, options=PRISTINE)


def begin(rack: Rack, compute: ComputeGuest, drive: RackDrive, preset: Preset) -> None:
    """The tenant leaves, the host takes the drive back, the faults begin.

    A twin is plugged into the slot after the last drive's.
    """
    if preset.event is Event.TWIN:
        slot = max(other.slot for other in rack.drives) + 1
        # With a subsystem name of its own: Linux refuses a second controller of the same name.
        options = (*PRISTINE, "--profile", json.dumps({"salt": "twin"}))
        twin = rack.drive(
            slot, preset=preset.name, size=drive.size, options=options, serial=drive.serial
        )
        compute.plug_all([twin], wait=False)
        compute.wait_for(f"/sys/bus/pci/devices/{twin.address}/nvme/nvme*", _READY_S)
    if preset.left.names:
        with drive.control() as control:
            control.leave(preset.left)
    if preset.event is Event.PASSED:
        compute.hand_over(drive.address)
    if preset.left.names or preset.event is Event.PASSED or preset.faults != HEALTHY:
        rebind(compute, drive.address)
    if preset.faults != HEALTHY:
        drive.set_faults(preset.faults)


def rebind(compute: ComputeGuest, address: str) -> None:
    """Give a drive to the nvme driver anew; one that has no namespace is not waited for."""
    compute.bind(address, "")
    with contextlib.suppress(LabError):
        compute.wait_for(f"/sys/bus/pci/devices/{address}/nvme/nvme*", _READY_S)
    compute.run(["udevadm", "settle", "-t", "60"])


class Slot:
    """A slot whose drive is pulled and put back: what a hot-plug port would do about it.

    This guest's QEMU cannot unplug the model, so the driver is bound again by hand.
    """

    def __init__(self, compute: ComputeGuest, drive: RackDrive) -> None:
        self._compute = compute
        self._drive = drive
        self._empty = self._done = False

    def look(self) -> bool:
        """Called again and again; true once the drive was taken back."""
        if self._done:
            return True
        powered = self._drive.powered()
        if self._empty and powered:
            rebind(self._compute, self._drive.address)
            self._done = True
        self._empty = self._empty or not powered
        return self._done
