"""The resets of a next tenant's start and end (Base 2.0, 3.7), each with why it was not done.

After each the drive is opened anew, or looked at through the descriptor that was held: its identity
is proved again before anything is sent to it.
"""

from __future__ import annotations

from eraser.case import subsystem
from eraser.case.entries import Narrowed
from eraser.case.session import CaseSession
from eraser.controller import binding, resetmethod
from eraser.controller.nvme import NO_FUNCTION_RESET
from eraser.errors import DriveError, InUseError
from eraser.host.sysfs import Host, PciFunction

SETTLE = 1.0
"""Seconds from a reset of the subsystem to the first look: a slot that tells of its link takes the
drive from the driver meanwhile, and gives it back."""
UNASKED = "the policy does not ask for it (verification.{})"


def by_controller(desk: CaseSession) -> str:
    """Resets the controller; why it was not done, empty where it was. Raises as the others."""
    return desk.reset()


def by_function(desk: CaseSession) -> str:
    """Resets the PCI function in the first way that the kernel has for it, as vfio-pci before a
    guest; why it was not done, empty where it was.

    Raises ``InUseError``, ``IdentityError``, and ``DriveError`` for a drive that is not back.
    """
    if not has_function_reset(desk):
        return NO_FUNCTION_RESET
    return _by_kernel(desk)


def has_function_reset(desk: CaseSession) -> bool:
    """Whether the kernel can reset the function at all."""
    return desk.host.path(f"{desk.controller.function.directory}/reset").exists()


def by_bus(desk: CaseSession) -> str:
    """Resets the bus, or slot, that the function is alone on, as vfio-pci does for a drive that
    has no reset of the function; why it was not done, empty where it was. Raises as above."""
    if not desk.policy.verification.bus_reset:
        return UNASKED.format("bus_reset")
    function, ready = desk.controller.function, desk.limits.ready
    before = resetmethod.methods(function)
    if resetmethod.BUS not in before.split():
        return f"the kernel offers it no such reset (reset_method: {before or 'none'})"
    if before == resetmethod.BUS and not desk.state.narrowed:
        return _by_kernel(desk)
    # In the journal before the kernel is told: the next run of a case that dies in between finds
    # what to put back.
    if before != resetmethod.BUS:
        desk.note(Narrowed(before))
    try:
        return resetmethod.choose(function, resetmethod.BUS, timeout=ready) or _by_kernel(desk)
    except DriveError as error:
        return str(error)
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


def in_use(desk: CaseSession) -> str:
    """Drops our claim on the disks and looks whether somebody came since, who would lose the drive
    under their hands: who, where they have let go of it again by now, and we have our claim.

    Raises ``InUseError`` where they have not: nothing more is sent to the drive.
    """
    desk.hold.drop()
    try:
        desk.prove_idle()
    except InUseError as error:
        _reclaim(desk)
        desk.prove_idle()
        return str(error)
    return ""


def _by_kernel(desk: CaseSession) -> str:
    desk.recheck()
    function, ready = desk.controller.function, desk.limits.ready
    if used := in_use(desk):
        return used
    try:
        problem = binding.write_by_child(function, f"{function.directory}/reset", ready, b"1")
    except DriveError as error:
        problem = str(error)
    _reclaim(desk)
    return problem


def by_subsystem(desk: CaseSession) -> str:
    """Resets the NVM subsystem; why it was not done, empty where it was.

    Raises ``InUseError``, ``IdentityError``, and ``DriveError`` for a drive that is not back.
    """
    if not desk.policy.verification.subsystem_reset:
        return UNASKED.format("subsystem_reset")
    if subsystem.count(desk) != 1:
        return "the drive has, or may have, another controller, which it would reset too"
    if others := _neighbours(desk):
        return f"it would take the link of {' and '.join(others)} down too"
    desk.recheck()
    if used := in_use(desk):
        return used
    try:
        desk.controller.reset_subsystem(timeout=desk.limits.ready)
    except DriveError as error:
        _reclaim(desk)
        return str(error)
    desk.clock.sleep(SETTLE)
    _find(desk)
    return ""


def _neighbours(desk: CaseSession) -> list[str]:
    """Other functions on the drive's bus, whatever they say that they belong to."""
    address = desk.request.slot.address
    # A reset of the link reaches every function behind the bridge, of whichever subsystem it is.
    bus = address.rpartition(":")[0] + ":"
    found = desk.host.children("/sys/bus/pci/devices")
    return sorted(name for name in found if name.startswith(bus) and name != address)


def _reclaim(desk: CaseSession) -> None:
    """The drive where it is; taken anew where its driver gave it up, or is too slow about it."""
    try:
        desk.reclaim()
        desk.recheck()
    except DriveError as error:
        desk.tell(0.0, str(error))
        _find(desk)


def _find(desk: CaseSession) -> None:
    """Takes the drive anew, after a reset that its driver may know nothing of.

    ``nvme reset`` would not do: some kernels leave the controller resetting for ever (Linux 6.14,
    d2fe192348f9), and where the link went down the function has lost its addresses.
    """
    address, ready = desk.request.slot.address, desk.limits.ready
    function = PciFunction(desk.host, address)
    try:
        desk.host.wait_for(f"a PCI function at {address}", ready, lambda: function.present)
        desk.rebind()
    except DriveError as error:
        asked = desk.policy.verification
        if not (asked.bus_reset or asked.subsystem_reset):
            # Without a link that went down there is nothing that a removal would mend.
            raise
        desk.tell(0.0, str(error))
        # Forgetting a function pulls it from under whoever has it, a guest as well.
        if function.present:
            desk.prove_idle()
        binding.find_again(desk.host, address, timeout=ready)
        desk.open(patience=ready)
    desk.recheck()
    # The function may have another place in sysfs now: the gate's book has to name that one, or a
    # guest's start would find a drive that was away since its erase.
    desk.revoke()
