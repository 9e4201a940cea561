"""What a page costs does not grow with the fleet, whatever is asked for.

Counted are the steps of SQLite's virtual machine, for the whole request: a scan, a sort of all rows
and a question for each row show there, and no clock does.
"""

from __future__ import annotations

import itertools
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote

import pytest
import sqlalchemy as sa

from benchmarks.api import cloud
from benchmarks.metrics import __main__ as fleet
from quarantine.api import application
from quarantine.api.operation import Operation
from quarantine.api.routes import OPERATIONS
from quarantine.operations.overview import capacity
from quarantine.operations.plane import Plane, ServingPlane
from quarantine.record.database import models
from quarantine.record.database.engine import make_engine, writing
from tests.unit.quarantine.api.client import Client

SIZES: Final = (400, 1600)
EVERY: Final = 20
"""Steps between two calls of the counter."""
ROWS: Final = 10

FEW: Final = {"host": "compute-00003.cloud.example", "serial": f"S{7:019d}"}
TIME: Final = "2026-11-24T00:00:00Z"
WORDS: Final[dict[str, dict[str, tuple[str, ...]]]] = {
    "/v1/slots": {
        "state": ("available", "in_use", "retired"),
        "host": (FEW["host"],),
        "model": ("Model A", "none"),
        "serial": (FEW["serial"],),
        "hold_code": ("health", "data-left"),
        "server": (cloud.uuid(7),),
        "sort": ("slot", "-slot", "entered_at", "-entered_at"),
    },
    "/v1/hosts": {"silent": ("true", "false")},
    "/v1/drives": {"model": ("Model A", "none"), "serial": (FEW["serial"],), "firmware": ("none",)},
    "/v1/maintenances": {"host": (FEW["host"],)},
    "/v1/certificates": {
        "slot": ("compute-00000.cloud.example_0000:01:00.0",),
        "server": (cloud.uuid(7),),
        "drive": ("0" * 64,),
    },
    "/v1/servers": {"project": ("none", "p" * 32)},
    "/v1/alarms": {
        "code": ("host-silent", "late"),
        "severity": ("critical",),
        "host": (FEW["host"],),
        "slot": ("compute-00000.cloud.example_0000:01:00.0",),
        "since": (TIME, "2099-01-01T00:00:00Z"),
        "over": ("true", "false"),
        "sort": ("first_at", "-last_at"),
    },
    "/v1/refusals": {"host": (FEW["host"], "none")},
    "/v1/history": {"host": (FEW["host"], "none"), "event": ("certified", "retired")},
}
"""Of each list its filters, with words that fit many rows and words that fit none or few."""

ALL: Final = ("/v1/capacity", "/v1/campaign-previews")
"""Lists that count the fleet; each has a test of its own."""
SLACK: Final = 120
"""Steps, for a small fleet may have fewer rows than a page."""
HOSTS: Final = {"/v1/slots": 30 * ROWS}
"""Steps of a page's rows: for each host of theirs it is asked what is in maintenance."""
MORE: Final = {
    # Of the models of slots that one filter leaves, each is read for the other.
    "/v1/slots": 5 * (SIZES[1] - SIZES[0]) / len(fleet.MODELS),
    # Alarms are 100,000 at most; here there is one for four slots, and for two hosts.
    "/v1/alarms": 12 * (SIZES[1] - SIZES[0]) * (1 / 4 + 1 / 2 / fleet.PER_HOST),
}
"""Steps for two filters of many rows."""
MANY: Final = ("state", "model", "hold_code", "code", "severity", "since", "over")
"""Filters that a large part of all rows may fit."""


class Site:
    """A fleet, its API, and how many steps the database takes."""

    SHARE = 16
    """One of so many hosts, and of so many other hosts' slots, is in maintenance."""

    def __init__(self, directory: Path, slots: int) -> None:
        directory.mkdir()
        conf, _ = cloud.site(directory, slots=slots, running=20, certificates=slots)
        maintained(f"sqlite:///{directory}/record.db", self.SHARE)
        self.client = Client(application.make(ServingPlane([conf])), {"X-Auth-Token": "admin"})
        self.steps = 0

    def cost(self, path: str) -> int:
        """Steps of one request, by a process that has asked it before."""
        assert self.client.get(path).status_code == 200, path
        self.steps = 0
        found = self.client.get(path)
        assert found.status_code == 200
        return self.steps


@pytest.fixture(scope="module")
def sites(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[Site]]:
    """A small fleet, and one of four times as many slots."""
    directory = tmp_path_factory.mktemp("fleets")
    made: list[Site] = []

    def count(connection: Any, _record: Any) -> None:
        if "sqlite" not in type(connection).__module__:
            return

        def on() -> None:
            for site in made:
                site.steps += EVERY

        connection.set_progress_handler(on, EVERY)

    sa.event.listen(sa.Engine, "connect", count)
    try:
        made += [Site(directory / str(size), size) for size in SIZES]
        yield made
    finally:
        sa.event.remove(sa.Engine, "connect", count)


