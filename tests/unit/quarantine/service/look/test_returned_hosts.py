"""A host was away for days: what is out for it is sent anew soon after it speaks again."""

from __future__ import annotations

from itertools import count, pairwise
from pathlib import Path

from eraser.protocol import codec
from eraser.protocol.order import ORDER_TYPE, EraseOrder
from eraser.protocol.report import Hello
from eraser.protocol.transport.signing import PrivateKey, verify
from quarantine.record.words.facts import Initiator
from quarantine.rules.action import ServiceLimits
from quarantine.service.issue.dispatch import Dispatcher
from quarantine.service.reconciler import Reconciler
from tests.unit.quarantine.smallcloud import (
    LIFE,
    Clock,
    Cloud,
    NoTickets,
    enrolled,
    open_store,
    slot_at,
)
from tests.unit.quarantine.testimony import PROFILE

SLOT = slot_at(1)
DAY = 86400.0
LIMITS = ServiceLimits()


def test_a_host_that_was_repaired_gets_its_order_soon(tmp_path: Path) -> None:
    """What lies in its queue is for its former life, and refused."""
    clock = Clock()
    cloud, controller = Cloud(clock), PrivateKey.generate()
    with open_store(tmp_path, clock) as store:
        store.put_profile(PROFILE, Initiator("a person"))
        enrolled(store, cloud, SLOT, profile=PROFILE.name, policy="purge")
        posted: list[str] = []
        dispatcher = Dispatcher(
            store, controller, lambda _host, token: posted.append(token), clock=clock
        )
        service = Reconciler(
            store, cloud, dispatcher, LIMITS, clock, tickets=NoTickets(), monotonic=clock.monotonic
        )

        def sweeps(seconds: float, every: float = 300) -> None:
            until = clock.seconds + seconds
            while clock.seconds < until:
                service.sweep()
                clock.forward(every)

        sweeps(10 * DAY, every=7200)
        assert len(posted) < 50, "a host that is down finds no thousands of copies"
        store.register_host("cmp1", PrivateKey.generate().public, "incarnation-00002", replace=True)
        store.host_seen("cmp1", 1, Hello("cmp1", "incarnation-00002", 1, "0.1.0", (), ()))
        sweeps(3600)
    payload = verify(posted[-1], controller.public, ORDER_TYPE, "order")
    assert codec.load(EraseOrder, payload, "order").incarnation == "incarnation-00002"


def test_a_host_that_speaks_and_never_answers_finds_fewer_copies_with_time(tmp_path: Path) -> None:
    """It refuses each one, by a wrong orders.jwk say: each is a write, and a line in its log."""
    clock = Clock()
    cloud, controller = Cloud(clock), PrivateKey.generate()
    with open_store(tmp_path, clock) as store:
        store.put_profile(PROFILE, Initiator("a person"))
        enrolled(store, cloud, SLOT, profile=PROFILE.name, policy="purge")
        posted: list[float] = []
        dispatcher = Dispatcher(
            store, controller, lambda _host, _token: posted.append(clock.seconds), clock=clock
        )
        service = Reconciler(
            store, cloud, dispatcher, LIMITS, clock, tickets=NoTickets(), monotonic=clock.monotonic
        )
        numbers = count(1)

        def sweeps(times: int, *, speaks: bool = True) -> None:
            for _ in range(times):
                if speaks:
                    hello = Hello("cmp1", LIFE, 1, "0.1.0", (), ())
                    store.host_seen("cmp1", next(numbers), hello)
                service.sweep()
                clock.forward(120)

        sweeps(360)
        assert 24 <= len(posted) < 36
        assert posted[1] - posted[0] <= 240, "the first ones come soon"
        assert max(b - a for a, b in pairwise(posted)) <= 1800 + 120
        sweeps(5, speaks=False)
        before = len(posted)
        sweeps(4)
        assert len(posted) > before, "a host that is back may have lost its queue"
