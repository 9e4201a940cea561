"""Firmware Slot Information, log 03h (Base 2.0, 5.16.1.4). A revision is what firmware says of
itself: it proves nothing about what runs, but a slot that holds another one was written to."""

from __future__ import annotations

from eraser.controller import spec
from eraser.protocol.condition import FirmwareSlots

_SLOTS = 7
_BLANK = b"\xff" * 8
"""How some drives show a slot that holds nothing: as their flash is when it is erased."""
_READ_ONLY_FIRST = 1 << 0
"""FRMW bit 0 (Base 2.0, figure 275, byte 260): slot 1 is read only."""


def slot_count(frmw: int) -> int:
    """FRMW bits 3:1, the number of slots; 1 to 7 whatever the drive says."""
    return min(max(frmw >> 1 & 7, 1), _SLOTS)


def parse(raw: bytes, frmw: int) -> FirmwareSlots:
    """512 bytes of log 03h. Raises ``DriveError`` for fewer than 64.

    AFI (byte 0): the active slot in bits 2:0, the one that the next reset activates in 6:4.
    """
    spec.need(raw, 64, "Firmware Slot log")
    fields = [raw[8 + 8 * slot : 16 + 8 * slot] for slot in range(_SLOTS)]
    revisions = ["" if field == _BLANK else spec.text(field) for field in fields]
    # More slots than FRMW counts are shown where they hold something: nothing is to hide there.
    last = max((n + 1 for n, held in enumerate(revisions) if held), default=0)
    active, pending = raw[0] & 7, raw[0] >> 4 & 7
    return FirmwareSlots(
        active=active,
        # A drive may repeat the active slot there: nothing will change then.
        pending=0 if pending == active else pending,
        revisions=tuple(revisions[: max(slot_count(frmw), last)]),
        first_read_only=bool(frmw & _READ_ONLY_FIRST),
    )
