"""Admin commands (Base 5) as one function of the drive answers them.

Queues belong to the function (``function``); everything else is here. A command is answered by
returning a Reply, or later through the callback it came with.
"""

from __future__ import annotations

from collections.abc import Callable

from tests.lab.nvme import identify, logs, nvm
from tests.lab.nvme.counters import Counter
from tests.lab.nvme.drive import Drive
from tests.lab.nvme.memory import DmaFault, Host
from tests.lab.nvme.spec import (
    BROADCAST_NSID,
    OK,
    AdminOp,
    Cns,
    Command,
    Lid,
    NvmOp,
    Reply,
    Status,
    refused,
)

Answer = Callable[[Reply], None]

_SUPPORTED = (
    AdminOp.DELETE_SQ,
    AdminOp.CREATE_SQ,
    AdminOp.GET_LOG_PAGE,
    AdminOp.DELETE_CQ,
    AdminOp.CREATE_CQ,
    AdminOp.IDENTIFY,
    AdminOp.ABORT,
    AdminOp.SET_FEATURES,
    AdminOp.GET_FEATURES,
    AdminOp.ASYNC_EVENT,
    AdminOp.KEEP_ALIVE,
)
_DURING_SANITIZE = frozenset(_SUPPORTED)
"""Admin commands allowed while a sanitize runs or has failed (Base 8.21.1)."""

_LOGS_DURING_SANITIZE = frozenset({Lid.ERROR, Lid.SMART, Lid.CHANGED_NAMESPACES, Lid.SANITIZE})
_BEGUN = frozenset({AdminOp.FORMAT_NVM, AdminOp.SANITIZE})
_RETAIN_EVENT = 1 << 15


