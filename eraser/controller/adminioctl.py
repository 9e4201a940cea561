"""Reading admin commands by ioctl, for whoever cannot wait for nvme-cli to be started.

The gate has well under a second for all drives of a guest. What nvme-cli answers to the same
commands is what this answers, byte for byte; nothing that changes a drive passes here.
"""

from __future__ import annotations

import array
import struct

from eraser.controller import spec
from eraser.controller.passthru import (
    ALL_NAMESPACES,
    CNS_CONTROLLER,
    GET_LOG_PAGE,
    IDENTIFY,
    LOG_SANITIZE,
    LOG_SMART,
    READS,
    STATUS_MASK,
    may_read_again,
)
from eraser.errors import DriveError
from eraser.host.sysfs import Host

_ADMIN_CMD = 0xC0484E41
"""NVME_IOCTL_ADMIN_CMD: _IOWR('N', 0x41, struct nvme_passthru_cmd) (linux/nvme_ioctl.h)."""

_COMMAND = struct.Struct("<BBHIIIQQIIIIIIIIII")
"""struct nvme_passthru_cmd: opcode, flags, rsvd1, nsid, cdw2, cdw3, metadata, addr, metadata_len,
data_len, cdw10 to cdw15, timeout_ms, result."""

_PAUSE = 0.1
"""Seconds before a drive that says "later" is asked again."""

_PAGE = 4096
"""Bytes of the pages by which the kernel's driver describes memory to a drive."""


class AdminReader:
    """Reads through an open descriptor of /dev/nvmeN."""

    def __init__(self, host: Host, descriptor: int, address: str, timeout: float) -> None:
        """``timeout`` in seconds is the kernel's, for each command; it resets the controller of a
        drive that does not answer within."""
        self._host = host
        self._descriptor = descriptor
        self._address = address
        self._timeout = timeout

    def identify(self) -> spec.IdentifyController:
        """Identify Controller. Raises :class:`DriveError`."""
        return spec.IdentifyController.parse(self.identify_raw())

    def identify_raw(self) -> bytes:
        """Identify Controller, 4,096 bytes. Raises :class:`DriveError`."""
        return self.read(IDENTIFY, spec.IDENTIFY_BYTES, "Identify Controller", cdw10=CNS_CONTROLLER)

    def smart_log(self) -> bytes:
        """Log 02h, 512 bytes. Raises :class:`DriveError`."""
        return self._log(LOG_SMART, "the SMART log (02h)")

    def sanitize_log(self) -> bytes:
        """Log 81h, 512 bytes. Raises :class:`DriveError`."""
        return self._log(LOG_SANITIZE, "the Sanitize Status log (81h)")

    def _log(self, lid: int, what: str) -> bytes:
        # Get Log Page dword 10 (Base 2.0, 5.16): LID 7:0, NUMDL 31:16 (dwords, from 0); without
        # RAE, as ``Controller.log`` says.
        cdw10 = (spec.LOG_BYTES // 4 - 1) << 16 | lid
        return self.read(GET_LOG_PAGE, spec.LOG_BYTES, what, nsid=ALL_NAMESPACES, cdw10=cdw10)

    def read(self, opcode: int, length: int, what: str, *, nsid: int = 0, cdw10: int) -> bytes:
        """``length`` bytes from the drive. Raises :class:`DriveError`, also for an opcode that
        does more than read."""
        if opcode not in READS:
            raise DriveError(f"{self._address}: expected a reading command, found {opcode:#04x}")
        try:
            status, _result, data = submit(
                self._host,
                self._descriptor,
                opcode,
                length,
                nsid=nsid,
                cdw10=cdw10,
                timeout=self._timeout,
            )
        except OSError as error:
            raise DriveError(
                f"{self._address}: expected {what}, found {error.strerror}; see the kernel's log"
            ) from error
        if status:
            raise DriveError(
                f"{self._address}: expected {what}, found status {status:#05x}; "
                "see the kernel's log"
            )
        return data


def submit(
    host: Host,
    descriptor: int,
    opcode: int,
    length: int,
    *,
    nsid: int,
    cdw10: int,
    cdw11: int = 0,
    cdw12: int = 0,
    cdw13: int = 0,
    timeout: float,
) -> tuple[int, int, bytes]:
    """One reading command: its status (SCT and SC), dword 0 of the completion, and the data.

    ``timeout`` in seconds is the kernel's. A drive that says "later" is asked again within it: it
    may take as long as one that is slow to answer. Raises ``OSError`` where no completion was seen.
    """
    # The drive itself writes to this address on newer kernels, so the buffer must neither move nor
    # be freed before the return. Whole pages: some drives refuse another start (status 13h), some
    # fill the page whatever they were asked for, over what lies behind (libnvme #684).
    data = array.array("B", bytes(_PAGE - 1 + -(-length // _PAGE) * _PAGE if length else 0))
    at = -data.buffer_info()[0] % _PAGE if length else 0
    place = data.buffer_info()[0] + at if length else 0
    # Each try gets what is left of the time, so that all of them together stay within ``timeout``.
    left, deadline = timeout, host.clock.monotonic() + timeout
    while True:
        command = bytearray(
            _COMMAND.pack(
                opcode, 0, 0, nsid, 0, 0, 0, place, 0, length, cdw10, cdw11, cdw12, cdw13, 0, 0,
                # At least 1 ms: the kernel takes 0 for its own default.
                max(1, int(left * 1000)), 0,
            )
        )  # fmt: skip
        status = host.devices.ioctl(descriptor, _ADMIN_CMD, command)
        left = deadline - host.clock.monotonic() - _PAUSE
        if not may_read_again(status) or left <= 0:
            # The kernel writes the result, the last member, back into ``command``.
            return (
                status & STATUS_MASK,
                _COMMAND.unpack(command)[-1],
                data[at : at + length].tobytes(),
            )
        host.clock.sleep(_PAUSE)
