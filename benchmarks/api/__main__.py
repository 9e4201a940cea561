"""What each request that reads costs, beside a list of Placement's own.

``python -m benchmarks.api``: at 2,000 and at 80,000 slots with 200 running cases, 50 clients at
once, each GET of :mod:`quarantine.api.routes` but those of ``cloud.ASKS_PLACEMENT``, whose time is
Placement's; gunicorn with 2 workers of 8 threads as docs/api.md has it, the record in SQLite (or
in PostgreSQL: ``--database postgresql``), noauth, so that no Keystone is in the figures. Beside
it, by the same gunicorn, the real Placement with as many providers, and its list of one tree of
100. ``--quick`` takes a minute. Needs gunicorn.

Exit code 1: an answer was none, a route was not asked, or an aim was missed.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib.util
import itertools
import json
import os
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from benchmarks.api import cloud, load, served
from quarantine.api import documents
from quarantine.api.operation import PAGE, Operation
from quarantine.api.routes import OPERATIONS
from quarantine.operations.plane import Plane
from quarantine.record.store import Store
from tests.lab.record import migrated_file
from tests.lab.services.gunicorn import Gunicorn
from tests.lab.services.placement import PlacementServer
from tests.lab.services.postgresql import Postgresql

PLACEMENT = "Placement: `GET /resource_providers?in_tree=` of 100"
OURS = f"GET /v1/slots?limit={PAGE}"
MOST_MIB = 200


@dataclass(frozen=True)
class Row:
    """What one kind of request cost."""

    slots: int
    request: str
    clients: int
    answers: int
    p50_ms: float
    p99_ms: float
    cpu: float
    """CPU seconds of the server's processes for 1,000 requests."""
    database_cpu: float | None
    """Of the database server's, where it is one."""
    peak_mib: float
    """Of the process that had most."""
    longest: int
    """Bytes of the longest answer."""
    problems: tuple[str, ...]


