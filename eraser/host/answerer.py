"""A child that answers questions, one after the other, and can be left behind where it is stuck."""

from __future__ import annotations

import os
import socket
from collections.abc import Callable

from eraser.host.command import KILL_GRACE, LONGEST_WAIT
from eraser.host.forked_child import alone, end


class Answerer:
    """Has ``answer`` answer in a child that has nothing but one descriptor of ours."""

    def __init__(self, answer: Callable[[bytes], bytes], descriptor: int, longest: int) -> None:
        """``longest`` bytes are in a question at most. No thread may run yet."""
        # SOCK_SEQPACKET keeps messages apart, so neither side has to say how long one is.
        self._pipe, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.pid = os.fork()
        if self.pid:
            theirs.close()
            return
        try:
            alone(theirs.fileno(), descriptor)
            while said := theirs.recv(longest):  # until whoever asks has gone
                theirs.send(answer(said))
        finally:
            # Never back into the parent's code: its buffers and handlers are copies here.
            os._exit(0)

    def ask(self, question: bytes, length: int, patience: float) -> bytes:
        """Its answer of at most ``length`` bytes; none where nothing comes within ``patience``
        seconds, or the child died: then it is to be closed."""
        try:
            self._pipe.settimeout(min(patience, LONGEST_WAIT))
            self._pipe.send(question)
            return self._pipe.recv(length)
        except OSError:
            # Also an answer that comes late: the caller closes us, so it cannot be taken for the
            # next one's.
            return b""

    def close(self) -> None:
        """Ends the child, or leaves one behind that is stuck: it dies when it gets out."""
        self._pipe.close()
        end(self.pid, KILL_GRACE)
