"""A free drive onto the kernel's nvme driver, where it can be read."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from eraser.controller import registers
from eraser.controller.registers import Registers
from eraser.errors import DriveError
from eraser.host.idle import prove_idle
from eraser.host.sysfs import AbsentError, Host, PciFunction

NVME = "nvme"
SHUTDOWN = 60.0
"""Seconds that the driver waits at most for a drive to shut down, as it lets go of one
(shutdown_timeout in drivers/nvme/host/core.c: RTD3E, at least 5 s and at most this)."""


def ensure_nvme_driver(host: Host, address: str, *, timeout: float) -> bool:
    """Binds the function to ``nvme`` and waits until its controller is live; True if it rebound.

    Proves the drive idle itself before it takes it from another driver: unbinding would tear it
    from a guest, and waits in the kernel for as long as VFIO holds it. Clears ``driver_override``,
    so that the function stays where it is after the next scan. Raises ``InUseError``,
    :class:`AbsentError` or :class:`DriveError` after ``timeout`` seconds.
    """
    function = PciFunction(host, address)
    if not function.present:
        raise AbsentError(
            f"expected a PCI function at {function.address}, found none; is the drive in its slot?"
        )
    rebound = function.driver != NVME
    if rebound:
        # The proof comes before any write: after an unbind nobody could tell who had the drive.
        prove_idle(host, function.address, own_pids=frozenset({os.getpid()}))
    # With an override for another driver, nvme would refuse the function.
    if function.driver_override not in ("", NVME):
        _write(host, f"{function.directory}/driver_override", "\n")
    if rebound:
        # The driver must let go first: the kernel probes functions without a driver alone.
        if function.driver is not None:
            _write(host, f"{function.directory}/driver/unbind", function.address)
        _write(host, "/sys/bus/pci/drivers_probe", function.address)
        if function.driver != NVME:
            _write(host, f"/sys/bus/pci/drivers/{NVME}/bind", function.address)
    host.wait_for(
        f"a live NVMe controller at {function.address}",
        timeout,
        lambda: any(function.state(name) == "live" for name in function.controllers),
    )
    return rebound


@dataclass(frozen=True)
class Rebound:
    """What came of :func:`rebind`."""

    problem: str = ""
    """Why it was not done; empty where it was."""
    registers: Registers | None = None
    """As they were while no driver had the drive: many kernels let nobody look at other times."""


def rebind(host: Host, address: str, *, timeout: float) -> Rebound:
    """Takes the function from ``nvme`` and gives it back, as before and after each guest.

    The driver announces a shutdown as it lets go (CC.SHN, Base 3.6.1; nvme_remove in
    drivers/nvme/host/pci.c). Nobody may hold its controller or disks. Returns before the controller
    is live. Raises :class:`DriveError` where the kernel took longer than ``timeout`` seconds, and
    :data:`SHUTDOWN` to let go.
    """
    function = PciFunction(host, address)
    if function.driver != NVME:
        return Rebound(f"expected the nvme driver at {address}, found {function.driver}")
    unbind, bind = f"{function.directory}/driver/unbind", f"/sys/bus/pci/drivers/{NVME}/bind"
    if problem := write_by_child(function, unbind, timeout + SHUTDOWN):
        return Rebound(problem)
    told = registers.read(function)
    # To this driver by name: another one may have been told to take all drives of this kind.
    return Rebound(write_by_child(function, bind, timeout), told)


def find_again(host: Host, address: str, *, timeout: float) -> None:
    """Has the kernel forget the function and look for it anew: it gets its addresses, where a
    reset that the kernel had no part in took them. The caller has proved that nobody has it.

    Raises :class:`DriveError` where it is not there within ``timeout`` seconds.
    """
    function = PciFunction(host, address)
    # On its own bus alone: elsewhere somebody may have removed a function on purpose. A bridge's
    # file scans the bus that the bridge sits on, with all below (dev_rescan_store and
    # bus_rescan_store in drivers/pci/pci-sysfs.c), and serves where a bus has none.
    own = host.path(f"/sys/class/pci_bus/{function.address.rpartition(':')[0]}/rescan")
    bridge = host.path(function.directory).resolve().parent / "rescan"
    scan = next((each for each in (own, bridge) if each.exists()), "/sys/bus/pci/rescan")
    if function.present:
        write_by_child(function, f"{function.directory}/remove", timeout, b"1")
    write_by_child(function, scan, timeout, b"1")
    host.wait_for(f"a PCI function at {address}", timeout, lambda: function.present)


def write_by_child(
    function: PciFunction, path: str | Path, timeout: float, text: bytes = b""
) -> str:
    """Writes ``text``, or the function's address: by a child, for a write that is stuck in the
    kernel must not keep us. Why it failed, or empty text.

    Raises :class:`DriveError` where there is no end to it within ``timeout`` seconds.
    """
    where = path if isinstance(path, Path) else function.host.path(path)
    done = function.host.processes.run(
        ("tee", str(where)), timeout=timeout, stdin=text or function.address.encode()
    )
    if done.exit_code is None:
        raise DriveError(
            f"{function.address}: expected a write to {path} to end within {timeout:g} s, found no "
            "answer; see the kernel's log"
        )
    return f"write to {path}: {done.stderr.strip()[:200]}" if done.exit_code else ""


def _write(host: Host, path: str, value: str) -> None:
    try:
        with host.path(path).open("wb", buffering=0) as handle:
            handle.write(value.encode())
    except OSError as error:
        raise DriveError(
            f"expected to write {value.strip()!r} to {path}, found {error.strerror}; "
            "see the kernel's log"
        ) from error
