"""Admin commands to one controller, each remembered as it was sent.

nvme-cli sends them; those that only read go by ioctl where there is an :class:`Asker`.
"""

from __future__ import annotations

import os
from functools import cached_property

from eraser.controller import nvmecli
from eraser.controller.passthru import (
    LATER_PAUSE,
    READS,
    CommandError,
    message,
    passthru_argv,
    said_later,
    status_of,
    success,
)
from eraser.controller.probe_process import ASKS, Asker, ReadCommand
from eraser.host.command import Completed
from eraser.host.sysfs import Host
from eraser.protocol.report import CommandRecord

EXIT_GRACE = 10.0
"""Seconds that nvme-cli, or the asker's child, gets beyond the command's own timeout: the kernel
resets the controller at that timeout, and only then does the call return."""


class AdminQueue:
    """Sends to ``path`` and keeps the records."""

    def __init__(self, machine: Host, address: str, path: str, *, timeout: float) -> None:
        self._machine = machine
        self.address = address
        self.path = path
        self.timeout = timeout
        """Seconds for one ordinary command."""
        self.records: list[CommandRecord] = []
        """Every admin command, as sent. Reads that repeat an earlier one with the same outcome
        (polls, also of several namespaces in turn) are not listed again."""
        self._polled = set[tuple[object, ...]]()
        self.asker: Asker | None = None
        """By whom reading commands go; None where all go by nvme-cli."""
        self.keeps: tuple[int, ...] = ()
        """Descriptors that each nvme-cli inherits. It outlives a killed caller, and opens the drive
        by name: what keeps the slot and the name this drive's must live as long."""
        self.unended: set[str] = set()
        """Questions that the drive did not end, and is asked no more."""

    @cached_property
    def once(self) -> tuple[str, ...]:
        """What has nvme-cli send a command once. Raises ``OSError``."""
        return nvmecli.once(nvmecli.version(self._machine))

    def check_open(self) -> None:
        """Raises ``DriveError`` where nothing may be sent any more."""

    def admin(
        self,
        opcode: int,
        *,
        nsid: int = 0,
        cdw10: int = 0,
        cdw11: int = 0,
        cdw12: int = 0,
        cdw13: int = 0,
        data_len: int = 0,
        send: bytes = b"",
        io: str = "",
        timeout: float,
        note: str = "",
    ) -> tuple[CommandRecord, bytes]:
        """Sends one admin command and returns what came back; a bad status is a result.

        ``timeout`` in seconds is the kernel's for this command. ``data_len`` bytes are read from
        the drive; the bytes are empty where the command failed. ``send`` goes to the drive with
        the command. With ``io``, the path of a namespace's block device, it is an I/O command.
        Raises :class:`DriveError` where the controller is closed or nvme-cli cannot run.
        """
        self.check_open()
        if self.asker is not None and opcode in ASKS and not io and not send:
            question = ReadCommand(opcode, nsid, cdw10, cdw11, cdw12, data_len, timeout, cdw13)
            return self._ask(self.asker, question, note)
        argv = passthru_argv(
            self._machine.nvme,
            io or self.path,
            opcode,
            nsid=nsid,
            cdw10=cdw10,
            cdw11=cdw11,
            cdw12=cdw12,
            cdw13=cdw13,
            data_len=data_len,
            send_len=len(send),
            io=bool(io),
            timeout=timeout,
            # Reads may be repeated, and drives are read at each hello.
            more=() if opcode in READS and not io else self.once,
        )
        done = self._run(argv, timeout, send, None if io else opcode)
        record = CommandRecord(
            argv=argv,
            opcode=opcode,
            nsid=nsid,
            cdw10=cdw10,
            status=status_of(done.exit_code, done.stderr),
            exit_code=done.exit_code,
            message=message(note, done.stderr),
            started_at=done.started_at,
            seconds=round(done.seconds, 6),
            # Trailing zeros are cut: most data structures are mostly empty, and the report has a
            # limit.
            sent=send.rstrip(b"\0").hex(),
            cdw11=cdw11,
            cdw12=cdw12,
        )
        self._remember(record)
        return record, done.stdout if record.status == 0 else b""

    def _run(
        self, argv: tuple[str, ...], timeout: float, send: bytes, opcode: int | None
    ) -> Completed:
        """A drive that says "later" has done nothing: it is asked again within ``timeout``."""
        clock = self._machine.clock
        deadline = clock.monotonic() + timeout
        while True:
            done = self._machine.processes.run(
                argv, timeout=timeout + EXIT_GRACE, stdin=send or None, pass_fds=self.keeps
            )
            if not said_later(done.stderr, opcode) or clock.monotonic() >= deadline:
                return done
            clock.sleep(LATER_PAUSE)

    def _ask(self, asker: Asker, question: ReadCommand, note: str) -> tuple[CommandRecord, bytes]:
        clock = self._machine.clock
        started_at, began = clock.utc(), clock.monotonic()
        answer = asker.ask(question, question.timeout + EXIT_GRACE)
        # The three failures are kept apart: no answer at all may mean a stuck drive, an errno is
        # the kernel's, and only a status is the drive's own refusal.
        if answer is None:
            exit_code, status, said = None, None, "no answer"
        elif answer.error:
            exit_code, status, said = 1, None, os.strerror(answer.error)
        elif answer.status:
            exit_code, status, said = 1, answer.status, f"status {answer.status:#05x}"
        else:
            exit_code, status, said = 0, 0, success(answer.result)
        record = CommandRecord(
            argv=(),
            opcode=question.opcode,
            nsid=question.nsid,
            cdw10=question.cdw10,
            status=status,
            exit_code=exit_code,
            message=message(note, said),
            started_at=started_at,
            seconds=round(clock.monotonic() - began, 6),
            cdw11=question.cdw11,
            cdw12=question.cdw12,
        )
        self._remember(record)
        return record, b"" if answer is None else answer.data

    def _remember(self, record: CommandRecord) -> None:
        # What may change the drive is always listed, also when it is repeated.
        if record.opcode in READS:
            asked = _asked(record)
            if asked in self._polled:
                return
            self._polled.add(asked)
        self.records.append(record)

    def read(
        self,
        opcode: int,
        length: int,
        what: str,
        *,
        nsid: int = 0,
        cdw10: int = 0,
        cdw11: int = 0,
        cdw12: int = 0,
        io: str = "",
    ) -> bytes:
        """``length`` bytes from the drive; ``io`` as in :meth:`admin`. Raises :class:`CommandError`
        or :class:`DriveError`."""
        record, data = self.admin(
            opcode,
            nsid=nsid,
            cdw10=cdw10,
            cdw11=cdw11,
            cdw12=cdw12,
            data_len=length,
            io=io,
            timeout=self.timeout,
            note=what,
        )
        if record.status != 0:
            raise self.failed(record, what)
        if len(data) != length:
            raise CommandError(
                f"{self.address}: expected {length} bytes of {what}, found {len(data)}; "
                "is this nvme-cli 2.3 or later?",
                record,
            )
        return data

    def failed(self, record: CommandRecord, what: str) -> CommandError:
        """The error for a command whose status is not 0."""
        status = "no completion" if record.status is None else f"status {record.status:#05x}"
        return CommandError(
            f"{self.address}: expected {what}, found {status} ({record.message}); "
            "see the kernel's log",
            record,
        )


def _asked(record: CommandRecord) -> tuple[object, ...]:
    """What was asked, and the outcome."""
    names = ("argv", "opcode", "nsid", "cdw10", "cdw11", "cdw12", "status")
    return tuple(getattr(record, name) for name in names)
