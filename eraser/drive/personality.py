"""Configurable device personalities (Base 2.3, 8.1.6): feature 22h, asked and never set.

Without dword 13 it is asked for personality 00h, the manufacturing default: whether anything of any
personality was changed, and whether nobody can take that back any more.
"""

from __future__ import annotations

from eraser.controller.nvme import Controller
from eraser.controller.passthru import GET_FEATURES, result_of

FEATURE = 0x22

_ALL = 0xFF
"""PERID, dword 13 bits 7:0 of Get Features and dword 0 bits 7:0 of its answer."""
_DEFAULTS, _PENDING, _FROZEN = 1 << 10, 1 << 9, 1 << 8
"""PMDSS, PPSC and PFRS of that answer (Base 2.3, figure 449)."""


def pending(controller: Controller) -> str:
    """Which personality waits for a reset to be changed, for people; empty where none does.

    Raises ``DriveError`` where it cannot be asked.
    """
    record, _data = controller.admin(
        GET_FEATURES,
        cdw10=FEATURE,
        cdw13=_ALL,
        timeout=controller.timeout,
        note="pending changes of personalities",
    )
    value = (result_of(record.message) or 0) if record.status == 0 else 0
    if not value & _PENDING:
        return ""
    return (
        f"a change of its personality {value & _ALL} is pending (feature 22h), and keeps every "
        "sanitize from the drive; power-cycle the slot and order again"
    )


def advice(wanted: int, found: int) -> str:
    """What a person does about a difference."""
    gone, new = wanted & ~found, found & ~wanted
    if new & _PENDING:
        return ", a change pending; power-cycle the slot and order again"
    if new & _FROZEN:
        return ", frozen; unfreeze it, or retire the drive"
    if gone & _DEFAULTS:
        return (
            ", a personality changed; set the drive to its manufacturing default personality and "
            "order again"
        )
    return ""
