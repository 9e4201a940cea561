"""The eraser's errors. Each message is one line: what was expected, what was found, what to do."""

from __future__ import annotations

from eraser.protocol.errors import BadInputError, EraserError

__all__ = [
    "BadInputError",
    "BusyError",
    "DriveError",
    "EraserError",
    "IdentityError",
    "InUseError",
]


class InUseError(EraserError):
    """The drive is, or may be, in use. Nothing was sent to it (promise 2)."""

    exit_code = 3


class IdentityError(EraserError):
    """The controller in the slot is not the one expected, or not unique (promise 3)."""

    exit_code = 4


class BusyError(EraserError):
    """Another process holds the slot's lock. Try again later."""

    exit_code = 5


class DriveError(EraserError):
    """The drive, its driver or nvme-cli did not answer as the standard says."""

    exit_code = 6
