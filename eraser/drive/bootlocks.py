"""Write protection of the two boot partitions: feature 85h (Base 2.1, 5.1.25.1.32, 8.1.3.3.1).

Nothing that Set Features does to it outlives a power cycle, which locks both. A reset changes
nothing.
"""

from __future__ import annotations

FEATURE = 0x85

_UNLOCKED, _LOCKED, _UNTIL_POWER_CYCLE, _BY_RPMB = 1, 2, 3, 4
_SHIFTS = (0, 3)
_STATE = 7
"""Dword 0 of Get and dword 11 of Set Features: partition 0 in bits 2:0, 1 in bits 5:3. To set 0 is
to leave it as it is."""


def relocked(wanted: int, found: int) -> int:
    """What to set so that partitions are locked as wanted; 0 where there is nothing to set.

    None is ever unlocked: whoever writes to one does that for himself.
    """
    value = 0
    for shift in _SHIFTS:
        state, now = wanted >> shift & _STATE, found >> shift & _STATE
        if state != now and state in (_LOCKED, _UNTIL_POWER_CYCLE) and now in (_UNLOCKED, _LOCKED):
            value |= state << shift
    return value


def advice(found: int) -> str:
    """What a person does about states that no command takes back; empty for the others."""
    states = {found >> shift & _STATE for shift in _SHIFTS}
    if _BY_RPMB in states:
        return ", controlled by its RPMB for good; retire the drive, or approve it in the profile"
    if _UNTIL_POWER_CYCLE in states:
        return ", locked until the next power cycle; power-cycle the slot and order again"
    return ""
