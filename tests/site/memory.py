"""What the record said last, until somebody writes: a site asks the same again most of the time.

All processes of a site share one database, and no transaction takes simulated time, so an answer is
the same until the next write to its tables. Only whole answers of the store's own methods are kept,
and they hold nothing that changes.
"""

from __future__ import annotations

import functools
from collections import Counter
from collections.abc import Callable
from typing import Any, Final

import sqlalchemy as sa

READS: Final = {
    "host": ("hosts",),
    "host_names": ("hosts",),
    "last_heard": ("hosts",),
    "slot": ("slots",),
    "slots": ("slots", "moves"),
    "every_slot": ("slots",),
    "resource_classes": ("slots",),
    "claims": ("slots", "hosts", "drives"),
    "drive": ("drives",),
    "profile": ("documents",),
    "policy": ("documents",),
}
"""Methods of the store that only read, and the tables that they read."""

_MOST: Final = 5000


class Memory:
    """Answers, and how often each table was written."""

    def __init__(self) -> None:
        self.written: Counter[str] = Counter()
        self.answers: dict[tuple[Any, ...], tuple[tuple[int, ...], Any]] = {}
        self._open: set[str] = set()

    def listen(self, engine: sa.Engine) -> None:
        """Hear of each statement that writes."""
        sa.event.listen(engine, "before_cursor_execute", self._hear)

    def ended(self) -> None:
        """A transaction that wrote has ended, well or badly."""
        self.written.update(self._open)
        self._open.clear()

    def _hear(self, _db: Any, _cursor: Any, statement: str, *_: Any) -> None:
        words = statement.split(None, 3)
        verb = words[0].upper()
        if verb in ("UPDATE", "INSERT", "DELETE"):
            table = words[1 if verb == "UPDATE" else 2].strip('"')
            self.written[table] += 1
            self._open.add(table)


def remembering(method: Callable[..., Any]) -> Callable[..., Any]:
    """A method of :data:`READS` that asks the database only after a write."""
    name, tables = method.__name__, READS[method.__name__]

    @functools.wraps(method)
    def remembered(self: Any, *args: Any, **named: Any) -> Any:
        memory: Memory = self.memory
        key = (name, *map(_fixed, args), *((n, _fixed(v)) for n, v in sorted(named.items())))
        now = tuple(memory.written[table] for table in tables)
        known = memory.answers.get(key)
        if known is None or known[0] != now:
            if len(memory.answers) > _MOST:
                memory.answers.clear()
            known = memory.answers[key] = now, method(self, *args, **named)
        return _own(known[1])

    return remembered


def _fixed(value: Any) -> Any:
    return tuple(value) if isinstance(value, list | set) else value


def _own(answer: Any) -> Any:
    """Whoever gets a list may change it."""
    if isinstance(answer, tuple) and not hasattr(answer, "_fields"):
        return tuple(map(_own, answer))
    return answer.copy() if isinstance(answer, list | dict) else answer
