"""The door to processes: programs, and children of our own that may get stuck in the kernel.

A start of a guest loads this; so what it does not need for one is loaded where it is used.
"""

from __future__ import annotations

import contextlib
import os
import signal
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

from eraser.host.forked_child import ForkedChild, let_go, listen

if TYPE_CHECKING:
    from eraser.host.answerer import Answerer
    from eraser.host.command import Completed, Started


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
        patience: float | None = None,
    ) -> Completed:
        """A program, to its end: :func:`eraser.host.command.run`."""
        from eraser.host import command

        return command.run(argv, timeout=timeout, stdin=stdin, pass_fds=pass_fds, patience=patience)

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
                # A session of its own: a hangup or an interrupt of the terminal must not end a
                # command half way.
                os.setsid()
                for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
                    signal.signal(number, signal.SIG_IGN)
                let_go((kept,))
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
        children: list[ForkedChild] = []
        try:
            for work in works:
                children.append(ForkedChild(work))
            meanwhile()
            listen(children, deadline)
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
