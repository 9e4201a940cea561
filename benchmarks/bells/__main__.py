"""How long after Nova has removed an allocation somebody hears of it, by each bell.

Run it with Nova's own Python: tools/nova-env 34.0.0 -m benchmarks.bells

In Nova's functional harness, with the patch: the time from Placement's answer to the request that
let the drive go to the datagram at the host's bell, and to the notification of Nova that
``quarantine.listener`` takes for a hint. Below zero: the notification came before the drive was let
go, so whoever looked at once found it still taken. The harness has no network and no message bus:
a real notification comes later. Without any bell a release is found by the control plane's sweep.
"""

from __future__ import annotations

import argparse
import contextlib
import inspect
import json
import os
import socket
import statistics
import sys
import threading
import time
import unittest
from collections.abc import Iterator, Sequence
from typing import Any, Final

os.environ.setdefault("OS_NOVA_DISABLE_EVENTLET_PATCHING", "true")

# The first of Nova's modules: this is where it chooses between eventlet and threads.
import nova.tests.functional  # noqa: F401
from nova.scheduler.client import report
from nova.tests.fixtures import notifications

from tests.nova.patchcase import ADDRESS, HOST, VERSION
from tests.nova.test_patch_rings import Rings

EVENTS: Final = {
    "delete": "instance.delete.end",
    "shelve": "instance.shelve_offload.end",
    "confirm": "instance.resize_confirm.end",
    "revert": "instance.resize_revert.end",
    "evacuate": "service.update",
}
"""Nova's notification of each way in which a drive is let go. An evacuated host that is back sends
none of its own: that nova-compute starts is what the listener hears."""

LINGER: Final = 3.0
"""Seconds for a notification that comes after the bell."""


class _Measured(Rings):
    """The tests of the bell, with a clock at each of its ends."""

    event = ""
    bell: float
    notified: float | None

    def setUp(self) -> None:
        super().setUp()
        self.written: list[float] = []
        self.told: list[tuple[float, str]] = []
        client = report.SchedulerReportClient
        for name in ("put", "post", "delete"):
            self._stamp(client, name, self._write)
        self._stamp(notifications.FakeVersionedNotifier, "_notify", self._notification)

    def _stamp(self, owner: Any, name: str, note: Any) -> None:
        original = getattr(owner, name)
        signature = inspect.signature(original)

        def call(*args: Any, **kwargs: Any) -> Any:
            answer = original(*args, **kwargs)
            note(signature.bind(*args, **kwargs).arguments)
            return answer

        setattr(owner, name, call)
        self.addCleanup(setattr, owner, name, original)

    def _write(self, given: Any) -> None:
        if str(given["url"]).startswith("/allocations"):
            self.written.append(time.monotonic())

    def _notification(self, given: Any) -> None:
        self.told.append((time.monotonic(), given["event_type"]))

    @contextlib.contextmanager
    def _rung(self, host: str = HOST) -> Iterator[None]:
        """As the tests do, and takes the times."""
        heard: list[float] = []
        self.told.clear()
        done = threading.Event()
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as bell:
            bell.bind(str(self.path))
            bell.settimeout(0.05)

            def listen() -> None:
                while not done.is_set():
                    with contextlib.suppress(TimeoutError):
                        assert bell.recv(1024).decode() == ADDRESS
                        at = time.monotonic()
                        if self.drive(host=host) == (1, 1, 0):
                            heard.append(at)
                            return

            listener = threading.Thread(target=listen)
            listener.start()
            try:
                yield
                listener.join(60)
            finally:
                done.set()
                listener.join()
        assert heard, "nobody rang"
        let_go = max(at for at in self.written if at <= heard[0])
        end = time.monotonic() + LINGER
        while time.monotonic() < end:
            if any(event == self.event for _, event in self.told):
                break
            time.sleep(0.02)
        told = [at for at, event in self.told if event == self.event]
        type(self).bell = heard[0] - let_go
        type(self).notified = told[-1] - let_go if told else None
        self.path.unlink()


def measure(way: str, rounds: int) -> dict[str, float | None]:
    """Medians in milliseconds. Raises ``SystemExit`` where the harness failed."""
    bells, notified = [], []
    for _ in range(rounds):
        _Measured.event = EVENTS[way]
        outcome = unittest.TestResult()
        _Measured(f"test_{way}").run(outcome)
        for _, text in outcome.errors + outcome.failures:
            raise SystemExit(text)
        bells.append(_Measured.bell)
        if _Measured.notified is not None:
            notified.append(_Measured.notified)
    return {
        "bell_ms": round(statistics.median(bells) * 1000, 1),
        "notification_ms": round(statistics.median(notified) * 1000, 1) if notified else None,
    }


def main(argv: Sequence[str] | None = None) -> int:
    """Prints a row for each way."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.bells", description=__doc__)
    parser.add_argument("--rounds", type=int, default=3, help="of each way (default: 3)")
    parser.add_argument("-f", "--format", choices=("text", "json"), default="text")
    options = parser.parse_args(argv)
    results = {way: measure(way, options.rounds) for way in EVENTS}
    if options.format == "json":
        print(json.dumps({"nova": VERSION, "rounds": options.rounds, "ways": results}))
        return 0
    for way, row in results.items():
        notified = row["notification_ms"]
        said = "none" if notified is None else f"{notified} ms"
        print(f"{way}: bell {row['bell_ms']} ms, {EVENTS[way]} {said}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
