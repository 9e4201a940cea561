"""What a child that may get stuck in the kernel has to let go of, and how it is ended."""

from __future__ import annotations

import contextlib
import os
import select
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


def end(child: int, seconds: float) -> None:
    """Kills a child, or leaves one behind that is stuck: it dies when it gets out."""
    os.kill(child, signal.SIGKILL)
    ended = os.pidfd_open(child)
    poll = select.poll()
    poll.register(ended, select.POLLIN)
    poll.poll(seconds * 1000)
    os.close(ended)
    os.waitpid(child, os.WNOHANG)
