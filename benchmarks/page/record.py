"""A record as an operator's page shows it: the cloud of ``benchmarks.metrics``, with words."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import sqlalchemy as sa

from benchmarks.metrics import __main__ as cloud
from eraser.protocol.transport.signing import PrivateKey
from quarantine.record.database import models
from quarantine.record.database.engine import make_engine, writing
from tests.lab.record import migrated_file

_HELD: Final = (
    ("data-left", "12 of 4096 canaries were read back at LBA 0x1d1c4580 of namespace 1"),
    ("health", "available spare 4 %, below its threshold of 10 %; 2 media errors"),
    ("command-failed", "sanitize, block erase: the log says failed (SSTAT 3) after 412 s"),
    ("unreadable", "LBA 0x7470c06db: status 281h, unrecovered read error"),
    ("by-person", "ticket 4711: the fan of this shelf is being replaced"),
    ("another-drive", "expected serial S6CKNT0W300417, found S6CKNT0W312998"),
    ("order-came-back", "domain 'instance-0000beef' (shut off) names 0000:03:00.0"),
    (None, "held by a release without codes"),
)
_MODELS: Final = (
    "SAMSUNG MZQL21T9HCJR-00A07",
    "KIOXIA KCD8XRUG3T84",
    "SOLIDIGM SSDPF2KX038T1",
    "Micron_7450_MTFDKCC3T8TFR",
)
_DETAIL: Final = (
    "waiting: 2 drives are being erased, the most at once on this host, 1 before this one"
)


def slots(count: int, running: int) -> Iterator[dict[str, Any]]:
    """The rows of the metrics' cloud, each as long, with what a page says of it."""
    draw = random.Random(7)  # noqa: S311
    for number, row in enumerate(cloud.slots(count, running)):
        model = _MODELS[number // cloud.PER_HOST % len(_MODELS)]
        serial = f"S6CKNT0W{number:06d}"
        identity = {
            "vendor_id": 5197,
            "device_id": 43024,
            "subsystem_vendor_id": 5197,
            "subsystem_device_id": 43025,
            "serial": serial,
            "model": model,
            "subnqn": f"nqn.1994-11.com.samsung:nvme:PM9A3:2.5-inch:{serial}",
        }
        row |= {
            "model": model,
            "serial": serial,
            "identity": json.dumps(identity),
            "consumer": None,
            "step": None,
            "ordered_at": None,
            "heard_at": None,
        }
        if row["state"] == "held":
            # Most are of few kinds.
            code, reason = _HELD[min(int(draw.expovariate(0.5)), len(_HELD) - 1)]
            row |= {"hold_code": code, "reason": reason}
        elif row["state"] == "in_use":
            row["consumer"] = f"{number:08x}-2222-4333-8444-555555555555"
        elif row["state"] in ("erasing", "verifying"):
            step = "verify" if row["state"] == "verifying" else "erase"
            row |= {"step": step, "fraction": draw.random(), "heard_at": row["entered_at"]}
            if draw.random() < 0.2:
                row |= {"step": None, "fraction": 0.0, "detail": _DETAIL}
        yield row


def cases(count: int) -> Iterator[dict[str, Any]]:
    """What they took: minutes."""
    draw = random.Random(3)  # noqa: S311
    for number in range(1, count + 1):
        yield {
            "number": number,
            "model": draw.choice(_MODELS),
            "erase_seconds": draw.gauss(300, 30),
            "verify_seconds": draw.gauss(120, 10),
        }


def write(file: Path, count: int, running: int) -> str:
    """Makes it; its url."""
    url = migrated_file(file)
    engine = make_engine(url)
    key = json.dumps(PrivateKey.generate().public.jwk())
    hosts = list(cloud.hosts(count // cloud.PER_HOST))
    for row in hosts:
        row |= {"hello": None, "jwk": key}
    for table, rows in (
        (models.slots, slots(count, running)),
        (models.hosts, iter(hosts)),
        (models.durations, cases(2000)),
    ):
        batch: list[dict[str, Any]] = []
        with writing(engine) as db:
            for row in rows:
                batch.append(row)
                if len(batch) == 5000:
                    db.execute(sa.insert(table), batch)
                    batch = []
            if batch:
                db.execute(sa.insert(table), batch)
    engine.dispose()
    return url


def configuration(directory: Path, url: str) -> Path:
    """Of an API that everybody may use."""
    file = directory / "nvme-quarantine.conf"
    file.write_text(
        f"[database]\nurl = {url}\n[evidence]\nsigning_key = {directory}/none.pem\n"
        "[api]\nauth_strategy = noauth\nallowed_hosts = falconframework.org\nmax_limit = 2000\n"
    )
    return file


def progress(url: str, step: float) -> None:
    """All running cases go on a bit, as their hosts say."""
    engine = make_engine(url)
    table = models.slots
    with writing(engine) as db:
        running = table.c.state.in_(["erasing", "verifying"])
        db.execute(sa.update(table).where(running).values(fraction=(table.c.fraction + step) % 1.0))
    engine.dispose()
