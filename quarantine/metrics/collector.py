"""All metrics, computed when Prometheus asks. Needs prometheus-client."""

from __future__ import annotations

import logging
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Final

from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    Metric,
)

from quarantine import VERSION
from quarantine.doors import Clock
from quarantine.errors import UnavailableError
from quarantine.metrics import names
from quarantine.metrics.durations import EDGES, Durations, Sums
from quarantine.metrics.limits import MetricsLimits
from quarantine.metrics.names import PREFIX, ModelNames
from quarantine.metrics.queues import Queues
from quarantine.record.store import Store
from quarantine.record.words.states import CASE_OPEN, State
from quarantine.rules.alarmbook import ALARMS
from quarantine.rules.sale import capacity, pace
from quarantine.service.watch import delays as measured
from quarantine.service.watch.delays import Delays
from quarantine.service.watch.lateness import Lateness

LOG = logging.getLogger(__name__)

HEARD_WITHIN: Final = (60, 90, 120, 300, 600, 1800, 3600, 86400)
"""Seconds; hosts speak about once a minute."""

ANSWER_SECONDS: Final = 8.0
"""For all of a scrape: Prometheus gives up after 10 by default, and then has no part at all."""

_COMES_BACK: Final = tuple(sorted(CASE_OPEN | {State.RELEASED}))
_LIMITED: Final = (State.ERASING, State.VERIFYING)
"""States whose length a model's certificates tell."""


Ask = Callable[[], Sequence[Metric]]


class _Round:
    """All parts that need the record, asked one after the other in a thread of its own."""

    def __init__(self, store: Store, parts: Mapping[str, Ask]) -> None:
        self._store = store
        self._parts = parts
        self.ended = threading.Event()
        self.late = False
        """Nobody waits for the rest any more."""
        self.found: dict[str, Sequence[Metric] | Exception] = {}

    def run(self) -> None:
        """A record that is away is asked once, not by each part."""
        try:
            try:
                self._store.answer()
            except Exception as error:
                self.found = dict.fromkeys(self._parts, error)
                return
            for part, ask in self._parts.items():
                # Each part costs the database something, and nobody reads it any more.
                if self.late:
                    return
                try:
                    self.found[part] = ask()
                except Exception as error:  # a damaged row of one part hides no other
                    self.found[part] = error
        finally:
            self.ended.set()


