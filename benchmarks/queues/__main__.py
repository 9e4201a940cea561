"""The age of the oldest report while hosts say hello and erases show progress; an hour's backlog.

Real Redis with an account for each host, SQLite record, inbox and all lanes of the intake in one
process, as in ``nvme-quarantine worker``; a second process signs and pushes what the hosts would,
by their accounts. Nobody looks at Placement. Reports are of slots without an order: verified,
refused and recorded.
"""

from __future__ import annotations

import argparse
import json
import logging
import multiprocessing
import os
import statistics
import sys
import tempfile
import threading
import time
import uuid
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import Any, cast

from benchmarks.queues.hosts import INCARNATION, PROGRESS_SECONDS, Site, drive, produce, slots
from eraser.protocol.identity import Slot
from eraser.protocol.inbound import BOUNDS, MessageKind, key
from eraser.protocol.transport import signing
from eraser.protocol.transport.believed import Believed
from eraser.protocol.transport.messaging import BrokerRedis
from eraser.protocol.transport.signing import PrivateKey
from quarantine.doors import utc_now
from quarantine.record.database import models
from quarantine.record.store import Store
from quarantine.record.words.facts import SlotChanges
from quarantine.record.words.states import Custody, Event
from quarantine.service.inbound import intake
from quarantine.service.inbound.intake import Lane
from quarantine.service.inbound.lists import Lists
from quarantine.service.inbound.messages import Inbox
from quarantine.service.issue import brokeracl, celery_app
from quarantine.service.issue.registrar import Registrar
from tests.lab.services.broker import Broker
from tests.lab.services.process import wait_until


def _say(text: str) -> None:
    print(f"{time.strftime('%H:%M:%S')} {text}", file=sys.stderr, flush=True)


@dataclass
class _Nobody:
    """A reconciler whose looks cost nothing, but for those of a bell."""

    seconds: float = 0.0

    def look(self, slot: Slot) -> None: ...

    def ring(self, host: str, address: str | None = None) -> tuple[()]:
        time.sleep(self.seconds)
        return ()


@dataclass
class _Timed(Inbox):
    """Notes how old each report is when it is done with."""

    ages: list[float] = field(default_factory=list)
    counts: dict[str, int] = field(default_factory=dict)

    def report(self, token: str, sender: str = "") -> Any:
        try:
            return super().report(token, sender)
        finally:
            payload = json.loads(signing.unverified_payload(token, "report"))
            self.ages.append(time.time() - float(payload["finished_at"]))

    def hello(self, token: str, sender: str = "") -> None:
        super().hello(token, sender)
        self.counts["hello"] = self.counts.get("hello", 0) + 1

    def progress(self, token: str, sender: str = "") -> None:
        super().progress(token, sender)
        self.counts["progress"] = self.counts.get("progress", 0) + 1


def _set_up(store: Store, site: Site) -> None:
    for number, host in enumerate(site.hosts):
        store.register_host(host, site.key(host).public, INCARNATION)
        for slot in slots(host) if number < len(site.erasing) else slots(host)[:1]:
            record = store.enrol(
                slot,
                provider=str(uuid.uuid4()),
                resource_class="CUSTOM_NVME",
                in_use=False,
                profile="p",
                policy="q",
            )
            # What the first hello of a new slot teaches was learned long ago.
            record = store.amend(record, SlotChanges(identity=drive(slot)))
            if host not in site.erasing or slot != slots(host)[0]:
                continue
            custody = SlotChanges(custody=str(uuid.uuid4()), custody_stage=Custody.HELD)
            record = store.transition(record, Event.CUSTODY_TAKEN, changes=custody)
            order = SlotChanges(
                order_id=f"order-{host}",
                nonce="n" * 32,
                order_token="t",  # noqa: S106
            )
            store.transition(store.amend(record, order), Event.ORDERED)
    with store._writing() as db:
        # Nothing happened to most slots of a cloud just now.
        db.execute(models.slots.update().values(entered_at=utc_now() - timedelta(hours=1)))


