"""A cloud of some size: in a record whose rows can all be read, and in Placement's database."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Final

import sqlalchemy as sa

from benchmarks.api.load import Act
from benchmarks.metrics import __main__ as large
from eraser.protocol import codec
from eraser.protocol.order import ORDER_TYPE
from eraser.protocol.report import REPORT_TYPE, Hello, SeenDrive
from eraser.protocol.transport.signing import PrivateKey
from quarantine.evidence import certificate
from quarantine.evidence.certificate import CertificateEvidence, Link
from quarantine.evidence.sections import HistoryLine, Issuer
from quarantine.operations import documents
from quarantine.operations.papers import keys
from quarantine.operations.plane import Plane
from quarantine.record.database import models
from quarantine.record.database.engine import make_engine, writing
from quarantine.record.words.campaign_facts import CampaignState, CampaignStep
from tests.lab.record import migrated_file
from tests.unit.quarantine.testimony import IDENTITY, ORDER, POLICY, PROFILE, REPORT

MakesAct = Callable[[str], Act]

ISSUER = Issuer("Example Cloud", "A. Operator", "Head of storage", "Roubaix", "ops@example.org")

NAMED = 100
"""Slots, certificates, hosts and servers that are asked for by name, in turn."""

TREE = 100
"""Providers of a tree in Placement: what a list of one tree has."""


FIRMWARE: Final = "VDV10131"
ASKED_FOR: Final = {"/v1/campaign-previews": (f"firmware={FIRMWARE}",)}
"""Words that a path needs behind ``?``."""

ONE_AT_A_TIME: Final = frozenset({"/v1/campaign-previews"})
"""Paths of which a process answers one request at a time, and sends others away that wait long."""

ASKS_PLACEMENT: Final = "/enrolment"
"""How paths end behind which most of the time is Placement's: a plan looks at each provider."""

CAMPAIGNS: Final = tuple(f"firmware-{number}" for number in range(10))

_BY: Final = {
    "by_user": "u" * 32,
    "by_project": "p" * 32,
    "by_request": "req-01234567-89ab-cdef-0123-456789abcdef",
}


_SOON: Final = (datetime.now(UTC) + timedelta(days=7)).isoformat()
_WHY: Final = {"reason": "its firmware is looked at"}


def _of_slot(word: str, method: str = "POST", looked_at: str = "", **body: str) -> MakesAct:
    """An act on a slot, decided about the slot, or about what of it is ``looked_at``."""
    return lambda slot: Act(
        method, f"/v1/slots/{slot}/{word}", f"/v1/slots/{slot}{looked_at}", {**_WHY, **body}
    )


ACTS: Final[dict[str, tuple[MakesAct, ...]]] = {
    "POST /v1/slots/{slot}/hold, release": (_of_slot("hold"), _of_slot("release")),
    "PUT /v1/slots/{slot}/maintenance, POST .../end": (
        _of_slot("maintenance", "PUT", "/maintenance", until=_SOON),
        _of_slot("maintenance/end", looked_at="/maintenance"),
    ),
}
"""What people do, by the name of its row, in the order in which it can be done over and over."""


@dataclass(frozen=True)
class Names:
    """What can be asked for by name."""

    slots: tuple[str, ...]
    drives: tuple[str, ...]
    digests: tuple[str, ...]
    hosts: tuple[str, ...]
    servers: tuple[str, ...]
    free: tuple[str, ...]
    """Slots on offer."""

    def of(self, path: str) -> tuple[str, ...]:
        """The values of the variable in a path. Raises ``LookupError`` for what is not known."""
        before, _, behind = path.partition("{")
        if "{" in behind:
            raise LookupError(path)
        return {
            "/v1/slots/": self.slots,
            "/v1/drives/": self.drives,
            "/v1/certificates/": self.digests,
            "/v1/hosts/": self.hosts,
            "/v1/servers/": self.servers,
            "/v1/profiles/": (PROFILE.name,),
            "/v1/policies/": (POLICY.name,),
            "/v1/campaigns/": CAMPAIGNS,
        }[before]


