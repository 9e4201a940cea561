"""Command and Feature Lockdown (Base 5.19): prohibits commands and features until power goes.

Admin commands (scope 0) and features of Set Features (scope 2) can be locked here, and only those
of ``LOCKABLE``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.lab.nvme.spec import OK, AdminOp, Command, Fid, Reply, Status, refused

if TYPE_CHECKING:
    from tests.lab.nvme.drive import Drive
    from tests.lab.nvme.state import DriveState

_ADMIN, _FEATURES = 0, 2
"""Scopes of the command, and of the log."""
LOCKABLE = {
    _ADMIN: (
        AdminOp.SET_FEATURES,
        AdminOp.NAMESPACE_MANAGEMENT,
        AdminOp.NAMESPACE_ATTACHMENT,
        AdminOp.FORMAT_NVM,
        AdminOp.SANITIZE,
    ),
    _FEATURES: (Fid.WRITE_CACHE, Fid.SANITIZE_CONFIG, Fid.HOST_IDENTIFIER, Fid.WRITE_PROTECT),
}
_SUPPORTED, _PROHIBITED = 0, 1
_PROHIBIT = 1 << 4


def command(drive: Drive, command: Command) -> Reply:
    """Answer a Lockdown command."""
    scope, interface = command.cdw10 & 0xF, command.cdw10 >> 5 & 3
    number = command.cdw10 >> 8 & 0xFF
    if scope not in LOCKABLE or interface:
        return refused(Status.INVALID_FIELD)
    if number not in LOCKABLE[scope]:
        return refused(Status.NOT_LOCKABLE)
    locked = _locked(drive.state, scope)
    if command.cdw10 & _PROHIBIT and number not in locked:
        locked.append(number)
    elif not command.cdw10 & _PROHIBIT and number in locked:
        locked.remove(number)
    drive.save()
    return OK


def prohibits(state: DriveState, command: Command) -> bool:
    """Whether an admin command is refused now, or a Set Features for its feature."""
    if command.opcode in state.lockdown:
        return True
    return command.opcode == AdminOp.SET_FEATURES and command.cdw10 & 0xFF in state.locked_features


def _locked(state: DriveState, scope: int) -> list[int]:
    return state.lockdown if scope == _ADMIN else state.locked_features


def log(state: DriveState, specific: int) -> bytes | None:
    """Log 14h, 512 bytes, by the log specific field; None for a scope that there is not."""
    scope, contents = specific & 0xF, specific >> 4 & 3
    if scope not in LOCKABLE or contents > _PROHIBITED:
        return None
    ids = sorted(LOCKABLE[scope] if contents == _SUPPORTED else _locked(state, scope))
    return bytes([scope | contents << 4, 0, 0, len(ids), *ids]).ljust(512, b"\0")
