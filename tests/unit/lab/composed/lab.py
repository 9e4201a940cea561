"""A composed drive on the bench: filled, touched here and there, erased, and then asked."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.lab.nvme.acts import Reset
from tests.lab.nvme.composed.audit import bench, erase
from tests.lab.nvme.composed.description import Abilities, Description, Layout, Lie
from tests.lab.nvme.composed.host import Clock, Host
from tests.lab.nvme.composed.kept import Kept
from tests.lab.nvme.composed.marks import mark, marks_in
from tests.lab.nvme.composed.triggers import PLAINLY, Trigger
from tests.lab.nvme.drive import Drive
from tests.lab.nvme.nature import Method

SIZE = 4 << 20
FILLED = 2 << 20
"""Bytes from the start that the first tenant wrote."""
ABLE = Abilities(
    layout=Layout.ROOMY, management=True, metadata=True, subsystem_reset=True, verify=True
)
HERE, ASKED, WRITTEN, ELSEWHERE = 3, 4, 5, 7
"""Pages: one to look at; one that was read before the erase; one that was written; another."""


def liar(trigger: Trigger = PLAINLY, kept: Kept | None = None, **fields: bool) -> Description:
    """A drive with one lie, which outlives a Format that erases user data."""
    lie = Lie(kept or Kept(), (Method.FORMAT_USER,), trigger, **fields)
    return Description("of a test", ABLE, (lie,))


class Lab:
    """The drive after its erase."""

    def __init__(self, drive: Drive, host: Host, clock: Clock) -> None:
        self.drive = drive
        self.host = host
        self.clock = clock
        host.bring_up(2)
        self.where = host.namespace(1)

    def fill(self) -> None:
        """As a first tenant: sector n holds mark n."""
        for first in range(0, FILLED // 512, 256):
            data = b"".join(map(mark, range(first, first + 256)))
            assert self.host.write(self.where, first, data).code == 0
        self.host.reset(Reset.FUNCTION, 2)

    def erase(self, method: Method = Method.FORMAT_USER) -> None:
        """Touch what a careful host may touch, then erase."""
        self.read(ASKED * 8, 8)
        data = b"".join(map(mark, range(WRITTEN * 8, WRITTEN * 8 + 8)))
        assert self.host.write(self.where, WRITTEN * 8, data).code == 0
        assert erase(self.host, method)

    def read(self, first: int, blocks: int = 8, **how: int) -> list[int]:
        """Sectors of the first tenant that a read gives."""
        answer = self.host.read(self.where, first, blocks, **how)
        assert answer.code == 0
        return list(marks_in(answer.data))

    def sees(self, page: int = HERE, **how: int) -> bool:
        """Whether a plain read of a page gives any."""
        return bool(self.read(page * 8, 8, **how))

    def all(self) -> set[int]:
        """Sectors that a sweep gives."""
        step = range(0, self.where.size - 7, 8)
        return {sector for first in step for sector in self.read(first)}

    def write(self, page: int, blocks: int = 8, flags: int = 0) -> None:
        """Something of one's own."""
        content = b"\x55" * 512 * blocks
        assert self.host.write(self.where, page * 8, content, flags=flags).code == 0


@contextmanager
def lab(what: Description, directory: Path, *, erased: bool = True) -> Iterator[Lab]:
    """One, filled and (by default) erased."""
    with bench(what, directory, size=SIZE) as (drive, host, clock):
        made = Lab(drive, host, clock)
        made.fill()
        if erased:
            made.erase()
        yield made
