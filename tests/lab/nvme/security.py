"""Security Send and Receive (Base 5.25, 5.26) as far as a locked drive shows.

Both TCG's locks and ATA's password. Level 0 discovery is complete; sessions are not: whatever is
sent is taken, and the answer is an empty ComPacket, so nothing can be unlocked or reverted. Layouts
as in Linux's ``block/opal_proto.h``.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING

from tests.lab.nvme.memory import Host, pull
from tests.lab.nvme.profile import SecurityProfile
from tests.lab.nvme.spec import OK, AdminOp, Command, Reply, Status, refused
from tests.lab.nvme.state import SecurityState

if TYPE_CHECKING:
    from tests.lab.nvme.drive import Drive

_INFORMATION, _TCG, _ATA = 0x00, 0x01, 0xEF
_ATA_STATE = 0x0000
_DISCOVERY_COM_ID = 0x0001
_TPER, _LOCKING, _GEOMETRY, _BLOCK_SID = 0x0001, 0x0002, 0x0003, 0x0402
_OPAL_2, _DATASTORE = 0x0203, 0x0202
_LARGEST = 1 << 20


def discovery(profile: SecurityProfile, now: SecurityState, block_bytes: int) -> bytes:
    """Level 0 discovery data: a header of 48 bytes and one descriptor per feature."""
    opal = profile.ssc == _OPAL_2
    locking = (
        1  # locking is supported
        | now.enabled << 1
        | now.locked << 2
        | opal << 3  # media encryption: Pyrite has none
        | now.shadowed << 4
    )
    owner = 0xFF if now.owned else 0x00  # whether the PIN of SID is still the MSID
    ssc = struct.pack(">HHBHHBB5x", profile.com_id, 1, 0, 4, 8, owner, 0x00)
    parts = [
        (_TPER, struct.pack(">B11x", 0x11)),  # synchronous protocol, streaming
        (_LOCKING, struct.pack(">B11x", locking)),
        (_GEOMETRY, struct.pack(">B7xIQQ", 0, block_bytes, 8, 0)),
        (profile.ssc, ssc),
        (_BLOCK_SID, struct.pack(">BB10x", now.owned | now.sid_blocked << 1, 1)),
    ]
    if opal:
        parts.insert(3, (_DATASTORE, struct.pack(">HHII", 0, 9, 10 << 20, 1)))
    body = b"".join(struct.pack(">HBB", code, 0x10, len(data)) + data for code, data in parts)
    return struct.pack(">II8x32x", 44 + len(body), 1) + body


def password(now: SecurityState) -> bytes:
    """ATA security information (SAT-3): length, times and master password, then the states."""
    states = 1 | now.password << 1 | now.password_locked << 2  # supported, enabled, locked
    return struct.pack(">xBHHHBB6x", 14, 2, 2, 0xFFFE, 0, states)


class Security:
    """Answers both commands; called with the drive's lock held."""

    def __init__(self, drive: Drive) -> None:
        self._drive = drive

    def command(self, command: Command, host: Host) -> Reply:
        """Answer one. May raise DmaFault."""
        profile = self._drive.profile.security
        protocol, com_id = command.cdw10 >> 24, command.cdw10 >> 8 & 0xFFFF
        length = command.cdw11
        if profile is None or length > _LARGEST:
            return refused(Status.INVALID_FIELD)
        if command.opcode == AdminOp.SECURITY_SEND:
            pull(host, length)
            return OK if protocol == _TCG else refused(Status.INVALID_FIELD)
        if protocol == _INFORMATION and com_id == 0:
            protocols = bytes([_INFORMATION, _TCG, *([_ATA] if profile.ata_password else [])])
            data = struct.pack(">6xH", len(protocols)) + protocols
        elif protocol == _ATA and com_id == _ATA_STATE and profile.ata_password:
            data = password(self._drive.state.security)
        elif protocol == _TCG and com_id == _DISCOVERY_COM_ID:
            data = discovery(profile, self._drive.state.security, 512)
        elif protocol == _TCG and com_id == profile.com_id:
            data = struct.pack(">4xHH12x", com_id, 0)  # a ComPacket that holds nothing
        else:
            return refused(Status.INVALID_FIELD)
        return Reply(data=data[:length].ljust(length, b"\0") if length else None)
