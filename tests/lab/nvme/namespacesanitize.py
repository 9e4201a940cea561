"""A namespace that a tenant sanitizes by itself (Sanitize Namespace, Base 2.3, 5.1.2, 8.1.26).

It goes on over resets and power cycles. Each look at its log, and each command that it keeps off,
brings it nearer to its end, so that what is seen of it is the same on every machine.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING

from tests.lab.nvme.spec import (
    BROADCAST_NSID,
    OK,
    SPROG_IDLE,
    AdminOp,
    Command,
    Reply,
    SanitizeAction,
    SanitizeStatus,
    Status,
    refused,
)
from tests.lab.nvme.state import NamespaceState

if TYPE_CHECKING:
    from tests.lab.nvme.drive import Drive

VERSION = 0x00020300
"""From which on a drive of the lab tells of it, and takes Sanitize Namespace."""

_OF_NAMESPACES = (AdminOp.FORMAT_NVM, AdminOp.NAMESPACE_MANAGEMENT, AdminOp.NAMESPACE_ATTACHMENT)
_DELETE = 1
_RESTRICTED_PROCESSING, _MEDIA_VERIFICATION = 1, 5


def refusal(drive: Drive, command: Command) -> Reply | None:
    """Of an admin command that one keeps off."""
    there = [each for each in drive.state.namespaces if each.sanitizing]
    if command.opcode == AdminOp.SANITIZE and there:
        if any(each.sanitize_verifying for each in there):
            return refused(Status.INVALID_FIELD)
    elif command.opcode in _OF_NAMESPACES:
        if command.opcode == AdminOp.NAMESPACE_MANAGEMENT and command.cdw10 & 0xF != _DELETE:
            return None
        there = [each for each in there if command.nsid in (each.nsid, BROADCAST_NSID)]
    else:
        return None
    if not there:
        return None
    for each in there:
        _go_on(each)
    return refused(Status.NAMESPACE_SANITIZE_IN_PROGRESS, retry=True)


def command(drive: Drive, asked: Command) -> Reply:
    """Sanitize Namespace, as far as it ends a verification."""
    namespace = drive.state.namespace(asked.nsid)
    if namespace is None:
        return refused(Status.INVALID_NAMESPACE)
    verifying = namespace.sanitize_verifying
    if asked.cdw10 & 7 != SanitizeAction.EXIT_VERIFICATION or not verifying:
        return refused(Status.INVALID_FIELD)
    namespace.sanitizing, namespace.sanitize_verifying = 0, False
    return OK


def log(namespace: NamespaceState) -> bytes:
    """Log 81h of this sanitization target, 512 bytes."""
    left, verifying = namespace.sanitizing, namespace.sanitize_verifying
    _go_on(namespace)
    busy = left and not verifying
    sprog = SPROG_IDLE if not busy else 0 if namespace.sanitize_stuck else 0xFFFE // (left + 1)
    status = SanitizeStatus.RUNNING if left else SanitizeStatus.SUCCESS
    machine = _MEDIA_VERIFICATION if verifying else _RESTRICTED_PROCESSING if left else 0
    head = struct.pack("<HHI7IB", sprog, status, SanitizeAction.CRYPTO, *[0xFFFFFFFF] * 7, machine)
    return head.ljust(44, b"\0") + struct.pack("<I", namespace.nsid).ljust(468, b"\0")


def _go_on(namespace: NamespaceState) -> None:
    if namespace.sanitizing and not (namespace.sanitize_verifying or namespace.sanitize_stuck):
        namespace.sanitizing -= 1
