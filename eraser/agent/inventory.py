"""The drives of this host, as a hello tells of them: quick, whatever the drives do."""

from __future__ import annotations

import functools
import logging
from collections.abc import Collection

from eraser.agent.bounded_probes import BoundedProbes
from eraser.controller import nvme
from eraser.errors import EraserError
from eraser.host import openers, sysfs, usage
from eraser.host.functions import nvme_functions
from eraser.protocol.identity import ControllerIdentity
from eraser.protocol.report import SeenDrive

LOG = logging.getLogger(__name__)

HELLO_SECONDS = 5.0
"""For all drives of the host at once; one at rest answers in milliseconds."""

FRESH_SECONDS = 90.0
"""An identity counts for so long that came after the hello it was asked for: until the next one,
and no longer. On a host where each drive is late each time, none would ever be named. A hello is a
minute old itself before the next one comes, and before a drive is touched it is asked again."""

BRIDGES = ("0x0600", "0x0604")
"""PCI class codes of host and PCI bridges: they stay with the host whatever a group is given to."""


class DriveWatch:
    """Looks at all drives of one host, again and again."""

    def __init__(self, host: sysfs.Host) -> None:
        self._host = host
        self._looks: BoundedProbes[tuple[int, ControllerIdentity]] = BoundedProbes(
            FRESH_SECONDS, clock=host.clock.monotonic
        )

    def drives(self, worked_on: Collection[str]) -> tuple[SeenDrive, ...]:
        """Every NVMe function; identities only of drives at rest that no case works on.

        Takes :data:`HELLO_SECONDS` at the most: a drive that is mute is shown without identity.
        """
        drivers = {
            address: sysfs.PciFunction(self._host, address).driver or ""
            for address in nvme_functions(self._host)
        }
        found = self._looks.take(
            {
                address: functools.partial(self._numbered, address)
                for address, driver in drivers.items()
                # A guest's drive is not the host's to ask, and one that is being erased has its
                # case.
                if driver == "nvme" and address not in worked_on
            },
            HELLO_SECONDS,
        )
        # One that was pulled since may be in another slot by now: named in both, both were held.
        identities = {
            address: identity
            for address, (number, identity) in found.items()
            if number == sysfs.PciFunction(self._host, address).number
        }
        disks = system_disks(self._host)
        return tuple(
            SeenDrive(
                address=address,
                driver=driver,
                identity=identities.get(address),
                group=group_mates(self._host, address),
                system=carries_system(self._host, address, disks),
                sriov=can_have_functions(self._host, address),
            )
            for address, driver in drivers.items()
        )

    def _numbered(self, address: str) -> tuple[int, ControllerIdentity]:
        """With the number of the function that was asked, read before it was."""
        return sysfs.PciFunction(self._host, address).number, self._identity(address)

    def _identity(self, address: str) -> ControllerIdentity:
        controller = nvme.open_controller(self._host, address, timeout=HELLO_SECONDS)
        try:
            return controller.identity()
        finally:
            controller.close()


def can_have_functions(host: sysfs.Host, address: str) -> bool | None:
    """Whether the function has the SR-IOV capability; None where that cannot be read.

    The kernel shows ``sriov_totalvfs`` of such a function only (``Documentation/ABI/testing/
    sysfs-bus-pci``); libvirt names its virtual functions then, and Nova makes it a type-PF.
    """
    try:
        return int(host.text(f"/sys/bus/pci/devices/{address}/sriov_totalvfs")) > 0
    except FileNotFoundError:
        return False
    except (OSError, ValueError) as error:
        LOG.warning("hello: %s: %s", address, error)
        return None


def system_disks(host: sysfs.Host) -> frozenset[str] | None:
    """Disks below the running system; None where that cannot be read."""
    try:
        # What process 1 has mounted: this one may have a mount namespace of its own.
        return usage.system_disks(host, openers.mounts(host, [1])[1])
    except (EraserError, OSError, KeyError) as error:
        LOG.warning("hello: which drive carries the system is unknown: %s", error)
        return None


def carries_system(host: sysfs.Host, address: str, disks: frozenset[str] | None) -> bool | None:
    """Whether one of ``disks`` is this drive's; None where that cannot be read."""
    if disks is None:
        return None
    try:
        nodes = sysfs.PciFunction(host, address).nodes()
    except (EraserError, OSError) as error:
        LOG.warning("hello: %s", error)
        return None
    return any(node.block and node.name in disks for node in nodes)


def group_mates(host: sysfs.Host, address: str) -> tuple[str, ...] | None:
    """Other endpoints of the IOMMU group; None without a group, or where it cannot be read."""
    try:
        group = sysfs.PciFunction(host, address).iommu_group
        # Without an IOMMU there are no groups.
        if group is None:
            return None
        return tuple(
            other
            for other in host.children(f"/sys/kernel/iommu_groups/{group}/devices")
            if other != address
            and not host.text(f"/sys/bus/pci/devices/{other}/class").startswith(BRIDGES)
        )
    except OSError as error:
        LOG.warning("hello: the IOMMU group of %s is unknown: %s", address, error)
        return None
