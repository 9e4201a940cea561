"""``nvme-quarantine``: the control plane's commands, a skin over :mod:`quarantine.operations`."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs one command; returns its exit code."""
    from eraser.protocol.errors import EraserError
    from quarantine.cli.app import Shell
    from quarantine.cli.output import warn
    from quarantine.errors import QuarantineError

    _open_streams()
    try:
        code = Shell().run([*(sys.argv[1:] if arguments is None else arguments)])
        sys.stdout.flush()
        return code
    except (QuarantineError, EraserError) as error:
        warn(str(error))
        return error.exit_code
    except KeyboardInterrupt:
        return 130
    except BrokenPipeError:
        # The reader went away (as head does): not worth a word, but stdout must not complain later.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1


def _open_streams() -> None:
    """Nobody reads a stream that was closed before we began; and no file of ours is to get its
    number, or what is printed would be written into it."""
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, "w"))  # noqa: SIM115 - for the process's life


if __name__ == "__main__":
    raise SystemExit(main())
