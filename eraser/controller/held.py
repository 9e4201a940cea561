"""One NVMe controller, held open: who it is, and that its name still means it.

All that the last gate needs of one, so nothing else is loaded here.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Self

from eraser.controller import spec
from eraser.errors import DriveError
from eraser.host.sysfs import AbsentError, Host, Node, PciFunction, numbers, open_node
from eraser.protocol.identity import ControllerIdentity


class HeldController:
    """An opened controller. Made by :func:`hold`.

    The descriptor of ``/dev/nvmeN`` stays open until :meth:`close`: as long as it does, the kernel
    cannot give the instance number to another controller, so the path names this one.
    """

    def __init__(self, function: PciFunction, name: str, descriptor: int) -> None:
        self.function = function
        self.name = name
        self.address = function.address
        self.path = str(function.host.path(f"/dev/{name}"))
        self._descriptor: int | None = descriptor

    @property
    def host(self) -> Host:
        """The host that the controller is on."""
        return self.function.host

    @property
    def state(self) -> str:
        """The kernel's word: live, resetting, connecting, deleting, dead, gone."""
        return self.function.state(self.name)

    @property
    def descriptor(self) -> int:
        """Of ``/dev/nvmeN``, for ``adminioctl``. Raises :class:`DriveError`."""
        self.check_place()
        assert self._descriptor is not None
        return self._descriptor

    def take(self) -> int:
        """The descriptor, for whoever holds the controller from now on. Raises as above."""
        descriptor = self.descriptor
        # Whoever took it closes it: our close() must leave it alone.
        self._descriptor = None
        return descriptor

    def identity_of(self, found: spec.IdentifyController) -> ControllerIdentity:
        """Who this is, from what it answered just now. Raises :class:`DriveError`."""
        return ControllerIdentity(
            vendor_id=self.function.pci_id("vendor"),
            device_id=self.function.pci_id("device"),
            subsystem_vendor_id=self.function.pci_id("subsystem_vendor"),
            subsystem_device_id=self.function.pci_id("subsystem_device"),
            serial=found.serial,
            model=found.model,
            subnqn=found.subnqn,
        )

    def check_open(self) -> None:
        """Raises :class:`DriveError` after :meth:`close`."""
        if self._descriptor is None:
            raise DriveError(f"{self.address}: expected an open controller, found it closed")

    def check_place(self) -> None:
        """The open descriptor leads to the controller of this address, not to a namesake.

        Raises :class:`DriveError`.
        """
        if self._descriptor is None:
            raise DriveError(f"{self.address}: expected an open controller, found it closed")
        # Names and numbers are given again: after an unplug /dev/nvmeN may be another drive's.
        if self.name not in self.function.controllers:
            raise DriveError(
                f"{self.address}: expected controller {self.name}, found it gone; open it again"
            )
        # The device number says what the open descriptor is, whatever the path leads to.
        if os.fstat(self._descriptor).st_rdev != _node(self.function, self.name).rdev:
            raise DriveError(
                f"{self.address}: expected {self.path} to be its controller, found another's; "
                "open it again"
            )

    def close(self) -> None:
        """Lets go of the controller. Its name may belong to another one from now on."""
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_raised: object) -> None:
        self.close()


def _node(function: PciFunction, name: str) -> Node:
    path = f"{function.controller_directory(name)}/dev"
    try:
        major, minor = numbers(function.host.text(path), path)
    except OSError as error:
        raise DriveError(
            f"{function.address}: expected {path}, found {error.strerror}; open it again"
        ) from error
    return Node(name, major, minor, block=False)


def _single(names: Sequence[str], address: str) -> str:
    if len(names) != 1:
        raise DriveError(
            f"{address}: expected one NVMe controller, found {', '.join(names) or 'none'}"
        )
    return names[0]


def hold(host: Host, address: str, *, timeout: float) -> HeldController:
    """Opens the controller at a PCI address and holds it open.

    Waits up to ``timeout`` seconds until it is live: the driver lets nobody open one that is not.
    Raises :class:`AbsentError` where no function or no ``nvme`` driver is there,
    :class:`DriveError` for anything else.
    """
    function = PciFunction(host, address)
    if not function.present or function.driver != "nvme":
        raise AbsentError(
            f"expected an NVMe controller at {function.address}, found "
            f"{function.driver or 'no driver' if function.present else 'no PCI function'}; "
            "is the drive in its slot and on the nvme driver?"
        )
    host.wait_for(
        f"a live NVMe controller at {function.address}",
        timeout,
        lambda: any(function.state(name) == "live" for name in function.controllers),
    )
    name = _single(function.controllers, function.address)
    try:
        descriptor = open_node(host, _node(function, name), os.O_RDONLY)
    except OSError as error:
        raise DriveError(
            f"{function.address}: expected to open /dev/{name}, found {error.strerror}; "
            "run as root with udev running"
        ) from error
    controller = HeldController(function, name, descriptor)
    try:
        # Between sysfs and the open another controller may have got the name.
        controller.check_place()
    except BaseException:
        controller.close()
        raise
    return controller
