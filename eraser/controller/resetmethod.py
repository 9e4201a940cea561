"""Which of its ways the kernel takes to reset a PCI function: ``reset_method`` in sysfs
(Documentation/ABI/testing/sysfs-bus-pci, since Linux 5.15).
"""

from __future__ import annotations

from eraser.controller.binding import write_by_child
from eraser.host.sysfs import PciFunction

BUS = "bus"
"""A reset of the bus below its bridge, or of its slot. The kernel names it for a function that is
alone there, and refuses it for any other (pci_reset_bus_function in drivers/pci/pci.c)."""


def methods(function: PciFunction) -> str:
    """The ways that it tries, in order, as the file has them; empty where it tells of none."""
    try:
        return function.host.text(f"{function.directory}/reset_method").strip()
    except OSError:
        return ""


def choose(function: PciFunction, wanted: str, *, timeout: float) -> str:
    """Has the kernel try these ways alone; why it does not, empty where it does.

    Raises :class:`DriveError` where the kernel took longer than ``timeout`` seconds.
    """
    path = f"{function.directory}/reset_method"
    problem = write_by_child(function, path, timeout, wanted.encode())
    found = methods(function)
    if not problem and found != wanted:
        problem = f"expected {wanted!r} in {path}, found {found!r}"
    return problem
