"""Reading commands by a child of our own: as safe as nvme-cli's, without a start for each.

A command to a drive that does not answer cannot be taken back, and whoever sent it waits in the
kernel. So a forked child sends them, one after the other. One that is stuck is left behind, holding
no lock of ours, and the next command has another child.
"""

from __future__ import annotations

import errno
import struct
from dataclasses import dataclass

from eraser.controller.adminioctl import submit
from eraser.controller.passthru import GET_FEATURES, GET_LOG_PAGE, IDENTIFY
from eraser.errors import DriveError
from eraser.host.answerer import Answerer
from eraser.host.sysfs import Host

ASKS = frozenset({IDENTIFY, GET_LOG_PAGE, GET_FEATURES})
"""The opcodes that it takes: nothing that changes a drive, or that a drive may be slow with."""

_QUESTION = struct.Struct("<BIIIIIdI")
"""Opcode, nsid, cdw10 to cdw12, length, the kernel's timeout in seconds, cdw13."""

_ANSWER = struct.Struct("<III")
"""errno of the call, NVMe status, dword 0 of the completion; the data follows."""


@dataclass(frozen=True)
class ReadCommand:
    """One reading command; ``length`` bytes are wanted."""

    opcode: int
    nsid: int
    cdw10: int
    cdw11: int
    cdw12: int
    length: int
    timeout: float
    """Seconds, the kernel's own: it resets the controller of a drive that is silent for longer."""
    cdw13: int = 0


@dataclass(frozen=True)
class ProbeReply:
    """What came back. ``error`` is the call's errno; else ``status`` is the completion's."""

    error: int
    status: int
    result: int
    data: bytes


class Asker:
    """Asks one controller through a child that has nothing but its descriptor."""

    def __init__(self, host: Host, descriptor: int) -> None:
        """``descriptor`` of /dev/nvmeN, which stays the caller's. No thread may run yet."""
        self._host = host
        self._descriptor = descriptor
        self._child: Answerer | None = None

    @property
    def pid(self) -> int:
        """The child's, which has the controller open; 0 where there is none."""
        return 0 if self._child is None else self._child.pid

    def ask(self, question: ReadCommand, patience: float) -> ProbeReply | None:
        """What the drive answers; None where nothing comes within ``patience`` seconds.

        Raises :class:`DriveError` for a command that is not for reading.
        """
        # The check is before the fork, so nothing that changes a drive ever reaches the child.
        if question.opcode not in ASKS:
            raise DriveError(f"expected a reading command, found {question.opcode:#04x}")
        if self._child is None:
            self._child = self._host.processes.answerer(
                self._answer, self._descriptor, _QUESTION.size
            )
        asked = _QUESTION.pack(*vars(question).values())
        said = self._child.ask(asked, _ANSWER.size + question.length, patience)
        # The child is stuck or dead. It is left behind; the next question forks another one.
        if len(said) < _ANSWER.size:
            self.close()
            return None
        error, status, result = _ANSWER.unpack_from(said)
        return ProbeReply(error, status, result, said[_ANSWER.size :])

    def _answer(self, question: bytes) -> bytes:
        """In the child."""
        opcode, nsid, cdw10, cdw11, cdw12, length, timeout, cdw13 = _QUESTION.unpack(question)
        try:
            status, result, data = submit(
                self._host,
                self._descriptor,
                opcode,
                length,
                nsid=nsid,
                cdw10=cdw10,
                cdw11=cdw11,
                cdw12=cdw12,
                cdw13=cdw13,
                timeout=timeout,
            )
        except OSError as error:
            # 0 would mean that the drive has answered.
            return _ANSWER.pack(error.errno or errno.EIO, 0, 0)
        return _ANSWER.pack(0, status, result) + (b"" if status else data)

    def close(self) -> None:
        """Ends the child, or leaves one behind that is stuck: it dies when it gets out."""
        child, self._child = self._child, None  # whatever its end comes to, it is asked no more
        if child is not None:
            child.close()
