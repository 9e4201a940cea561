"""Two tenants: the first fills a drive with marks, the second gets of them what it can.

The second does what a real next tenant may do, in an order that its seed draws: it resets the
function, writes first, reads single blocks, backward, at random, with flags, from other queues,
makes namespaces, reads metadata, maps memory, waits. ``Loot.by`` has the acts that got something.
"""

from __future__ import annotations

import hashlib
import random
import struct
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from tests.lab.nvme.acts import Reset
from tests.lab.nvme.composed.host import QUEUES, Host, Namespace
from tests.lab.nvme.nature import Store

MAGIC = b"FORMER\x00\x01"
_META_MAGIC = b"\xf1\x5e"
SECTOR = 512
PAGE = 4096
_FUA, _LIMITED_RETRY = 1 << 30, 1 << 31


def mark(number: int) -> bytes:
    """512 bytes that nobody else writes; ``number`` names the sector."""
    head = MAGIC + struct.pack("<Q", number)
    return head + hashlib.shake_128(head).digest(SECTOR - len(head))


def meta_mark(number: int) -> bytes:
    """8 bytes of metadata, likewise."""
    head = _META_MAGIC + struct.pack("<I", number)
    return head + hashlib.blake2b(head, digest_size=2).digest()


def marks_in(content: bytes) -> Iterator[int]:
    """Numbers of the sectors in it that are the first tenant's, wherever they lie."""
    if MAGIC not in content:
        return
    for at in range(0, len(content), SECTOR):
        sector = content[at : at + SECTOR]
        if sector.startswith(MAGIC):
            (number,) = struct.unpack_from("<Q", sector, len(MAGIC))
            if sector == mark(number):
                yield number


def meta_marks_in(content: bytes) -> Iterator[int]:
    """The same of metadata."""
    for at in range(0, len(content), 8):
        part = content[at : at + 8]
        if part.startswith(_META_MAGIC):
            (number,) = struct.unpack_from("<I", part, 2)
            if part == meta_mark(number):
                yield number


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


def attach(host: Host, nsid: int, *, attached: bool = True) -> bool:
    """Attach or detach a namespace; whether the drive did it."""
    controllers = struct.pack("<HH", 1, struct.unpack_from("<H", host.identify(0x01), 78)[0])
    listed = controllers.ljust(PAGE, b"\0")
    return host.admin(0x15, nsid=nsid, send=listed, cdw10=int(not attached)).code == 0


def create(host: Host, lba_format: int = 0) -> int:
    """A namespace over what is in none, attached; its id, 0 where that cannot be."""
    raw = host.identify(0x01)
    (free,) = struct.unpack_from("<Q", raw, 296)
    if not raw[256] & 1 << 3 or free < PAGE:
        return 0
    blocks = free // SECTOR
    asked = struct.pack("<QQ10xB", blocks, blocks, lba_format).ljust(PAGE, b"\0")
    answer = host.admin(0x0D, send=asked, cdw10=0)
    if answer.code or not attach(host, answer.dw0):
        return 0
    return answer.dw0


