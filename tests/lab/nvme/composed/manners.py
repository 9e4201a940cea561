"""Oddities that live at run time: what a command is answered with in place of being executed."""

from __future__ import annotations

from collections.abc import Callable

from tests.lab.nvme.acts import Act, Kind
from tests.lab.nvme.composed.oddities import Odd
from tests.lab.nvme.fill import CHUNK
from tests.lab.nvme.spec import AdminOp, Reply, Status, refused

_NOT_MEDIA = frozenset({AdminOp.FORMAT_NVM, AdminOp.SANITIZE, AdminOp.NAMESPACE_MANAGEMENT})
"""Some of what may be answered with Admin Command Media Not Ready."""


class Manners:
    """Those of one drive; called with its lock held."""

    def __init__(self, odd: tuple[Odd, ...], clock: Callable[[], float]) -> None:
        self._numbers = {one.name: one.number for one in odd}
        self._clock = clock
        self._taken = float("-inf")
        self._commands = 0
        self._failed: set[int] = set()

    def hears(self, act: Act) -> None:
        """The host did something."""
        if act.kind is Kind.TAKEN:
            self._taken = self._clock()
        if act.kind is Kind.IO:
            self._commands += 1

    def answers(self, act: Act) -> Reply | None:
        """What a command gets in place of being executed."""
        awake = self._clock() - self._taken
        if act.kind is Kind.ADMIN:
            if act.opcode in _NOT_MEDIA and awake < self._numbers.get("media-not-ready", 0):
                return refused(Status.MEDIA_NOT_READY, retry=True)
            return None
        if act.kind is not Kind.IO:
            return None
        if awake < self._numbers.get("not-ready", 0):
            return refused(Status.NAMESPACE_NOT_READY, retry=True)
        every = self._numbers.get("interrupted", 0)
        if every and self._commands % every == 0:
            return refused(Status.COMMAND_INTERRUPTED, retry=True)
        return self._fails_once(act)

    def progress(self, sprog: int) -> int:
        """SPROG of a running sanitize."""
        return self._numbers.get("flat-progress", sprog)

    def _fails_once(self, act: Act) -> Reply | None:
        every = self._numbers.get("read-retry", 0)
        if not every or not act.reads:
            return None
        bad = {
            page
            for page in range(act.start // CHUNK, -(-act.end // CHUNK))
            if page * 2654435761 % (1 << 32) % every == 0
        } - self._failed
        self._failed |= bad
        return refused(Status.UNRECOVERED_READ, retry=True) if bad else None
