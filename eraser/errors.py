"""The eraser's errors. Each message is one line: what was expected, what was found, what to do."""

from __future__ import annotations


class EraserError(Exception):
    """Base of every error that the eraser raises on purpose.

    ``exit_code`` is what ``nvme-eraser`` ends with when the error reaches the command line.
    """

    exit_code = 1


class BadInputError(EraserError):
    """A file, option or message from outside is malformed. Nothing was touched."""

    exit_code = 2


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