class SecondTenant:
    """Gets what it can, in an order of its own; ``rounds`` says for how long it tries."""

    def __init__(self, host: Host, seed: int, *, rounds: int = 2, looks: int = 24) -> None:
        self._host = host
        self._rng = random.Random(f"second tenant {seed}")
        self._rounds = rounds
        self._looks = looks
        self.loot = Loot()

    def take(self) -> Loot:
        """Do it all; the drive was handed over before, by a function level reset."""
        host, rng = self._host, self._rng
        host.reset(Reset.FUNCTION, rng.choice((1, 2, QUEUES)))
        for _ in range(self._rounds):
            for name in rng.sample(sorted(_MOVES), len(_MOVES)):
                self.loot.acts.append(name)
                _MOVES[name](self)
                self._glance()
            for name in rng.sample(sorted(_LOOKS), len(_LOOKS)):
                self._look(name, self._looks)
            self._look_beside()
        self._sweep()
        return self.loot

    # Looking

    def _glance(self) -> None:
        for name in self._rng.sample(sorted(_LOOKS), 2):
            self._look(name, max(2, self._looks // 8))

    def _look(self, name: str, times: int) -> None:
        self.loot.acts.append(name)
        for nsid in self._host.namespaces():
            where = self._host.namespace(nsid)
            if where.size:
                _LOOKS[name](self, where, times)
        self._look_at_buffer()

    def _sweep(self) -> None:
        """All of it, upwards, as a copy does it."""
        self.loot.acts.append("sweep")
        for nsid in self._host.namespaces():
            where = self._host.namespace(nsid)
            step = min(self._host.transfer, 128 << 10) // where.block
            for first in range(0, where.size, step):
                self.read(where, first, min(step, where.size - first))

    def _look_at_buffer(self) -> None:
        size = self._host.open_buffer()
        if size:
            self.loot.add(Store.BUFFER, marks_in(self._host.read_buffer(0, size)))
            self._host.close_buffer()

    def _look_beside(self) -> None:
        """Metadata: in a format that has it, whose Format erases nothing."""
        host = self._host
        self.loot.acts.append("metadata")
        for nsid in host.namespaces():
            where = host.namespace(nsid)
            raw = host.identify(0x00, nsid)
            for index in range(raw[25] + 1):
                if struct.unpack_from("<H", raw, 128 + 4 * index)[0]:
                    host.admin(0x80, nsid=nsid, cdw10=index)
                    there = host.namespace(nsid)
                    for name in sorted(_LOOKS):
                        _LOOKS[name](self, there, max(2, self._looks // 4))
                    self._many(there, 64 << 10)
                    host.admin(0x80, nsid=nsid, cdw10=where.lba_format)
                    break

    def _many(self, where: Namespace, length: int) -> None:
        step = min(length, self._host.transfer) // where.block
        for first in range(0, where.size, step):
            self.read(where, first, min(step, where.size - first))

    def read(self, where: Namespace, first: int, blocks: int, **how: int) -> None:
        """Read and keep what is the first tenant's."""
        blocks = min(blocks, where.size - first, self._host.transfer // where.block)
        if blocks < 1:
            return
        self.loot.commands += 1
        answer = self._host.read(
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
        return self._rng.randrange(max(1, (where.size - blocks) // per_page)) * per_page

    # Acts

    @property
    def host(self) -> Host:
        """What it acts by."""
        return self._host

    @property
    def rng(self) -> random.Random:
        """What it draws from."""
        return self._rng

    def each(self) -> list[Namespace]:
        """The namespaces that there are."""
        return [self._host.namespace(nsid) for nsid in self._host.namespaces()]


Look = Callable[[SecondTenant, Namespace, int], None]
Move = Callable[[SecondTenant], None]


def _places(tenant: SecondTenant, where: Namespace, times: int, blocks: int) -> list[int]:
    return [tenant.somewhere(where, blocks) for _ in range(times)]


def _per_page(where: Namespace) -> int:
    return max(1, PAGE // where.block)


def _single(tenant: SecondTenant, where: Namespace, times: int) -> None:
    for first in _places(tenant, where, times, 8):
        tenant.read(where, first + tenant.rng.randrange(_per_page(where)), 1)


def _backward(tenant: SecondTenant, where: Namespace, times: int) -> None:
    for first in sorted(_places(tenant, where, times, 8), reverse=True):
        tenant.read(where, first, _per_page(where))


def _jumping(tenant: SecondTenant, where: Namespace, times: int) -> None:
    for first in _places(tenant, where, times, 8):
        tenant.read(where, first, _per_page(where))


def _sequential(tenant: SecondTenant, where: Namespace, times: int) -> None:
    step = _per_page(where)
    start = tenant.somewhere(where, step * times)
    for first in range(start, min(where.size - step, start + step * times), step):
        tenant.read(where, first, step)


def _again(tenant: SecondTenant, where: Namespace, times: int) -> None:
    for first in _places(tenant, where, max(1, times // 4), 8):
        for _ in range(6):
            tenant.read(where, first, _per_page(where))


def _large(tenant: SecondTenant, where: Namespace, times: int) -> None:
    blocks = tenant.host.transfer // where.block
    for first in _places(tenant, where, max(1, times // 4), blocks):
        tenant.read(where, first, blocks)


def _odd(tenant: SecondTenant, where: Namespace, times: int) -> None:
    for first in _places(tenant, where, times, 16):
        tenant.read(where, first, tenant.rng.choice((3, 5, 7, 11)))


def _crooked(tenant: SecondTenant, where: Namespace, times: int) -> None:
    for first in _places(tenant, where, times, 16):
        tenant.read(where, first + 1, tenant.rng.choice((1, 8)), shift=0)
        tenant.read(where, first, 8, shift=512)


def _flagged(tenant: SecondTenant, where: Namespace, times: int) -> None:
    for first in _places(tenant, where, times, 8):
        flags = tenant.rng.choice((_FUA, _LIMITED_RETRY, 0))
        tenant.read(where, first, _per_page(where), flags=flags, hints=0 if flags else 0x41)


def _queued(tenant: SecondTenant, where: Namespace, times: int) -> None:
    for first in _places(tenant, where, times, 8):
        queue = tenant.rng.randint(1, tenant.host.queues)
        tenant.read(where, first, _per_page(where), queue=queue)


def _mixed(tenant: SecondTenant, where: Namespace, times: int) -> None:
    """Everything about a read at once, drawn anew for each."""
    rng = tenant.rng
    for first in _places(tenant, where, times, 64):
        tenant.read(
            where,
            first + rng.choice((0, 0, 1)),
            rng.choice((1, 3, _per_page(where), 16, tenant.host.transfer // where.block)),
            queue=rng.randint(1, tenant.host.queues),
            shift=rng.choice((0, 512)),
            flags=rng.choice((0, _FUA, _LIMITED_RETRY)),
            hints=rng.choice((0, 0x41)),
        )


_LOOKS: dict[str, Look] = {
    "single blocks": _single,
    "backward": _backward,
    "random": _jumping,
    "sequential": _sequential,
    "the same again": _again,
    "large": _large,
    "odd lengths": _odd,
    "unaligned": _crooked,
    "flags": _flagged,
    "other queues": _queued,
    "mixed": _mixed,
}


def _reset(how: Reset) -> Move:
    return lambda tenant: tenant.host.reset(how, tenant.rng.choice((1, 2, QUEUES)))


def _subsystem(tenant: SecondTenant) -> None:
    if tenant.host.register(0x00, 8) >> 36 & 1:
        tenant.host.reset(Reset.SUBSYSTEM, tenant.rng.choice((1, 2, QUEUES)))


def _shutdown(tenant: SecondTenant) -> None:
    tenant.host.shut_down()
    tenant.host.reset(Reset.CONTROLLER, tenant.rng.choice((1, 2, QUEUES)))


def _write(tenant: SecondTenant, times: int, flags: int = 0) -> None:
    """Single blocks: what else is in their pages is then read, and what is around them."""
    for where in tenant.each():
        for first in _places(tenant, where, times, 64):
            tenant.host.write(where, first, bytes([0x77]) * where.block, flags=flags)
            tenant.read(where, first, _per_page(where))
            tenant.read(where, first + 2 * _per_page(where), _per_page(where))


def _deallocate(tenant: SecondTenant) -> None:
    for where in tenant.each():
        for first in _places(tenant, where, 3, 8):
            tenant.host.deallocate(where, first, _per_page(where))


def _io(opcode: int, times: int) -> Move:
    def move(tenant: SecondTenant) -> None:
        for where in tenant.each():
            for first in _places(tenant, where, times, 8):
                tenant.host.patient(
                    1,
                    opcode,
                    nsid=where.nsid,
                    send=bytes(where.block),
                    cdw10=0 if opcode == 0 else first,
                )

    return move


def _admin(opcode: int, times: int, **fields: int) -> Move:
    def move(tenant: SecondTenant) -> None:
        for _ in range(times):
            tenant.host.admin(opcode, receive=PAGE, **fields)

    return move


def _format(tenant: SecondTenant) -> None:
    """Without an erase, to the format that it has."""
    for where in tenant.each():
        tenant.host.admin(0x80, nsid=where.nsid, cdw10=where.lba_format)


def _make(tenant: SecondTenant) -> None:
    """A namespace over what is in none: read, detached, attached, deleted."""
    for lba_format in (0, 2):
        nsid = create(tenant.host, lba_format)
        if not nsid:
            continue
        where = tenant.host.namespace(nsid)
        for name in sorted(_LOOKS):
            _LOOKS[name](tenant, where, 4)
        step = min(tenant.host.transfer, 64 << 10) // where.block
        for first in range(0, where.size, step):
            tenant.read(where, first, step)
        attach(tenant.host, nsid, attached=False)
        attach(tenant.host, nsid)
        tenant.host.admin(0x0D, nsid=nsid, cdw10=1)


def _attach(tenant: SecondTenant) -> None:
    """What is detached."""
    host = tenant.host
    for nsid in set(host.namespaces(0x10)) - set(host.namespaces()):
        if attach(host, nsid):
            for name in sorted(_LOOKS):
                _LOOKS[name](tenant, host.namespace(nsid), 8)


def _features(tenant: SecondTenant) -> None:
    """Those that a driver and its tools set, to what they are."""
    host = tenant.host
    for fid in (0x01, 0x02, 0x04, 0x05, 0x06, 0x0E, 0x81):
        nsid = 0xFFFFFFFF if fid == 0x05 else 0
        value = host.admin(0x0A, nsid=1 if nsid else 0, receive=PAGE, cdw10=fid)
        data = value.data[: {0x0E: 8, 0x81: 16}.get(fid, 0)]
        host.admin(0x09, nsid=nsid, send=data, cdw10=fid, cdw11=value.dw0)
    host.admin(0x09, cdw10=0x01 | 1 << 31)


def _wait(seconds: float) -> Move:
    return lambda tenant: tenant.host.wait(seconds)


def _compare(tenant: SecondTenant) -> None:
    """Somebody who knows what was there asks whether it is."""
    for where in tenant.each():
        for first in _places(tenant, where, 8, 8):
            number = first * where.block // SECTOR + 1
            guess = b"".join(mark(number + index) for index in range(where.block // SECTOR))
            answer = tenant.host.patient(1, 0x05, nsid=where.nsid, send=guess, cdw10=first)
            if answer.code == 0:
                tenant.loot.confirmed.add(number)


def _idle_reads(tenant: SecondTenant) -> None:
    """Many reads of one page and of few others."""
    for where in tenant.each()[:1]:
        for index in range(128):
            tenant.read(where, index % 4 * _per_page(where), _per_page(where))


_MOVES: dict[str, Move] = {
    "controller reset": _reset(Reset.CONTROLLER),
    "function level reset": _reset(Reset.FUNCTION),
    "bus reset": _reset(Reset.BUS),
    "power cycle": _reset(Reset.POWER),
    "subsystem reset": _subsystem,
    "shutdown": _shutdown,
    "a write": lambda tenant: _write(tenant, 1),
    "scattered writes": lambda tenant: _write(tenant, 16),
    "writes with FUA": lambda tenant: _write(tenant, 3, _FUA),
    "deallocate": _deallocate,
    "write zeroes": _io(0x08, 3),
    "flush": _io(0x00, 8),
    "verify": _io(0x0C, 8),
    "compare": _compare,
    "identify": _admin(0x06, 8, cdw10=1),
    "health log": _admin(0x02, 8, nsid=0xFFFFFFFF, cdw10=0x02 | 127 << 16),
    "sanitize log": _admin(0x02, 8, nsid=0xFFFFFFFF, cdw10=0x81 | 127 << 16),
    "firmware log": _admin(0x02, 8, nsid=0xFFFFFFFF, cdw10=0x03 | 127 << 16),
    "get features": _admin(0x0A, 8, cdw10=0x02),
    "security": _admin(0x82, 8),
    "abort": _admin(0x08, 8, cdw10=1),
    "format without erase": _format,
    "make namespaces": _make,
    "attach namespaces": _attach,
    "features": _features,
    "wait 6 s": _wait(6),
    "wait 61 s": _wait(61),
    "many reads": _idle_reads,
}
