"""Virtualization Management (Base 5.28, 8.26): whose the flexible queues and interrupts are.

Only the primary controller's share can be set here; the model has no secondary controllers.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.lab.nvme.spec import Command, Reply, Status, refused

if TYPE_CHECKING:
    from tests.lab.nvme.drive import Drive

_PRIMARY_FLEXIBLE_ALLOCATION = 1
_KINDS = 2
"""RT: queues, and interrupts."""


def command(drive: Drive, command: Command) -> Reply:
    """Answer the command. What it sets outlives everything, and counts from the next reset of the
    function, the bus, the subsystem or the power on; a Controller Reset changes nothing."""
    state, profile = drive.state.flexible, drive.profile.flexible
    kind, number = command.cdw10 >> 8 & 7, command.cdw11 & 0xFFFF
    if state is None or profile is None or kind >= _KINDS:
        return refused(Status.INVALID_FIELD)
    if command.cdw10 & 0xF != _PRIMARY_FLEXIBLE_ALLOCATION:
        return refused(Status.INVALID_FIELD)
    if command.cdw10 >> 16 != drive.profile.cntlid:
        return refused(Status.INVALID_CONTROLLER)
    total = (profile.queues, profile.interrupts)[kind]
    if number > total:
        return refused(Status.INVALID_RESOURCES)
    if number > total - state.lent[kind]:
        return refused(Status.INVALID_RESOURCE_ID)
    state.next[kind] = number
    drive.save()
    return Reply(dw0=number)
