"""Command and Feature Lockdown (Base 5.19): prohibits admin commands until power goes.

Admin commands alone (scope 0) can be locked here, and only those of ``LOCKABLE``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.lab.nvme.spec import OK, AdminOp, Command, Reply, Status, refused

if TYPE_CHECKING:
    from tests.lab.nvme.drive import Drive

LOCKABLE = (
    AdminOp.SET_FEATURES,
    AdminOp.NAMESPACE_MANAGEMENT,
    AdminOp.NAMESPACE_ATTACHMENT,
    AdminOp.FORMAT_NVM,
    AdminOp.SANITIZE,
)
_SCOPE_ADMIN = 0
_SUPPORTED, _PROHIBITED = 0, 1
_PROHIBIT = 1 << 4


def command(drive: Drive, command: Command) -> Reply:
    """Answer a Lockdown command."""
    opcode, interface = command.cdw10 >> 8 & 0xFF, command.cdw10 >> 5 & 3
    if command.cdw10 & 0xF != _SCOPE_ADMIN or interface:
        return refused(Status.INVALID_FIELD)
    if opcode not in LOCKABLE:
        return refused(Status.NOT_LOCKABLE)
    locked = drive.state.lockdown
    if command.cdw10 & _PROHIBIT and opcode not in locked:
        locked.append(opcode)
    elif not command.cdw10 & _PROHIBIT and opcode in locked:
        locked.remove(opcode)
    drive.save()
    return OK


def log(locked: list[int], specific: int) -> bytes | None:
    """Log 14h, 512 bytes, by the log specific field; None for a scope that there is not."""
    scope, contents = specific & 0xF, specific >> 4 & 3
    if scope != _SCOPE_ADMIN or contents > _PROHIBITED:
        return None
    ids = sorted(LOCKABLE if contents == _SUPPORTED else locked)
    return bytes([scope | contents << 4, 0, 0, len(ids), *ids]).ljust(512, b"\0")
