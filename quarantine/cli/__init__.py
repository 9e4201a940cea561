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


if __name__ == "__main__":
    raise SystemExit(main())
