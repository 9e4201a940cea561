"""I/O commands (NVM 3.2)."""

from __future__ import annotations

import struct

from tests.lab.nvme import reservations
from tests.lab.nvme.acts import Act, Kind
from tests.lab.nvme.counters import Counter
from tests.lab.nvme.drive import Drive
from tests.lab.nvme.faults import WriteFault
from tests.lab.nvme.memory import Host, pull, push
from tests.lab.nvme.nature import Store
from tests.lab.nvme.profile import METADATA_SHIFT, DriveProfile
from tests.lab.nvme.spec import (
    BROADCAST_NSID,
    DNR,
    OK,
    PAGE,
    Command,
    CommandSet,
    Fid,
    NvmOp,
    Reply,
    Status,
    refused,
)
from tests.lab.nvme.state import NamespaceState


def supported(profile: DriveProfile) -> list[NvmOp]:
    """The I/O commands that a drive has."""
    absent = frozenset() if profile.reservations else reservations.OPCODES
    has = {NvmOp.VERIFY: profile.verify, NvmOp.WRITE_ZEROES: profile.write_zeroes}
    return [op for op in NvmOp if op not in absent and has.get(op, True)]


_CHANGING = frozenset({NvmOp.WRITE, NvmOp.WRITE_ZEROES, NvmOp.DATASET_MANAGEMENT})

_AT_WRITE_POINTER = frozenset({NvmOp.WRITE, NvmOp.WRITE_ZEROES})
_ADDRESSED = frozenset({NvmOp.READ, NvmOp.WRITE, NvmOp.COMPARE, NvmOp.WRITE_ZEROES, NvmOp.VERIFY})
_RANGE = struct.Struct("<IIQ")
_ATTRIBUTE_DEALLOCATE = 1 << 2
_DULBE = 1 << 16


