"""Namespace Management and Namespace Attachment (Base 5.22, 5.23; NVM 4.1.6).

A namespace occupies one contiguous part of the media, the first that is large enough. Deleting one
forgets where its data was and leaves the data; creating one begins with a fresh mapping, so its
part of the media is emptied then. (The backing file shows what the drive still keeps.)
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING

from tests.lab.nvme.memory import Host, pull
from tests.lab.nvme.spec import (
    BROADCAST_NSID,
    OK,
    PAGE,
    AdminOp,
    Command,
    CommandSet,
    Reply,
    Status,
    refused,
)
from tests.lab.nvme.state import NamespaceState

if TYPE_CHECKING:
    from tests.lab.nvme.drive import Drive

_CREATE, _DELETE = 0, 1
_ATTACH, _DETACH = 0, 1
_GRANULE = 4096


class NamespaceManager:
    """Makes, removes, attaches and detaches; called with the drive's lock held."""

    def __init__(self, drive: Drive) -> None:
        self._drive = drive

    def command(self, command: Command, host: Host) -> Reply:
        """Answer either command. May raise DmaFault."""
        select = command.cdw10 & 0xF
        if command.opcode == AdminOp.NAMESPACE_MANAGEMENT:
            if select == _CREATE:
                return self._create(command, pull(host, PAGE))
            return self._delete(command) if select == _DELETE else refused(Status.INVALID_FIELD)
        if select not in (_ATTACH, _DETACH):
            return refused(Status.INVALID_FIELD)
        return self._attach(command, pull(host, PAGE), attach=select == _ATTACH)

    def _create(self, command: Command, asked: bytes) -> Reply:
        drive, state = self._drive, self._drive.state
        blocks, capacity = struct.unpack_from("<QQ", asked)
        lba_format, protection = asked[26] & 0xF | asked[26] >> 1 & 0x30, asked[29]
        csi = command.cdw11 >> 24
        if csi != CommandSet.NVM and not (drive.profile.zoned and csi == CommandSet.ZONED):
            return refused(Status.COMMAND_SET_NOT_SUPPORTED)
        if protection & 7 or command.nsid:
            return refused(Status.INVALID_FIELD)
        if not drive.profile.plays(lba_format):
            return refused(Status.INVALID_FORMAT)
        if capacity != blocks:
            return refused(Status.THIN_PROVISIONING)
        if not blocks:
            return refused(Status.INVALID_FIELD)
        length = blocks << drive.profile.shifts[lba_format]
        size = -(-length // _GRANULE) * _GRANULE
        base = next((start for start, end in state.gaps() if end - start >= size), None)
        if base is None:
            # DW0 is the room that there is, in bytes, as far as it fits (Base 5.23).
            return Reply(Status.INSUFFICIENT_CAPACITY | 0x4000, dw0=state.unallocated & 0xFFFFFFFF)
        taken = {namespace.nsid for namespace in state.namespaces}
        free = (n for n in range(1, drive.profile.highest_nsid + 1) if n not in taken)
        nsid = next(free, None)
        if nsid is None:
            return refused(Status.NO_NAMESPACE_ID)
        state.namespaces_made += 1
        state.namespaces.append(
            NamespaceState(
                nsid, base, length, lba_format, attached=False, made=state.namespaces_made, csi=csi
            )
        )
        if not drive.faults.creates_dirty:
            drive.prepare(base, base + size)
        self._changed(nsid, "created")
        return Reply(dw0=nsid)

    def _delete(self, command: Command) -> Reply:
        state, wanted = self._drive.state, command.nsid
        everything = wanted == BROADCAST_NSID
        targets = list(state.namespaces) if everything else [state.namespace(wanted)]
        for target in targets:
            if target is None:
                return self._absent(wanted)
            if self._drive.write_protect(target):
                return refused(Status.NAMESPACE_WRITE_PROTECTED)
        for target in targets:
            assert target is not None
            state.namespaces.remove(target)
            self._drive.features.forget_namespace(target.nsid)
            self._changed(target.nsid, "deleted")
        return OK

    def _attach(self, command: Command, asked: bytes, *, attach: bool) -> Reply:
        target = self._drive.state.namespace(command.nsid)
        if target is None:
            return self._absent(command.nsid)
        (count,) = struct.unpack_from("<H", asked)
        ids = struct.unpack_from(f"<{min(count, 2047)}H", asked, 2)
        profile = self._drive.profile
        known = {profile.cntlid, *profile.other_controllers}
        if not ids or not set(ids) <= known:
            return refused(Status.CONTROLLER_LIST)
        if profile.cntlid not in ids:
            return OK  # the model remembers for its own controller alone
        if attach and target.attached:
            return refused(Status.ALREADY_ATTACHED)
        if not attach and not target.attached:
            return refused(Status.NOT_ATTACHED)
        target.attached = attach
        self._changed(target.nsid, "attached" if attach else "detached")
        return OK

    def _absent(self, nsid: int) -> Reply:
        known = 1 <= nsid <= self._drive.profile.highest_nsid
        return refused(Status.INVALID_FIELD if known else Status.INVALID_NAMESPACE)

    def _changed(self, nsid: int, what: str) -> None:
        self._drive.namespace_changed(nsid)
        self._drive.save()
        self._drive.note(f"namespace_{what}", str(nsid))
