"""CPU seconds of a scrape, and of ``capacity show``, of a large cloud.

``python -m benchmarks.metrics``: 80,000 slots of 10,000 hosts, rows as long as real ones, 200
running cases, 500,000 cases that ended, 100,000 certificates; SQLite, so that the database's work
is in the figures, and a real Redis. The first scrape of a process sums up all cases, the others
what is new.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import random
import resource
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import sqlalchemy as sa

from eraser.protocol.transport.messaging import BrokerRedis
from quarantine.conf.capacity import SoldFlavor
from quarantine.metrics.exposition import SAME_SECONDS, Exporter
from quarantine.metrics.limits import MetricsLimits
from quarantine.operations.overview import capacity
from quarantine.operations.plane import Plane
from quarantine.record.database import models
from quarantine.record.database.engine import make_engine, writing
from quarantine.record.store import Store
from quarantine.service.inbound.lists import Lists
from quarantine.service.issue.celery_app import make_app
from tests.lab.record import migrated_file
from tests.lab.services.redis import RedisServer

PER_HOST = 8
MODELS = tuple(f"Model {name}" for name in "ABCDEF")
NOW = datetime.now(UTC)
FLAVORS = (SoldFlavor("i1-45", 1), SoldFlavor("i1-90", 2), SoldFlavor("i1-180", 4))


def slots(count: int, running: int) -> Iterator[dict[str, Any]]:
    """Most in use, a fifth free, some held, ``running`` in their cases."""
    draw = random.Random(1)  # noqa: S311
    for number in range(count):
        host, bus = divmod(number, PER_HOST)
        state = draw.choices(["in_use", "available", "held"], [70, 28, 2])[0]
        if number % (count // running) == 0:
            state = draw.choice(["quarantined", "erasing", "erasing", "verifying"])
        model = draw.choice(MODELS)
        case = state in ("erasing", "verifying")
        yield {
            "host": f"compute-{host:05d}.cloud.example",
            "address": f"0000:{bus + 1:02x}:00.0",
            "provider": f"{number:036d}",
            "resource_class": "CUSTOM_NVME_I1",
            "state": state,
            "generation": 3,
            "revision": 30,
            "reason": "",
            "hold_code": draw.choice(["health", "by-person"]) if state == "held" else None,
            "profile": "profile",
            "policy": "purge",
            "identity": json.dumps({"model": model, "serial": f"S{number}", "pad": "x" * 200}),
            "identity_digest": f"{number:064d}",
            "model": model,
            "custody_ready": False,
            "order_token": "o" * 2000 if case else None,
            "attempts": 0,
            "fraction": 0.0,
            "detail": "",
            "ticket_token": "t" * 2500 if state in ("available", "in_use") else None,
            "ticket_ready": True,
            "alarm": "",
            "entered_at": NOW - timedelta(seconds=draw.randrange(1, 600 if case else 10**7)),
            "created_at": NOW - timedelta(days=400),
        }


def hosts(count: int) -> Iterator[dict[str, Any]]:
    """Each with a hello of 12 KiB; one of a hundred is silent."""
    draw = random.Random(2)  # noqa: S311
    for number in range(count):
        silence = draw.randrange(60) if number % 100 else 3600
        yield {
            "name": f"compute-{number:05d}.cloud.example",
            "thumbprint": f"{number}",
            "jwk": "{}",
            "incarnation": "incarnation",
            "sequence": 1,
            "hello": "h" * 12288,
            "registered_at": NOW - timedelta(days=400),
            "heard_at": NOW - timedelta(seconds=silence),
        }


def cases(count: int) -> Iterator[dict[str, Any]]:
    """What they took."""
    draw = random.Random(3)  # noqa: S311
    for number in range(1, count + 1):
        yield {
            "number": number,
            "model": draw.choice(MODELS),
            "erase_seconds": draw.lognormvariate(5, 1),
            "verify_seconds": draw.lognormvariate(3, 1),
        }


def links(first: int, count: int) -> Iterator[dict[str, Any]]:
    """Certificates, the last ones of the chain."""
    for number in range(first, first + count):
        yield {
            "number": number,
            "digest": f"{number:064d}",
            "previous": f"{number - 1:064d}",
            "slot_id": 1,
            "host": "h",
            "address": "a",
            "generation": number,
            "drive": f"{number:064d}",
            "order_id": "o",
            "token": "c" * 1000,
            "created_at": NOW,
        }


def fill(url: str, arguments: argparse.Namespace) -> None:
    """Writes the cloud."""
    engine = make_engine(url)
    ended, kept = arguments.cases, min(arguments.certificates, arguments.cases)
    tables: Iterable[tuple[sa.Table, Iterator[dict[str, Any]]]] = (
        (models.slots, slots(arguments.slots, 200)),
        (models.hosts, hosts(arguments.slots // PER_HOST)),
        (models.durations, cases(ended)),
        (models.certificates, links(ended - kept + 1, kept)),
    )
    for table, made in tables:
        with writing(engine) as db:
            batch: list[dict[str, Any]] = []
            for row in made:
                batch.append(row)
                if len(batch) == 5000:
                    db.execute(sa.insert(table), batch)
                    batch = []
            if batch:
                db.execute(sa.insert(table), batch)
    engine.dispose()


def measured(work: Callable[[], object]) -> tuple[float, float]:
    """CPU seconds of this process, and wall seconds."""
    cpu, wall = time.process_time(), time.monotonic()
    work()
    return time.process_time() - cpu, time.monotonic() - wall


def main() -> int:
    """Prints a line for each figure."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--slots", type=int, default=80_000)
    parser.add_argument("--cases", type=int, default=500_000)
    parser.add_argument("--certificates", type=int, default=100_000)
    parser.add_argument("--scrapes", type=int, default=5)
    parser.add_argument("--directory", help="where the record is made; default: /tmp")
    arguments = parser.parse_args()
    limits = MetricsLimits(silent_after=420, overdue_after=21600, flavors=FLAVORS)
    with tempfile.TemporaryDirectory(dir=arguments.directory) as directory:
        top = Path(directory)
        url = migrated_file(top / "record.db")
        print("filling the record", file=sys.stderr)
        # In a process of its own: what made the rows is more than what a scrape takes.
        writer = multiprocessing.get_context("fork").Process(target=fill, args=(url, arguments))
        writer.start()
        writer.join()
        if writer.exitcode:
            return 1
        conf = top / "nvme-quarantine.conf"
        conf.write_text(f"[database]\nurl = {url}\n")
        with RedisServer(top / "redis") as redis:
            store = Store.open(url)
            lists = Lists(BrokerRedis(make_app(redis.url)))
            exporter = Exporter(store, limits, lists=lists)
            for number in range(arguments.scrapes):
                cpu, wall = measured(exporter.exposition)
                print(f"scrape {number + 1}: {cpu:.3f} s CPU, {wall:.3f} s")
                time.sleep(SAME_SECONDS)
            print(f"answer: {len(exporter.exposition())} bytes")
            plane = Plane([conf])
            for words, more in (("", {}), (" i1-180", {"flavor": "i1-180"})):
                cpu, wall = measured(lambda more=more: capacity.show(plane, **more))  # type: ignore[misc]
                print(f"capacity show{words}: {cpu:.3f} s CPU, {wall:.3f} s")
            peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
            print(f"peak memory: {peak:.0f} MiB")
            store.close()
    return 0


if __name__ == "__main__":
    sys.exit(main())
