"""What a child that may get stuck in the kernel has to let go of."""

from __future__ import annotations

import contextlib
import os
import signal


def alone(*kept: int) -> None:
    """Lets go of every descriptor but some, and of signal handlers: for a child just forked.

    Locks and pipes that a stuck child kept would be held for as long as it is stuck.
    """
    nothing = os.open(os.devnull, os.O_RDWR)
    for number in range(3):
        os.dup2(nothing, number)
    for number in map(int, os.listdir("/proc/self/fd")):
        if number > 2 and number not in kept:
            with contextlib.suppress(OSError):  # the listing's own is gone by now
                os.close(number)
    for signum in (signal.SIGINT, signal.SIGTERM):
        signal.signal(signum, signal.SIG_DFL)
