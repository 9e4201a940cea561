"""What the tests with a real libvirtd share: one compute host, its libvirt, and who signs."""

from __future__ import annotations

from dataclasses import dataclass

from tests.lab.errors import LabError
from tests.lab.libvirt.control import ControlStandIn
from tests.lab.libvirt.domains import Domain
from tests.lab.libvirt.flavour import LIBVIRT
from tests.lab.libvirt.libvirt import Libvirt
from tests.lab.rack import Rack
from tests.lab.rack.drive import RackDrive
from tests.lab.rack.guests import ComputeGuest

SIZE = 64 << 20
"""Bytes of a drive: nothing is read for long."""


@dataclass
class Host:
    """A compute host with libvirtd, its drives on the nvme driver."""

    rack: Rack
    compute: ComputeGuest
    libvirt: Libvirt
    control: ControlStandIn

    @classmethod
    def make(cls, rack: Rack, drives: int) -> Host:
        """Start it, registered as a host, without the gate."""
        for slot in range(drives):
            rack.drive(slot, size=SIZE)
        compute = rack.compute(flavour=LIBVIRT)
        return cls(rack, compute, Libvirt(compute), ControlStandIn(compute))

    @property
    def drives(self) -> list[RackDrive]:
        """All drives, by slot."""
        return self.rack.drives

    def domain(self, name: str, *drives: RackDrive) -> Domain:
        """Define a domain that has drives."""
        return self.libvirt.define(Domain(name, tuple(drive.address for drive in drives)))

    def bound(self, *drives: RackDrive) -> list[str | None]:
        """Which driver has each drive."""
        return [self.compute.driver(drive.address) for drive in drives]

    def diagnostics(self) -> list[tuple[str, str]]:
        """What to read after a failure: title and text."""
        found = self.rack.diagnostics()
        if self.compute.is_on:
            try:
                found.append(("libvirtd", self.libvirt.log_tail()))
                found.append(("hook calls", "\n".join(map(str, self.libvirt.hook_calls()[-20:]))))
            except LabError as error:
                found.append(("libvirtd", f"cannot be asked: {error}"))
        return found
