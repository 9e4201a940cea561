"""How long a dirty drive stands on offer under load, with the safety pass and without.

``python -m benchmarks.safety``: 1,500 open cases, a Placement that takes 60 ms for each request and
answers empty once, one row that cannot be read. Again and again a drive in use has its lock lowered
and its server deleted, at a moment that chance chooses. The loop and the pass are the product's
own, in two threads as the service runs them.
"""

from __future__ import annotations

import argparse
import logging
import random
import statistics
import sys
import tempfile
import threading
import time
from collections.abc import Collection
from pathlib import Path

import sqlalchemy as sa

from quarantine.cloud.facts import Provider
from quarantine.record.database import models
from quarantine.record.store import Store
from quarantine.record.words.states import State
from quarantine.rules.action import ServiceLimits
from quarantine.service.reconciler import Reconciler
from quarantine.service.safety import PASS, Safety
from quarantine.service.watch.lateness import Lateness
from tests.unit.quarantine.smallcloud import (
    Clock,
    Cloud,
    NoTickets,
    NotingDispatcher,
    enrolled,
    open_store,
    slot_at,
)


class RealClock(Clock):
    """Requests take real time here."""

    def forward(self, seconds: float) -> None:
        """Waits."""
        time.sleep(seconds)

    def monotonic(self) -> float:
        """The machine's."""
        return time.monotonic()


class Busy(Cloud):
    """Answers empty once, to the first that asks after :meth:`blank`."""

    _blank = False

    def blank(self) -> None:
        """The next list of what is on offer is empty."""
        self._blank = True

    def offered(self, resource_class: str, traits: Collection[str] = ()) -> list[Provider]:
        """As ever, but for once."""
        found = super().offered(resource_class, traits)
        if self._blank:
            self._blank = False
            return []
        return found


def _fill(store: Store, cloud: Cloud, cases: int) -> None:
    for number in range(cases):
        enrolled(store, cloud, slot_at(number))
    with store._writing() as db:
        slots = models.slots
        values = {"state": State.QUARANTINED.value}
        db.execute(sa.update(slots).values(**values))
        where = slots.c.address == slot_at(cases - 1).address
        db.execute(sa.update(slots).where(where).values(identity="of a newer release"))


def _run(args: argparse.Namespace, *, passes: bool) -> tuple[list[float], float]:
    chance = random.Random(args.seed)  # noqa: S311 - moments, no secrets
    clock = RealClock()
    cloud = Busy(clock)
    limits = ServiceLimits()
    with tempfile.TemporaryDirectory() as directory, open_store(Path(directory), clock) as store:
        victims = [slot_at(args.cases + number) for number in range(args.rounds)]
        _fill(store, cloud, args.cases)
        for victim in victims:
            enrolled(store, cloud, victim, server=f"server-{victim}")
        cloud.request_seconds = args.request_ms / 1000
        late = Lateness()
        safety = Safety(store, cloud, limits, lateness=late)
        late.expect(PASS, lambda: safety.bound)
        dispatcher = NotingDispatcher(store, clock, broken=True)
        loop = Reconciler(store, cloud, dispatcher, limits, clock, tickets=NoTickets())
        stop = threading.Event()
        runs = [loop.run_forever, *([safety.run_forever] if passes else [])]
        threads = [threading.Thread(target=run, args=(stop,), daemon=True) for run in runs]
        for thread in threads:
            thread.start()
        time.sleep(limits.safety_interval)
        stood = []
        for number, victim in enumerate(victims):
            time.sleep(chance.uniform(0, limits.safety_interval))
            if number == args.rounds // 2:
                cloud.blank()
            cloud.burn(victim, reserved=False)
            cloud.delete(victim)
            since = time.monotonic()
            while cloud.on_offer(victim) and time.monotonic() - since < args.give_up:
                time.sleep(0.02)
            stood.append(time.monotonic() - since)
        bound = safety.bound
        stop.set()
        for thread in threads:
            thread.join()
    return stood, bound


def main() -> int:
    """Prints the figures of docs/figures.md; 1 where a drive was not waited for to its end."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--cases", type=int, default=1500, help="open cases")
    parser.add_argument("--rounds", type=int, default=10, help="drives that become dirty on offer")
    parser.add_argument("--request-ms", type=float, default=60.0, help="what a request takes")
    parser.add_argument("--give-up", type=float, default=300.0, help="seconds to wait for one")
    parser.add_argument("--seed", type=int, default=1, help="of the moments")
    parser.add_argument("--without", action="store_true", help="only the loop, no safety pass")
    args = parser.parse_args()
    logging.disable(logging.CRITICAL)
    stood, bound = _run(args, passes=not args.without)
    kind = "the loop alone" if args.without else "with the safety pass"
    shown = "" if args.without else f", bound {bound:.1f} s"
    given_up = sum(seconds >= args.give_up for seconds in stood)
    if given_up:
        # So long at least: a mean or a most of them would be a figure of --give-up.
        print(f"{kind}: {given_up} of {len(stood)} drives stood on offer for {args.give_up:g} s")
        return 1
    print(
        f"{kind}: {len(stood)} drives stood on offer for {statistics.mean(stood):.1f} s on "
        f"average, {max(stood):.1f} s at most{shown}"
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