class IoCommands:
    """Executes I/O commands of one drive; called with the drive's lock held."""

    def __init__(self, drive: Drive) -> None:
        self._drive = drive
        self._known = frozenset(supported(drive.profile))
        self._largest = PAGE << drive.profile.mdts if drive.profile.mdts else 1 << 62

    def execute(self, command: Command, host: Host, queue: int) -> Reply:
        """Run one command to its end. May raise DmaFault."""
        act = self._act(command, queue)
        self._drive.nature.hears(act)
        if instead := self._drive.nature.answers(act):
            return instead
        if wrong := self._sanitize_gate():
            return wrong
        drive = self._drive
        if command.opcode not in self._known:
            return refused(Status.INVALID_OPCODE)
        if command.opcode == NvmOp.FLUSH:
            drive.counters.add(Counter.FLUSHES)
            known = command.nsid == BROADCAST_NSID or drive.state.active(command.nsid)
            return OK if known else refused(Status.INVALID_NAMESPACE)
        namespace = drive.state.active(command.nsid)
        if namespace is None:
            return refused(Status.INVALID_NAMESPACE)
        if namespace.sanitizing:
            return refused(Status.NAMESPACE_SANITIZE_IN_PROGRESS)
        if drive.formatter.busy and drive.formatter.percent_left(command.nsid):
            return refused(Status.FORMAT_IN_PROGRESS)
        if command.opcode in _CHANGING and drive.write_protect(namespace):
            return refused(Status.NAMESPACE_WRITE_PROTECTED)
        if command.opcode in reservations.OPCODES:
            return drive.reservations.execute(command, namespace, host)
        if drive.reservations.conflict(command, namespace):
            return refused(Status.RESERVATION_CONFLICT)
        if drive.state.security.denies:
            return refused(Status.ACCESS_DENIED)
        if command.opcode == NvmOp.DATASET_MANAGEMENT:
            return self._dataset_management(command, namespace, host)
        return self._on_blocks(command, namespace, host)

    def _act(self, command: Command, queue: int) -> Act:
        namespace = self._drive.state.active(command.nsid)
        if namespace is None or command.opcode not in _ADDRESSED:
            return Act(Kind.IO, command, queue)
        shift = self._drive.shift(namespace)
        start = namespace.base + (command.slba << shift)
        end = start + (command.blocks << shift)
        if end > namespace.base + namespace.size:
            return Act(Kind.IO, command, queue, block=1 << shift)
        return Act(Kind.IO, command, queue, None, start, end, 1 << shift)

    def _sanitize_gate(self) -> Reply | None:
        sanitize = self._drive.state.sanitize
        if sanitize.running:
            # DNR set, as for every command whose retry cannot succeed soon: else Linux
            # repeats each failed read five times at once.
            return refused(Status.SANITIZE_IN_PROGRESS)
        return refused(Status.SANITIZE_FAILED) if sanitize.locked else None

    def _on_blocks(self, command: Command, namespace: NamespaceState, host: Host) -> Reply:
        drive, opcode, blocks = self._drive, command.opcode, command.blocks
        shift = drive.shift(namespace)
        if command.slba + blocks > namespace.size >> shift:
            return refused(Status.LBA_OUT_OF_RANGE)
        start = namespace.base + (command.slba << shift)
        length = blocks << shift
        if opcode not in (NvmOp.WRITE_ZEROES, NvmOp.VERIFY) and length > self._largest:
            return refused(Status.INVALID_FIELD)
        # The model has no zones: such a namespace is one that begins empty and stays so.
        if namespace.csi == CommandSet.ZONED and opcode in _AT_WRITE_POINTER and command.slba:
            return refused(Status.ZONE_INVALID_WRITE)
        if bad := self._media_error(command, blocks, write=opcode in _CHANGING):
            return bad
        if opcode == NvmOp.READ:
            return self._read(command, namespace, start, length, host)
        if opcode == NvmOp.VERIFY:
            return OK  # what can be read without an error is verified (NVM 3.2.5)
        if opcode == NvmOp.WRITE:
            buffers = host.buffers(length)
            self._count_write(start, length)
            drive.counters.add(Counter.SECTORS_WRITTEN, length >> 9)
            fault = drive.faults.writes
            if fault is WriteFault.CACHE or not drive.veil.lies_open:
                drive.veil.write(start, b"".join(buffers))
            if fault is WriteFault.NONE:
                drive.media.write_from(start, buffers)
                self._write_metadata(namespace, start, length, host)
            return OK
        if opcode == NvmOp.WRITE_ZEROES:
            self._count_write(start, length)
            if drive.media.empty(start, start + length):
                drive.save()
            if drive.metadata:
                drive.nature.written(Store.METADATA, start, start + length)
                at, end = start >> METADATA_SHIFT, start + length >> METADATA_SHIFT
                drive.metadata.empty(at, end)
            return OK
        if opcode == NvmOp.COMPARE:
            held = drive.nature.shows(Store.DATA, start, drive.media.read(start, length))
            same = held == pull(host, length)
            return OK if same else refused(Status.COMPARE_FAILURE)
        return refused(Status.INVALID_OPCODE)

    def _read(
        self, command: Command, namespace: NamespaceState, start: int, length: int, host: Host
    ) -> Reply:
        drive = self._drive
        recovery = drive.features.current(Fid.ERROR_RECOVERY, command.nsid)
        end = start + length
        if recovery & _DULBE and (
            drive.media.deallocated(start, end) or drive.nature.deallocated(start, end)
        ):
            return refused(Status.DEALLOCATED)
        if drive.veil.lies_open and drive.nature.plain:
            drive.media.read_into(start, host.buffers(length))
        else:
            seen = drive.media if drive.veil.lies_open else drive.veil
            push(host, drive.nature.shows(Store.DATA, start, seen.read(start, length)))
        if drive.metadata and drive.profile.metadata_bytes(namespace.lba_format):
            at, size = start >> METADATA_SHIFT, length >> METADATA_SHIFT
            buffer = host.metadata(size)
            if buffer is not None:
                held = drive.metadata.read(at, size)
                buffer[:] = drive.nature.shows(Store.METADATA, start, held)
        drive.counters.add(Counter.SECTORS_READ, length >> 9)
        drive.counters.add(Counter.HOST_READS)
        return OK

    def _write_metadata(
        self, namespace: NamespaceState, start: int, length: int, host: Host
    ) -> None:
        drive = self._drive
        if not drive.metadata:
            return
        # Without a buffer, or in a format without metadata, nothing of the old may stay beside
        # the new block.
        at, size = start >> METADATA_SHIFT, length >> METADATA_SHIFT
        has = drive.profile.metadata_bytes(namespace.lba_format)
        buffer = host.metadata(size) if has else None
        drive.nature.written(Store.METADATA, start, start + length)
        drive.metadata.write_from(at, [memoryview(bytes(size)) if buffer is None else buffer])

    def _count_write(self, start: int, length: int) -> None:
        # Before the data: a server killed in between must not leave data under a clean seal.
        self._drive.counters.add(Counter.HOST_WRITES)
        self._drive.written(start, start + length)

    def _dataset_management(self, command: Command, namespace: NamespaceState, host: Host) -> Reply:
        drive, shift = self._drive, self._drive.shift(namespace)
        ranges = list(_RANGE.iter_unpack(pull(host, ((command.cdw10 & 0xFF) + 1) * _RANGE.size)))
        if any(slba + blocks > namespace.size >> shift for _, blocks, slba in ranges):
            return refused(Status.LBA_OUT_OF_RANGE)
        if not command.cdw11 & _ATTRIBUTE_DEALLOCATE or drive.profile.keeps_deallocated:
            return OK  # a hint about access, nothing to do
        changed = False
        for _, blocks, slba in ranges:
            start = namespace.base + (slba << shift)
            end = start + (blocks << shift)
            fill = drive.profile.deallocated_reads
            if end > start:
                done = drive.nature.deallocates(start, end, fill)
                changed |= drive.media.empty(start, end, fill) if done is None else done
        if changed:
            drive.save()
        drive.counters.add(Counter.DEALLOCATES)
        return OK

    def _media_error(self, command: Command, blocks: int, *, write: bool) -> Reply | None:
        for bad in self._drive.faults.media_errors:
            if bad.erased_only and not self._drive.state.erases:
                continue
            if bad.hits(command.nsid, command.slba, blocks, write=write):
                self._drive.counters.add(Counter.MEDIA_ERRORS)
                default = Status.WRITE_FAULT if write else Status.UNRECOVERED_READ
                return Reply(bad.status if bad.status is not None else default | DNR)
        return None
