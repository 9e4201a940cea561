"""The second tenant: it gets of the first one's data what it can.

It does what a real next tenant may do, in an order that its seed draws: it resets the function,
writes first, reads single blocks, backward, at random, with flags, from other queues, makes
namespaces, reads metadata, maps memory, waits. ``Loot.by`` has the acts that got something.
"""

from __future__ import annotations

import random
import struct

from tests.lab.nvme.acts import Reset
from tests.lab.nvme.composed.host import QUEUES, Host, Namespace
from tests.lab.nvme.composed.looks import LOOKS
from tests.lab.nvme.composed.marks import marks_in
from tests.lab.nvme.composed.moves import MOVES
from tests.lab.nvme.composed.visitor import Loot, Visitor
from tests.lab.nvme.nature import Store


class SecondTenant(Visitor):
    """Gets what it can, in an order of its own; ``rounds`` says for how long it tries."""

    def __init__(self, host: Host, seed: int, *, rounds: int = 2, looks: int = 24) -> None:
        super().__init__(host, random.Random(f"second tenant {seed}"))
        self._rounds = rounds
        self._looks = looks

    def take(self) -> Loot:
        """Do it all; the drive was handed over before, by a function level reset."""
        host, rng = self.host, self.rng
        host.reset(Reset.FUNCTION, rng.choice((1, 2, QUEUES)))
        for _ in range(self._rounds):
            for name in rng.sample(sorted(MOVES), len(MOVES)):
                self.loot.acts.append(name)
                MOVES[name](self)
                self._glance()
            for name in rng.sample(sorted(LOOKS), len(LOOKS)):
                self._look(name, self._looks)
            self._look_beside()
        self._sweep()
        return self.loot

    # Looking

    def _glance(self) -> None:
        for name in self.rng.sample(sorted(LOOKS), 2):
            self._look(name, max(2, self._looks // 8))

    def _look(self, name: str, times: int) -> None:
        self.loot.acts.append(name)
        for nsid in self.host.namespaces():
            where = self.host.namespace(nsid)
            if where.size:
                LOOKS[name](self, where, times)
        self._look_at_buffer()

    def _sweep(self) -> None:
        """All of it, upwards, as a copy does it."""
        self.loot.acts.append("sweep")
        for nsid in self.host.namespaces():
            where = self.host.namespace(nsid)
            step = min(self.host.transfer, 128 << 10) // where.block
            for first in range(0, where.size, step):
                self.read(where, first, min(step, where.size - first))

    def _look_at_buffer(self) -> None:
        size = self.host.open_buffer()
        if size:
            self.loot.add(Store.BUFFER, marks_in(self.host.read_buffer(0, size)))
            self.host.close_buffer()

    def _look_beside(self) -> None:
        """Metadata: in a format that has it, whose Format erases nothing."""
        host = self.host
        self.loot.acts.append("metadata")
        for nsid in host.namespaces():
            where = host.namespace(nsid)
            raw = host.identify(0x00, nsid)
            for index in range(raw[25] + 1):
                if struct.unpack_from("<H", raw, 128 + 4 * index)[0]:
                    host.admin(0x80, nsid=nsid, cdw10=index)
                    there = host.namespace(nsid)
                    for name in sorted(LOOKS):
                        LOOKS[name](self, there, max(2, self._looks // 4))
                    self._many(there, 64 << 10)
                    host.admin(0x80, nsid=nsid, cdw10=where.lba_format)
                    break

    def _many(self, where: Namespace, length: int) -> None:
        step = min(length, self.host.transfer) // where.block
        for first in range(0, where.size, step):
            self.read(where, first, min(step, where.size - first))
