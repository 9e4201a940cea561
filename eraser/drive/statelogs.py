"""Small answers about what stands in the way of the next owner: reservations, boot partitions,
lockdown, other controllers. Pure."""

from __future__ import annotations

from eraser.controller import spec
from eraser.errors import DriveError
from eraser.protocol.condition import BootPartitions, FlexibleResources, Reservation

RESERVATION_BYTES = 4096
BOOT_BYTES = 16
_BOOT_UNIT = 128 << 10
"""BPSZ counts in 128 KiB (Base 2.0, 3.1.3.14)."""
_KINDS = range(7)
"""RTYPE 1 to 6 (Base 2.0, figure 404); 0: nobody holds the namespace."""
_CONTROLLERS_MAX = 2047


def reservation(raw: bytes, nsid: int) -> Reservation | None:
    """A Reservation Status data structure (Base 2.0, figures 404 and 405: the header is the same
    in both); None where no host has anything to do with the namespace.

    Raises :class:`DriveError`.
    """
    spec.need(raw, 24, "Reservation Report")
    kind, registrants = raw[4], int.from_bytes(raw[5:7], "little")
    if kind not in _KINDS:
        raise DriveError(f"Reservation Report: expected a type of 0 to 6, found {kind}")
    # Registrants without a reservation count as well: any of them may take one later.
    if not kind and not registrants:
        return None
    return Reservation(nsid, kind, registrants, persistent=bool(raw[9] & 1))


def boot_partitions(raw: bytes) -> BootPartitions | None:
    """The header of log 15h; None for a drive whose boot partitions have no size.

    Raises :class:`DriveError`.
    """
    spec.need(raw, BOOT_BYTES, "Boot Partition log")
    return boot_info(int.from_bytes(raw[4:8], "little"))


def boot_info(info: int) -> BootPartitions | None:
    """The same from BPINFO, which is in that header too (Base 2.0, 3.1.3.13)."""
    size = (info & 0x7FFF) * _BOOT_UNIT
    return BootPartitions(size, info >> 31) if size else None


def prohibited(raw: bytes) -> tuple[int, ...]:
    """The identifiers that log 14h lists: LNGTH is byte 3, the list begins at byte 4.

    Raises :class:`DriveError`.
    """
    spec.need(raw, spec.LOG_BYTES, "Command and Feature Lockdown log")
    return tuple(sorted(set(raw[4 : 4 + raw[3]])))


def flexible(raw: bytes) -> FlexibleResources | None:
    """VQRFAP and VIRFAP of Primary Controller Capabilities (Base 2.0, 5.17.2.13); None where CRT,
    byte 4, says that the drive shares neither.

    Raises :class:`DriveError`.
    """
    spec.need(raw, spec.IDENTIFY_BYTES, "Primary Controller Capabilities")
    if not raw[4] & 0b11:
        return None
    return FlexibleResources(*(int.from_bytes(raw[at : at + 2], "little") for at in (40, 72)))


def controller_list(raw: bytes) -> tuple[int, ...]:
    """A controller list (Base 2.0, 4.5.1): the number of identifiers, then they, ascending.

    Raises :class:`DriveError`.
    """
    spec.need(raw, spec.IDENTIFY_BYTES, "controller list")
    count = int.from_bytes(raw[:2], "little")
    if count > _CONTROLLERS_MAX:
        raise DriveError(f"controller list: expected at most {_CONTROLLERS_MAX}, found {count}")
    found = tuple(int.from_bytes(raw[2 + 2 * n : 4 + 2 * n], "little") for n in range(count))
    # The standard has them ascending; anything else is no list, and no count of it is believed.
    if sorted(set(found)) != list(found):
        raise DriveError("controller list: expected ascending identifiers, found others")
    return found
