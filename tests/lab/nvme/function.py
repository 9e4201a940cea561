"""One PCI function of a drive: controller registers, queues and interrupts (Base 3)."""

from __future__ import annotations

import struct
import time
from collections.abc import Callable

from tests.lab.nvme.controller import Controller
from tests.lab.nvme.counters import Counter
from tests.lab.nvme.dma import CommandMemory, DmaSpace
from tests.lab.nvme.drive import Drive
from tests.lab.nvme.features import MAX_IO_QUEUES
from tests.lab.nvme.identify import EVENT_LIMIT
from tests.lab.nvme.memory import DmaFault, push
from tests.lab.nvme.queues import CompletionQueue, SubmissionQueue
from tests.lab.nvme.spec import OK, PAGE, AdminOp, Command, Reply, Status, refused

VECTORS = MAX_IO_QUEUES + 1
"""MSI-X vectors of the function."""

MAX_QUEUE_ENTRIES = 1024
DOORBELLS = 0x1000
"""First doorbell in BAR 0; the stride is 4 bytes (CAP.DSTRD = 0)."""

_CC_ENABLE, _CC_SHUTDOWN = 1 << 0, 3 << 14
_CSTS_READY, _CSTS_FATAL, _CSTS_SHUTDOWN_DONE = 1 << 0, 1 << 1, 2 << 2
_CAP = (MAX_QUEUE_ENTRIES - 1) | 1 << 16 | 30 << 24 | 1 << 37  # CQR, TO = 15 s, NVM commands
_CAP_BOOT_PARTITIONS = 1 << 45
_REG_CC, _REG_AQA, _REG_ASQ, _REG_ACQ = 0x14, 0x24, 0x28, 0x30
_REGISTERS = struct.Struct("<QIIIIIIIIQQQI")  # CAP ... ACQ, no CMB, BPINFO: 0x00 to 0x43

_EVENT_SANITIZE_DONE = 0x06 | 0x01 << 8 | 0x81 << 16  # type, information, log page (Base 5.2)


