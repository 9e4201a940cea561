"""Reservations of a namespace (Base 7.3 to 7.6, 8.19): register, acquire, release, report.

One controller serves one host at a time here, so the host identifier (feature 81h) alone tells
hosts apart. It is not saved: a host that names none is the host with identifier 0, which some
drives let have none of it (CTRATT, RHII; Base 2.1, 8.1.22).
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING

from tests.lab.nvme.memory import Host, pull
from tests.lab.nvme.spec import OK, AdminOp, Command, Fid, NvmOp, Reply, Status, refused
from tests.lab.nvme.state import NamespaceState, Registrant, ReservationState

if TYPE_CHECKING:
    from tests.lab.nvme.drive import Drive

RESCAP = 0x7F
"""Persist through power loss and all six types (NVM 4.1.5.1)."""

OPCODES = frozenset(
    {
        NvmOp.RESERVATION_REGISTER,
        NvmOp.RESERVATION_REPORT,
        NvmOp.RESERVATION_ACQUIRE,
        NvmOp.RESERVATION_RELEASE,
    }
)

_WRITING = frozenset({NvmOp.WRITE, NvmOp.WRITE_ZEROES, NvmOp.DATASET_MANAGEMENT})
_ADMIN_CONFLICTS = frozenset(
    {
        AdminOp.FORMAT_NVM,
        AdminOp.SANITIZE,
        AdminOp.NAMESPACE_MANAGEMENT,
        AdminOp.NAMESPACE_ATTACHMENT,
        AdminOp.SECURITY_SEND,
    }
)
"""The admin commands of the write group of figure "Command Behavior in the Presence of a
Reservation" (Base 8.19)."""

_TYPES = range(1, 7)
_WRITE_EXCLUSIVE, _ALL_REGISTRANTS = (1, 3, 5), (5, 6)
_HOLDER_ALONE = (1, 2)
_IGNORE_KEY = 1 << 3


