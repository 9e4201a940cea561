"""Admin commands (Base 5) as one function of the drive answers them.

Queues belong to the function (``function``); everything else is here. A command is answered by
returning a Reply, or later through the callback it came with.
"""

from __future__ import annotations

from collections.abc import Callable

from tests.lab.nvme import (
    identify,
    lockdown,
    lookups,
    namespacesanitize,
    nvm,
    virtualization,
)
from tests.lab.nvme.acts import Act, Kind, Reset
from tests.lab.nvme.counters import Counter
from tests.lab.nvme.drive import Drive
from tests.lab.nvme.memory import DmaFault, Host
from tests.lab.nvme.spec import (
    OK,
    AdminOp,
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
_NOT_WHILE_LOCKED = frozenset({AdminOp.FORMAT_NVM, AdminOp.SANITIZE, AdminOp.NAMESPACE_MANAGEMENT})
"""What a drive with a locked TCG range denies; real drives differ, this is the worst of them."""

_OWN: dict[AdminOp, Callable[[Drive, Command, Host], Reply]] = {
    AdminOp.IDENTIFY: lambda drive, command, _host: lookups.identify_data(drive, command),
    AdminOp.GET_FEATURES: lambda drive, command, _host: drive.features.get(command),
    AdminOp.SET_FEATURES: lambda drive, command, host: drive.features.set(command, host),
    AdminOp.SANITIZE: lambda drive, command, _host: drive.sanitizer.command(command),
    AdminOp.NAMESPACE_MANAGEMENT: lambda drive, command, host: drive.manager.command(command, host),
    AdminOp.NAMESPACE_ATTACHMENT: lambda drive, command, host: drive.manager.command(command, host),
    AdminOp.SECURITY_SEND: lambda drive, command, host: drive.security.command(command, host),
    AdminOp.SECURITY_RECEIVE: lambda drive, command, host: drive.security.command(command, host),
    AdminOp.LOCKDOWN: lambda drive, command, _host: lockdown.command(drive, command),
    AdminOp.SANITIZE_NAMESPACE: lambda drive, command, _host: namespacesanitize.command(
        drive, command
    ),
    AdminOp.VIRTUALIZATION_MANAGEMENT: lambda drive, command, _host: virtualization.command(
        drive, command
    ),
    # DW0 bit 0: not aborted, which a controller may always say.
    AdminOp.ABORT: lambda _drive, _command, _host: Reply(dw0=1),
    AdminOp.KEEP_ALIVE: lambda _drive, _command, _host: OK,
}
"""Commands that need nothing of the function they came through."""


class Controller:
    """One function's view of the drive. Every method is called with the drive's lock held."""

    def __init__(self, drive: Drive, via: str) -> None:
        self.drive = drive
        self.via = via
        self._io = nvm.IoCommands(drive)
        self.events_masked = False

    def reset(self, how: Reset | None = Reset.CONTROLLER) -> None:
        """Controller Level Reset (Base 3.7.2) of this function; None: part of a wider one."""
        self.drive.formatter.halt(self)
        self.drive.features.reset(whole=not (how and self.drive.profile.other_controllers))
        if self.drive.state.firmware.by_controller and self.drive.state.firmware.waits:
            self.drive.state.firmware.activate()
            self.drive.save()
        if self.drive.state.flexible is not None and how is not Reset.CONTROLLER:
            self.drive.state.flexible.activate()
            self.drive.save()
        self.drive.veil.lift()
        self.events_masked = False
        if how:
            self.drive.nature.hears(Act(Kind.RESET, reset=how))

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

        act = Act(Kind.ADMIN, command)
        drive.nature.hears(act)
        try:
            reply = drive.nature.answers(act) or self._admin(command, host, finish)
        except DmaFault:
            reply = refused(Status.DATA_TRANSFER_ERROR)
        if reply is not None:
            if reply.status:
                drive.error(command, 0, reply.status)
            self._log(seq, "answered", command, reply.status)
        return reply

    def queue_command(self, command: Command, status: int) -> None:
        """Note a command that the function answered itself."""
        self.drive.nature.hears(Act(Kind.ADMIN, command))
        seq = self.drive.counters.add(Counter.COMMANDS)
        self._log(seq, "answered", command, status)

    def io(self, command: Command, host: Host, queue: int) -> Reply:
        """Answer an I/O command."""
        drive = self.drive
        seq = drive.counters.add(Counter.COMMANDS)
        try:
            reply = self._io.execute(command, host, queue)
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
        if blocked := self._sanitize_gate(command) or namespacesanitize.refusal(drive, command):
            return blocked
        if blocked := self._gate(command):
            return blocked
        if opcode in _OWN:
            return _OWN[AdminOp(opcode)](drive, command, host)
        if opcode == AdminOp.GET_LOG_PAGE:
            if command.cdw10 & 0xFF == Lid.SANITIZE and not command.cdw10 & lookups.RETAIN_EVENT:
                self.events_masked = False
            return lookups.log_page(drive, command, self._opcodes())
        if opcode == AdminOp.FORMAT_NVM:
            return drive.formatter.command(command, self, answer)
        return refused(Status.INVALID_OPCODE)

    def _opcodes(self) -> tuple[int, ...]:
        profile = self.drive.profile
        extra = {
            AdminOp.FORMAT_NVM: profile.format.supported,
            AdminOp.SANITIZE: bool(identify.sanicap(profile)),
            AdminOp.NAMESPACE_MANAGEMENT: profile.namespace_management,
            AdminOp.NAMESPACE_ATTACHMENT: profile.namespace_management,
            AdminOp.SECURITY_SEND: profile.security is not None,
            AdminOp.SECURITY_RECEIVE: profile.security is not None,
            AdminOp.LOCKDOWN: profile.lockdown,
            AdminOp.SANITIZE_NAMESPACE: profile.version >= namespacesanitize.VERSION,
            AdminOp.VIRTUALIZATION_MANAGEMENT: profile.flexible is not None,
        }
        return (*_SUPPORTED, *(opcode for opcode, has in extra.items() if has))

    def _gate(self, command: Command) -> Reply | None:
        drive = self.drive
        if lockdown.prohibits(drive.state, command):
            return refused(Status.LOCKED_DOWN)
        if drive.reservations.admin_conflict(command):
            return refused(Status.RESERVATION_CONFLICT)
        if command.opcode in _NOT_WHILE_LOCKED and drive.state.security.denies:
            return refused(Status.ACCESS_DENIED)
        return None

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