def _lanes(
    url: str, database: str, key_: PrivateKey, stop: threading.Event, look: float
) -> tuple[_Timed, _Timed]:
    inboxes = {}
    for name, kinds in intake.LANES.items():
        store = Store.open(database)
        inbox = _Timed(store, Believed.both(key_.public), cast(Registrar, None), _Nobody(look))
        lane = Lane(kinds, inbox, Lists(BrokerRedis(celery_app.make_app(url))), store.host_names)
        threading.Thread(target=intake.run, args=(lane, stop, name), daemon=True).start()
        inboxes[name] = inbox
    return inboxes["reports"], inboxes["hellos"]


def _figures(ages: list[float]) -> str:
    late = sorted(ages)[int(len(ages) * 0.99)]
    return f"median {statistics.median(ages):.2f} s, 99 % {late:.2f} s, oldest {max(ages):.2f} s"


def main() -> int:
    """Both figures on standard output."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--hosts", type=int, default=3000)
    parser.add_argument("--erases", type=int, default=100)
    parser.add_argument("--seconds", type=float, default=60.0, help="of steady load")
    parser.add_argument(
        "--look",
        type=float,
        default=0.0,
        metavar="SECONDS",
        help="how long a look takes that a bell begins; one host rings each second",
    )
    parser.add_argument("--directory", type=Path, default=None, help="for the record")
    options = parser.parse_args()
    logging.disable(logging.ERROR)
    with tempfile.TemporaryDirectory(dir=options.directory) as directory:
        base, private = Path(directory), PrivateKey.generate()
        database = f"sqlite:///{base}/record.sqlite"
        names = [f"cmp{number:05d}" for number in range(options.hosts)]
        with Broker(base / "redis", names) as server, server.as_() as client:
            control = server.url_for(brokeracl.CONTROL)
            urls = {name: server.url_for(name) for name in names}
            pems = {name: PrivateKey.generate().pem() for name in names}
            site = Site(urls, names, names[: options.erases], pems)
            store = Store.open(database)
            store.migrate()
            _say(f"registering {options.hosts} hosts")
            _set_up(store, site)
            stop = threading.Event()
            reports, rest = _lanes(control, database, private, stop, options.look)
            _say("the first hello of each")
            say = site.messages()
            for host in names:
                say.hello(host)
            wait_until(lambda: rest.counts.get("hello", 0) >= len(names), "them to be heard", 900)
            _say(f"{options.seconds:.0f} s of steady load")
            reports.ages.clear()
            rest.counts.clear()
            producer = multiprocessing.get_context("spawn").Process(
                target=produce, args=(site, options.seconds)
            )
            producer.start()
            producer.join()
            waiting = client.exists(*(key(MessageKind.HELLO, host) for host in names))
            heard = dict(rest.counts)
            # Those that wait are the oldest: an entry leaves its list when it was worked on.
            lists = [key(MessageKind.REPORT, host) for host in names]
            wait_until(lambda: not client.exists(*lists), "the last reports", 600)
            print(f"load of the machine {os.getloadavg()[0]:.0f}")
            print(f"reports: {len(reports.ages)} done, {_figures(reports.ages)}")
            print(f"heard meanwhile: {heard}; hellos that still wait: {waiting}")
            _say("an hour without a control plane")
            stop.set()
            time.sleep(2)
            hour = min(int(3600 / PROGRESS_SECONDS), BOUNDS[MessageKind.PROGRESS].keep)
            for host in names:
                for _ in range(BOUNDS[MessageKind.HELLO].keep):
                    say.hello(host)
            for host in site.erasing:
                for _ in range(hour):
                    say.progress(host)
                say.report(host)
            start = time.monotonic()
            reports, rest = _lanes(control, database, private, threading.Event(), options.look)
            wait_until(lambda: len(reports.ages) >= len(site.erasing), "the reports", 600)
            done = time.monotonic() - start
            keys = [key(kind, host) for kind in MessageKind for host in names]
            wait_until(lambda: not client.exists(*keys), "the rest to be gone", 1800)
            left = len(site.erasing) * hour
            print(f"backlog: {len(site.erasing)} reports {done:.1f} s,", end=" ")
            print(f"{len(names)} hellos and {left} progress {time.monotonic() - start:.1f} s")
    return 0


if __name__ == "__main__":
    sys.exit(main())
