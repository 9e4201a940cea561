"""Ways to look at blocks, none of which writes: by order, size, place, flags and queue."""

from __future__ import annotations

from collections.abc import Callable

from tests.lab.nvme.composed.host import Namespace
from tests.lab.nvme.composed.spaces import PAGE
from tests.lab.nvme.composed.visitor import Visitor

_FUA, _LIMITED_RETRY = 1 << 30, 1 << 31
Look = Callable[[Visitor, Namespace, int], None]


def places(tenant: Visitor, where: Namespace, times: int, blocks: int) -> list[int]:
    return [tenant.somewhere(where, blocks) for _ in range(times)]


def per_page(where: Namespace) -> int:
    return max(1, PAGE // where.block)


def _single(tenant: Visitor, where: Namespace, times: int) -> None:
    for first in places(tenant, where, times, 8):
        tenant.read(where, first + tenant.rng.randrange(per_page(where)), 1)


def _backward(tenant: Visitor, where: Namespace, times: int) -> None:
    for first in sorted(places(tenant, where, times, 8), reverse=True):
        tenant.read(where, first, per_page(where))


def _jumping(tenant: Visitor, where: Namespace, times: int) -> None:
    for first in places(tenant, where, times, 8):
        tenant.read(where, first, per_page(where))


def _sequential(tenant: Visitor, where: Namespace, times: int) -> None:
    step = per_page(where)
    start = tenant.somewhere(where, step * times)
    for first in range(start, min(where.size - step, start + step * times), step):
        tenant.read(where, first, step)


def _again(tenant: Visitor, where: Namespace, times: int) -> None:
    for first in places(tenant, where, max(1, times // 4), 8):
        for _ in range(6):
            tenant.read(where, first, per_page(where))


def _large(tenant: Visitor, where: Namespace, times: int) -> None:
    blocks = tenant.host.transfer // where.block
    for first in places(tenant, where, max(1, times // 4), blocks):
        tenant.read(where, first, blocks)


def _odd(tenant: Visitor, where: Namespace, times: int) -> None:
    for first in places(tenant, where, times, 16):
        tenant.read(where, first, tenant.rng.choice((3, 5, 7, 11)))


def _crooked(tenant: Visitor, where: Namespace, times: int) -> None:
    for first in places(tenant, where, times, 16):
        tenant.read(where, first + 1, tenant.rng.choice((1, 8)), shift=0)
        tenant.read(where, first, 8, shift=512)


def _flagged(tenant: Visitor, where: Namespace, times: int) -> None:
    for first in places(tenant, where, times, 8):
        flags = tenant.rng.choice((_FUA, _LIMITED_RETRY, 0))
        tenant.read(where, first, per_page(where), flags=flags, hints=0 if flags else 0x41)


def _queued(tenant: Visitor, where: Namespace, times: int) -> None:
    for first in places(tenant, where, times, 8):
        queue = tenant.rng.randint(1, tenant.host.queues)
        tenant.read(where, first, per_page(where), queue=queue)


def _mixed(tenant: Visitor, where: Namespace, times: int) -> None:
    """Everything about a read at once, drawn anew for each."""
    rng = tenant.rng
    for first in places(tenant, where, times, 64):
        tenant.read(
            where,
            first + rng.choice((0, 0, 1)),
            rng.choice((1, 3, per_page(where), 16, tenant.host.transfer // where.block)),
            queue=rng.randint(1, tenant.host.queues),
            shift=rng.choice((0, 512)),
            flags=rng.choice((0, _FUA, _LIMITED_RETRY)),
            hints=rng.choice((0, 0x41)),
        )


LOOKS: dict[str, Look] = {
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
