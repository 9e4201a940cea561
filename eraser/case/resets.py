"""The resets of a next tenant's start and end (Base 2.0, 3.7), each with why it was not done.

After each the drive is opened anew, or looked at through the descriptor that was held: its identity
is proved again before anything is sent to it.
"""

from __future__ import annotations

import time

from eraser.case import subsystem
from eraser.case.entries import Narrowed
from eraser.case.session import CaseSession
from eraser.controller import binding, resetmethod
from eraser.errors import DriveError, InUseError
from eraser.host.sysfs import Host, PciFunction, wait_for

SETTLE = 1.0
"""Seconds from a reset of the subsystem to the first look: a slot that tells of its link takes the
drive from the driver meanwhile, and gives it back."""
UNASKED = "the policy does not ask for it (verification.subsystem_reset)"


def by_controller(desk: CaseSession) -> str:
    """Resets the controller; why it was not done, empty where it was. Raises as the others."""
    return desk.reset()


def by_function(desk: CaseSession) -> str:
    """Resets the PCI function in the first way that the kernel has for it, as vfio-pci before a
    guest; why it was not done, empty where it was.

    Raises ``InUseError``, ``IdentityError``, and ``DriveError`` for a drive that is not back.
    """
    if not has_function_reset(desk):
        return "the kernel knows none for it"
    return _by_kernel(desk)


def has_function_reset(desk: CaseSession) -> bool:
    """Whether the kernel can reset the function at all."""
    return desk.host.path(f"{desk.controller.function.directory}/reset").exists()


def by_bus(desk: CaseSession) -> str:
    """Resets the bus, or slot, that the function is alone on, as vfio-pci does for a drive that
    has no reset of the function; why it was not done, empty where it was. Raises as above."""
    function, ready = desk.controller.function, desk.limits.ready
    before = resetmethod.methods(function)
    if resetmethod.BUS not in before.split():
        return f"the kernel offers it no such reset (reset_method: {before or 'none'})"
    if before == resetmethod.BUS:
        return _by_kernel(desk)
    desk.note(Narrowed(before))
    try:
        return resetmethod.choose(function, resetmethod.BUS, timeout=ready) or _by_kernel(desk)
    finally:
        settle(desk)


def settle(desk: CaseSession) -> None:
    """Puts the function's reset methods back where they are not yet as they were: also for a run
    that died in between."""
    address, before = desk.request.slot.address, desk.state.narrowed
    if not before:
        return
    problem = put_back(desk.host, address, before, timeout=desk.limits.ready)
    if problem:
        desk.tell(0.0, problem)  # and the next run tries again
    else:
        desk.note(Narrowed(""))


def put_back(host: Host, address: str, before: str, *, timeout: float) -> str:
    """The same for whoever has no case any more; why it was not done, empty where it was.

    Nothing is written where somebody else has chosen since, or where the function is new: a reboot
    and a drive that was plugged in begin with what the kernel finds.
    """
    function = PciFunction(host, address)
    if resetmethod.methods(function) != resetmethod.BUS:
        return ""
    try:
        return resetmethod.choose(function, before, timeout=timeout)
    except DriveError as error:
        return str(error)


def _by_kernel(desk: CaseSession) -> str:
    desk.recheck()
    function, ready = desk.controller.function, desk.limits.ready
    desk.hold.drop()
    try:
        # Whoever came since the claim was dropped would lose the drive under their hands.
        desk.prove_idle()
        problem = binding.write_by_child(function, f"{function.directory}/reset", ready, b"1")
    except (DriveError, InUseError) as error:
        problem = str(error)
    _reclaim(desk)
    return problem


def by_subsystem(desk: CaseSession) -> str:
    """Resets the NVM subsystem; why it was not done, empty where it was.

    Raises ``InUseError``, ``IdentityError``, and ``DriveError`` for a drive that is not back.
    """
    if not desk.policy.verification.subsystem_reset:
        return UNASKED
    if subsystem.count(desk) != 1:
        return "the drive has, or may have, another controller, which it would reset too"
    desk.recheck()
    desk.hold.drop()
    try:
        # Whoever came since the claim was dropped would lose the drive under their hands.
        desk.prove_idle()
        desk.controller.reset_subsystem(timeout=desk.limits.ready)
    except (DriveError, InUseError) as error:
        _reclaim(desk)
        return str(error)
    time.sleep(SETTLE)
    _find(desk)
    desk.recheck()
    return ""


def _reclaim(desk: CaseSession) -> None:
    """The drive where it is; taken anew where its driver gave it up, or is too slow about it."""
    try:
        desk.reclaim()
    except DriveError as error:
        desk.tell(0.0, str(error))
        _find(desk)
    desk.recheck()


def _find(desk: CaseSession) -> None:
    """Takes the drive anew, after a reset that its driver may know nothing of.

    ``nvme reset`` would not do: some kernels leave the controller resetting for ever (Linux 6.14,
    d2fe192348f9), and where the link went down the function has lost its addresses.
    """
    address, ready = desk.request.slot.address, desk.limits.ready
    function = PciFunction(desk.host, address)
    try:
        wait_for(f"a PCI function at {address}", ready, lambda: function.present)
        desk.rebind()
    except DriveError as error:
        desk.tell(0.0, str(error))
        if function.present:
            desk.prove_idle()
        binding.find_again(desk.host, address, timeout=ready)
        desk.open(patience=ready)
