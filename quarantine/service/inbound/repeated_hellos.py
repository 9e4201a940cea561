"""Which hellos say again what was held against the record before: most of them.

To compare a hello costs queries for each of its drives; what was compared, and has not changed on
either side since, is compared again only now and then. Where nothing at all followed from a hello,
the next one that says the same is not even read against the record: it says that the host lives.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from eraser.protocol.report import Hello
from eraser.protocol.transport.signing import PublicKey
from quarantine.record.words.facts import HostRecord, SlotRecord
from quarantine.rules import defences

FULL_SECONDS: Final = 300.0
"""A host's hello is compared at least so often, whatever it says."""


@dataclass(frozen=True)
class _Facts:
    drives: tuple[object, ...]
    slots: tuple[tuple[int, int], ...]
    """Each slot of the host with its revision: nobody wrote to it."""


@dataclass(frozen=True)
class RepeatedHello:
    """A host's last hello, of which nothing followed, and what it was held against."""

    hello: Hello
    key: PublicKey
    slots: tuple[tuple[int, int], ...]
    """Each slot of the host with its revision."""


@dataclass
class SameHellos:
    """Forgetting all of it costs a comparison for each host."""

    monotonic: Callable[[], float] = time.monotonic
    _compared: dict[str, tuple[_Facts, float]] = field(default_factory=dict)
    _quiet: dict[str, RepeatedHello] = field(default_factory=dict)

    def same(self, hello: Hello, records: Sequence[SlotRecord]) -> bool:
        """Whether there is nothing to compare; ``records`` are all slots of the host, as now."""
        known = self._compared.get(hello.host)
        if known is None or hello.cases:  # a case that it names is a word about the order
            return False
        facts, at = known
        return facts == _facts(hello, records) and self.monotonic() - at < FULL_SECONDS

    def compared(self, hello: Hello, records: Sequence[SlotRecord]) -> None:
        """The hello was held against the record, which is so since."""
        self._compared[hello.host] = _facts(hello, records), self.monotonic()

    def quiet(self, host: HostRecord, hello: Hello, records: Sequence[SlotRecord]) -> None:
        """Nothing followed from this hello; ``host`` and ``records`` are what was judged.

        Not where a slot took its last step just before: what a host says counts differently a
        minute later (:mod:`quarantine.rules.defences`).
        """
        if self.same(hello, records) and all(defences.settled(each, host) for each in records):
            self._quiet[hello.host] = RepeatedHello(hello, host.key, _revisions(records))
        else:
            self._quiet.pop(hello.host, None)

    def again(self, hello: Hello) -> RepeatedHello | None:
        """The last hello of its host, where this one says the same and is due for nothing more."""
        known = self._quiet.get(hello.host)
        if known is None or replace(hello, sequence=known.hello.sequence) != known.hello:
            return None
        if self.monotonic() - self._compared[hello.host][1] >= FULL_SECONDS:
            return None
        return known

    def heard(self, known: RepeatedHello, hello: Hello) -> None:
        """The record knows of ``hello`` now, which says what ``known`` does."""
        self._quiet[hello.host] = replace(known, hello=hello)


def _facts(hello: Hello, records: Sequence[SlotRecord]) -> _Facts:
    return _Facts(hello.drives, _revisions(records))


def _revisions(records: Sequence[SlotRecord]) -> tuple[tuple[int, int], ...]:
    return tuple((record.id, record.revision) for record in records)