class Function:
    """Registers and queues. Every method is called with the drive's lock held."""

    def __init__(self, drive: Drive, via: str, interrupt: Callable[[int], None]) -> None:
        self.drive = drive
        self.controller = Controller(drive, via)
        self.memory = DmaSpace()
        self._interrupt = interrupt
        self._cc = self._csts = self._aqa = self._asq = self._acq = self._mask = 0
        self._sqs: dict[int, SubmissionQueue] = {}
        self._cqs: dict[int, CompletionQueue] = {}
        self._events: list[int] = []
        self._epoch = 0
        self._ready_at = self._absent_until = 0.0  # time.monotonic()
        self._was_enabled = False  # since it has power
        drive.listeners.append(self)

    # Life

    def reset(self, reason: str) -> None:
        """Controller Level Reset (Base 3.7.2): queues gone, not ready."""
        if self._cqs:
            self.drive.note("reset", f"{self.controller.via}: {reason}")
        self._epoch += 1
        self._csts = 0
        self._sqs.clear()
        self._cqs.clear()
        self._events.clear()
        self.controller.reset()

    def power_lost(self) -> None:
        """Power is gone: registers too."""
        self.reset("power")
        self._was_enabled = False
        self._cc = self._aqa = self._asq = self._acq = self._mask = 0

    def hard_reset(self, reason: str) -> None:
        """A function level or PCI reset: like power, but the drive stays on.

        QEMU resets a function when it is plugged in. Nothing was enabled then, so nothing takes
        time: a guest that saw no answer there would not believe that there is a drive at all.
        """
        self.reset(reason)
        if self._was_enabled:
            self._absent_until = time.monotonic() + self.drive.profile.flr_seconds
        self._cc = self._aqa = self._asq = self._acq = self._mask = 0

    def sanitize_ended(self) -> None:
        """Raise the event, once until the host has read log 81h (Base 5.2)."""
        if self._events and not self.controller.events_masked:
            self.controller.events_masked = True
            self._answer(0, self._events.pop(0), Reply(dw0=_EVENT_SANITIZE_DONE))

    # Registers

    @property
    def absent(self) -> bool:
        """Whether the drive does not answer on the bus."""
        gone = self.drive.faults.gone or not self.drive.powered
        return gone or time.monotonic() < self._absent_until

    def read(self, offset: int, length: int) -> bytes:
        """Read BAR 0; all ones from an absent drive."""
        if self.absent:
            return b"\xff" * length
        boot = self.drive.profile.boot_partition_units
        registers = _REGISTERS.pack(
            _CAP | _CAP_BOOT_PARTITIONS * (boot > 0),
            self.drive.profile.version,
            self._mask,
            self._mask,
            self._cc,
            0,
            self._status(),
            0,
            self._aqa,
            self._asq,
            self._acq,
            0,
            boot,
        )
        return registers[offset : offset + length].ljust(length, b"\0")

    def _status(self) -> int:
        waking = self._csts & _CSTS_READY and time.monotonic() < self._ready_at
        return self._csts & ~_CSTS_READY if waking else self._csts

    def write(self, offset: int, data: bytes) -> None:
        """Write BAR 0: a register or a doorbell."""
        if self.absent:
            return
        value = int.from_bytes(data, "little")
        if offset >= DOORBELLS:
            self._doorbell((offset - DOORBELLS) // 4, value)
        elif offset == _REG_CC:
            self._configure(value)
        elif offset == _REG_AQA:
            self._aqa = value
        elif offset in (_REG_ASQ, _REG_ASQ + 4):
            self._asq = _merge(self._asq, offset - _REG_ASQ, data)
        elif offset in (_REG_ACQ, _REG_ACQ + 4):
            self._acq = _merge(self._acq, offset - _REG_ACQ, data)
        elif offset == 0x0C:
            self._mask |= value
        elif offset == 0x10:
            self._mask &= ~value

    def _configure(self, value: int) -> None:
        enable, was = value & _CC_ENABLE, self._cc & _CC_ENABLE
        if value & _CC_SHUTDOWN and not self._cc & _CC_SHUTDOWN:
            self._csts |= _CSTS_SHUTDOWN_DONE
            self.drive.counters[Counter.POWERED_UNCLEANLY] = 0
            self.drive.note("shutdown", self.controller.via)
        self._cc = value
        if enable and not was:
            self._enable()
        elif was and not enable:
            self.reset("CC.EN cleared")

    def _enable(self) -> None:
        sq_size, cq_size = (self._aqa & 0xFFF) + 1, (self._aqa >> 16 & 0xFFF) + 1
        if self._cc >> 7 & 0xF or sq_size < 2 or cq_size < 2:
            self._csts |= _CSTS_FATAL  # only 4 KiB pages (CAP.MPSMAX = 0)
            return
        self._sqs[0] = SubmissionQueue(0, self._asq & ~0xFFF, sq_size, completion=0)
        self._cqs[0] = CompletionQueue(0, self._acq & ~0xFFF, cq_size, vector=0, interrupts=True)
        self._csts = _CSTS_READY
        self._was_enabled = True
        self._ready_at = time.monotonic() + self.drive.profile.ready_seconds
        self.drive.recent.clear()
        self.drive.counters[Counter.POWERED_UNCLEANLY] = 1
        self.drive.note("enabled", self.controller.via)

    # Queues

    def _doorbell(self, index: int, value: int) -> None:
        qid, is_completion = index // 2, index % 2
        try:
            if is_completion:
                queue = self._cqs.get(qid)
                if queue is None or value >= queue.size:
                    return
                queue.head = value
                queue.flush(self.memory)
            else:
                ring = self._sqs.get(qid)
                if ring is None or value >= ring.size:
                    return
                ring.tail = value
                self._process(ring)
        except DmaFault as fault:
            # The queue itself is not in guest memory: a real controller stops for good.
            self._csts |= _CSTS_FATAL
            self.drive.note("fatal", f"{self.controller.via}: {fault}")
        self._raise_interrupts()

    def _process(self, sq: SubmissionQueue) -> None:
        cq, io, memory = self._cqs[sq.completion], self.controller.io, self.memory
        while sq.head != sq.tail:
            command = sq.take(memory)
            if sq.qid:
                host = CommandMemory(memory, command)
                cq.post(memory, sq, command.cid, io(command, host, sq.qid))
                continue
            reply = self._admin(command)
            if reply is not None:
                cq.post(memory, sq, command.cid, reply)

    def _admin(self, command: Command) -> Reply | None:
        if command.opcode == AdminOp.ASYNC_EVENT:
            if len(self._events) > EVENT_LIMIT:
                return refused(Status.ASYNC_LIMIT)
            self._events.append(command.cid)
            return None
        own = {
            AdminOp.CREATE_CQ: self._create_cq,
            AdminOp.CREATE_SQ: self._create_sq,
            AdminOp.DELETE_CQ: self._delete_cq,
            AdminOp.DELETE_SQ: self._delete_sq,
        }.get(AdminOp(command.opcode) if command.opcode < 6 else AdminOp.IDENTIFY)
        faults = self.drive.faults
        if own and command.opcode not in (*faults.admin_hang, *faults.admin_status):
            done = own(command)
            self.controller.queue_command(command, done.status)
            return done
        epoch, cid = self._epoch, command.cid

        def later(reply: Reply) -> None:
            if epoch == self._epoch:
                self._answer(0, cid, reply)

        host = CommandMemory(self.memory, command)
        reply = self.controller.admin(command, host, later)
        if reply is None or reply.data is None or reply.status:
            return reply
        try:
            push(host, reply.data)
        except DmaFault:
            return refused(Status.DATA_TRANSFER_ERROR)
        return reply

    def _answer(self, qid: int, cid: int, reply: Reply) -> None:
        try:
            self._cqs[0].post(self.memory, self._sqs[qid], cid, reply)
        except DmaFault as fault:
            self._csts |= _CSTS_FATAL
            self.drive.note("fatal", f"{self.controller.via}: {fault}")
        self._raise_interrupts()

    def _raise_interrupts(self) -> None:
        for cq in self._cqs.values():
            if cq.raised:
                cq.raised = False
                if cq.interrupts:
                    self._interrupt(cq.vector)

    def _create_cq(self, command: Command) -> Reply:
        qid, size = command.cdw10 & 0xFFFF, (command.cdw10 >> 16) + 1
        vector = command.cdw11 >> 16
        if wrong := self._queue_refusal(command, qid, size, qid in self._cqs):
            return wrong
        if vector >= VECTORS:
            return refused(Status.INVALID_VECTOR)
        interrupts = bool(command.cdw11 & 2)
        self._cqs[qid] = CompletionQueue(qid, command.prp1, size, vector, interrupts)
        return OK

    def _create_sq(self, command: Command) -> Reply:
        qid, size = command.cdw10 & 0xFFFF, (command.cdw10 >> 16) + 1
        completion = command.cdw11 >> 16
        if wrong := self._queue_refusal(command, qid, size, qid in self._sqs):
            return wrong
        if completion == 0 or completion not in self._cqs:
            return refused(Status.INVALID_CQ)
        self._sqs[qid] = SubmissionQueue(qid, command.prp1, size, completion)
        return OK

    def _queue_refusal(self, command: Command, qid: int, size: int, exists: bool) -> Reply | None:
        if not 1 <= qid <= MAX_IO_QUEUES or exists:
            return refused(Status.INVALID_QUEUE_ID)
        if not 2 <= size <= MAX_QUEUE_ENTRIES:
            return refused(Status.INVALID_QUEUE_SIZE)
        if not command.cdw11 & 1:  # PC: must be contiguous, as CAP.CQR says
            return refused(Status.INVALID_FIELD)
        return refused(Status.PRP_OFFSET_INVALID) if command.prp1 % PAGE else None

    def _delete_cq(self, command: Command) -> Reply:
        qid = command.cdw10 & 0xFFFF
        if qid == 0 or qid not in self._cqs:
            return refused(Status.INVALID_QUEUE_ID)
        if any(sq.completion == qid for sq in self._sqs.values()):
            return refused(Status.INVALID_QUEUE_DELETION)
        del self._cqs[qid]
        return OK

    def _delete_sq(self, command: Command) -> Reply:
        qid = command.cdw10 & 0xFFFF
        if qid == 0 or qid not in self._sqs:
            return refused(Status.INVALID_QUEUE_ID)
        del self._sqs[qid]
        return OK


def _merge(old: int, shift_bytes: int, data: bytes) -> int:
    raw = bytearray(old.to_bytes(8, "little"))
    raw[shift_bytes : shift_bytes + len(data)] = data
    return int.from_bytes(raw[:8], "little")
