"""The first tenant: it fills a drive with marks, in all the ways that drives treat differently."""

from __future__ import annotations

import random
import struct

from tests.lab.nvme.acts import Reset
from tests.lab.nvme.composed.host import Host, Namespace
from tests.lab.nvme.composed.marks import SECTOR, mark, meta_mark
from tests.lab.nvme.composed.spaces import PAGE, attach, create

_FUA = 1 << 30


class FirstTenant:
    """Fills all that it can reach, in ways that drives treat differently."""

    def __init__(self, host: Host, seed: int) -> None:
        self._host = host
        self._rng = random.Random(f"first tenant {seed}")
        self._next = 1

    def stay(self) -> int:
        """Use the drive and leave it; how many sectors were marked."""
        host = self._host
        host.bring_up(2)
        self._open_all()
        for nsid in host.namespaces():
            self._fill(host.namespace(nsid))
        self._close_all()
        for offset in range(0, host.open_buffer(), SECTOR):
            host.write_buffer(offset, mark(self._number()))
        host.close_buffer()
        host.shut_down()
        host.reset(Reset.FUNCTION)
        return self._next - 1

    def _number(self) -> int:
        self._next += 1
        return self._next - 1

    def _open_all(self) -> None:
        """Attach what is detached and make a namespace of what is in none."""
        host = self._host
        self._made: list[int] = []
        self._attached = []
        for nsid in set(host.namespaces(0x10)) - set(host.namespaces()):
            if attach(host, nsid):
                self._attached.append(nsid)
        nsid = create(host)
        if nsid:
            self._made.append(nsid)

    def _close_all(self) -> None:
        for nsid in self._attached:
            attach(self._host, nsid, attached=False)
        for nsid in self._made:
            self._host.admin(0x0D, nsid=nsid, cdw10=1)

    def _fill(self, where: Namespace) -> None:
        host, rng = self._host, self._rng
        plain = where.lba_format
        raw = host.identify(0x00, where.nsid)
        formats = raw[25] + 1
        beside = [
            index for index in range(formats) if struct.unpack_from("<H", raw, 128 + 4 * index)[0]
        ]
        if beside:
            host.admin(0x80, nsid=where.nsid, cdw10=beside[0])
            where = host.namespace(where.nsid)
        step = min(host.transfer, 128 << 10) // where.block
        for first in range(0, where.size, step):
            self._write(where, first, min(step, where.size - first))
        pages = where.size * where.block // PAGE
        per_page = PAGE // where.block
        for page in rng.sample(range(pages), min(pages, 48)):
            self._write(where, page * per_page, per_page, flags=_FUA)
        for page in rng.sample(range(pages), min(pages, 48)):
            self._write(where, page * per_page + rng.randrange(per_page), 1)
        for page in rng.sample(range(pages), min(pages, 48)):
            host.deallocate(where, page * per_page, per_page)
        for page in rng.sample(range(pages), min(pages, 24)):
            self._write(where, page * per_page, per_page)
        if where.lba_format != plain:
            host.admin(0x80, nsid=where.nsid, cdw10=plain)

    def _write(self, where: Namespace, first: int, blocks: int, flags: int = 0) -> None:
        numbers = [self._number() for _ in range(blocks * where.block // SECTOR)]
        data = b"".join(map(mark, numbers))
        beside = b"".join(map(meta_mark, numbers)) if where.metadata else b""
        self._host.write(where, first, data, metadata=beside, flags=flags)
