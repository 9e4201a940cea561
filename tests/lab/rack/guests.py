"""Compute and tenant guests: what libvirt does to a passed-through drive, done by hand."""

from collections.abc import Sequence
from typing import Final

from tests.lab.errors import LabError
from tests.lab.guest.vm import Guest
from tests.lab.rack.drive import RackDrive

_READY_S: Final = 90.0
_PCI: Final = "/sys/bus/pci/devices"
# As libvirt handles a managed hostdev: override, unbind, probe again.
_BIND: Final = """
device={pci}/{address}
printf '%s\\n' '{driver}' >"$device/driver_override"
if [ -e "$device/driver" ]; then printf '%s' {address} >"$device/driver/unbind"; fi
printf '%s' {address} >/sys/bus/pci/drivers_probe
"""


class DriveGuest(Guest):
    """A guest with drives in it."""

    def wait_drive(self, address: str) -> None:
        """Wait until the nvme driver has a namespace of the drive ready and udev is done with it.

        Raises ``GuestError``; not for drives that have no namespace or do not answer.
        """
        self.wait_for(f"{_PCI}/{address}/nvme/nvme*/nvme[0-9]*n[0-9]*", _READY_S)
        self.run(["udevadm", "settle", "-t", str(int(_READY_S))])

    def driver(self, address: str) -> str | None:
        """Return the name of the driver bound to a PCI function, or nothing."""
        done = self.run(["readlink", f"{_PCI}/{address}/driver"], check=False)
        return done.stdout.strip().rpartition("/")[2] or None

    def controller(self, address: str) -> str:
        """Return the controller's present device name, e.g. ``nvme0``; names may change."""
        return self.run(["ls", f"{_PCI}/{address}/nvme"]).stdout.split()[0]

    def block_device(self, address: str, namespace: int = 1) -> str:
        """Return the present path of a namespace's block device, e.g. ``/dev/nvme0n1``."""
        return f"/dev/{self.controller(address)}n{namespace}"

    def bind(self, address: str, driver: str) -> None:
        """Bind a PCI function to a driver, or to what the kernel prefers when it is empty."""
        self.sh(_BIND.format(pci=_PCI, address=address, driver=driver))


class TenantGuest(DriveGuest):
    """A tenant's instance. Its drives are in slots 0, 1, ... in the order given."""

    drives: tuple[RackDrive, ...] = ()

    def plug_all(self, drives: Sequence[RackDrive]) -> list[str]:
        """Plug drives in and wait for them; return their addresses in this guest."""
        self.drives = tuple(drives)
        addresses = [self.plug(n, drive.tenant_socket) for n, drive in enumerate(self.drives)]
        for address in addresses:
            self.wait_drive(address)
        return addresses


class ComputeGuest(DriveGuest):
    """A compute host. Its drives are at 0000:01:00.0 (slot 0), 0000:02:00.0 (slot 1), ..."""

    drives: tuple[RackDrive, ...] = ()

    def power_cut(self) -> None:
        """End this host alone: its drives keep their power, as when a kernel crashes and reboots.

        ``Rack.power_cut`` takes the power of the drives and of the instances as well.
        """
        super().power_cut()
        self.drives = ()

    def plug_all(self, drives: Sequence[RackDrive], *, wait: bool = True) -> None:
        """Plug drives in, each in its own slot; also while the host runs.

        Without ``wait`` for drives that have no namespace or do not answer.
        """
        for drive in drives:
            drive.wait_ready()
            address = drive.plug_into(self)
            if address != drive.address:
                raise LabError(f"expected drive {drive.serial} at {drive.address}, it is {address}")
            self.drives = (*self.drives, drive)
        for drive in drives:
            if wait:
                self.wait_drive(drive.address)

    def hand_over(self, address: str) -> None:
        """Give a drive to a guest: from the nvme driver to vfio-pci."""
        self.bind(address, "vfio-pci")
        if (bound := self.driver(address)) != "vfio-pci":
            raise LabError(f"expected {address} on vfio-pci, it is on {bound}; see the console")

    def take_back(self, address: str) -> None:
        """Take a drive back after its guest has ended: to the nvme driver, readable again."""
        self.bind(address, "")
        self.wait_drive(address)
