"""The host identifier (feature 81h), which some drives want before they tell of reservations.

One with RHII (CTRATT bit 18) aborts every reservation command of a host whose identifier is 0, the
report too (Base 2.1, 8.1.22), and Linux names itself to no drive on PCI Express. Ours lasts until
the next reset of the controller, and no command takes it off (Base 2.3, 5.2.26.1.32): whoever gets
the drive next resets it first.
"""

from __future__ import annotations

from collections.abc import Callable

from eraser.controller.nvme import Controller
from eraser.controller.passthru import SET_FEATURES
from eraser.protocol.report import CommandRecord

FID = 0x81
EXTENDED = 1
"""EXHID, bit 0 of dword 11: the identifier has 16 bytes, on a drive with CTRATT bit 0."""
UNNAMED = 0x027
"""Host Identifier Not Initialized (Base 2.1, figure 102)."""

_OURS = b"nvme-quarantine\0"
"""The same for every drive: what it is registered with is cleared, and nobody else has it."""
_SHORT = 8
"""Bytes of the other identifier, which is the beginning of this one."""


Namer = Callable[[Controller], object]
"""Who tells a drive that wants it who we are."""


def name(controller: Controller) -> CommandRecord:
    """Gives the drive ours. Not judged by status: whoever is refused asks again, and is refused
    again. Raises ``DriveError`` where nothing can be sent."""
    large = controller.identify().ctratt & EXTENDED
    record, _data = controller.admin(
        SET_FEATURES,
        cdw10=FID,
        cdw11=large,
        send=_OURS if large else _OURS[:_SHORT],
        timeout=controller.timeout,
        note="the host identifier, for reservations",
    )
    return record


def is_ours(data: bytes) -> bool:
    """Whether the feature's data is what :func:`name` left there: no tenant's doing."""
    return data.rstrip(b"\0") in (_OURS.rstrip(b"\0"), _OURS[:_SHORT])
