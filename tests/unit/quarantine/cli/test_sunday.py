"""The page of a Sunday: i1-180 is sold out although forty drives lie idle. Each cause, as the
command shows it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path

import pytest

from eraser.protocol.transport.signing import PrivateKey
from quarantine import cli
from quarantine.doors import utc_now
from quarantine.record.store import Store
from quarantine.record.words.facts import SlotChanges
from quarantine.record.words.reasons import HoldCode
from quarantine.record.words.states import Event
from quarantine.rules import holds
from tests.lab.record import migrated_file
from tests.unit.quarantine.totals_suite import Site

IDLE = 8
"""Drives; forty cost forty times a case, and the words are the same."""

LIFE = "incarnation-00001"

LACKS = "host cmp01: hook is absent; 'nvme-eraser gate status' there says what to do"
"""As the service notes it at each slot that it would not give back (test_defences)."""

Run = Callable[..., str]


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    """A record that began a day ago. Six cases of the model took a minute and a half each."""
    url = migrated_file(tmp_path / "record.db")
    store = Store.open(url, clock=lambda: site.now)
    site = Site(store, utc_now() - timedelta(days=1))
    for number in range(1, 7):
        record = site.available(f"old/0000:0{number}:00.0")
        store.transition(record, Event.CLAIM_SEEN, changes=SlotChanges(consumer="11-22"))
    yield site
    store.close()


@pytest.fixture
def run(site: Site, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Run:
    """What a command prints, with one space between words: the table breaks lines anywhere."""
    conf = tmp_path / "conf"
    conf.write_text(f"[database]\nurl = sqlite:///{tmp_path}/record.db\n")

    def call(*words: str) -> str:
        site.now = utc_now()
        code = cli.main(["--config-file", str(conf), *words])
        out = capsys.readouterr()
        assert (code, out.err) == (0, "")
        return " ".join(out.out.replace("|", " ").split())

    return call


def speak(site: Site, minutes: float = 0) -> None:
    """All hosts are heard; the record's clock stands so many minutes before ours."""
    site.now = utc_now() - timedelta(minutes=minutes)
    for host in {one.slot.host for one in site.store.slots()}:
        site.store.register_host(host, PrivateKey.generate().public, LIFE)


def places(hosts: int, each: int, name: str = "cmp") -> list[str]:
    return [
        f"{name}{host:02d}/0000:{bus:02x}:00.0"
        for host in range(1, hosts + 1)
        for bus in range(1, each + 1)
    ]


def says(run: Run) -> str:
    """The one command of the page."""
    return run("capacity", "show", "i1-180", "-f", "value", "-c", "says")


def test_fragmented(site: Site, run: Run) -> None:
    for place in places(IDLE // 2, 2):
        site.available(place)
    speak(site)
    said = says(run)
    assert said.startswith(
        f"{IDLE} free, but at most 2 on one host, so no i1-180 (it takes 4). 6 drives in use."
    )
    assert "2 of 4 drives are free, so no i1-180." in said


def test_silent(site: Site, run: Run) -> None:
    for place in places(IDLE // 4, 4):
        site.available(place)
    site.erasing("cmp01/0000:05:00.0")
    speak(site, 62)
    said = says(run)
    assert f"No drive is free. {IDLE} drives more on offer on " in said
    assert "of which nothing is heard: nobody knows whether a guest would start there." in said
    assert (
        "Nothing was heard of the host for 62 min: nobody knows whether a guest would start on its "
        "4 drives on offer. 1 drive in quarantine for which there is no time. cmp01/0000:05:00.0 "
        "waits longest: The drive is being erased; nothing was heard of its host for 62 min" in said
    )


def test_held(site: Site, run: Run) -> None:
    for place in places(IDLE // 4, 4):
        record = site.released(place)
        site.store.hold(record, holds.because(HoldCode.HEALTH, "percentage used 101 %"))
    speak(site)
    said = says(run)
    assert f"{IDLE} drives held, and never back by itself ({IDLE} health). health: " in said
    assert HoldCode.HEALTH.remedy in said


def test_late(site: Site, run: Run) -> None:
    """It is said of all hosts, and of each, which drive waits longest, and that it is late."""
    for place in places(IDLE // 4, 4):
        site.now = utc_now() - timedelta(minutes=90)
        site.erasing(place)
    speak(site)
    said = says(run)
    assert (
        f"{IDLE} drives in quarantine for which there is no time. cmp01/0000:01:00.0 waits "
        "longest: The drive is being erased; that has gone on for 90 min, which is longer than its "
        "model takes." in said
    )
    assert "cmp02/0000:01:00.0 waits longest: The drive is being erased" in said


@pytest.mark.parametrize("minutes", [1, 90])
def test_without_defences(site: Site, run: Run, minutes: float) -> None:
    """Also in the first minutes: what waits for its host has no time, whatever its model takes."""
    for place in places(IDLE // 4, 4):
        site.now = utc_now() - timedelta(minutes=minutes)
        record = site.certified(place, erase=0, verify=0)
        site.store.amend(record, SlotChanges(detail=LACKS))
    speak(site)
    said = says(run)
    assert "One more" not in said
    assert (
        f"{IDLE} drives in quarantine for which there is no time. cmp01/0000:01:00.0 waits "
        "longest: The drive is erased and certified, and waits to be given back; host cmp01: "
        "hook is absent; 'nvme-eraser gate status' there says what to do" in said
    )
