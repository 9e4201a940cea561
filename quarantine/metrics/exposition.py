"""The metrics as text, and as an application for a web server (PEP 3333)."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Final

from quarantine.doors import MACHINE, Doors
from quarantine.errors import BadInputError
from quarantine.metrics.limits import MetricsLimits
from quarantine.metrics.queues import CountsLists, Queues
from quarantine.record.store import Store
from quarantine.service.watch.delays import Delays
from quarantine.service.watch.lateness import Lateness

if TYPE_CHECKING:
    from prometheus_client import Metric

    from quarantine.metrics.collector import Collector

LOG = logging.getLogger(__name__)

CONTENT_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"
"""https://prometheus.io/docs/instrumenting/exposition_formats/"""

SAME_SECONDS: Final = 2.0
"""Whoever asks again so soon gets the same answer: the database counts no faster than that."""

StartResponse = Callable[[str, list[tuple[str, str]]], Any]


class Exporter:
    """For as long as a process runs; threads may share it.

    What it remembers from one reading to the next makes readings cheap: keep one.
    """

    def __init__(
        self,
        store: Store,
        limits: MetricsLimits,
        *,
        doors: Doors = MACHINE,
        lists: CountsLists | None = None,
        lateness: Lateness | None = None,
        delays: Delays | None = None,
    ) -> None:
        """Without ``lists`` nothing is said of Redis, without ``lateness`` nothing of the service's
        duties, without ``delays`` not how late releases are seen.

        Raises :class:`BadInputError` where prometheus-client is not installed.
        """
        require_library()
        from prometheus_client import CollectorRegistry, ProcessCollector

        from quarantine.metrics.collector import Collector

        # Of its own: the library's default one has what any part of the process puts in.
        self._registry = CollectorRegistry()
        queues = None if lists is None else Queues(lists, doors.monotonic)
        self.collector = Collector(
            store, limits, clock=doors.now, queues=queues, lateness=lateness, delays=delays
        )
        self._registry.register(_Numbers(self.collector))
        ProcessCollector(registry=self._registry)
        self._monotonic = doors.monotonic
        self._lock = threading.Lock()
        self._last: tuple[float, bytes] | None = None

    def exposition(self) -> bytes:
        """All metrics now, as :data:`CONTENT_TYPE`."""
        from prometheus_client import generate_latest

        # One collects at a time: what is remembered between readings is for one thread.
        with self._lock:
            now = self._monotonic()
            if self._last is None or now - self._last[0] >= SAME_SECONDS:
                answer = generate_latest(self._registry)
                # As old as its end: whoever waited for it meanwhile begins none of his own.
                self._last = self._monotonic(), answer
            return self._last[1]

    def __call__(self, environ: dict[str, Any], start_response: StartResponse) -> Iterable[bytes]:
        """``GET /metrics``, and nothing else."""
        method = environ.get("REQUEST_METHOD")
        if environ.get("PATH_INFO") != "/metrics":
            return _plain(start_response, "404 Not Found", b"see /metrics\n")
        if method not in ("GET", "HEAD"):
            allow = ("Allow", "GET, HEAD")  # RFC 9110, 15.5.6 asks for it
            return _plain(start_response, "405 Method Not Allowed", b"GET or HEAD\n", allow)
        body = self.exposition()
        start_response(
            "200 OK", [("Content-Type", CONTENT_TYPE), ("Content-Length", str(len(body)))]
        )
        return [b"" if method == "HEAD" else body]


class _Numbers:
    """What a collector gives, without what is no number: SQLite keeps whatever was written into a
    column, and the library ends everything at the first one that it cannot print."""

    def __init__(self, collector: Collector) -> None:
        self._collector = collector
        self._told: set[str] = set()

    def describe(self) -> Sequence[Metric]:
        """Nothing is computed when a registry is made."""
        return self._collector.describe()

    def collect(self) -> Iterator[Metric]:
        """Everything, now."""
        for metric in self._collector.collect():
            whole = [one for one in metric.samples if isinstance(one.value, int | float)]
            if len(whole) < len(metric.samples):
                self._tell(metric)
                metric.samples = whole
            yield metric

    def _tell(self, metric: Metric) -> None:
        if metric.name not in self._told:
            LOG.warning("metrics: expected numbers of %s, found a damaged row", metric.name)
        self._told.add(metric.name)


def exposition(
    store: Store, limits: MetricsLimits, *, doors: Doors = MACHINE, lists: CountsLists | None = None
) -> bytes:
    """All metrics once, without what one reading learns for the next: see :class:`Exporter`."""
    return Exporter(store, limits, doors=doors, lists=lists).exposition()


def require_library() -> None:
    """Raises :class:`BadInputError` where prometheus-client is not installed."""
    try:
        import prometheus_client  # noqa: F401
    except ImportError as error:
        raise BadInputError(
            f"metrics: expected the library prometheus-client to be installed ({error}); install "
            "nvme-quarantine with the extra metrics"
        ) from error


def _plain(
    start_response: StartResponse, status: str, body: bytes, *more: tuple[str, str]
) -> list[bytes]:
    headers = [("Content-Type", "text/plain"), ("Content-Length", str(len(body))), *more]
    start_response(status, headers)
    return [body]
