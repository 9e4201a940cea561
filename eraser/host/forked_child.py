"""Children of our own that do one piece of work, and can be left behind where they are stuck."""

from __future__ import annotations

import contextlib
import fcntl
import os
import select
import signal
import time
from collections.abc import Callable
from typing import Final

_CHUNK = 1 << 16

_REAPED: Final = 1.0
"""Seconds for a child that has said all and is ending."""


class ForkedChild:
    """Does one piece of work and says what came of it."""

    def __init__(self, work: Callable[[], bytes]) -> None:
        self.pipe, theirs = _pipe()
        self.said, self.ended = b"", False
        try:
            self._pid = os.fork()
        except OSError:
            os.close(self.pipe)
            os.close(theirs)
            raise
        if self._pid:
            os.close(theirs)
            return
        try:
            # Before the work, which may get stuck: by then the child must hold nothing of ours.
            alone(theirs)
            said = work()
            # A pipe takes a part at a time.
            while said:
                said = said[os.write(theirs, said) :]
        finally:
            os._exit(0)

    def leave(self, grace: float) -> None:
        """Reaps it, or leaves one behind that waits in the kernel: it dies when it gets out. One
        that has said all need not have ended."""
        os.close(self.pipe)
        end(self._pid, _REAPED if self.ended else grace)


def _pipe() -> tuple[int, int]:
    """Both ends above 2, which a child lets go of (:func:`let_go`), also in a process that was
    started without standard input or output. Raises ``OSError``."""
    ends = list(os.pipe())
    try:
        for place, number in enumerate(ends):
            if number < 3:
                ends[place] = fcntl.fcntl(number, fcntl.F_DUPFD_CLOEXEC, 3)
                os.close(number)
    except OSError:
        for number in ends:
            os.close(number)
        raise
    return ends[0], ends[1]


def listen(children: list[ForkedChild], deadline: float) -> None:
    """Hears each of them until its end, or the deadline of the monotonic clock."""
    poll = select.poll()
    waiting = {child.pipe: child for child in children}
    for pipe in waiting:
        poll.register(pipe, select.POLLIN)
    while waiting and (left := deadline - time.monotonic()) > 0:
        for pipe, _event in poll.poll(left * 1000):
            # An empty read is the child's end; what it had said until then may be only half.
            part = os.read(pipe, _CHUNK)
            waiting[pipe].said += part
            if not part:
                waiting.pop(pipe).ended = True
                poll.unregister(pipe)


def alone(*kept: int) -> None:
    """Lets go of every descriptor but some, and of signal handlers: for a child just forked."""
    let_go(kept)
    for signum in (signal.SIGINT, signal.SIGTERM):
        signal.signal(signum, signal.SIG_DFL)


def let_go(kept: tuple[int, ...]) -> None:
    """Closes every descriptor but these: locks and pipes that a stuck child kept would be held for
    as long as it is stuck."""
    # Not closed, or the next file that is opened would become standard output.
    nothing = os.open(os.devnull, os.O_RDWR)
    for number in range(3):
        # In a process that was started without one of them it may be what is to be kept.
        if number not in kept:
            os.dup2(nothing, number)
    for number in map(int, os.listdir("/proc/self/fd")):
        if number > 2 and number not in kept:
            with contextlib.suppress(OSError):  # the listing's own is gone by now
                os.close(number)


def end(child: int, seconds: float) -> None:
    """Kills a child, or leaves one behind that is stuck: it dies when it gets out."""
    os.kill(child, signal.SIGKILL)
    try:
        # A pidfd can be waited for with a limit, which waitpid cannot.
        ended = os.pidfd_open(child)
    except OSError:  # no descriptor or memory for it: it is killed all the same
        os.waitpid(child, os.WNOHANG)
        return
    poll = select.poll()
    poll.register(ended, select.POLLIN)
    poll.poll(seconds * 1000)
    os.close(ended)
    os.waitpid(child, os.WNOHANG)