def main() -> int:
    """Prints a table for each size, and writes the figures as JSON."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--slots", type=int, nargs="+", default=[2_000, 80_000])
    parser.add_argument("--running", type=int, default=200, help="cases that run")
    parser.add_argument("--certificates", type=int, default=10_000, help="of 22 kB, at most")
    parser.add_argument("--clients", type=int, default=50)
    parser.add_argument("--requests", type=int, default=1000, help="of each kind")
    parser.add_argument("--streams", type=int, default=4, help="clients that export at once")
    parser.add_argument("--seconds", type=float, default=30, help="for each kind, at most")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--threads", type=int, default=8)
    parser.add_argument("--database", choices=["sqlite", "postgresql"], default="sqlite")
    parser.add_argument("--only", help="routes with this in their path")
    parser.add_argument("--quick", action="store_true", help="400 slots, 100 requests, 2 s")
    parser.add_argument("--json", type=Path, help="where the figures are written")
    parser.add_argument("--directory", help="where the record is made; default: /tmp")
    arguments = parser.parse_args()
    if importlib.util.find_spec("gunicorn") is None:
        print("expected gunicorn to be installed: pip install gunicorn", file=sys.stderr)
        return 2
    if arguments.quick:
        arguments.slots, arguments.requests, arguments.seconds = [400], 100, 2.0
    rows: list[Row] = []
    unasked: set[str] = set()
    for slots in arguments.slots:
        with tempfile.TemporaryDirectory(dir=arguments.directory) as directory:
            found = list(_size(slots, Path(directory), arguments, unasked))
        print(_table(slots, found), flush=True)
        rows += found
    if arguments.json:
        said = {"load": os.getloadavg(), "rows": [asdict(row) for row in rows]}
        arguments.json.write_text(json.dumps(said, indent=1) + "\n")
    return _verdict(rows, unasked)


def _size(slots: int, top: Path, arguments: argparse.Namespace, unasked: set[str]) -> Iterator[Row]:
    with contextlib.ExitStack() as stack:
        database = None
        if arguments.database == "postgresql":
            server = stack.enter_context(Postgresql())
            database, url = server, server.new_database("api")
            store = Store.open(url)
            store.migrate()
            store.close()
        else:
            url = migrated_file(top / "record.db")
        conf = cloud.configuration(top, url)
        print(f"filling a record of {slots} slots", file=sys.stderr)
        running, certificates = min(arguments.running, slots), arguments.certificates
        names = cloud.fill(url, Plane([conf]), slots, running, certificates)
        size = {"workers": arguments.workers, "threads": arguments.threads}
        env = {"NVME_QUARANTINE_CONFIG": str(conf)}
        api = Gunicorn("api", "quarantine.wsgi.api:application", top, env, **size)
        with api:
            for operation in OPERATIONS:
                if operation.method != "GET" or (arguments.only or "") not in operation.path:
                    continue
                if operation.path.endswith(cloud.ASKS_PLACEMENT):
                    continue
                try:
                    paths = _paths(operation, names)
                except LookupError:
                    unasked.add(operation.path)
                    continue
                what = f"GET {operation.path}" + (
                    "?limit=100" if "limit" in operation.query else ""
                )
                streams = operation.media_type == documents.LINES
                most = arguments.streams if streams else arguments.clients
                if operation.path in cloud.ONE_AT_A_TIME:
                    most = arguments.workers
                yield _row(slots, what, paths, api, arguments, clients=most, database=database)
            for what, acts in cloud.ACTS.items():
                if (arguments.only or "") not in what:
                    continue
                clients = names.free[: arguments.clients]
                things = [itertools.cycle([one(slot) for one in acts]) for slot in clients]
                yield _acts(slots, what, things, api, arguments, database)
        # Its conf, and a database with its schema.
        with PlacementServer(top / "placement"):
            pass
        roots = cloud.fill_placement(top / "placement" / "placement.sqlite", slots)
        env = {"OS_PLACEMENT_CONFIG_DIR": str(top / "placement")}
        placement = Gunicorn(
            "placement-gunicorn", "placement.wsgi.api:application", top, env, **size
        )
        with placement:
            paths = tuple(f"/resource_providers?in_tree={root}" for root in roots)
            yield _row(slots, PLACEMENT, paths, placement, arguments)


def _acts(
    slots: int,
    what: str,
    things: Sequence[Iterator[load.Act]],
    server: Gunicorn,
    arguments: argparse.Namespace,
    database: Postgresql | None,
) -> Row:
    """Their CPU seconds have those of the look before each of them."""

    def asked(requests: int) -> load.Asked:
        return load.act(
            server.port,
            things,
            requests=requests,
            seconds=arguments.seconds,
            headers={"X-Auth-Token": "admin"},
        )

    return _measured(slots, what, len(things), asked, arguments.requests, server, database)


def _paths(operation: Operation, names: cloud.Names) -> tuple[str, ...]:
    """What is asked for. Raises ``LookupError`` for a variable that this does not know yet."""
    words = [f"limit={PAGE}"] if "limit" in operation.query else []
    words += cloud.ASKED_FOR.get(operation.path, ())
    query = "?" * bool(words) + "&".join(words)
    start, brace, rest = operation.path.partition("{")
    if not brace:
        return (operation.path + query,)
    end = rest.partition("}")[2]
    return tuple(start + name + end + query for name in names.of(operation.path))


def _row(
    slots: int,
    what: str,
    paths: tuple[str, ...],
    server: Gunicorn,
    arguments: argparse.Namespace,
    *,
    clients: int = 0,
    database: Postgresql | None = None,
) -> Row:
    print(f"  {what}", file=sys.stderr)
    clients = clients or arguments.clients
    few = clients < arguments.clients
    requests = min(arguments.requests, 5 * clients) if few else arguments.requests
    headers = {"X-Auth-Token": "admin", "OpenStack-API-Version": "placement 1.39"}

    def asked(requests: int) -> load.Asked:
        return load.ask(
            server.port,
            paths,
            clients=clients,
            requests=requests,
            seconds=arguments.seconds,
            headers=headers,
        )

    return _measured(slots, what, clients, asked, requests, server, database)


def _measured(
    slots: int,
    what: str,
    clients: int,
    ask: Callable[[int], load.Asked],
    requests: int,
    server: Gunicorn,
    database: Postgresql | None,
) -> Row:
    # The first ones load libraries and open connections.
    warm = ask(clients)
    served.forget_peak(server.pid)
    engine = database.pid if database is not None else 0
    before, stored = served.cpu(server.pid), served.cpu(engine) if engine else 0.0
    asked = ask(requests)
    count = len(asked.times)
    return Row(
        slots=slots,
        request=what,
        clients=clients,
        answers=count,
        p50_ms=round(1000 * asked.median, 1),
        p99_ms=round(1000 * asked.quantile(0.99), 1),
        cpu=round((served.cpu(server.pid) - before) / count * 1000, 2),
        database_cpu=round((served.cpu(engine) - stored) / count * 1000, 2) if engine else None,
        peak_mib=round(served.peak_mib(server.pid), 1),
        longest=asked.longest,
        problems=tuple(dict.fromkeys([*warm.problems, *asked.problems]))[:5],
    )


def _table(slots: int, rows: list[Row]) -> str:
    lines = [
        f"{slots:,} slots, load {os.getloadavg()[0]:.1f}:",
        "",
        "| request | clients | answers | p50, p99 ms | CPU s for 1,000 | the database's | most MiB "
        "| longest answer, bytes |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for row in rows:
        stored = "" if row.database_cpu is None else f"{row.database_cpu:.2f}"
        what = row.request if row.request == PLACEMENT else f"`{row.request}`"
        lines.append(
            f"| {what} | {row.clients} | {row.answers:,} | {row.p50_ms:,.0f}, {row.p99_ms:,.0f} "
            f"| {row.cpu:.2f} | {stored} | {row.peak_mib:.0f} | {row.longest:,} |"
        )
    return "\n".join([*lines, ""])


def _verdict(rows: list[Row], unasked: set[str]) -> int:
    """Says what is wrong."""
    wrong = [f"{path}: benchmarks/api/cloud.py has no names for it" for path in sorted(unasked)]
    for row in rows:
        wrong += (f"{row.slots} slots: {problem}" for problem in row.problems)
        if row.peak_mib > MOST_MIB and row.request != PLACEMENT:
            wrong.append(f"{row.slots} slots: {row.request}: {row.peak_mib} MiB")
    cost = {(row.slots, row.request): row.cpu + (row.database_cpu or 0) for row in rows}
    for slots in sorted({row.slots for row in rows}):
        ours, theirs = cost.get((slots, OURS)), cost.get((slots, PLACEMENT))
        if ours is None or theirs is None:
            continue
        print(f"{slots:,} slots: {OURS} costs {ours / theirs:.2f} of Placement's list of 100")
        if ours > theirs:
            wrong.append(f"{slots} slots: a page of 100 costs more than Placement's list")
    for line in wrong:
        print(line, file=sys.stderr)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
