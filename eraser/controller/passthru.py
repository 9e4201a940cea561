"""One admin command as nvme-cli's argv, and what its answer means.

Every command goes out as ``nvme admin-passthru``: its opcode, dwords and timeout are what stands in
the argv, its data comes back raw, and its status is the one number that all versions print alike.
nvme-cli's own sub-commands are not used, because their text and JSON change between versions and
2.3 drops the timeout of some (``format -t`` is ignored there).
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from eraser.errors import DriveError

if TYPE_CHECKING:
    from eraser.protocol.report import CommandRecord

IDENTIFY = 0x06
GET_LOG_PAGE = 0x02
ABORT = 0x08
SET_FEATURES = 0x09
GET_FEATURES = 0x0A
NAMESPACE_MANAGEMENT = 0x0D
NAMESPACE_ATTACHMENT = 0x15
VIRTUALIZATION_MANAGEMENT = 0x1C
FORMAT_NVM = 0x80
SECURITY_RECEIVE = 0x82
SANITIZE = 0x84
SANITIZE_NAMESPACE = 0x8C

IO_RESERVATION_REGISTER = 0x0D
IO_RESERVATION_REPORT = 0x0E
IO_RESERVATION_RELEASE = 0x15
"""I/O commands (NVM Express Base 2.0, 7): another table of opcodes than the admin commands'."""

LOG_SMART = 0x02
LOG_FIRMWARE = 0x03
LOG_FEATURES = 0x12
LOG_LOCKDOWN = 0x14
LOG_BOOT_PARTITION = 0x15
LOG_SANITIZE = 0x81
ALL_NAMESPACES = 0xFFFF_FFFF

FEATURE_CURRENT, FEATURE_DEFAULT, FEATURE_SAVED, FEATURE_CAPABILITIES = range(4)
"""SEL, bits 10:8 of dword 10 of Get Features (Base 2.0, 5.15)."""

CNS_NAMESPACE = 0x00
CNS_CONTROLLER = 0x01
CNS_ACTIVE = 0x02
CNS_DESCRIPTORS = 0x03
CNS_ALLOCATED = 0x10
CNS_ALLOCATED_NAMESPACE = 0x11
CNS_CONTROLLERS = 0x13
CNS_PRIMARY_CAPABILITIES = 0x14

STATUS_MASK = 0x7FF
"""SCT (10:8) and SC (7:0) of the completion's status; above are CRD, More and Do Not Retry."""
DO_NOT_RETRY = 0x4000
"""DNR of the 15 bits that the kernel gives (Base 2.0, 3.3.3.2.1; NVME_SC_DNR of linux/nvme.h)."""
NAMESPACE_SANITIZES = 0x02C
"""Sanitize Namespace In Progress (Base 2.3, 4.2.3.1)."""
_LATER = frozenset({0x021, 0x022, 0x024, NAMESPACE_SANITIZES, 0x082, 0x084, 0x303})
"""Command Interrupted, Transient Transport Error, Admin Command Media Not Ready, the one above,
Namespace Not Ready, Format in Progress, Asymmetric Access Transition (Base 2.0, 3.3.3.2.1;
linux/nvme.h). No others: many drives refuse what they do not have with Do Not Retry clear."""
READS = frozenset({IDENTIFY, GET_LOG_PAGE, GET_FEATURES, SECURITY_RECEIVE})
"""Admin opcodes that change nothing."""
LATER_PAUSE = 0.25
"""Seconds before a drive that says "later" is asked again."""
_STATUS = re.compile(r"\(0x([0-9a-fA-F]+)\)")
_HOST_PATH = range(0x370, 0x380)
"""Path Related Status 70h to 7Fh, by the host (Base 2.0, figure 131): the drive has said nothing,
so it has refused nothing either."""
_UNSENT = 0x370
"""Host Pathing Error."""
_RESULT = re.compile(r"\bSuccess and result: 0x([0-9a-fA-F]{1,8})\b")


def means_later(status: int) -> bool:
    """Whether a completion's 15 bits of status say that the same command may succeed after a while.

    A drive that wakes, or formats, is no broken drive.
    """
    return status & STATUS_MASK in _LATER and not status & DO_NOT_RETRY


