"""Resets a drive in each way that the start and the end of a guest do (Base 2.0, 3.7).

Each function returns why the reset was not done, and an empty text where it was. After each reset
the case opens the drive anew, or looks at it through the descriptor that it held, and proves its
identity again before it sends anything.
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
"""Seconds from a reset of the subsystem to the first look.

A slot that reports its link state (PCIe hotplug) removes the drive and adds it again meanwhile."""
NOT_IN_POLICY = "the policy does not ask for it (verification.{})"


def by_controller(session: CaseSession) -> str:
    """Resets the controller. Raises as :func:`by_function`."""
    return session.reset()


def by_function(session: CaseSession) -> str:
    """Resets the PCI function in the first way that the kernel has for it, as vfio-pci does before
    it hands the drive to a guest.

    Raises ``InUseError``, ``IdentityError``, and ``DriveError`` for a drive that is not back.
    """
    if not has_function_reset(session):
        return NO_FUNCTION_RESET
    return _by_kernel(session)


def has_function_reset(session: CaseSession) -> bool:
    """Whether the kernel can reset the function at all."""
    return session.host.path(f"{session.controller.function.directory}/reset").exists()


def by_bus(session: CaseSession) -> str:
    """Resets the bus, or slot, that the function is alone on, as vfio-pci does for a drive that
    has no reset of the function. Raises as :func:`by_function`."""
    if not session.policy.verification.bus_reset:
        return NOT_IN_POLICY.format("bus_reset")
    function, ready = session.controller.function, session.limits.ready
    before = resetmethod.methods(function)
    if resetmethod.BUS not in before.split():
        return f"the kernel offers it no such reset (reset_method: {before or 'none'})"
    # The kernel offers nothing but the bus, and no run of ours made that so: nothing is put back.
    if before == resetmethod.BUS and not session.state.narrowed:
        return _by_kernel(session)
    # In the journal before the kernel is told: the next run of a case that dies in between finds
    # what to put back.
    if before != resetmethod.BUS:
        session.note(Narrowed(before))
    try:
        return resetmethod.choose(function, resetmethod.BUS, timeout=ready) or _by_kernel(session)
    except DriveError as error:
        return str(error)
    finally:
        # Also after an error: all later resets of the function would go by its bus.
        restore_reset_methods(session)


def restore_reset_methods(session: CaseSession) -> None:
    """Puts back the function's reset methods that this run, or one that died, has narrowed.

    Where that fails the journal still has them, and the next run tries again.
    """
    address, before = session.request.slot.address, session.state.narrowed
    if not before:
        return
    problem = put_back(session.host, address, before, timeout=session.limits.ready)
    if problem:
        session.tell(0.0, problem)
    else:
        session.note(Narrowed(""))


def put_back(host: Host, address: str, before: str, *, timeout: float) -> str:
    """Puts them back also where the case is gone; why it was not done, empty where it was.

    Nothing is written where somebody else has chosen since, or where the function is new: a reboot
    and a drive that was plugged in begin with what the kernel finds.
    """
    function = PciFunction(host, address)
    # Only what we leave there is replaced.
    if resetmethod.methods(function) != resetmethod.BUS:
        return ""
    try:
        return resetmethod.choose(function, before, timeout=timeout)
    except DriveError as error:
        return str(error)


def in_use(session: CaseSession) -> str:
    """Drops our claim on the disks, and looks whether somebody else has the drive: a reset would
    take it out of their hands.

    Empty where nobody has it. Who it was, where they have let go of the drive again; we have our
    claim back then. Raises ``InUseError`` where they have not: nothing more is sent to the drive.
    """
    session.hold.drop()
    try:
        session.prove_idle()
    except InUseError as error:
        # With our claim back, whoever is still there raises; one who has left is only named.
        _reclaim(session)
        session.prove_idle()
        return str(error)
    return ""


def _by_kernel(session: CaseSession) -> str:
    session.recheck()
    function, ready = session.controller.function, session.limits.ready
    if used := in_use(session):
        return used
    try:
        problem = binding.write_by_child(function, f"{function.directory}/reset", ready, b"1")
    except DriveError as error:
        problem = str(error)
    _reclaim(session)
    return problem


def by_subsystem(session: CaseSession) -> str:
    """Resets the NVM subsystem; why it was not done, empty where it was.

    Raises ``InUseError``, ``IdentityError``, and ``DriveError`` for a drive that is not back.
    """
    if not session.policy.verification.subsystem_reset:
        return NOT_IN_POLICY.format("subsystem_reset")
    if subsystem.count(session) != 1:
        return "the drive has, or may have, another controller, which it would reset too"
    if others := _neighbours(session):
        return f"it would take the link of {' and '.join(others)} down too"
    session.recheck()
    if used := in_use(session):
        return used
    try:
        # The driver may know nothing of this reset, so the drive is taken anew afterwards.
        session.controller.reset_subsystem(timeout=session.limits.ready)
    except DriveError as error:
        _reclaim(session)
        return str(error)
    session.clock.sleep(SETTLE)
    _find(session)
    return ""


def _neighbours(session: CaseSession) -> list[str]:
    """Other functions on the drive's bus, whatever they say that they belong to."""
    address = session.request.slot.address
    # A reset of the link reaches every function behind the bridge, of whichever subsystem it is.
    bus = address.rpartition(":")[0] + ":"
    found = session.host.children("/sys/bus/pci/devices")
    return sorted(name for name in found if name.startswith(bus) and name != address)


def _reclaim(session: CaseSession) -> None:
    """The drive where it is; taken anew where its driver gave it up, or is too slow about it."""
    try:
        session.reclaim()
        session.recheck()
    except DriveError as error:
        session.tell(0.0, str(error))
        _find(session)


def _find(session: CaseSession) -> None:
    """Takes the drive anew, after a reset that its driver may know nothing of.

    ``nvme reset`` would not do: some kernels leave the controller resetting for ever (Linux 6.14,
    d2fe192348f9), and where the link went down the function has lost its addresses.
    """
    address, ready = session.request.slot.address, session.limits.ready
    function = PciFunction(session.host, address)
    try:
        session.host.wait_for(f"a PCI function at {address}", ready, lambda: function.present)
        session.rebind()
    except DriveError as error:
        asked = session.policy.verification
        if not (asked.bus_reset or asked.subsystem_reset):
            # Without a link that went down there is nothing that a removal would mend.
            raise
        session.tell(0.0, str(error))
        # Forgetting a function pulls it from under whoever has it, a guest as well.
        if function.present:
            session.prove_idle()
        binding.find_again(session.host, address, timeout=ready)
        # As at the beginning of a case: idle, opened, known and claimed.
        session.open(patience=ready)
    session.recheck()
    # The function may have another place in sysfs now: the gate's book has to name that one, or a
    # guest's start would find a drive that was away since its erase.
    session.revoke()
