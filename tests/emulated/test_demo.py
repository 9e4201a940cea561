"""The demo's own eyes: a search that finds nothing must be able to find something."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
import urllib.parse
import urllib.request
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil
import pytest
import yaml

from tests.lab.demo.tenants import SECRET, build_and_write, search
from tests.lab.guest.payload import REPOSITORY
from tests.lab.rack import Rack

pytestmark = pytest.mark.rack

MONITORING = REPOSITORY / "docs" / "monitoring"
ADDRESS = re.compile(r" (API|Prometheus|the page) +(http://\S+)$", re.MULTILINE)
UNSEEN = {
    "nvme_quarantine_late_after_seconds": "a model has to be known by five cases that ended",
}
"""What no site of a quarter of an hour has, and why."""


def test_the_search_finds_what_a_tenant_left_where_nobody_erased(rack: Rack) -> None:
    drives = [rack.drive(0, size=256 << 20), rack.drive(1, size=256 << 20)]
    rack.compute()
    first = rack.tenant(drives)
    assert search(first) == ()
    build_and_write(first)
    known = [drive.fingerprints() for drive in drives]
    rack.delete(first)
    second = rack.tenant(drives)
    found = search(second)
    assert any("times the first tenant's marker" in line for line in found)
    assert sum("md member" in line for line in found) == len(drives)
    assert all(drive.count_leaked(seen) for drive, seen in zip(drives, known, strict=True))
    assert any(drive.audit_blocks(lambda block: SECRET.encode() in block) for drive in drives)


def get(address: str) -> Any:
    """What an address answers, as JSON."""
    with urllib.request.urlopen(address, timeout=60) as answer:  # noqa: S310
        return json.load(answer)


@dataclass
class Watched:
    """``tools/demo --serve`` as it runs, with what it wrote."""

    process: subprocess.Popen[bytes]
    written: Path

    @property
    def story(self) -> str:
        return self.written.read_text(errors="replace")

    def until(self, what: str, true: Callable[[], bool], seconds: float) -> None:
        end = time.monotonic() + seconds
        while not true():
            told = f"{what}; {self.written} ends: {self.story[-2000:]}"
            assert self.process.poll() is None, f"it ended before {told}"
            assert time.monotonic() < end, f"expected within {seconds:g} s: {told}"
            time.sleep(1)

    def address(self, name: str) -> str:
        return dict(ADDRESS.findall(self.story))[name].removesuffix("/alerts")


@pytest.fixture
def served(tmp_path: Path) -> Iterator[Watched]:
    written = tmp_path / "story"
    argv = [sys.executable, "-m", "tests.lab.demo", "--serve", "--seed", "3"]
    with written.open("wb") as out:
        process = subprocess.Popen(
            [*argv, "--directory", str(tmp_path / "served")],
            cwd=REPOSITORY,
            stdout=out,
            stderr=out,
            env={**os.environ, "TMPDIR": str(tmp_path)},
            # A terminal sends Ctrl-C to all who are in its foreground.
            start_new_session=True,
        )
    try:
        yield Watched(process, written)
    finally:
        left = (
            psutil.Process(process.pid).children(recursive=True) if process.poll() is None else []
        )
        process.kill()
        process.wait()
        for each in left:
            each.kill()


@pytest.mark.timeout(1800)
def test_a_served_site_is_watched_until_somebody_ends_it(served: Watched) -> None:
    """Tenants come and go, the lying drive is held, the dashboard has something to draw, and
    Ctrl-C leaves nothing that runs."""
    served.until("its addresses", lambda: len(ADDRESS.findall(served.story)) == 3, 300)
    slots: dict[str, str] = {}

    def came_back() -> bool:
        slots.update({s["address"]: s["state"] for s in get(served.address("API"))["slots"]})
        left = served.story.partition("is deleted")[2]
        return "available" in left and slots.get("0000:04:00.0") == "held" and len(slots) == 4

    served.until("a drive that had a tenant is back, the liar held", came_back, 1200)
    assert "gets LAB0000004" not in served.story, "expected the liar to have no tenant"

    def asked(query: str) -> list[Any]:
        words = urllib.parse.urlencode({"query": query})
        found = get(f"{served.address('Prometheus')}/api/v1/query?{words}")
        return list(found["data"]["result"])

    drives = sum(float(one["value"][1]) for one in asked("nvme_quarantine_slots"))
    assert drives == 4
    assert _unanswered(asked) == []
    watched = get(f"{served.address('Prometheus')}/api/v1/rules")["data"]["groups"]
    assert {rule["health"] for group in watched for rule in group["rules"]} == {"ok"}
    with urllib.request.urlopen(served.address("the page"), timeout=60) as page:  # noqa: S310
        assert "0000:04:00.0" in page.read().decode()

    started = psutil.Process(served.process.pid).children(recursive=True)
    assert any("qemu-system" in " ".join(each.cmdline()) for each in started)
    os.killpg(served.process.pid, signal.SIGINT)
    assert served.process.wait(180) == 0
    assert "ended; logs are kept in" in served.story
    _, alive = psutil.wait_procs(started, timeout=10)
    assert not alive, f"expected nothing to outlive it: {alive}"


def _unanswered(asked: Callable[[str], list[Any]]) -> list[str]:
    """The queries of the dashboard without a value; Prometheus refuses those it cannot read."""
    panels = json.loads((MONITORING / "dashboard.json").read_text())["panels"]
    queries = [target["expr"] for panel in panels for target in panel["targets"]]
    assert len(queries) > 20
    rules = yaml.safe_load((MONITORING / "alerts.yaml").read_text())["groups"]
    for rule in (rule for group in rules for rule in group["rules"]):
        asked(rule["expr"])
    return [
        query for query in queries if not any(name in query for name in UNSEEN) and not asked(query)
    ]