class Collector:
    """What prometheus-client collects from; for one thread at a time.

    Each part is asked by itself: what cannot be answered, or not in time, is missing, and its
    ``part_up`` is 0.
    """

    def __init__(
        self,
        store: Store,
        limits: MetricsLimits,
        *,
        clock: Clock,
        queues: Queues | None = None,
        lateness: Lateness | None = None,
        delays: Delays | None = None,
    ) -> None:
        self._store = store
        self._limits = limits
        self._clock = clock
        self._queues = queues
        self._lateness = lateness
        self._delays = delays
        self._models = ModelNames()
        self._durations = Durations(self._models)
        self._down: set[str] = set()
        self._round: _Round | None = None
        self._parts: dict[str, Ask] = {
            # First: the models with most slots get labels of their own.
            "slots": self._slots,
            "certificates": self._certificates,
            "late": self._late,
            "capacity": self._capacity,
            "hosts": self._hosts,
            "refusals": self._refusals,
            "alarms": self._alarms,
        }
        if queues is not None:
            self._parts["queues"] = self._waiting

    def describe(self) -> Sequence[Metric]:
        """Nothing is computed when a registry is made."""
        return ()

    def collect(self) -> Iterator[Metric]:
        """Everything, now."""
        yield _gauge("build_info", "The release.", ["version"], {(VERSION,): 1})
        up: dict[tuple[str, ...], float] = {}
        if self._lateness is not None:
            # First, and from memory: how the service itself is must not wait for its database.
            yield from self._duties()
            up["service",] = 1
        if self._delays is not None:
            yield from _detection(self._delays.read())
        asked = self._asked()
        for part in self._parts:
            found = asked.get(part, _TOO_LATE)
            if isinstance(found, Exception):
                up[part,] = 0
                # Said once when a part goes and once when it comes back, not with each scrape.
                if part not in self._down:
                    LOG.warning("metrics: no numbers of %s: %s", part, found)
                self._down.add(part)
                continue
            up[part,] = 1
            if part in self._down:
                self._down.discard(part)
                LOG.warning("over: metrics have numbers of %s again", part)
            yield from found
        yield _gauge("part_up", "Whether a part of these metrics could be asked for.", ["part"], up)

    def _asked(self) -> Mapping[str, Sequence[Metric] | Exception]:
        """What can be answered in time. One round at a time: where the last one still hangs,
        nobody asks beside it."""
        end = time.monotonic() + ANSWER_SECONDS
        # A record that hangs would else get one more thread with each scrape.
        if self._round is not None and not self._round.ended.wait(ANSWER_SECONDS):
            return {}
        self._round = _Round(self._store, self._parts)
        threading.Thread(target=self._round.run, name="metrics-round", daemon=True).start()
        if not self._round.ended.wait(max(0.0, end - time.monotonic())):
            self._round.late = True
        # A copy: a late round goes on writing into its own.
        return dict(self._round.found)

    def _slots(self) -> Sequence[Metric]:
        now = self._clock()
        counts: dict[tuple[str, ...], float] = defaultdict(float)
        oldest: dict[tuple[str, ...], float] = defaultdict(float)
        # The most slots first: labels are few, and these models get them.
        totals = sorted(self._store.slot_totals(), key=lambda total: -total.slots)
        self._models.seen(total.model for total in totals)
        for total in totals:
            state, model = names.state(total.state), self._models.label(total.model)
            counts[state, model, names.reason(total.state, total.hold_code)] += total.slots
            # Another process wrote the time: its clock may be ahead.
            age = max((now - total.oldest).total_seconds(), 0.0)
            oldest[state, model] = max(oldest[state, model], age)
        return (
            _gauge(
                "slots",
                "Slots by state, model of the drive, and code of the hold.",
                ["state", "model", "reason"],
                counts,
            ),
            _gauge(
                "slots_oldest_seconds",
                "For how long the slot that is in its state for longest is in it.",
                ["state", "model"],
                oldest,
            ),
        )

    def _certificates(self) -> Sequence[Metric]:
        chain = self._store.chain_total()
        # Only what is new since the last scrape is read and added up.
        self._durations.read(self._store, chain.position)
        found: list[Metric] = [
            _counter("certificates", "Certificates in the record.", [], {(): chain.certificates}),
            _gauge(
                "ledger_position",
                "The number of the last certificate of the chain.",
                [],
                {(): chain.position},
            ),
            _histogram(
                "erase_seconds",
                "From the order of a certified case until its host began to read back.",
                {model: _erase(sums) for model, sums in self._durations.sums.items()},
            ),
            _histogram(
                "verify_seconds",
                "How long the host of a certified case read back.",
                {model: _verify(sums) for model, sums in self._durations.sums.items()},
            ),
        ]
        # An empty chain has no last certificate, and so no time of one.
        if chain.last_at is not None:
            found.append(
                _gauge(
                    "last_certificate_timestamp_seconds",
                    "When the last certificate was made.",
                    [],
                    {(): chain.last_at.timestamp()},
                )
            )
        return found

    def _late(self) -> Sequence[Metric]:
        now, overdue = self._clock(), self._limits.overdue_after
        # Models with enough cases have limits of their own; all others have that of the
        # configuration.
        since: dict[tuple[State, str], datetime] = {}
        limits: dict[tuple[str, ...], float] = {}
        for model, known in sorted(self._durations.paces.items()):
            for state in _LIMITED:
                limit = pace.late_after(state, known, overdue)
                since[state, model] = now - timedelta(seconds=limit)
                limits[state.value, self._models.label(model)] = limit
        otherwise = {state: now - timedelta(seconds=overdue) for state in _COMES_BACK}
        late: dict[tuple[str, ...], float] = defaultdict(float)
        for state in _COMES_BACK:
            for model in self._models.known:
                late[state.value, self._models.label(model)] += 0
        for (stored, name), count in self._store.late(since, otherwise).items():
            late[names.state(stored), self._models.label(name)] += count
        quiet = 0
        maintained = self._store.maintenance_totals()
        if maintained.hosts or maintained.slots:
            found = self._store.late(since, otherwise, maintained=True)
            for (stored, name), count in found.items():
                # Counted among all above, and taken out here: slots in maintenance call nobody.
                # One that came late since then was not among them.
                at = names.state(stored), self._models.label(name)
                late[at] = max(0, late[at] - count)
                quiet += count
        return (
            _gauge(
                "slots_late",
                "Slots that are in their state for longer than cases of their model take, or than "
                "[erase]overdue_after; but for those in maintenance.",
                ["state", "model"],
                late,
            ),
            _gauge(
                "slots_late_in_maintenance",
                "Slots in maintenance that are in their state for so long.",
                [],
                {(): quiet},
            ),
            _gauge(
                "late_after_seconds",
                "After how long a slot is late, for models with enough certificates.",
                ["state", "model"],
                limits,
            ),
        )

    def _capacity(self) -> Sequence[Metric]:
        since = self._clock() - timedelta(seconds=self._limits.silent_after)
        totals = self._store.free_totals(since)
        # Of all slots, as capacity show has them: those of the free ones alone change with sales,
        # and with them what a flavor without a class would be counted in. Where nobody can say
        # which it is, the part is down: a number that is gone rings no alert.
        flavors = capacity.of_classes(self._limits.flavors, self._store.resource_classes())
        sellable: dict[tuple[str, ...], float] = {}
        left: dict[tuple[str, ...], float] = {}
        doubtful: dict[tuple[str, ...], float] = {}
        for flavor in flavors:
            its = [total for total in totals if total.resource_class == flavor.resource_class]
            free = [(total.free, total.hosts) for total in its if not total.silent]
            name = (flavor.name,)
            sellable[name], left[name] = capacity.whole(free, flavor.drives)
            doubtful[name] = sum(total.free * total.hosts for total in its if total.silent)
        return (
            _gauge(
                "capacity_sellable",
                "Servers of a flavor that could start now, if only these were started.",
                ["flavor"],
                sellable,
            ),
            _gauge(
                "capacity_left_over_drives",
                "Free drives on hosts that have too few of them for one more of the flavor.",
                ["flavor"],
                left,
            ),
            _gauge(
                "capacity_doubtful_drives",
                "Free drives of the flavor's class on hosts of which nothing is heard.",
                ["flavor"],
                doubtful,
            ),
        )

    def _hosts(self) -> Sequence[Metric]:
        now, after = self._clock(), self._limits.silent_after
        since = now - timedelta(seconds=after)
        edges = [now - timedelta(seconds=edge) for edge in HEARD_WITHIN]
        long = now - timedelta(seconds=max(after, self._limits.overdue_after))
        (*counts, heard, heard_long), all_ = self._store.hosts_within([*edges, since, long])
        by_edge: dict[tuple[str, ...], float] = {
            (str(edge),): count for edge, count in zip(HEARD_WITHIN, counts, strict=True)
        }
        by_edge["+Inf",] = all_
        needed = self._store.silent_and_needed(since)
        quiet = self._store.silent_in_maintenance(since)
        named = self._store.silent_and_needed(long) + self._store.silent_in_maintenance(long)
        maintained = self._store.maintenance_totals()
        return (
            _gauge("hosts", "Registered hosts.", [], {(): all_}),
            _gauge(
                "hosts_heard",
                "Registered hosts that were heard within so many seconds, or registered.",
                ["within"],
                by_edge,
            ),
            _gauge(
                "hosts_silent",
                "Hosts that were not heard for [detection]silent_after seconds; but for those in "
                "maintenance.",
                [],
                # Three questions at three moments: a host heard in between must not make it
                # negative.
                {(): max(all_ - heard - quiet, 0)},
            ),
            _gauge(
                "hosts_silent_needed",
                "Those of them with open cases or with slots on offer.",
                [],
                {(): needed},
            ),
            _gauge(
                "hosts_silent_long",
                "Those of them that were not heard for [erase]overdue_after seconds, and on which "
                "neither a case nor an offer depends.",
                [],
                {(): max(all_ - heard_long - named, 0)},
            ),
            _gauge(
                "hosts_silent_in_maintenance",
                "Hosts in maintenance that were not heard for so long.",
                [],
                {(): quiet},
            ),
            _gauge(
                "maintenances",
                "Hosts, and single slots, that are in maintenance.",
                ["of"],
                {("host",): maintained.hosts, ("slot",): maintained.slots},
            ),
        )

    def _refusals(self) -> Sequence[Metric]:
        # Kinds without a refusal too, for the first one to be an increase.
        counts: dict[tuple[str, ...], float] = dict.fromkeys(
            ((kind,) for kind in sorted(names.KINDS)), 0
        )
        for stored, count in self._store.refusal_totals().items():
            kind = (names.kind(stored),)
            counts[kind] = counts.get(kind, 0) + count
        return (_counter("refusals", "Messages of hosts that were refused.", ["kind"], counts),)

    def _waiting(self) -> Sequence[Metric]:
        assert self._queues is not None
        found = self._queues.read(self._store.host_names(), self._store.ordered_hosts())
        return (
            _gauge(
                "queue_entries",
                "Messages that wait in Redis.",
                ["kind"],
                {(kind,): total.entries for kind, total in found.items()},
            ),
            _gauge(
                "queue_hosts",
                "Hosts of which, or for which, messages wait.",
                ["kind"],
                {(kind,): total.hosts for kind, total in found.items()},
            ),
            _gauge(
                "queue_waiting_seconds",
                "For how long the list that waits longest was not seen empty; no message is older "
                "than that and one scrape interval.",
                ["kind"],
                {(kind,): total.seconds for kind, total in found.items()},
            ),
        )

    def _duties(self) -> Sequence[Metric]:
        assert self._lateness is not None
        ages = self._lateness.ages()
        return (
            _gauge(
                "duty_age_seconds",
                "Since the service last did well what it has to do again and again.",
                ["duty"],
                {(what,): age for what, (age, _within) in ages.items()},
            ),
            _gauge(
                "duty_bound_seconds",
                "In how many seconds it has to be done well again.",
                ["duty"],
                {(what,): within for what, (_age, within) in ages.items()},
            ),
        )

    def _alarms(self) -> Sequence[Metric]:
        found = self._store.alarm_totals()
        # Those that never came too: a count that begins with 1 is no increase.
        counts: dict[tuple[str, ...], float] = {
            (code.value, alarm.severity.value): found.get(code, 0) for code, alarm in ALARMS.items()
        }
        return (
            _counter(
                "alarms",
                "How often people were called, by whichever process, since the record was made.",
                ["code", "severity"],
                counts,
            ),
        )


