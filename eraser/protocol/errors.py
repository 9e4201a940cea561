"""The errors of the wire, and the base of all of the eraser's."""

from __future__ import annotations


class EraserError(Exception):
    """Base of every error that the eraser raises on purpose.

    The message is one line: what was expected, what was found, what to do. ``exit_code`` is what
    ``nvme-eraser`` ends with when the error reaches the command line.
    """

    exit_code = 1

    def __init__(self, message: str = "") -> None:
        # Names of processes and files are any bytes, a process's also half a letter; a message goes
        # into reports and journals, which are UTF-8.
        super().__init__(message.encode("utf-8", "backslashreplace").decode())


class BadInputError(EraserError):
    """A file, option or message from outside is malformed. Nothing was touched."""

    exit_code = 2
