"""Opal and its kin: Level 0 Discovery (TCG Storage Core 2.01, 3.3.6), big-endian.

Read by Security Receive with protocol 01h and ComID 0001h; it needs no password.
"""

from __future__ import annotations

from eraser.controller import spec
from eraser.protocol.condition import SecurityState

PROTOCOL = 0x01
COMID = 0x0001
DISCOVERY_BYTES = 2048

_HEADER = 48
_DESCRIPTOR = 4
_MOST = 64
"""Descriptors that are looked at: no drive has so many feature sets."""

_LOCKING = 0x0002
_BLOCK_SID = 0x0402
_SETS = {
    0x0100: "enterprise",
    0x0200: "opal-1",
    0x0203: "opal-2",
    0x0301: "opalite",
    0x0302: "pyrite-1",
    0x0303: "pyrite-2",
    0x0304: "ruby",
    0x0305: "key-per-io",
}
"""Feature codes of the Security Subsystem Classes (TCG Storage Feature Registry)."""


def parse(raw: bytes) -> SecurityState:
    """What the drive answered. Raises ``DriveError`` where it is shorter than a header.

    Descriptors beyond the length that the header gives, or cut off by it, are not read.
    """
    spec.need(raw, _HEADER, "Level 0 Discovery")
    # The header's length does not count its own four bytes.
    end = min(len(raw), 4 + int.from_bytes(raw[:4], "big"))
    sets: list[str] = []
    locking, sid = 0, None
    at = _HEADER
    for _ in range(_MOST):
        if at + _DESCRIPTOR > end:
            break
        code, length = int.from_bytes(raw[at : at + 2], "big"), raw[at + 3]
        data = raw[at + _DESCRIPTOR : min(at + _DESCRIPTOR + length, end)]
        if code in _SETS:
            sets.append(_SETS[code])
        elif code == _LOCKING and data:
            locking = data[0]
        elif code == _BLOCK_SID and data:
            sid = data[0]
        # A length of 0 still moves on by the descriptor's head, so the loop ends.
        at += _DESCRIPTOR + length
    return SecurityState(
        sets=tuple(sorted(set(sets))),
        # Core 3.3.6.5, Locking feature, byte 4: bit 1 LockingEnabled, 2 Locked, 4 MBREnabled.
        locking_enabled=bool(locking & 1 << 1),
        locked=bool(locking & 1 << 2),
        shadow_mbr=bool(locking & 1 << 4),
        # Block SID Authentication 1.00, byte 4: bit 0 SID value state, bit 1 SID blocked state.
        sid_changed=bool((sid or 0) & 1 << 0),
        sid_blocked=bool((sid or 0) & 1 << 1),
        # Without that descriptor only an attempt to log in as the owner would tell: a drive whose
        # password a tenant changed, its locking off, looks like one that nobody has touched.
        owner_untold=bool(sets) and sid is None,
    )
