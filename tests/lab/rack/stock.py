"""QEMU's own NVMe device: a drive that knows nothing of us, after somebody else's reading of the
standard. It has a backing file; it has no command log, no faults and no power switch."""

from __future__ import annotations

from tests.lab.guest import argv
from tests.lab.guest.running import RunningGuest
from tests.lab.nvme.commandlog import LoggedCommand
from tests.lab.rack.drive import RackDrive


class StockDrive(RackDrive):
    """One in a slot of a compute host. No tenant's guest can have it: it ends with its host."""

    def start(self) -> None:
        """A new one is empty."""
        with self.backing.open("ab") as file:
            file.truncate(self.size)

    def wait_ready(self) -> None:
        """QEMU serves it."""

    def plug_into(self, guest: RunningGuest) -> str:
        """Put it into its slot of a guest; its PCI address there."""
        node = f"stock{self.slot}"
        monitor = guest.machine.monitor
        file = {"driver": "file", "filename": str(self.backing)}
        monitor.execute("blockdev-add", **{"driver": "raw", "node-name": node, "file": file})
        monitor.execute(
            "device_add",
            driver="nvme",
            id=f"drive{self.slot}",
            bus=argv.root_port(self.slot),
            drive=node,
            serial=self.serial,
        )
        address = argv.slot_address(self.slot)
        guest.wait_for(f"/sys/bus/pci/devices/{address}")
        return address

    def commands(self, name: str | None = None) -> list[LoggedCommand]:
        """None: nobody writes them down."""
        return []
