"""The rack itself: makes guests and drives, knows who has what, ends everything."""

import contextlib
import shutil
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Final, Self, TypeVar

from tests.lab.errors import LabError
from tests.lab.guest import build
from tests.lab.guest.argv import DEFAULT, Flavour, slot_address
from tests.lab.guest.machine import short_directory
from tests.lab.guest.vm import Guest
from tests.lab.nvme.presets import preset as preset_of
from tests.lab.nvme.profile import DriveProfile
from tests.lab.rack.drive import DEFAULT_SIZE, RackDrive
from tests.lab.rack.guests import ComputeGuest, TenantGuest
from tests.lab.rack.stock import StockDrive

DEFAULT_HOST: Final = "compute-1"
_Held = TypeVar("_Held")


class Rack:
    """Compute hosts, tenants and drives, in one directory.

    Everything made here is ended when the rack is closed, however that comes about: guests and
    drive servers also die with this process.
    """

    def __init__(self, directory: Path, images: build.Images | None = None) -> None:
        self.images = images or build.ensure()
        self.directory = directory
        directory.mkdir(parents=True, exist_ok=True)
        self.short = short_directory()
        """For sockets: the paths of those may have a hundred characters."""
        self._count = 0
        self._held = contextlib.ExitStack()
        self.drives: list[RackDrive] = []
        self.guests: list[Guest] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    # Making

    def drive(
        self,
        slot: int = 0,
        *,
        serial: str | None = None,
        preset: str = "honest",
        size: int = DEFAULT_SIZE,
        host: str = DEFAULT_HOST,
        options: Sequence[str] = (),
    ) -> RackDrive:
        """Make a drive for a slot of a host; ``compute`` plugs in all that were made before.

        ``size`` is in bytes. Without a ``serial`` each drive gets one of its own, unless the
        preset is about the serial. ``options`` are further arguments of ``tests.lab.nvme.server``.
        """
        number = len(self.drives)
        made = RackDrive(
            slot=slot,
            address=slot_address(slot),
            host=host,
            serial=_serial(preset, number) if serial is None else serial,
            preset=preset,
            size=size,
            directory=self.directory / f"drive-{number}",
            short=self.short / f"d{number}",
            options=tuple(options),
        )
        self.drives.append(made)
        made.start()
        return made

    def stock(self, slot: int = 0, *, size: int, host: str = DEFAULT_HOST) -> StockDrive:
        """Make one of QEMU's own NVMe devices for a slot of a host; ``size`` is in bytes."""
        number = len(self.drives)
        made = StockDrive(
            slot=slot,
            address=slot_address(slot),
            host=host,
            serial=f"STOCK{number + 1:07d}",
            preset="QEMU's own",
            size=size,
            directory=self.directory / f"drive-{number}",
            short=self.short / f"d{number}",
        )
        self.drives.append(made)
        made.start()
        return made

    def move(self, drive: RackDrive, slot: int, *, host: str | None = None) -> None:
        """Put a drive into another slot, of another host if wanted, while its host is off.

        ``power_on`` then finds it there. (A drive of a running guest cannot be unplugged: QEMU
        aborts. To make it vanish, set the drive's fault ``gone``.)
        """
        if self._hosts_of(drive):
            raise LabError(f"expected the host of {drive.serial!r} to be off; cut its power first")
        drive.slot, drive.address = slot, slot_address(slot)
        drive.host = drive.host if host is None else host

    def compute(self, name: str = DEFAULT_HOST, *, flavour: Flavour = DEFAULT) -> ComputeGuest:
        """Start a compute host with its drives plugged in and ready on the nvme driver."""
        guest = ComputeGuest(self.images, name, *self._places(name), flavour)
        self.guests.append(guest)
        guest.start()
        guest.plug_all(self._drives_of(name))
        return guest

    def tenant(
        self,
        drives: Sequence[RackDrive],
        *,
        name: str | None = None,
        flavour: Flavour = DEFAULT,
    ) -> TenantGuest:
        """Start an instance that has drives; their hosts hand them over first."""
        for drive in drives:
            drive.wait_ready()
            for host in self._hosts_of(drive):
                host.hand_over(drive.address)
        name = name or f"tenant-{len(self.guests) + 1}"
        guest = TenantGuest(self.images, name, *self._places(name), flavour)
        self.guests.append(guest)
        guest.start()
        guest.plug_all(drives)
        return guest

    def hold(self, context: contextlib.AbstractContextManager[_Held]) -> _Held:
        """Enter a context (a service of the control plane, ...) that ends before the guests do."""
        return self._held.enter_context(context)

    # Ending

    def delete(self, tenant: TenantGuest) -> None:
        """End an instance, as a delete or a shut-off does: its hosts take the drives back."""
        tenant.power_cut()
        for drive in tenant.drives:
            for host in self._hosts_of(drive):
                host.take_back(drive.address)
        tenant.drives = ()

    def power_cut(self, compute: ComputeGuest) -> None:
        """Cut a host's power: it, the instances on it and its drives, all at once."""
        affected = [drive for drive in self.drives if drive.host == compute.name]
        for guest in self.guests:
            if isinstance(guest, TenantGuest) and set(guest.drives) & set(affected):
                guest.power_cut()
        compute.power_cut()
        for drive in affected:
            drive.power_cycle()

    def power_on(self, compute: ComputeGuest) -> None:
        """Switch a host on again: a fresh boot, with only its persistent directories kept."""
        compute.start()
        compute.plug_all(self._drives_of(compute.name))

    def close(self) -> None:
        """End everything that was started here and remove the sockets. Safe to call twice."""
        try:
            self._held.close()
        finally:
            for guest in self.guests:
                guest.power_cut()
            for drive in self.drives:
                drive.kill()
            shutil.rmtree(self.short, ignore_errors=True)

    def discard(self) -> None:
        """Remove the directory of a closed rack: overlays and media are large."""
        self.close()
        shutil.rmtree(self.directory, ignore_errors=True)

    # Looking

    def tenants(self) -> list[TenantGuest]:
        """Return the instances that run."""
        return [guest for guest in self.guests if isinstance(guest, TenantGuest) and guest.is_on]

    def diagnostics(self) -> list[tuple[str, str]]:
        """Return what to read after a failure: title and text of each log's end."""
        report = []
        for guest in self.guests:
            report.append((f"console of {guest.name}", guest.console_tail()))
            report.append((f"QEMU of {guest.name}", guest.qemu_log_tail()))
        for drive in self.drives:
            report.append((f"commands of drive {drive.serial!r}", drive.command_tail()))
            report.append((f"server of drive {drive.serial!r}", drive.log_tail()))
        return report

    def _drives_of(self, host: str) -> list[RackDrive]:
        return [drive for drive in self.drives if drive.host == host]

    def _hosts_of(self, drive: RackDrive) -> list[ComputeGuest]:
        return [
            guest
            for guest in self.guests
            if isinstance(guest, ComputeGuest) and guest.is_on and drive in guest.drives
        ]

    def _places(self, name: str) -> tuple[Path, Path]:
        if any(guest.name == name for guest in self.guests):
            raise LabError(f"expected a new guest's name, {name} exists; give another one")
        self._count += 1
        return self.directory / name, self.short / f"g{self._count}"


def _serial(name: str, number: int) -> str:
    chosen = preset_of(name).profile.serial
    return f"LAB{number + 1:07d}" if chosen == DriveProfile().serial else chosen
