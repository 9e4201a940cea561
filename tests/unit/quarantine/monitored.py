"""A site in which every metric, and every query of the dashboard, has something to say."""

from __future__ import annotations

from collections.abc import Sequence

from eraser.protocol.transport.signing import PrivateKey
from quarantine.conf.capacity import SoldFlavor
from quarantine.doors import Doors
from quarantine.metrics.exposition import Exporter
from quarantine.metrics.limits import MetricsLimits
from quarantine.record.words.facts import SWEEP
from quarantine.record.words.reasons import HoldCode
from quarantine.rules import holds
from quarantine.service.safety import PASS
from quarantine.service.watch.delays import Delays
from quarantine.service.watch.lateness import Lateness
from tests.unit.quarantine.totals_suite import Site

LIMITS = MetricsLimits(
    silent_after=420,
    overdue_after=21600,
    flavors=(SoldFlavor("i1-45", 1), SoldFlavor("i1-180", 4)),
)

SECONDS = 1560.0
"""That :func:`fill` moves the site's clock."""


class Lists:
    """A report waits for the control plane, and an order for its host."""

    def full(self, keys: Sequence[str]) -> list[str]:
        """As Redis would."""
        return [key for key in keys if key.startswith("quarantine:report:")]

    def lengths(self, keys: Sequence[str]) -> list[int]:
        """One of each."""
        return [1] * len(keys)


def fill(site: Site) -> None:
    """Slots in several states, held ones, cases that ended, hosts that speak and one that does
    not, a refusal."""
    for host in ("a", "b", "mute"):
        site.store.register_host(host, PrivateKey.generate().public, "incarnation-0001")
    for number in range(1, 7):
        site.available(f"a/0000:0{number}:00.0")
    site.available("mute/0000:01:00.0")
    site.later(1000)
    for host in ("a", "b"):
        key = PrivateKey.generate().public
        site.store.register_host(host, key, "incarnation-0002", replace=True)
    site.store.hold(site.released("b/0000:01:00.0"), holds.because(HoldCode.HEALTH, "worn"))
    site.erasing("b/0000:02:00.0")
    site.released("b/0000:03:00.0", "Model B")
    site.store.record_refusal("report", "a", "r", "d", "e")


def exporter(site: Site, doors: Doors) -> Exporter:
    """With everything that a service has."""
    lateness = Lateness(doors.monotonic)
    lateness.expect(PASS, lambda: 24.0)
    lateness.expect(SWEEP, lambda: 90.0)
    delays = Delays()
    for seconds in (0.0, 0.4, 12.0, None):
        delays.add(seconds)
    return Exporter(
        site.store, LIMITS, doors=doors, lists=Lists(), lateness=lateness, delays=delays
    )
