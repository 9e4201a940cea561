"""The door to processes: programs, and children of our own that may get stuck in the kernel.

A start of a guest loads this; so what it does not need for one is loaded where it is used.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import select
import signal
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from eraser.host.answerer import Answerer
    from eraser.host.command import Completed, Started

_CHUNK = 1 << 16


class Processes:
    """This machine's. A simulator has one of its own, in which all of it is done at once, in the
    process that asks: there nobody gets stuck."""

    def run(
        self,
        argv: Sequence[str],
        *,
        timeout: float,
        stdin: bytes | None = None,
        pass_fds: Sequence[int] = (),
    ) -> Completed:
        """A program, to its end: :func:`eraser.host.command.run`."""
        from eraser.host import command

        return command.run(argv, timeout=timeout, stdin=stdin, pass_fds=pass_fds)

    def start(self, argv: Sequence[str], log: Path | None = None) -> Started:
        """A program that is not waited for: :func:`eraser.host.command.start`."""
        from eraser.host import command

        return command.start(argv, log)

    def answerer(self, answer: Callable[[bytes], bytes], descriptor: int, longest: int) -> Answerer:
        """A child that answers questions: :class:`eraser.host.answerer.Answerer`."""
        from eraser.host import answerer

        return answerer.Answerer(answer, descriptor, longest)

    def outlive(self, work: Callable[[], object], kept: int) -> Callable[[], bool]:
        """Has ``work`` done by a child that goes on when we die, in a session of its own, deaf to
        the terminal, with no descriptor of ours but ``kept``. What it returns tells whether the
        child has ended, and may be asked until it has."""
        child = os.fork()
        if not child:
            code = 1
            try:
                os.setsid()
                for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
                    signal.signal(number, signal.SIG_IGN)
                _let_go((kept,))
                work()
                code = 0
            finally:
                # Never back into the parent's code: its journal and progress are not ours.
                os._exit(code)
        return lambda: os.waitpid(child, os.WNOHANG)[0] != 0

    def alone(
        self,
        works: Iterable[Callable[[], bytes]],
        seconds: float,
        meanwhile: Callable[[], None] = lambda: None,
        *,
        grace: float = 0.0,
    ) -> list[bytes | None]:
        """What each of ``works`` returns, all done at once, each by a child that can be left
        behind: None for one without an end within ``seconds``, half of it, or nothing, for one
        that died.

        ``meanwhile`` is called while they are at it. A child that is killed gets ``grace`` seconds
        to be gone. Not where threads run. Raises ``OSError`` where there can be no child.
        """
        deadline = time.monotonic() + seconds
        children: list[_Child] = []
        try:
            for work in works:
                children.append(_Child(work))
            meanwhile()
            _listen(children, deadline)
            return [child.said if child.ended else None for child in children]
        finally:
            with contextlib.ExitStack() as left:  # each of them, also where one cannot be left
                for child in children:
                    left.callback(child.leave, grace)

    def processors(self) -> list[int]:
        """Those that this process may run on."""
        return sorted(os.sched_getaffinity(0))

    @contextlib.contextmanager
    def on_processor(self, number: int) -> Iterator[None]:
        """Runs there, and so sends by the queue that belongs to it."""
        before = os.sched_getaffinity(0)
        os.sched_setaffinity(0, {number})
        try:
            yield
        finally:
            os.sched_setaffinity(0, before)


CHILDREN: Final = Processes()

_REAPED: Final = 1.0
"""Seconds for a child that has said all and is ending."""


class _Child:
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
            alone(theirs)
            said = work()
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
    """Both ends above 2, which a child lets go of (:func:`_let_go`), also in a process that was
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


def _listen(children: list[_Child], deadline: float) -> None:
    poll = select.poll()
    waiting = {child.pipe: child for child in children}
    for pipe in waiting:
        poll.register(pipe, select.POLLIN)
    while waiting and (left := deadline - time.monotonic()) > 0:
        for pipe, _event in poll.poll(left * 1000):
            part = os.read(pipe, _CHUNK)
            waiting[pipe].said += part
            if not part:
                waiting.pop(pipe).ended = True
                poll.unregister(pipe)


def alone(*kept: int) -> None:
    """Lets go of every descriptor but some, and of signal handlers: for a child just forked."""
    _let_go(kept)
    for signum in (signal.SIGINT, signal.SIGTERM):
        signal.signal(signum, signal.SIG_DFL)


def _let_go(kept: tuple[int, ...]) -> None:
    """Locks and pipes that a stuck child kept would be held for as long as it is stuck."""
    nothing = os.open(os.devnull, os.O_RDWR)
    for number in range(3):
        os.dup2(nothing, number)
    for number in map(int, os.listdir("/proc/self/fd")):
        if number > 2 and number not in kept:
            with contextlib.suppress(OSError):  # the listing's own is gone by now
                os.close(number)


def end(child: int, seconds: float) -> None:
    """Kills a child, or leaves one behind that is stuck: it dies when it gets out."""
    os.kill(child, signal.SIGKILL)
    try:
        ended = os.pidfd_open(child)
    except OSError:  # no descriptor or memory for it: it is killed all the same
        os.waitpid(child, os.WNOHANG)
        return
    poll = select.poll()
    poll.register(ended, select.POLLIN)
    poll.poll(seconds * 1000)
    os.close(ended)
    os.waitpid(child, os.WNOHANG)
