"""``nvme-quarantine``: the control plane's commands, a skin over :mod:`quarantine.operations`."""

from __future__ import annotations

import errno
import io
import os
import sys
from collections.abc import Sequence
from typing import Final, TextIO


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs one command; returns its exit code."""
    from eraser.protocol.errors import EraserError
    from quarantine.cli.app import Shell
    from quarantine.errors import QuarantineError

    _open_streams()
    try:
        code = Shell().run([*(sys.argv[1:] if arguments is None else arguments)])
        # Here, where what goes wrong can still be told in one line.
        sys.stdout.flush()
        return code
    except (QuarantineError, EraserError) as error:
        _tell(str(error))
        return error.exit_code
    except KeyboardInterrupt:
        # 128 and the number of SIGINT, as shells have it.
        return 130
    except BrokenPipeError:
        # The reader went away (as head does): not worth a word.
        _stop_printing(sys.stdout)
        return 1
    except OSError as error:
        # An error of a file has its name; what is left is of the stream that we print to.
        if error.errno not in _UNWRITTEN or error.filename is not None:
            raise
        _tell(f"stdout: not all is printed ({error.strerror}); what was asked for may be done")
        _stop_printing(sys.stdout)
        return 1


_UNWRITTEN: Final = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO})
"""What a stream says that takes no more. What a file of ours says comes with its name."""


def _open_streams() -> None:
    """Nobody reads a stream that was closed before we began; and no file of ours is to get its
    number, or what is printed would be written into it. What the stream's encoding does not have
    is spelt out: a reason in other letters ends no list."""
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, "w"))  # noqa: SIM115 - for the process's life
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")


def _tell(words: str) -> None:
    """On standard error, if that takes it: the exit code says it too, to whoever reads nothing."""
    from quarantine.cli.output import warn

    try:
        warn(words)
    except OSError:
        _stop_printing(sys.stderr)


def _stop_printing(stream: TextIO) -> None:
    """So that it does not complain at the end of what is still to be written to it: Python would
    exit with 120."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


if __name__ == "__main__":
    raise SystemExit(main())