class Reservations:
    """The reservations of one drive; every method is called with the drive's lock held."""

    def __init__(self, drive: Drive) -> None:
        self._drive = drive

    def power_on(self) -> None:
        """What does not persist through a power loss is gone."""
        for namespace in self._drive.state.namespaces:
            if not namespace.reservation.persist:
                generation = namespace.reservation.generation
                namespace.reservation = ReservationState(generation)

    def conflict(self, command: Command, namespace: NamespaceState) -> bool:
        """Whether another host's reservation forbids an I/O command."""
        kind = namespace.reservation.kind
        reading = command.opcode in (NvmOp.READ, NvmOp.COMPARE)
        if command.opcode not in _WRITING and not reading:
            return False
        return self._shut_out(namespace) and not (reading and kind in _WRITE_EXCLUSIVE)

    def admin_conflict(self, command: Command) -> bool:
        """Whether another host's reservation of any namespace forbids an admin command."""
        if command.opcode not in _ADMIN_CONFLICTS:
            return False
        return any(self._shut_out(namespace) for namespace in self._drive.state.namespaces)

    def execute(self, command: Command, namespace: NamespaceState, host: Host) -> Reply:
        """Run one of the four commands. May raise DmaFault."""
        if self._drive.profile.wants_host_identifier and not int(self._host(), 16):
            return refused(Status.HOST_ID_NOT_INITIALIZED)
        if command.opcode == NvmOp.RESERVATION_REPORT:
            return self._report(command, namespace.reservation, host)
        now = namespace.reservation
        if command.opcode == NvmOp.RESERVATION_REGISTER:
            reply = self._register(command, now, *struct.unpack("<QQ", pull(host, 16)))
        elif command.opcode == NvmOp.RESERVATION_ACQUIRE:
            reply = self._acquire(command, now, *struct.unpack("<QQ", pull(host, 16)))
        else:
            reply = self._release(command, now, *struct.unpack("<Q", pull(host, 8)))
        if not reply.status:
            self._drive.save()
        return reply

    def _host(self) -> str:
        return self._drive.features.current_data(Fid.HOST_IDENTIFIER)

    def _shut_out(self, namespace: NamespaceState) -> bool:
        now = namespace.reservation
        if not now.kind:
            return False
        me = self._host()
        if now.holder == me:
            return False
        registered = any(one.host == me for one in now.registrants)
        return now.kind in _HOLDER_ALONE or not registered

    def _mine(self, now: ReservationState, key: int, *, ignore: bool) -> Registrant | None:
        for one in now.registrants:
            if one.host == self._host() and (ignore or one.key == key):
                return one
        return None

    def _register(self, command: Command, now: ReservationState, key: int, new: int) -> Reply:
        action, ignore = command.cdw10 & 7, bool(command.cdw10 & _IGNORE_KEY)
        mine = self._mine(now, key, ignore=action == 0 or ignore)
        if action == 0:
            if mine and mine.key != new:
                return refused(Status.RESERVATION_CONFLICT)
            if not mine:
                now.registrants.append(Registrant(self._host(), new))
        elif action == 1:
            if mine is None:
                return refused(Status.RESERVATION_CONFLICT)
            self._unregister(now, mine)
        elif action == 2:
            if mine is None and not ignore:
                return refused(Status.RESERVATION_CONFLICT)
            if mine is None:
                now.registrants.append(Registrant(self._host(), new))
            else:
                mine.key = new
        else:
            return refused(Status.INVALID_FIELD)
        now.generation += 1
        persist = command.cdw10 >> 30  # CPTPL: 2 clears, 3 sets
        if persist & 2:
            now.persist = persist == 3
        return OK

    def _unregister(self, now: ReservationState, one: Registrant) -> None:
        now.registrants.remove(one)
        last = not now.registrants
        if now.kind and (last or (now.holder == one.host and now.kind not in _ALL_REGISTRANTS)):
            now.kind, now.holder = 0, ""

    def _acquire(self, command: Command, now: ReservationState, key: int, other: int) -> Reply:
        action, kind = command.cdw10 & 7, command.cdw10 >> 8 & 0xFF
        mine = self._mine(now, key, ignore=bool(command.cdw10 & _IGNORE_KEY))
        if kind not in _TYPES or action > 2:
            return refused(Status.INVALID_FIELD)
        if mine is None:
            return refused(Status.RESERVATION_CONFLICT)
        if action == 0:
            if now.kind and (now.holder != mine.host or now.kind != kind):
                return refused(Status.RESERVATION_CONFLICT)
            now.kind, now.holder = kind, mine.host
            return OK
        beaten = [one for one in now.registrants if one.key == other and one is not mine]
        if not beaten:
            return refused(Status.RESERVATION_CONFLICT)
        held = any(one.host == now.holder for one in beaten)
        now.registrants = [one for one in now.registrants if one not in beaten]
        if held or not now.kind:
            now.kind, now.holder = kind, mine.host
        now.generation += 1
        return OK

    def _release(self, command: Command, now: ReservationState, key: int) -> Reply:
        action, kind = command.cdw10 & 7, command.cdw10 >> 8 & 0xFF
        mine = self._mine(now, key, ignore=bool(command.cdw10 & _IGNORE_KEY))
        if action > 1:
            return refused(Status.INVALID_FIELD)
        if mine is None:
            return refused(Status.RESERVATION_CONFLICT)
        if action == 1:
            now.registrants.clear()
            now.kind, now.holder = 0, ""
            now.generation += 1
            return OK
        if now.kind and now.holder == mine.host:
            if kind != now.kind:
                return refused(Status.INVALID_FIELD)
            now.kind, now.holder = 0, ""
        return OK

    def _report(self, command: Command, now: ReservationState, host: Host) -> Reply:
        if not command.cdw11 & 1:
            # 128-bit host identifiers (CTRATT bit 0) need the extended structure.
            return refused(Status.HOST_ID_FORMAT)
        length = (command.cdw10 + 1) * 4
        data = struct.pack(
            "<IBHxxB", now.generation, now.kind, len(now.registrants), now.persist
        ).ljust(64, b"\0")
        for one in now.registrants:
            entry = struct.pack(
                "<HB5xQ", self._drive.profile.cntlid, one.host == now.holder, one.key
            )
            data += (entry + bytes.fromhex(one.host)).ljust(64, b"\0")
        at, wanted = 0, data[:length].ljust(min(length, len(data) + 4096), b"\0")
        for buffer in host.buffers(len(wanted)):
            buffer[:] = wanted[at : at + len(buffer)]
            at += len(buffer)
        return OK
