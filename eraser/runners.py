"""The pump's hands: cases on disk, and the detached processes that run them."""

from __future__ import annotations

import functools
import logging
import subprocess
import sys
from pathlib import Path

from eraser.casefiles import CaseFiles, CaseRequest
from eraser.drive import nvme, openers, sysfs, usage
from eraser.drive.lock import SlotLock
from eraser.errors import BusyError, EraserError
from eraser.looks import Looks
from eraser.pump import CaseLook
from eraser.spare import Runners
from eraser.wire.identity import ControllerIdentity
from eraser.wire.order import EraseOrder
from eraser.wire.report import SeenDrive, Step

LOG = logging.getLogger(__name__)

HELLO_SECONDS = 2.0
"""For all drives of the host at once; one at rest answers in milliseconds."""

BRIDGES = ("0x0600", "0x0604")
"""PCI class codes of host and PCI bridges: they stay with the host whatever a group is given to."""

NVME_CLASS = "0x010802"
"""PCI class code: mass storage, non-volatile memory, NVM Express (PCI Code and ID, 1.1)."""


def nvme_functions(host: sysfs.Host) -> tuple[str, ...]:
    """PCI addresses of all NVMe functions, whatever driver they are on."""
    directory = "/sys/bus/pci/devices"
    found = []
    for address in host.children(directory):
        try:
            if host.text(f"{directory}/{address}/class") == NVME_CLASS:
                found.append(address)
        except FileNotFoundError:
            continue  # pulled while we looked
    return tuple(found)


def request_of(order: EraseOrder) -> CaseRequest:
    """What an order asks for, as the case takes it."""
    return CaseRequest(
        slot=order.slot,
        identity=order.identity,
        profile=order.profile,
        policy=order.policy,
        order_id=order.order_id,
        generation=order.generation,
        nonce=order.nonce,
        incarnation=order.incarnation,
        seconds_allowed=order.seconds_allowed,
    )


class DiskCases:
    """Implements :class:`eraser.pump.Cases`."""

    def __init__(self, state_dir: Path, run_dir: Path, host: sysfs.Host | None = None) -> None:
        self._state_dir = state_dir
        self._run_dir = run_dir
        self._host = host or sysfs.Host()
        self._children: dict[str, subprocess.Popen[bytes]] = {}
        self._runners = Runners()
        self._looks: Looks[ControllerIdentity] = Looks()

    def _files(self, order: EraseOrder) -> CaseFiles:
        return CaseFiles.of_order(self._state_dir, order.order_id)

    def look(self, order: EraseOrder) -> CaseLook:
        """Reads the case's files. Raises :class:`EraserError` where the report is damaged."""
        files = self._files(order)
        report = files.report()
        seen = files.progress()
        if seen is None:
            return CaseLook(report, Step.PROVE_IDLE, 0.0, "")
        return CaseLook(report, seen.step, seen.fraction, seen.detail)

    def running(self, order: EraseOrder) -> bool:
        """A child of ours, or whoever else holds the slot's lock: a runner that an earlier worker
        started, or the child that sends a Format."""
        child = self._children.get(order.order_id)
        if child is not None:
            if child.poll() is None:
                return True
            LOG.info("runner %d of %s ended with %d", child.pid, order.slot, child.returncode)
            del self._children[order.order_id]
        if self._files(order).finished():
            return False
        lock = SlotLock(order.slot.address, self._run_dir)
        try:
            lock.acquire()
        except BusyError:
            return True
        lock.release()
        return False

    def start(self, order: EraseOrder) -> None:
        """Writes the request down and starts the runner in a session of its own."""
        files = self._files(order)
        files.make()
        files.write_request(request_of(order))
        arguments = ["case", "--request", str(files.directory / "request.json")]
        arguments += ["--state-dir", str(self._state_dir), "--run-dir", str(self._run_dir)]
        child = self._runners.start(arguments, files.directory / "runner.log")
        LOG.info("runner %d started for %s", child.pid, order.slot)
        self._children[order.order_id] = child

    def prepare(self) -> None:
        """Makes the next start quick; called while nothing is urgent."""
        self._runners.prepare()

    def renew(self, order: EraseOrder) -> None:
        """Removes the case's files; its report stays in the reports directory."""
        self._files(order).clear()

    def retire(self, orders: tuple[EraseOrder, ...]) -> None:
        """Removes cases that ended and whose slot has a newer order; reports stay."""
        keep = {self._files(order).key for order in orders}
        directory = self._state_dir / "cases"
        for path in directory.iterdir() if directory.is_dir() else ():
            files = CaseFiles(self._state_dir, path.name)
            if path.name in keep or not files.finished():
                continue
            try:
                if files.request().order_id:
                    files.clear()
            except (EraserError, OSError) as error:
                # It has ended and hinders nobody; a person may look at it.
                LOG.debug("case %s stays: %s", path.name, error)

    def drives(self, orders: tuple[EraseOrder, ...]) -> tuple[SeenDrive, ...]:
        """Every NVMe function of the host, its identity read from the controller itself.

        Takes :data:`HELLO_SECONDS` at the most: a drive that is mute is shown without identity.
        """
        worked_on = {order.slot.address for order in orders}
        drivers = {
            address: sysfs.PciFunction(self._host, address).driver or ""
            for address in nvme_functions(self._host)
        }
        identities = self._looks.take(
            {
                address: functools.partial(self._identity, address)
                for address, driver in drivers.items()
                if driver == "nvme" and address not in worked_on
            },
            HELLO_SECONDS,
        )
        disks = system_disks(self._host)
        return tuple(
            SeenDrive(
                address=address,
                driver=driver,
                identity=identities.get(address),
                group=group_mates(self._host, address),
                system=carries_system(self._host, address, disks),
            )
            for address, driver in drivers.items()
        )

    def _identity(self, address: str) -> ControllerIdentity:
        controller = nvme.open_controller(self._host, address, timeout=HELLO_SECONDS)
        try:
            return controller.identity()
        finally:
            controller.close()


def system_disks(host: sysfs.Host) -> frozenset[str] | None:
    """Disks below the running system; None where that cannot be read."""
    try:
        return usage.system_disks(host, openers.mounts(host, [1]).get(1, ()))
    except (EraserError, OSError) as error:
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