def maintained(url: str, share: int) -> None:
    """So many more than :data:`cloud.NAMED` are in maintenance, as when a hall is rebuilt."""
    now = datetime.now(UTC)
    words = {"version": 1, "at": now, "until": now + timedelta(days=1), "reason": "the hall"}
    by = {"by_user": "ada", "by_project": "", "by_request": ""}
    engine = make_engine(url)
    with writing(engine) as db:
        columns = (models.slots.c.host, models.slots.c.address)
        slots = db.execute(sa.select(*columns).order_by(*columns)).all()[cloud.NAMED :]
        hosts = sorted({slot.host for slot in slots})[1::share]
        of_hosts = [{"host": host, "address": ""} for host in hosts]
        of_slots = [{"host": host, "address": address} for host, address in slots[1::share]]
        rows = [{**one, **words, **by} for one in of_hosts + of_slots]
        db.execute(sa.insert(models.maintenances), rows)
    engine.dispose()


LISTS: Final = [
    one
    for one in OPERATIONS
    if one.method == "GET" and "limit" in one.query and "{" not in one.path and one.path not in ALL
]


def asked(operation: Operation) -> Iterator[tuple[str, ...]]:
    """What is asked of a list: nothing, each word, and each two of different filters."""
    words = WORDS.get(operation.path, {})
    said = [
        [f"{name}={quote(one)}" for one in words[name]]
        for name in operation.query
        if name not in ("limit", "marker")
    ]
    yield ()
    for group in said:
        yield from ((one,) for one in group)
    for one, other in itertools.combinations(said, 2):
        yield from itertools.product(one, other)


def is_of_many(words: tuple[str, ...]) -> bool:
    """Of two filters that each may fit a large part of all rows, and no index has both; and of
    alarms by their last calls in the order of the first ones."""
    names = {word.partition("=")[0] for word in words}
    return (len(names) == 2 and names <= set(MANY)) or (
        "since" in names and "sort=-last_at" not in words
    )


@pytest.mark.parametrize("operation", LISTS, ids=lambda one: one.path)
def test_a_page_costs_the_same_in_a_fleet_four_times_as_large(
    sites: list[Site], operation: Operation
) -> None:
    grown = []
    for words in asked(operation):
        path = f"{operation.path}?{'&'.join([f'limit={ROWS}', *words])}"
        small, large = (site.cost(path) for site in sites)
        more = HOSTS.get(operation.path, 0)
        more += MORE[operation.path] if is_of_many(words) else 0
        if large > 1.25 * small + SLACK + more:
            grown.append(f"{path}: {small} steps, then {large}")
    # See docs/api.md, "What a page costs".
    assert not grown, "\n".join(grown)


def test_several_states_are_no_sort_of_all_that_are_in_them(sites: list[Site]) -> None:
    for sort in ("slot", "-entered_at"):
        path = f"/v1/slots?limit={ROWS}&state=in_use&state=available&state=held&sort={sort}"
        small, large = (site.cost(path) for site in sites)
        assert large <= 1.25 * small + SLACK, (path, small, large)


def test_a_further_page_of_the_capacity_counts_nothing_again(sites: list[Site]) -> None:
    for site in sites:
        first = f"/v1/capacity?limit={ROWS}&flavor=i1-45"
        whole = site.cost(first)
        (link,) = site.client.get(first).json["capacity_links"]
        assert site.cost(link["href"]) < whole / 20


def test_who_asks_for_the_capacity_at_once_has_it_counted_once(
    sites: list[Site], monkeypatch: pytest.MonkeyPatch
) -> None:
    """And not before they asked: it shows what they did themselves."""
    begun, goes_on, counts = threading.Event(), threading.Event(), []
    counting = capacity.show

    def show(plane: Plane, **words: Any) -> Any:
        counts.append(words)
        begun.set()
        assert goes_on.wait(30)
        return counting(plane, **words)

    monkeypatch.setattr(capacity, "show", show)
    client, path = sites[0].client, "/v1/capacity"
    with ThreadPoolExecutor(5) as pool:
        first = pool.submit(client.get, path)
        assert begun.wait(30)
        others = [pool.submit(client.get, path) for _ in range(4)]
        time.sleep(0.5)
        goes_on.set()
        answers = {len(one.result().json["capacity"]) for one in (first, *others)}
    assert answers == {3}
    # The first is of before the others asked; a slow thread may have come after the second began.
    assert 2 <= len(counts) < 5


def test_a_campaign_reads_each_of_its_slots_once(sites: list[Site]) -> None:
    small, large = (
        site.cost(f"/v1/campaign-previews?firmware={cloud.FIRMWARE}&limit={ROWS}") for site in sites
    )
    assert large - small < 100 * (SIZES[1] - SIZES[0])