def may_read_again(status: int) -> bool:
    """Whether a command that changes nothing is worth another try: :func:`means_later`, or the
    kernel did not send it. It gives up a command before it says in sysfs that it resets the
    controller (``nvme_timeout``), and answers what comes in between itself, with 370h
    (``nvme_fail_nonready_command``)."""
    return means_later(status) or status & STATUS_MASK == _UNSENT


class CommandError(DriveError):
    """An admin command did not succeed. ``record`` tells what was sent and what came back."""

    def __init__(self, message: str, record: CommandRecord) -> None:
        super().__init__(message)
        self.record = record

    @property
    def status(self) -> int | None:
        """SCT and SC as :data:`STATUS_MASK` has them, None where no completion was seen: also
        where the kernel, resetting the controller, answered in the drive's place."""
        return None if self.record.status in _HOST_PATH else self.record.status


def passthru_argv(
    program: str,
    path: str,
    opcode: int,
    *,
    nsid: int = 0,
    cdw10: int = 0,
    cdw11: int = 0,
    cdw12: int = 0,
    cdw13: int = 0,
    data_len: int = 0,
    send_len: int = 0,
    io: bool = False,
    timeout: float,
    more: tuple[str, ...] = (),
) -> tuple[str, ...]:
    """The argv of one command. ``timeout`` in seconds becomes the kernel's, per command.

    ``data_len`` bytes come back on standard output, ``send_len`` go out from standard input;
    ``io`` is for an I/O command, whose ``path`` is the namespace's block device. ``more`` is what
    this nvme-cli wants besides (:mod:`eraser.controller.nvmecli`).
    """
    argv: list[str] = [
        program,
        "io-passthru" if io else "admin-passthru",
        path,
        f"--opcode={opcode:#04x}",
        f"--namespace-id={nsid:#x}",
        f"--cdw10={cdw10:#010x}",
        f"--cdw11={cdw11:#010x}",
        # At least 1 ms: the kernel takes 0 for its own default.
        f"--timeout={max(1, int(timeout * 1000))}",
    ]
    if cdw12:
        argv.append(f"--cdw12={cdw12:#010x}")
    if cdw13:
        argv.append(f"--cdw13={cdw13:#010x}")
    if data_len:
        argv += [f"--data-len={data_len}", "--read", "--raw-binary"]
    elif send_len:
        argv += [f"--data-len={send_len}", "--write"]
    return *argv, *more


def status_of(exit_code: int | None, stderr: str) -> int | None:
    """The drive's status of a finished nvme-cli: 0, a status, or None where no completion was seen:
    also where the kernel answered in the drive's place."""
    # nvme-cli was killed, by us or by a signal: the drive may have executed the command.
    if exit_code is None or exit_code < 0:
        return None
    if exit_code == 0:
        return 0
    found = _STATUS.findall(stderr)
    # nvme-cli exits with 1 for its own errors too. Without a status in its text no drive has
    # answered.
    status = int(found[-1], 16) & STATUS_MASK if found else None
    # A command that the kernel gave up with a reset may have been carried out all the same.
    return None if status in _HOST_PATH else status


def said_later(stderr: str, opcode: int | None = None) -> bool:
    """Whether nvme-cli ended with a status that :func:`means_later`; it prints all 15 bits. With
    the ``opcode`` of one of :data:`READS`, as :func:`may_read_again`."""
    found = _STATUS.findall(stderr)
    status = int(found[-1], 16) if found else 0
    # Canaries have to be planted anew before it, on what could not be written meanwhile.
    if opcode == SANITIZE and status & STATUS_MASK == NAMESPACE_SANITIZES:
        return False
    return may_read_again(status) if opcode in READS else means_later(status)


def result_of(stderr: str) -> int | None:
    """Dword 0 of the completion, which nvme-cli prints after a success; None where it did not."""
    match = _RESULT.search(stderr)
    return int(match[1], 16) if match else None


def success(result: int) -> str:
    """nvme-cli's words for a success, which :func:`result_of` reads."""
    return f"Success and result: {result:#010x}"


def message(note: str, stderr: str) -> str:
    """One line for the report: what nvme-cli said, else what the command was for."""
    said = " ".join(stderr.split())
    return f"{note}: {said}"[:400] if note else said[:400]
