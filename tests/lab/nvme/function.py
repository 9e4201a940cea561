"""One PCI function of a drive: controller registers, queues and interrupts (Base 3)."""

from __future__ import annotations

from collections.abc import Callable

from tests.lab.nvme import registers
from tests.lab.nvme.acts import Act, Kind, Reset
from tests.lab.nvme.controller import Controller
from tests.lab.nvme.counters import Counter
from tests.lab.nvme.dma import CommandMemory, DmaSpace
from tests.lab.nvme.drive import Drive
from tests.lab.nvme.features import MAX_IO_QUEUES
from tests.lab.nvme.identify import EVENT_LIMIT
from tests.lab.nvme.media import Media
from tests.lab.nvme.memory import DmaFault, push
from tests.lab.nvme.nature import Store
from tests.lab.nvme.queues import CompletionQueue, SubmissionQueue
from tests.lab.nvme.registers import MAX_QUEUE_ENTRIES
from tests.lab.nvme.spec import OK, PAGE, AdminOp, Command, Reply, Status, refused

VECTORS = MAX_IO_QUEUES + 1
"""MSI-X vectors of the function."""

DOORBELLS = 0x1000
"""First doorbell in BAR 0; the stride is 4 bytes (CAP.DSTRD = 0)."""

_CC_ENABLE, _CC_SHUTDOWN = 1 << 0, 3 << 14
_CSTS_READY, _CSTS_FATAL, _CSTS_SHUTDOWN_DONE = 1 << 0, 1 << 1, 2 << 2
_CSTS_SUBSYSTEM_RESET = 1 << 4

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
        self._ready_at = self._absent_until = 0.0  # the drive's clock
        self._buffer_shown = False  # CMBMSC.CRE
        self._was_enabled = False  # since it has power
        drive.listeners.append(self)

    # Life

    def reset(self, reason: str, how: Reset | None = Reset.CONTROLLER) -> None:
        """Controller Level Reset (Base 3.7.2): queues gone, not ready."""
        if self._cqs:
            self.drive.note("reset", f"{self.controller.via}: {reason}")
        self._epoch += 1
        self._csts = 0
        self._sqs.clear()
        self._cqs.clear()
        self._events.clear()
        self.controller.reset(how)

    def power_lost(self) -> None:
        """Power is gone: registers too."""
        self.reset("power", None)  # the drive tells when it is back
        self._was_enabled = False
        self._forget_registers()

    def subsystem_reset(self) -> None:
        """Registers too; CSTS says for what reason (Base 3.1.3.6)."""
        self.reset("subsystem", None)
        self._forget_registers()
        self._csts = _CSTS_SUBSYSTEM_RESET

    def hard_reset(self, reason: str, how: Reset = Reset.FUNCTION) -> None:
        """A function level or PCI reset: like power, but the drive stays on.

        QEMU resets a function when it is plugged in. Nothing was enabled then, so nothing takes
        time: a guest that saw no answer there would not believe that there is a drive at all.
        """
        self.reset(reason, how)
        if self._was_enabled:
            # Also where the driver had disabled the controller first, as Linux does.
            self.drive.note("pci_reset", f"{self.controller.via}: {reason}")
            self._absent_until = self.drive.clock() + self.drive.profile.flr_seconds
        self._forget_registers()

    def _forget_registers(self) -> None:
        self._cc = self._aqa = self._asq = self._acq = self._mask = 0
        self._buffer_shown = self.drive.buffer_enabled = False

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
        return gone or self.drive.clock() < self._absent_until

    def read(self, offset: int, length: int) -> bytes:
        """Read BAR 0; all ones from an absent drive."""
        if self.absent:
            return b"\xff" * length
        now = registers.Registers(
            self._mask,
            self._cc,
            self._status(),
            self._aqa,
            self._asq,
            self._acq,
            self._buffer_shown,
            self.drive.buffer_enabled,
        )
        return registers.read(self.drive.profile, now, offset, length)

    def read_buffer(self, offset: int, length: int) -> bytes:
        """Read the CMB or PMR; all ones where the host has not switched it on."""
        store = self._open_buffer(offset, length)
        if store is None:
            return b"\xff" * length
        return self.drive.nature.shows(Store.BUFFER, offset, store.read(offset, length))

    def write_buffer(self, offset: int, data: bytes) -> None:
        """Write the CMB or PMR."""
        store = self._open_buffer(offset, len(data))
        if store is not None:
            self.drive.nature.written(Store.BUFFER, offset, offset + len(data))
            store.write_from(offset, [memoryview(bytearray(data))])

    def _open_buffer(self, offset: int, length: int) -> Media | None:
        store, buffer = self.drive.buffer, self.drive.profile.buffer
        if store is None or buffer is None or self.absent or offset + length > buffer.size:
            return None
        on = self.drive.buffer_enabled if buffer.persistent else self._buffer_shown
        return store if on else None

    def _status(self) -> int:
        waking = self._csts & _CSTS_READY and self.drive.clock() < self._ready_at
        return self._csts & ~_CSTS_READY if waking else self._csts

    def write(self, offset: int, data: bytes) -> None:
        """Write BAR 0: a register or a doorbell."""
        if self.absent:
            return
        value = int.from_bytes(data, "little")
        if offset >= DOORBELLS:
            self._doorbell((offset - DOORBELLS) // 4, value)
        elif offset == registers.CC:
            self._configure(value)
        elif offset == registers.NSSR:
            if value == registers.NVME and self.drive.profile.subsystem_reset:
                self.drive.subsystem_reset()
        elif offset == registers.CMBMSC:
            self._buffer_shown = bool(value & 1)
        elif offset == registers.PMRCTL:
            self.drive.buffer_enabled = bool(value & 1)
        elif offset == registers.AQA:
            self._aqa = value
        elif offset in (registers.ASQ, registers.ASQ + 4):
            self._asq = _merge(self._asq, offset - registers.ASQ, data)
        elif offset in (registers.ACQ, registers.ACQ + 4):
            self._acq = _merge(self._acq, offset - registers.ACQ, data)
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
            self.drive.nature.hears(Act(Kind.LEFT))
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
        self._ready_at = self.drive.clock() + self.drive.profile.ready_seconds
        self.drive.recent.clear()
        self.drive.counters[Counter.POWERED_UNCLEANLY] = 1
        self.drive.note("enabled", self.controller.via)
        self.drive.nature.hears(Act(Kind.TAKEN))

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