def site(directory: Path, *, slots: int, running: int, certificates: int) -> tuple[Path, Names]:
    """A migrated record with such a cloud, and the configuration of its API: SQLite, noauth."""
    url = migrated_file(directory / "record.db")
    conf = configuration(directory, url)
    return conf, fill(url, Plane([conf]), slots, running, certificates)


def configuration(directory: Path, url: str) -> Path:
    """Of an API of that record, in a file."""
    conf = directory / "nvme-quarantine.conf"
    conf.write_text(
        f"[database]\nurl = {url}\n[api]\nauth_strategy = noauth\n"
        "allowed_hosts = falconframework.org\n"
        f"[evidence]\nsigning_key = {directory}/controller.pem\n"
        f"certificates_dir = {directory}/certificates\nheads_dir = {directory}/heads\n"
        "[capacity]\nflavors = i1-45:1, i1-90:2, i1-180:4\n"
        "[run]\nlog_level = WARNING\n"
    )
    return conf


def fill(url: str, plane: Plane, slots: int, running: int, certificates: int) -> Names:
    """Writes the cloud into a migrated record."""
    key = _key(plane)
    rows = list(_slots(slots, running))
    made = _certificates(rows[:NAMED], key)
    by = documents.Initiator("bench")
    documents.approve_profile(plane, codec.canonical(PROFILE), "profile", by=by)
    documents.approve_policy(plane, codec.canonical(POLICY), "policy", by=by)
    servers = [
        {"uuid": row["consumer"], "project": "p" * 32, "user": "u" * 32, "seen_at": large.NOW}
        for row in rows
        if row["consumer"]
    ]
    engine = make_engine(url)
    tables: tuple[tuple[sa.Table, list[dict[str, Any]]], ...] = (
        (models.slots, rows),
        (models.history, [line for number in range(1, NAMED + 1) for line in _life(number)]),
        (models.hosts, list(_hosts(-(-slots // large.PER_HOST)))),
        (models.drives, list(map(_drive, rows))),
        (models.maintenances, list(_maintenances(rows[:NAMED]))),
        (models.durations, list(large.cases(slots))),
        (models.campaigns, list(_campaigns())),
        (models.campaign_slots, list(_campaign_slots(rows))),
        (models.campaign_acts, list(_campaign_acts())),
        (models.certificates, made),
        (models.certificates, list(_more(made[-1], NAMED, min(certificates, slots)))),
        (models.testimonies, [_testimony(row["digest"], key) for row in made]),
        (models.servers, servers),
        (models.refusals, list(_refusals(2 * NAMED))),
        (models.alarms, list(_alarms(rows))),
        (models.passes, [{"name": "sweep", "at": large.NOW, "within": 1e6}]),
    )
    for table, found in tables:
        with writing(engine) as db:
            for start in range(0, len(found), 5000):
                db.execute(sa.insert(table), found[start : start + 5000])
    engine.dispose()
    return Names(
        slots=tuple(map(_name, rows[:NAMED])),
        drives=tuple(row["identity_digest"] for row in rows[:NAMED]),
        digests=tuple(row["digest"] for row in made),
        hosts=tuple(dict.fromkeys(row["host"] for row in rows[:NAMED])),
        servers=tuple(row["uuid"] for row in servers[:NAMED]),
        free=tuple([_name(row) for row in rows if row["state"] == "available"][:NAMED]),
    )


def _name(row: Mapping[str, Any]) -> str:
    """Of a slot, as a path has it."""
    return f"{row['host']}_{row['address'].upper()}"


def fill_placement(database: Path, providers: int) -> tuple[str, ...]:
    """Writes providers in trees of :data:`TREE`; returns the uuids of some roots."""
    rows = []
    for number in range(1, providers + 1):
        root = (number - 1) // TREE * TREE + 1
        parent = None if number == root else root
        name = f"compute-{root:05d}.cloud.example_0000:{number - root:02X}:00.0"
        rows.append((number, uuid(number), name, 3, root, parent))
    with sqlite3.connect(database) as db:
        db.executemany(
            "INSERT INTO resource_providers "
            "(id, uuid, name, generation, root_provider_id, parent_provider_id) "
            "VALUES (?, ?, ?, ?, ?, ?)",
            rows,
        )
    db.close()
    return tuple(uuid(root) for root in range(1, providers + 1, TREE))[:NAMED]


def uuid(number: int) -> str:
    """Of a slot's provider, or of a server, by its number."""
    return f"00000000-0000-4000-8000-{number:012x}"


def _key(plane: Plane) -> PrivateKey:
    keys.create(plane)
    with plane.parts() as parts:
        file = Path(parts.conf.evidence.signing_key)
    return PrivateKey.from_pem(file.read_bytes(), "key")


def _slots(count: int, running: int) -> Iterator[dict[str, Any]]:
    for number, row in enumerate(large.slots(count, running)):
        drive = replace(IDENTITY, serial=f"S{number:019d}", model=row["model"])
        row |= {
            "provider": uuid(number + 1),
            "identity": codec.canonical(drive).decode(),
            "identity_digest": drive.digest,
            "serial": drive.serial,
            "consumer": uuid(number + 1) if row["state"] == "in_use" else None,
        }
        yield row


def _drive(slot: dict[str, Any]) -> dict[str, Any]:
    return {
        "digest": slot["identity_digest"],
        "identity": slot["identity"],
        "host": slot["host"],
        "address": slot["address"],
        "dirty": False,
        "retired": False,
        "reason": "",
        "changed_at": large.NOW,
        "model": slot["model"],
        "serial": slot["serial"],
        "firmware": FIRMWARE,
    }


def _maintenances(rows: list[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """Of these slots, and of their hosts."""
    subjects = [(row["host"], row["address"]) for row in rows]
    for host, address in [*subjects, *dict.fromkeys((row["host"], "") for row in rows)]:
        yield {
            "host": host,
            "address": address,
            "version": 1,
            "at": large.NOW,
            "until": large.NOW + timedelta(days=30),
            "reason": "a new switch",
            **_BY,
        }


def _campaigns() -> Iterator[dict[str, Any]]:
    """Paused, of slots of the whole cloud."""
    for campaign in CAMPAIGNS:
        yield {
            "id": campaign,
            "version": 2,
            "state": str(CampaignState.PAUSED),
            "query": codec.canonical({"firmware": FIRMWARE}).decode(),
            "reason": "this firmware lies",
            "keep": 0.9,
            **_BY,
            "created_at": large.NOW,
            "changed_at": large.NOW,
        }


def _campaign_slots(rows: list[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """A tenth of the cloud in each."""
    for number, row in enumerate(rows):
        yield {
            "campaign": CAMPAIGNS[number % len(CAMPAIGNS)],
            "host": row["host"],
            "address": row["address"],
            "step": str(CampaignStep.DONE if number % 3 else CampaignStep.WAITING),
            "drive": row["identity_digest"],
            "generation": 1,
            "was_free": bool(number % 2),
            "result": "certified since" if number % 3 else "",
            "certificate": None,
            "changed_at": large.NOW,
        }


def _campaign_acts() -> Iterator[dict[str, Any]]:
    for campaign in CAMPAIGNS:
        for version, state in enumerate((CampaignState.RUNNING, CampaignState.PAUSED), start=1):
            yield {
                "campaign": campaign,
                "version": version,
                "at": large.NOW,
                "state": str(state),
                "reason": "a busy weekend",
                **_BY,
            }


def _hosts(count: int) -> Iterator[dict[str, Any]]:
    """One key for all: a record is asked, and nobody's word is checked."""
    jwk = json.dumps(PrivateKey.generate().public.jwk())
    drives = tuple(
        SeenDrive(f"0000:{bus + 1:02x}:00.0", "vfio-pci", replace(IDENTITY, serial=f"S{bus}"))
        for bus in range(large.PER_HOST)
    )
    name = "compute-00000.cloud.example"
    hello = codec.canonical(Hello(name, "incarnation-00001", 1, "1.0", drives, ())).decode()
    # The module may have been loaded long ago, and all would be silent.
    late = datetime.now(UTC) - large.NOW
    for row in large.hosts(count):
        heard = row["heard_at"] + late
        yield row | {"jwk": jwk, "hello": hello.replace(name, row["name"]), "heard_at": heard}


def _life(slot: int) -> Iterator[dict[str, Any]]:
    for revision in range(1, 21):
        yield {
            "slot_id": slot,
            "revision": revision,
            "at": large.NOW - timedelta(days=30 - revision),
            "event": "release_seen",
            "source": "in_use",
            "target": "released",
            "generation": revision,
            "reason": "its server was deleted",
            "detail": json.dumps({"placement": "reserved 1 of 1, no allocation"}),
        }


def _certificates(rows: list[dict[str, Any]], key: PrivateKey) -> list[dict[str, Any]]:
    """Signed ones, the beginning of the chain."""
    made: list[dict[str, Any]] = []
    order = key.sign(codec.canonical(ORDER), ORDER_TYPE)
    report = key.sign(codec.canonical(REPORT), REPORT_TYPE)
    for number, row in enumerate(rows, start=1):
        evidence = CertificateEvidence(
            order=ORDER,
            order_token=order,
            report=REPORT,
            report_token=report,
            host_key=key.public.thumbprint,
            provider=row["provider"],
            last_user=uuid(number),
            history=(HistoryLine("2026-11-20T10:59:00Z", "release_seen", "released", "gone"),),
            withheld=(),
        )
        link = Link(made[-1]["digest"], number - 1) if made else Link()
        body = certificate.build(evidence, ISSUER, link, "2026-11-20T12:00:00Z")
        signed = certificate.sign(body, key)
        made.append(
            {
                "number": number,
                "digest": signed.digest,
                "previous": link.digest,
                "slot_id": number,
                "host": row["host"],
                "address": row["address"],
                "generation": 1,
                "drive": row["identity_digest"],
                "order_id": str(number),
                "server": uuid(number),
                "owner": uuid(number),
                "token": signed.token,
                "created_at": large.NOW,
            }
        )
    return made


def _more(last: dict[str, Any], behind: int, until: int) -> Iterator[dict[str, Any]]:
    """As long as real ones, and read in lists and exports alone."""
    previous = last["digest"]
    for number in range(behind + 1, until + 1):
        digest = f"{number:064x}"
        yield last | {
            "number": number,
            "digest": digest,
            "previous": previous,
            "slot_id": number,
            "server": uuid(number),
            "owner": uuid(number),
        }
        previous = digest


def _testimony(digest: str, key: PrivateKey) -> dict[str, Any]:
    return {
        "certificate": digest,
        "order_token": key.sign(codec.canonical(ORDER), ORDER_TYPE),
        "report_token": key.sign(codec.canonical(REPORT), REPORT_TYPE),
        "host_key": json.dumps(key.public.jwk()),
    }


def _alarms(rows: list[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """Of every fourth slot, and of every second host; a fifth of them is not over."""
    hosts = dict.fromkeys(row["host"] for row in rows)
    about = [(row["host"], f"{row['host']}/{row['address']}", "late") for row in rows[::4]]
    about += [(host, f"host {host}", "host-silent") for host in list(hosts)[::2]]
    for number, (host, subject, code) in enumerate(about):
        at = large.NOW - timedelta(minutes=number)
        yield {
            "code": code,
            "subject": subject,
            "host": host,
            "text": "expected it certified after 40 minutes, found it erasing since an hour",
            "count": 1,
            "first_at": at,
            "last_at": at,
            "over_at": at if number % 5 else None,
        }


def _refusals(count: int) -> Iterator[dict[str, Any]]:
    for number in range(1, count + 1):
        yield {
            "fingerprint": f"{number:064x}",
            "kind": "report",
            "host": "compute-00001.cloud.example",
            "reason": "expected another nonce",
            "digest": f"{number:064x}",
            "excerpt": "x" * 200,
            "count": 1,
            "first_at": large.NOW,
            "last_at": large.NOW,
        }
