"""Commands that set a drive's features or take a lock off it; each gives its record back.

A bad status is a result: the caller goes on, and says what could not be done. Everything raises
``DriveError`` where the controller is closed or nvme-cli cannot run.
"""

from __future__ import annotations

from eraser.controller.nvme import Controller
from eraser.controller.passthru import (
    ABORT,
    IO_RESERVATION_REGISTER,
    IO_RESERVATION_RELEASE,
    SET_FEATURES,
    VIRTUALIZATION_MANAGEMENT,
    result_of,
)
from eraser.drive.inquiry import FEATURE_WRITE_PROTECTION
from eraser.protocol.condition import Reservation
from eraser.protocol.report import CommandRecord

CREATE, DELETE = 0, 1
ATTACH, DETACH = 0, 1
"""SEL, dword 10 bits 3:0, of Namespace Management and Attachment (Base 2.0, 5.22, 5.23)."""

QUEUES, INTERRUPTS = 0, 1
"""RT of Virtualization Management: VQ and VI resources (Base 2.0, 5.28)."""
_PRIMARY_ALLOCATION = 1
"""ACT: Primary Controller Flexible Allocation."""

_RELEASE_CLEAR = 1
"""RRELA, dword 10 bits 2:0 (Base 2.0, 7.5): unregisters every host and ends the reservation."""
_IGNORE_KEY = 1 << 3
"""IEKEY (Base 2.0, 7.3)."""
_REPLACE = 0b010
"""RREGA, dword 10 bits 2:0: with IEKEY whatever the host's key was."""
_CONFLICT = 0x083
"""Reservation Conflict (Base 2.0, figure 126)."""
_POWER_LOSS_CLEARS = 0b10 << 30
"""CPTPL: nothing of it outlives a power loss any more."""
OUR_KEY = (0x6E766D65_71756172).to_bytes(8, "little")
"""The reservation key that we register with for a moment. No secret: it only has to be one."""


def created(record: CommandRecord) -> int:
    """The NSID that the drive chose (dword 0) for :data:`CREATE`; 0 where it failed, and for the
    one that stands for all of them."""
    nsid = (result_of(record.message) or 0) if record.status == 0 else 0
    # A number that stands for all namespaces must never get into a later delete or format.
    return 0 if nsid == _ALL else nsid


_ALL = 0xFFFFFFFF
"""The broadcast value (Base 2.0, 3.2.1.1)."""


def set_feature(
    controller: Controller,
    fid: int,
    value: int,
    nsid: int,
    *,
    save: bool,
    cdw12: int = 0,
    cdw13: int = 0,
    send: bytes = b"",
    note: str = "",
) -> CommandRecord:
    """Set Features, dword 11 being ``value``; SV is bit 31 of dword 10 (Base 2.0, 5.27)."""
    return controller.admin(
        SET_FEATURES,
        nsid=nsid,
        cdw10=fid | (1 << 31 if save else 0),
        cdw11=value,
        cdw12=cdw12,
        cdw13=cdw13,
        send=send,
        timeout=controller.timeout,
        note=note or f"feature {fid:#04x} to {value:#x}",
    )[0]


def allocate(controller: Controller, kind: int, number: int) -> CommandRecord:
    """Flexible resources of the primary controller, :data:`QUEUES` or :data:`INTERRUPTS`.

    Virtualization Management (Base 2.0, 5.28), dword 10: CNTLID 31:16, RT 10:8, ACT 3:0; dword 11:
    the number. It is kept for good, and counts from the next Controller Level Reset on other than a
    Controller Reset.
    """
    return controller.admin(
        VIRTUALIZATION_MANAGEMENT,
        cdw10=controller.identify().controller_id << 16 | kind << 8 | _PRIMARY_ALLOCATION,
        cdw11=number,
        timeout=controller.timeout,
        note=f"{number} flexible resources of type {kind} for the physical function",
    )[0]


def abort(controller: Controller, queue: int, command: int) -> CommandRecord:
    """Asks for the end of the command with this identifier on a submission queue (Base 2.0, 5.1:
    SQID is dword 10 bits 15:0, CID bits 31:16). A drive that knows of none says so."""
    return controller.admin(
        ABORT,
        cdw10=queue | command << 16,
        timeout=controller.timeout,
        note=f"abort of command {command:#06x} on queue {queue}",
    )[0]


def unprotect(controller: Controller, nsid: int) -> CommandRecord:
    """No Write Protect, state 0 (Base 2.0, 5.27.1.29). States 2 and 3 refuse it."""
    return set_feature(controller, FEATURE_WRITE_PROTECTION, 0, nsid, save=False)


def clear_reservation(
    controller: Controller, held: Reservation, path: str
) -> tuple[CommandRecord, ...]:
    """Registers, clears everything and makes nothing of it last; ``path`` is the block device.

    Only a registrant may clear, whoever holds the reservation.
    """
    nsid = held.nsid
    timeout = controller.timeout
    # A drive that knows no persistence refuses to have it changed.
    how = _IGNORE_KEY | (_POWER_LOSS_CLEARS if held.persistent else 0)
    register = _register(controller, nsid, how, path)
    sent = [register]
    # Who registered as the host that we are, with another key: nameless, as guests are, or by name.
    if register.status == _CONFLICT:
        sent.append(_register(controller, nsid, how | _REPLACE, path))
    # Sent also where the registration failed: a bad status is a result, and no reason to stop.
    release, _data = controller.admin(
        IO_RESERVATION_RELEASE,
        nsid=nsid,
        cdw10=_RELEASE_CLEAR,
        send=OUR_KEY,
        io=path,
        timeout=timeout,
        note=f"clear the reservation of namespace {nsid}",
    )
    return *sent, release


def _register(controller: Controller, nsid: int, how: int, path: str) -> CommandRecord:
    return controller.admin(
        IO_RESERVATION_REGISTER,
        nsid=nsid,
        cdw10=how,
        # The current key (ignored, by IEKEY), then the new one.
        send=bytes(8) + OUR_KEY,
        io=path,
        timeout=controller.timeout,
        note=f"register with namespace {nsid}",
    )[0]