_TOO_LATE: Final = UnavailableError("expected an answer in time, found none")


def _detection(delays: Delays) -> Sequence[Metric]:
    seconds = HistogramMetricFamily(
        PREFIX + "detection_seconds",
        "How long after Nova had let go of a drive that was seen here, since the service started. "
        "Nova's times have whole seconds.",
        labels=[],
    )
    seconds.add_metric([], measured.cumulative(delays), delays.seconds)
    return (
        seconds,
        _counter(
            "detection_unknown",
            "Releases of which Nova does not tell when they were: of servers that came and went "
            "between two looks, of evacuated ones, of the old place of migrated ones.",
            [],
            {(): delays.unknown},
        ),
    )


def _erase(sums: Sums) -> tuple[Sequence[int], int, float]:
    return sums.erase_within, sums.cases, sums.erase


def _verify(sums: Sums) -> tuple[Sequence[int], int, float]:
    return sums.verify_within, sums.cases, sums.verify


def _gauge(
    name: str, words: str, labels: Sequence[str], values: dict[tuple[str, ...], float]
) -> Metric:
    family = GaugeMetricFamily(PREFIX + name, words, labels=labels)
    for each in sorted(values):
        family.add_metric(each, values[each])
    return family


def _counter(
    name: str, words: str, labels: Sequence[str], values: dict[tuple[str, ...], float]
) -> Metric:
    family = CounterMetricFamily(PREFIX + name, words, labels=labels)
    for each in sorted(values):
        family.add_metric(each, values[each])
    return family


def _histogram(
    name: str, words: str, values: dict[str, tuple[Sequence[int], int, float]]
) -> Metric:
    family = HistogramMetricFamily(PREFIX + name, words, labels=["model"])
    for model in sorted(values):
        within, count, total = values[model]
        edges = [(str(float(edge)), float(n)) for edge, n in zip(EDGES, within, strict=True)]
        family.add_metric([model], [*edges, ("+Inf", float(count))], total)
    return family
