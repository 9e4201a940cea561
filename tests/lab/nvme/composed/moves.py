"""What a next tenant does beside reading: resets, writes, commands, namespaces, pauses."""

from __future__ import annotations

from collections.abc import Callable

from tests.lab.nvme.acts import Reset
from tests.lab.nvme.composed.host import QUEUES
from tests.lab.nvme.composed.looks import LOOKS, per_page, places
from tests.lab.nvme.composed.marks import SECTOR, mark
from tests.lab.nvme.composed.spaces import PAGE, attach, create
from tests.lab.nvme.composed.visitor import Visitor

_FUA = 1 << 30
Move = Callable[[Visitor], None]


def _reset(how: Reset) -> Move:
    return lambda tenant: tenant.host.reset(how, tenant.rng.choice((1, 2, QUEUES)))


def _subsystem(tenant: Visitor) -> None:
    if tenant.host.register(0x00, 8) >> 36 & 1:
        tenant.host.reset(Reset.SUBSYSTEM, tenant.rng.choice((1, 2, QUEUES)))


def _shutdown(tenant: Visitor) -> None:
    tenant.host.shut_down()
    tenant.host.reset(Reset.CONTROLLER, tenant.rng.choice((1, 2, QUEUES)))


def _write(tenant: Visitor, times: int, flags: int = 0) -> None:
    """Single blocks: what else is in their pages is then read, and what is around them."""
    for where in tenant.each():
        for first in places(tenant, where, times, 64):
            tenant.host.write(where, first, bytes([0x77]) * where.block, flags=flags)
            tenant.read(where, first, per_page(where))
            tenant.read(where, first + 2 * per_page(where), per_page(where))


def _deallocate(tenant: Visitor) -> None:
    for where in tenant.each():
        for first in places(tenant, where, 3, 8):
            tenant.host.deallocate(where, first, per_page(where))


def _io(opcode: int, times: int) -> Move:
    def move(tenant: Visitor) -> None:
        for where in tenant.each():
            for first in places(tenant, where, times, 8):
                tenant.host.patient(
                    1,
                    opcode,
                    nsid=where.nsid,
                    send=bytes(where.block),
                    cdw10=0 if opcode == 0 else first,
                )

    return move


def _admin(opcode: int, times: int, **fields: int) -> Move:
    def move(tenant: Visitor) -> None:
        for _ in range(times):
            tenant.host.admin(opcode, receive=PAGE, **fields)

    return move


def _format(tenant: Visitor) -> None:
    """Without an erase, to the format that it has."""
    for where in tenant.each():
        tenant.host.admin(0x80, nsid=where.nsid, cdw10=where.lba_format)


def _make(tenant: Visitor) -> None:
    """A namespace over what is in none: read, detached, attached, deleted."""
    for lba_format in (0, 2):
        nsid = create(tenant.host, lba_format)
        if not nsid:
            continue
        where = tenant.host.namespace(nsid)
        for name in sorted(LOOKS):
            LOOKS[name](tenant, where, 4)
        step = min(tenant.host.transfer, 64 << 10) // where.block
        for first in range(0, where.size, step):
            tenant.read(where, first, step)
        attach(tenant.host, nsid, attached=False)
        attach(tenant.host, nsid)
        tenant.host.admin(0x0D, nsid=nsid, cdw10=1)


def _attach(tenant: Visitor) -> None:
    """What is detached."""
    host = tenant.host
    for nsid in set(host.namespaces(0x10)) - set(host.namespaces()):
        if attach(host, nsid):
            for name in sorted(LOOKS):
                LOOKS[name](tenant, host.namespace(nsid), 8)


def _features(tenant: Visitor) -> None:
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


def _compare(tenant: Visitor) -> None:
    """Somebody who knows what was there asks whether it is."""
    for where in tenant.each():
        for first in places(tenant, where, 8, 8):
            number = first * where.block // SECTOR + 1
            guess = b"".join(mark(number + index) for index in range(where.block // SECTOR))
            answer = tenant.host.patient(1, 0x05, nsid=where.nsid, send=guess, cdw10=first)
            if answer.code == 0:
                tenant.loot.confirmed.add(number)


def _idle_reads(tenant: Visitor) -> None:
    """Many reads of one page and of few others."""
    for where in tenant.each()[:1]:
        for index in range(128):
            tenant.read(where, index % 4 * per_page(where), per_page(where))


MOVES: dict[str, Move] = {
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
