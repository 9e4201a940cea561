"""How long after Nova has removed an allocation the control plane acts, with the bell and without.

The real Nova's daemons with RabbitMQ between them (so one host's cast to another is a real one),
our patch in nova-compute, the real Placement, Redis, bell, intake and control plane. Stand-ins: the
hypervisor, Glance, Neutron, and the worker's erase. A server with one drive lets go of it in each
way that Nova has, again and again. Placement is asked every few milliseconds whether the drive is
let go; from that answer on the control plane's own history says when it saw the release, when the
drive was in its custody, and when its order was sent. Without a bell the sweep alone sees it.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import statistics
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from eraser.protocol.identity import Slot
from quarantine.record.words.states import Event, State
from quarantine.rules.action import ServiceLimits
from quarantine.service.reconciler import worst_case_detection
from tests.daemons.cloud import HOSTS, Cloud
from tests.lab.errors import LabError
from tests.lab.services.nova_standin import Server
from tests.lab.services.placement_http import PlacementHttp
from tests.lab.services.process import wait_until

STEPS: Final = {
    "seen": Event.RELEASE_SEEN,
    "in custody": Event.CUSTODY_TAKEN,
    "ordered": Event.ORDERED,
}
EVERY: Final = 0.005
"""Seconds between two questions to Placement: no figure is finer than that and one answer."""

HERE, THERE = HOSTS


def _say(text: str) -> None:
    print(f"{time.strftime('%H:%M:%S')} {text}", file=sys.stderr, flush=True)


class Watcher:
    """Sees in Placement when whoever holds a drive holds it no more."""

    def __init__(self, placement: str, provider: str) -> None:
        self._ask = PlacementHttp(placement)
        self._path = f"/resource_providers/{provider}/allocations"
        self._before = self._holders()
        self.gone: datetime | None = None
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self._thread.start()

    def _holders(self) -> set[str]:
        return set(self._ask("GET", self._path, "1.28").body["allocations"])

    def _watch(self) -> None:
        while self._before <= self._holders():
            time.sleep(EVERY)
        self.gone = datetime.now(UTC)


@dataclass
class Releases:
    """Each method lets go of one drive in its way, and notes what followed."""

    cloud: Cloud
    reread: float
    times: dict[str, list[dict[str, float]]] = field(default_factory=dict)
    """By way: seconds to each of ``STEPS``."""

    def measure(self, way: str) -> None:
        """One round of a way; afterwards all is as it was."""
        server = self.cloud.nova.boot(1, host=HERE)
        self._know(*self.cloud.slots_of(server))
        methods: dict[str, Callable[[Server], None]] = {
            "delete": self._delete,
            "shelve": self._shelve,
            "confirm": lambda server: self._move(server, "confirmResize"),
            "revert": lambda server: self._move(server, "revertResize"),
            "evacuate": self._evacuate,
        }
        self._way = way
        methods[way](server)
        with contextlib.suppress(Exception):
            self.cloud.nova.client.delete(server.uuid)
        self.cloud.nova.client.wait(server.uuid, "DELETED")
        self.cloud.wait_all_available(self.reread + 240)

    def _know(self, slot: Slot) -> None:
        """That a drive was handed out is seen by the listing, which is rare; we do not wait."""
        self.cloud.cli("slot", "reconcile", "--host", slot.host)
        self.cloud.wait([slot], State.IN_USE)

    @contextlib.contextmanager
    def _clock(self, slot: Slot) -> Iterator[None]:
        before = len(self.cloud.history(slot))
        watcher = Watcher(self.cloud.placement.url, self.cloud.record(slot).provider)
        yield
        wait_until(
            lambda: Event.ORDERED in self.cloud.events(slot, before),
            f"{slot} to be let go and its erase to be ordered",
            self.reread + 240,
        )
        assert watcher.gone is not None, "ordered while somebody had it"
        at = {row.event: row.at for row in reversed(self.cloud.history(slot)[before:])}
        taken = {name: (at[event] - watcher.gone).total_seconds() for name, event in STEPS.items()}
        _say(f"{self._way}: " + ", ".join(f"{name} {each:.2f} s" for name, each in taken.items()))
        self.times.setdefault(self._way, []).append(taken)

    def _delete(self, server: Server) -> None:
        with self._clock(*self.cloud.slots_of(server)):
            self.cloud.nova.delete(server)

    def _shelve(self, server: Server) -> None:
        with self._clock(*self.cloud.slots_of(server)):
            self.cloud.nova.client.action(server.uuid, "shelve")

    def _move(self, server: Server, verb: str) -> None:
        (old,) = self.cloud.slots_of(server)
        client = self.cloud.nova.client
        client.action(server.uuid, "migrate")
        client.wait(server.uuid, "VERIFY_RESIZE")
        (new,) = self.cloud.slots_of(self.cloud.nova.described(server.uuid))
        self._know(new)
        with self._clock(old if verb == "confirmResize" else new):
            client.action(server.uuid, verb)
            client.wait(server.uuid, "ACTIVE")

    def _evacuate(self, server: Server) -> None:
        (slot,) = self.cloud.slots_of(server)
        client = self.cloud.nova.client
        self.cloud.nova.computes[HERE].kill()
        client.force_down(HERE, down=True)
        client.action(server.uuid, "evacuate", {})
        client.wait(server.uuid, "ACTIVE")

        def let_up() -> bool:
            # Nova refuses while the evacuated server has something there.
            with contextlib.suppress(LabError):
                client.force_down(HERE, down=False)
                return True
            return False

        # The host that is back lets go of it as it starts.
        with self._clock(slot):
            self.cloud.nova.computes[HERE].restart()
            wait_until(let_up, f"{HERE} to have let go of what was evacuated", 180, every=0.2)
        self.cloud.nova.wait_up(HERE)


WAYS: Final = ("delete", "shelve", "confirm", "revert", "evacuate")
MODES: Final = ("bell", "none")


def _run(cloud: Cloud, mode: str, options: argparse.Namespace) -> dict[str, list[dict[str, float]]]:
    """Every way with that mode: ``bell`` or ``none``."""
    cloud.kill_control()
    cloud.configure(options.reread, options.sweep, options.listing)
    cloud.control.start()
    releases = Releases(cloud, options.reread)
    with contextlib.nullcontext() if mode == "bell" else cloud.without_bells():
        for number in range(options.rounds):
            for way in options.ways:
                _say(f"{mode}: round {number + 1}, {way}")
                releases.measure(way)
    return releases.times


def main(argv: Sequence[str] | None = None) -> int:
    """Prints a row for each way and mode: median and most, in seconds."""
    shipped = ServiceLimits()
    parser = argparse.ArgumentParser(prog="python -m benchmarks.detection", description=__doc__)
    parser.add_argument("--rounds", type=int, default=3, help="of each way (default: 3)")
    parser.add_argument("--ways", nargs="+", choices=WAYS, default=WAYS, metavar="WAY")
    parser.add_argument("--modes", nargs="+", choices=MODES, default=MODES, metavar="MODE")
    parser.add_argument("--reread", type=float, default=shipped.in_use_reread)
    parser.add_argument("--sweep", type=float, default=shipped.sweep_interval)
    parser.add_argument("--listing", type=float, default=shipped.list_interval)
    parser.add_argument("-f", "--format", choices=("text", "json"), default="text")
    options = parser.parse_args(argv)
    found = {}
    with tempfile.TemporaryDirectory(prefix="detection") as directory:
        _say("starting the cloud")
        with Cloud(Path(directory)) as cloud:
            cloud.wait_all_available()
            for mode in options.modes:
                found[mode] = _run(cloud, mode, options)
    if options.format == "json":
        print(json.dumps(found))
        return 0
    for way in options.ways:
        for mode in options.modes:
            steps = {name: [each[name] for each in found[mode][way]] for name in STEPS}
            cells = [
                f"{name} {statistics.median(times):.2f} (most {max(times):.2f}) s"
                for name, times in steps.items()
            ]
            print(f"{way}, {mode}: " + ", ".join(cells))
    worst = worst_case_detection(shipped, 1)
    print(f"without a bell at worst, as shipped: {worst:.0f} s")
    return 0


if __name__ == "__main__":
    sys.exit(main())
