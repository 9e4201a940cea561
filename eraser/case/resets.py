"""Resets that a next tenant may do and that reach further than the controller (Base 2.0, 3.7).

After each the drive is opened anew, or looked at through the descriptor that was held: its identity
is proved again before anything is sent to it.
"""

from __future__ import annotations

import time

from eraser.case import subsystem
from eraser.case.session import CaseSession
from eraser.controller import binding
from eraser.errors import DriveError, InUseError
from eraser.host.sysfs import PciFunction, wait_for

SETTLE = 1.0
"""Seconds from a reset of the subsystem to the first look: a slot that tells of its link takes the
drive from the driver meanwhile, and gives it back."""
UNASKED = "the policy does not ask for it (verification.subsystem_reset)"


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
        desk.reclaim()
        return str(error)
    _find(desk)
    return ""


def _find(desk: CaseSession) -> None:
    """The drive after a reset that its driver may know nothing of.

    ``nvme reset`` would not do: some kernels leave the controller resetting for ever (Linux 6.14,
    d2fe192348f9), and where the link went down the function has lost its addresses.
    """
    address, ready = desk.request.slot.address, desk.limits.ready
    time.sleep(SETTLE)
    try:
        function = PciFunction(desk.host, address)
        wait_for(f"a PCI function at {address}", ready, lambda: function.present)
        desk.rebind()
    except DriveError as error:
        desk.tell(0.0, str(error))
        binding.find_again(desk.host, address, timeout=ready)
        desk.open(patience=ready)
    desk.recheck()
