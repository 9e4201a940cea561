"""Which hellos say again what was held against the record before: most of them.

To compare a hello costs queries for each of its drives; what was compared, and has not changed on
either side since, is compared again only now and then.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Final

from eraser.wire.report import Hello
from quarantine.record.facts import SlotRecord

FULL_SECONDS: Final = 300.0
"""A host's hello is compared at least so often, whatever it says."""


@dataclass(frozen=True)
class _Facts:
    drives: tuple[object, ...]
    slots: tuple[tuple[int, int], ...]
    """Each slot of the host with its revision: nobody wrote to it."""


@dataclass
class SameHellos:
    """Forgetting all of it costs a comparison for each host."""

    monotonic: Callable[[], float] = time.monotonic
    _compared: dict[str, tuple[_Facts, float]] = field(default_factory=dict)

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


def _facts(hello: Hello, records: Sequence[SlotRecord]) -> _Facts:
    return _Facts(hello.drives, tuple((record.id, record.revision) for record in records))
