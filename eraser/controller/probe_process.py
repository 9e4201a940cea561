"""Reading commands by a child of our own: as safe as nvme-cli's, without a start for each.

A command to a drive that does not answer cannot be taken back, and whoever sent it waits in the
kernel. So a forked child sends them, one after the other. One that is stuck is left behind, holding
no lock of ours, and the next command has another child.
"""

from __future__ import annotations

import errno
import os
import socket
import struct
from dataclasses import dataclass

from eraser.controller.adminioctl import submit
from eraser.controller.passthru import GET_FEATURES, GET_LOG_PAGE, IDENTIFY
from eraser.errors import DriveError
from eraser.host.command import KILL_GRACE
from eraser.host.forked_child import alone, end

ASKS = frozenset({IDENTIFY, GET_LOG_PAGE, GET_FEATURES})
"""The opcodes that it takes: nothing that changes a drive, or that a drive may be slow with."""

_QUESTION = struct.Struct("<BIIIIId")
"""Opcode, nsid, cdw10 to cdw12, length, the kernel's timeout in seconds."""

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


@dataclass(frozen=True)
class Answer:
    """What came back. ``error`` is the call's errno; else ``status`` is the completion's."""

    error: int
    status: int
    result: int
    data: bytes


class Asker:
    """Asks one controller through a child that has nothing but its descriptor."""

    def __init__(self, descriptor: int) -> None:
        """``descriptor`` of /dev/nvmeN, which stays the caller's. No thread may run yet."""
        self._descriptor = descriptor
        self._child = 0
        self._pipe: socket.socket | None = None

    @property
    def pid(self) -> int:
        """The child's, which has the controller open; 0 where there is none."""
        return self._child

    def ask(self, question: ReadCommand, patience: float) -> Answer | None:
        """What the drive answers; None where nothing comes within ``patience`` seconds.

        Raises :class:`DriveError` for a command that is not for reading.
        """
        if question.opcode not in ASKS:
            raise DriveError(f"expected a reading command, found {question.opcode:#04x}")
        if self._pipe is None:
            self._pipe = self._start()
        self._pipe.settimeout(patience)
        try:
            self._pipe.send(_QUESTION.pack(*vars(question).values()))
            said = self._pipe.recv(_ANSWER.size + question.length)
        except OSError:
            said = b""
        if len(said) < _ANSWER.size:
            self.close()
            return None
        error, status, result = _ANSWER.unpack_from(said)
        return Answer(error, status, result, said[_ANSWER.size :])

    def _start(self) -> socket.socket:
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._child = os.fork()
        if self._child:
            theirs.close()
            return ours
        try:
            alone(theirs.fileno(), self._descriptor)
            _serve(theirs, self._descriptor)
        finally:
            os._exit(0)

    def close(self) -> None:
        """Ends the child, or leaves one behind that is stuck: it dies when it gets out."""
        if self._pipe is not None:
            self._pipe.close()
            self._pipe = None
            end(self._child, KILL_GRACE)
            self._child = 0


def _serve(pipe: socket.socket, descriptor: int) -> None:
    """Answers until whoever asks has gone."""
    while said := pipe.recv(_QUESTION.size):
        opcode, nsid, cdw10, cdw11, cdw12, length, timeout = _QUESTION.unpack(said)
        try:
            status, result, data = submit(
                descriptor,
                opcode,
                length,
                nsid=nsid,
                cdw10=cdw10,
                cdw11=cdw11,
                cdw12=cdw12,
                timeout=timeout,
            )
        except OSError as error:
            pipe.send(_ANSWER.pack(error.errno or errno.EIO, 0, 0))
            continue
        pipe.send(_ANSWER.pack(0, status, result) + (b"" if status else data))
