"""A tenant who looks for what another one left: how it reads, and what it has found."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass, field

from tests.lab.nvme.composed.host import Host, Namespace
from tests.lab.nvme.composed.marks import marks_in, meta_marks_in
from tests.lab.nvme.composed.spaces import PAGE
from tests.lab.nvme.nature import Store


@dataclass
class Loot:
    """What the second tenant got: numbers of sectors by store, and by which act each store first.

    ``confirmed`` are sectors whose content a Compare confirmed to somebody who knew it.
    """

    sectors: dict[str, set[int]] = field(default_factory=dict)
    by: dict[str, str] = field(default_factory=dict)
    confirmed: set[int] = field(default_factory=set)
    acts: list[str] = field(default_factory=list)
    commands: int = 0

    def add(self, store: Store, numbers: Iterator[int]) -> None:
        """Something may have been found."""
        found = set(numbers)
        if found:
            self.sectors.setdefault(store.value, set()).update(found)
            self.by.setdefault(store.value, " > ".join(self.acts[-6:]))

    @property
    def empty(self) -> bool:
        """Whether it got nothing at all."""
        return not self.sectors and not self.confirmed


class Visitor:
    """Reads, and keeps what is the first tenant's; ``rng`` is what it draws from."""

    def __init__(self, host: Host, rng: random.Random) -> None:
        self.host = host
        self.rng = rng
        self.loot = Loot()

    def read(self, where: Namespace, first: int, blocks: int, **how: int) -> None:
        """Read and keep what is the first tenant's."""
        blocks = min(blocks, where.size - first, self.host.transfer // where.block)
        if blocks < 1:
            return
        self.loot.commands += 1
        answer = self.host.read(
            where,
            first,
            blocks,
            queue=how.get("queue", 1),
            shift=how.get("shift", 0),
            metadata=where.metadata > 0,
            flags=how.get("flags", 0),
            hints=how.get("hints", 0),
        )
        if answer.code == 0:
            self.loot.add(Store.DATA, marks_in(answer.data))
            self.loot.add(Store.METADATA, meta_marks_in(answer.metadata))

    def somewhere(self, where: Namespace, blocks: int = 1) -> int:
        """A block that begins a page, or about."""
        per_page = max(1, PAGE // where.block)
        return self.rng.randrange(max(1, (where.size - blocks) // per_page)) * per_page

    def each(self) -> list[Namespace]:
        """The namespaces that there are."""
        return [self.host.namespace(nsid) for nsid in self.host.namespaces()]