class Controller:
    """One function's view of the drive. Every method is called with the drive's lock held."""

    def __init__(self, drive: Drive, via: str) -> None:
        self.drive = drive
        self.via = via
        self._io = nvm.IoCommands(drive)
        self.events_masked = False

    def reset(self) -> None:
        """Controller Level Reset (Base 3.7.2) of this function."""
        self.drive.formatter.halt(self)
        self.drive.features.reset()
        self.events_masked = False

    def admin(self, command: Command, host: Host, answer: Answer) -> Reply | None:
        """Answer an admin command, note it in the command log.

        None: it is answered later, or never.
        """
        drive = self.drive
        seq = drive.counters.add(Counter.COMMANDS)
        if command.opcode in _BEGUN or command.opcode in drive.faults.admin_hang:
            self._log(seq, "begun", command, None)

        def finish(reply: Reply) -> None:
            if reply.status:
                drive.error(command, 0, reply.status)
            self._log(seq, "answered", command, reply.status)
            answer(reply)

        try:
            reply = self._admin(command, host, finish)
        except DmaFault:
            reply = refused(Status.DATA_TRANSFER_ERROR)
        if reply is not None:
            if reply.status:
                drive.error(command, 0, reply.status)
            self._log(seq, "answered", command, reply.status)
        return reply

    def queue_command(self, command: Command, status: int) -> None:
        """Note a command that the function answered itself."""
        seq = self.drive.counters.add(Counter.COMMANDS)
        self._log(seq, "answered", command, status)

    def io(self, command: Command, host: Host, queue: int) -> Reply:
        """Answer an I/O command."""
        drive = self.drive
        seq = drive.counters.add(Counter.COMMANDS)
        try:
            reply = self._io.execute(command, host)
        except DmaFault:
            reply = refused(Status.DATA_TRANSFER_ERROR)
        except OSError as error:
            # The backing file failed (full file system?): the guest sees a broken drive.
            drive.note("backing_file_error", str(error))
            reply = refused(Status.INTERNAL)
        if reply.status:
            drive.error(command, queue, reply.status)
        if drive.faults.log_io or command.opcode == NvmOp.DATASET_MANAGEMENT:
            self._log(seq, "answered", command, reply.status, admin=False)
        return reply

    def _admin(self, command: Command, host: Host, answer: Answer) -> Reply | None:
        drive, opcode = self.drive, command.opcode
        if opcode in drive.faults.admin_hang:
            return None
        if opcode in drive.faults.admin_status:
            return Reply(drive.faults.admin_status[opcode])
        if opcode not in self._opcodes():
            return refused(Status.INVALID_OPCODE)
        if blocked := self._sanitize_gate(command):
            return blocked
        if opcode == AdminOp.IDENTIFY:
            return self._identify(command)
        if opcode == AdminOp.GET_LOG_PAGE:
            return self._log_page(command)
        if opcode == AdminOp.GET_FEATURES:
            return drive.features.get(command)
        if opcode == AdminOp.SET_FEATURES:
            return drive.features.set(command, host)
        if opcode == AdminOp.FORMAT_NVM:
            return drive.formatter.command(command, self, answer)
        if opcode == AdminOp.SANITIZE:
            return drive.sanitizer.command(command)
        if opcode == AdminOp.ABORT:
            return Reply(dw0=1)  # bit 0: not aborted, which a controller may always say
        if opcode == AdminOp.KEEP_ALIVE:
            return OK
        return refused(Status.INVALID_OPCODE)

    def _opcodes(self) -> tuple[int, ...]:
        profile = self.drive.profile
        extra = [AdminOp.FORMAT_NVM] if profile.format.supported else []
        if identify.sanicap(profile):
            extra.append(AdminOp.SANITIZE)
        return (*_SUPPORTED, *extra)

    def _sanitize_gate(self, command: Command) -> Reply | None:
        now = self.drive.state.sanitize
        if not (now.running or now.locked):
            return None
        allowed = command.opcode in _DURING_SANITIZE
        if command.opcode == AdminOp.GET_LOG_PAGE:
            allowed = command.cdw10 & 0xFF in _LOGS_DURING_SANITIZE
        if allowed or command.opcode == AdminOp.SANITIZE:
            return None
        if now.running:
            # DNR clear: passthrough commands are not repeated by Linux, and a repeat may succeed.
            return refused(Status.SANITIZE_IN_PROGRESS, retry=True)
        return refused(Status.SANITIZE_FAILED)

    def _identify(self, command: Command) -> Reply:
        drive, profile, state = self.drive, self.drive.profile, self.drive.state
        cns, nsid, csi = command.cdw10 & 0xFF, command.nsid, command.cdw11 >> 24
        whole_drive: dict[int, Callable[[], bytes]] = {
            Cns.CONTROLLER: lambda: identify.controller(profile, state.unallocated),
            Cns.CONTROLLER_BY_COMMAND_SET: lambda: bytes(4096),
            Cns.CONTROLLERS: lambda: identify.controller_list(profile, command.cdw10 >> 16),
            Cns.ATTACHED_CONTROLLERS: lambda: identify.controller_list(
                profile, command.cdw10 >> 16
            ),
            Cns.COMMAND_SETS: identify.command_sets,
        }
        if cns in whole_drive:
            if cns == Cns.CONTROLLER_BY_COMMAND_SET and csi:
                return refused(Status.INVALID_FIELD)
            return Reply(data=whole_drive[cns]())
        if cns in (Cns.ACTIVE_NAMESPACES, Cns.ALLOCATED_NAMESPACES, Cns.ACTIVE_BY_COMMAND_SET):
            if nsid >= BROADCAST_NSID - 1:
                return refused(Status.INVALID_NAMESPACE)
            return Reply(data=identify.namespace_list(state, nsid))
        if nsid == BROADCAST_NSID and cns == Cns.NAMESPACE:
            # Capabilities that all namespaces share (Base 5.17.2.1): those of the first.
            nsid = state.namespaces[0].nsid if state.namespaces else 0
        namespace = state.namespace(nsid)
        if cns not in (
            Cns.NAMESPACE,
            Cns.DESCRIPTORS,
            Cns.NAMESPACE_BY_COMMAND_SET,
            Cns.NAMESPACE_INDEPENDENT,
            Cns.ALLOCATED_NAMESPACE,
        ):
            return refused(Status.INVALID_FIELD)
        if namespace is None:
            highest = max(part.nsid for part in profile.namespaces)
            if not 1 <= nsid <= highest or cns == Cns.DESCRIPTORS:
                return refused(Status.INVALID_NAMESPACE)
            return Reply(data=bytes(4096))  # valid but inactive: zeros (Base 5.17.2.1)
        left = drive.formatter.percent_left(nsid)
        protected = drive.write_protect(namespace) != 0
        if cns == Cns.DESCRIPTORS:
            return Reply(data=identify.descriptors(profile, nsid))
        if cns == Cns.NAMESPACE_INDEPENDENT:
            return Reply(data=identify.namespace_independent(format_left=left, protected=protected))
        if cns == Cns.NAMESPACE_BY_COMMAND_SET:
            return refused(Status.INVALID_FIELD) if csi else Reply(data=bytes(4096))
        return Reply(
            data=identify.namespace(profile, namespace, format_left=left, protected=protected)
        )

    def _log_page(self, command: Command) -> Reply:
        lid = command.cdw10 & 0xFF
        length = ((command.cdw10 >> 16 | (command.cdw11 & 0xFFFF) << 16) + 1) * 4
        offset = command.cdw12 | command.cdw13 << 32
        content = self._log_content(lid)
        if content is None:
            return refused(Status.INVALID_LOG_PAGE)
        if offset > len(content) or offset % 4:
            return refused(Status.INVALID_FIELD)
        if not command.cdw10 & _RETAIN_EVENT:
            if lid == Lid.SANITIZE:
                self.events_masked = False
            if lid == Lid.CHANGED_NAMESPACES and self.drive.state.changed_namespaces:
                self.drive.state.changed_namespaces.clear()
                self.drive.save()
        # More than the page holds reads as zeros; a host that asks for gigabytes gets 1 MiB.
        length = min(length, 1 << 20)
        return Reply(data=content[offset : offset + length].ljust(length, b"\0"))

    def _log_content(self, lid: int) -> bytes | None:
        drive, profile = self.drive, self.drive.profile
        if lid == Lid.SMART:
            drive.tick()
            return logs.smart(profile, drive.state, drive.counters)
        if lid == Lid.SANITIZE:
            if not identify.sanicap(profile):
                return None
            return logs.sanitize_status(profile, drive.state)
        if lid == Lid.ERROR:
            return logs.errors(drive.errors)
        if lid == Lid.FIRMWARE:
            return logs.firmware(profile)
        if lid == Lid.CHANGED_NAMESPACES:
            return logs.changed_namespaces(drive.state.changed_namespaces)
        if lid == Lid.EFFECTS:
            return logs.effects(self._opcodes(), nvm.SUPPORTED)
        if lid == Lid.SUPPORTED:
            hidden = () if identify.sanicap(profile) else (Lid.SANITIZE,)
            return logs.supported(known for known in Lid if known not in hidden)
        return None

    def _log(
        self, seq: int, phase: str, command: Command, status: int | None, *, admin: bool = True
    ) -> None:
        self.drive.log.command(
            seq,
            phase,
            command,
            admin=admin,
            via=self.via,
            power_cycle=self.drive.counters[Counter.POWER_CYCLES],
            status=status,
        )
