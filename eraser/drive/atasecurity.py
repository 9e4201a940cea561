"""A password of ATA's security feature set, which some drives keep beside TCG (protocol EFh).

Whoever sets a user password locks the drive from the next power cycle on, and Sanitize leaves it as
it is. Read by Security Receive, which needs no password: protocol 00h lists the protocols that
there are (SPC-5, security protocol information), EFh tells of itself (SAT-3, ATA device server
password).
"""

from __future__ import annotations

from dataclasses import dataclass

from eraser.controller import spec

INFORMATION = 0x00
PROTOCOL = 0xEF
LIST_BYTES = 512
STATE_BYTES = 16

_LIST = 8
"""The list's header: its length in bytes is big-endian in bytes 7:6."""
_STATE_LENGTH = 0x0E
"""Byte 1: bytes that follow it."""
_SUPPORTED, _ENABLED, _LOCKED = 1 << 0, 1 << 1, 1 << 2
"""Byte 9, as the low byte of word 128 of ATA's IDENTIFY DEVICE. Without the first, the others say
nothing."""


@dataclass(frozen=True)
class Password:
    """What the drive says of it."""

    enabled: bool = False
    """There is a user password."""
    locked: bool = False
    """It has not been given since the last power cycle: reads and writes fail."""


def listed(raw: bytes) -> bool:
    """Whether the list of protocols has this one. Raises ``DriveError`` where it is too short.

    What stands behind the length that the header gives is not read.
    """
    spec.need(raw, _LIST, "list of security protocols")
    return PROTOCOL in raw[_LIST : _LIST + int.from_bytes(raw[6:8], "big")]


def parse(raw: bytes) -> Password:
    """Nothing of the kind where the drive answers in no form of the standard, or does not support
    it. Raises ``DriveError`` where it is too short."""
    spec.need(raw, STATE_BYTES, "ATA security information")
    if raw[1] != _STATE_LENGTH or not raw[9] & _SUPPORTED:
        return Password()
    return Password(bool(raw[9] & _ENABLED), bool(raw[9] & _LOCKED))
