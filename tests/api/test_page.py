"""The page in a real Chromium, by keyboard, and what axe-core says of it."""

from __future__ import annotations

import contextlib
import os
import re
import time
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
import sqlalchemy as sa

pytest.importorskip("selenium", reason="tox env api has it")

from selenium import webdriver
from selenium.common.exceptions import NoSuchElementException, StaleElementReferenceException
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys

from eraser.protocol.report import Hello, SeenDrive
from eraser.protocol.ticket import Defence, DefenceSeen, DefenceStanding, Exemption, GateTestimony
from eraser.protocol.transport.signing import PrivateKey
from quarantine.operations import campaigns, maintenance
from quarantine.operations.campaigns import CampaignQuery, Initiator
from quarantine.operations.maintenance import Subject
from quarantine.operations.plane import Plane
from quarantine.page import routes
from quarantine.record.alarms import AlarmCall
from quarantine.record.database import engine as door
from quarantine.record.database import models
from quarantine.record.words.facts import SlotChanges
from quarantine.record.words.reasons import HoldCode
from quarantine.rules import holds
from tests.api.browser import chromium, look, serving, violations
from tests.unit.quarantine.api.client import DRIVE, NAMES, SLOTS, Site
from tests.unit.quarantine.api.test_reads import issue

pytestmark = pytest.mark.api


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Site:
    made = Site(tmp_path_factory.mktemp("site"), strategy="noauth")
    issue(made)
    busy(made)
    return made


def busy(site: Site) -> None:
    """A campaign, a maintenance, alarms, a host that misses a defence, one nobody has heard, and a
    slot that is to be held at its next release."""
    plane, by = Plane([site.file]), Initiator("ada", "", "")
    with site.store() as store, door.writing(store._engine) as db:
        third = sa.and_(models.slots.c.host == "cmp1", models.slots.c.address == SLOTS[2].address)
        db.execute(sa.update(models.slots).where(third).values(state="in_use"))
    at = datetime.now(UTC)
    calls = [
        AlarmCall("on-offer", str(SLOTS[0]), "it is on offer without a certificate", at, at, 2),
        AlarmCall("host-silent", "host cmp2", "silent for 9 min", at, at, 1, at),
        AlarmCall("of-a-newer-release", "a part that we do not know", "?", at, at, 1),
    ]
    life = "incarnation-0123456789"
    exempt = Exemption("0000:09:00.0", "a scratch disk", "ada", "2026-11-20")
    gone = DefenceSeen(Defence.HOOK, DefenceStanding.ABSENT, "run nvme-eraser host-setup")
    gate = GateTestimony((gone,), (), (), (), (exempt,))
    sees = (SeenDrive(SLOTS[0].address, "vfio-pci", DRIVE),)
    with site.store() as store:
        store.note_alarms({}, calls)
        for host in ("cmp1", "cmp2"):
            store.register_host(host, PrivateKey.generate().public, life)
        store.host_seen("cmp1", 1, Hello("cmp1", life, 1, "0.9", sees, (), (), gate))
    why = "its firmware loses a write now and then"
    campaigns.begin(plane, "fw1", CampaignQuery(host="cmp2"), reason=why, by=by)
    until = datetime.now(UTC) + timedelta(hours=3)
    maintenance.begin(plane, Subject("cmp1"), until=until, reason="new fans", by=by)


@pytest.fixture(scope="module")
def address(site: Site) -> Iterator[str]:
    with serving(site.file) as found:
        yield found


@pytest.fixture(scope="module")
def browser() -> Iterator[webdriver.Chrome]:
    with chromium() as driver:
        yield driver


def held(site: Site, number: int, reason: str) -> None:
    with site.store() as store:
        record = store.slot(SLOTS[number])
        assert record is not None
        store.hold(record, holds.because(HoldCode.BY_PERSON, reason))


def until(true: Any, seconds: float = 30) -> None:
    """Between two pages there is nothing to look at for a moment, or what was found is gone."""
    end = time.monotonic() + seconds
    while True:
        with contextlib.suppress(NoSuchElementException, StaleElementReferenceException):
            if true():
                return
        assert time.monotonic() < end, "expected it by now"
        time.sleep(0.1)


def tab_to(browser: webdriver.Chrome, wanted: str) -> Any:
    """Presses Tab until what has the focus reads so."""
    for _ in range(120):
        one = browser.switch_to.active_element
        reads = one.tag_name in ("a", "summary", "button") and wanted in one.text
        if reads or wanted == one.get_attribute("name"):
            return one
        one.send_keys(Keys.TAB)
    raise AssertionError(f"{wanted!r} is not reached by Tab")


def text(browser: webdriver.Chrome) -> str:
    return str(browser.find_element(By.TAG_NAME, "main").text)


def test_from_triage_to_a_release_by_keyboard_alone(
    site: Site, address: str, browser: webdriver.Chrome
) -> None:
    held(site, 0, "ticket 4711")
    look(browser)
    browser.get(address)
    assert browser.switch_to.active_element.tag_name == "body"
    first = tab_to(browser, "Skip to the content")
    first.send_keys(Keys.ENTER)
    tab_to(browser, "cmp1 0000:01:00.0").send_keys(Keys.ENTER)
    until(lambda: NAMES[0] in browser.title)
    assert "ticket 4711" in text(browser)
    # One thing can be done as well: the other stays shut until it is opened.
    tab_to(browser, "Release: erase again").send_keys(Keys.ENTER)
    tab_to(browser, "reason").send_keys("fan isn't loud any more")
    command = browser.find_element(By.ID, "command-release").text
    assert command == (
        "nvme-quarantine slot release cmp1/0000:01:00.0 --reason 'fan isn'\\''t loud any more'"
    )
    tab_to(browser, "confirm").send_keys("S1", Keys.ENTER)
    until(lambda: "On record since" in text(browser))
    assert "released by operator by noauth: fan isn't loud any more" in text(browser)


def test_progress_comes_by_itself_and_moves_no_focus(
    site: Site, address: str, browser: webdriver.Chrome
) -> None:
    look(browser)
    browser.get(f"{address}/slots/{NAMES[3]}")
    link = browser.find_element(By.CSS_SELECTOR, "#facts a")
    browser.execute_script("arguments[0].focus()", link)
    href = link.get_attribute("href")
    with site.store() as store:
        record = store.slot(SLOTS[3])
        assert record is not None
        store.amend(record, SlotChanges(detail="waits for its turn", policy="other"))
    until(lambda: "waits for its turn" in text(browser))
    assert browser.switch_to.active_element.get_attribute("href") == href
    assert not browser.find_element(By.ID, "moved").is_displayed() or "changed since" in text(
        browser
    )


def test_who_decides_late_is_told_before_he_sends(
    site: Site, address: str, browser: webdriver.Chrome
) -> None:
    look(browser)
    browser.get(f"{address}/slots/{NAMES[4]}")
    moved = browser.find_element(By.ID, "moved")
    assert not moved.is_displayed()
    held(site, 4, "somebody else was quicker")
    until(moved.is_displayed)
    assert "has changed since you opened it" in moved.text


def test_where_nothing_answers_the_page_says_since_when(
    site: Site, address: str, browser: webdriver.Chrome
) -> None:
    look(browser)
    with serving(site.file) as other:
        browser.get(f"{other}/slots/{NAMES[5]}")
    fresh = browser.find_element(By.ID, "fresh")
    until(lambda: "no answer since" in fresh.text)
    assert "0000:03:00.0" in text(browser)


VIEWS = (
    *("", "/slots", "/slots?state=held", "/fleet", "/hosts", "/alarms", "/drives"),
    *(
        "/certificates",
        "/nothing",
        f"/slots/{NAMES[1]}",
        f"/slots/{NAMES[2]}",
        "/campaigns",
        "/campaigns/fw1",
    ),
    *("/campaign-preview", "/campaign-preview?host=cmp2", "/campaign-preview?host=none"),
    *("/maintenances", "/hosts/cmp1/maintenance", f"/slots/{NAMES[1]}/maintenance"),
    *("/hosts/cmp1", "/hosts/cmp2", "/hosts/nobody", "/slots?limit=2", "/slots?serial=S1"),
    # What somebody reads whose form is refused, or who comes back to an act's address.
    *(
        "/history",
        "/history?host=cmp1&event=held",
        "/slots?state=nonsense",
        f"/slots/{NAMES[1]}/erase",
    ),
)


def found_in(browser: webdriver.Chrome, kind: str) -> str:
    """One of that kind, by the first link of the page to it."""
    links = [one.get_attribute("href") for one in browser.find_elements(By.CSS_SELECTOR, "main a")]
    pattern = rf"/page(/{kind}/[0-9a-f]{{64}})$"
    return next(hit[1] for link in links if (hit := re.search(pattern, link or "")))


def unseen(views: Sequence[str]) -> set[str]:
    """Pages that no view of these is of; but for an act's own address, which is looked at once."""
    acts = {one.path for one in routes.VIEWS if one.method == "POST"}
    paths = {one.path for one in routes.VIEWS} - acts
    asked = [view.partition("?")[0] for view in views]
    pattern = re.compile(r"\{\w+\}")
    return {
        path
        for path in paths
        if not any(re.fullmatch(pattern.sub("[^/]+", path), view) for view in asked)
    }


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
@pytest.mark.parametrize("width", [1280, 390])
def test_axe_finds_nothing(
    site: Site, address: str, browser: webdriver.Chrome, width: int, dark: bool
) -> None:
    """In no view, neither on a screen nor on a phone; and nothing is wider than the phone."""
    assert os.environ.get("NVME_QUARANTINE_AXE"), "expected axe-core, as tox -e api installs it"
    look(browser, width=width, dark=dark)
    browser.get(f"{address}/certificates")
    drive, certificate = (found_in(browser, kind) for kind in ("drives", "certificates"))
    every = [*VIEWS, drive, certificate, f"{certificate}/sheet"]
    assert not unseen(every)
    problems: list[str] = []
    for where in (f"{address}{view}" for view in every):
        browser.get(where)
        problems += [f"{where}: {line}" for line in violations(browser)]
        wide = browser.execute_script("return document.documentElement.scrollWidth")
        if wide > width:
            problems.append(f"{where}: {wide} pixels wide on {width}")
        problems += [
            f"{where}: {entry['message']}"
            for entry in browser.get_log("browser")
            # The browser is every test's: it may still ask a server that has ended for its icon.
            if address in entry["message"]
            and not re.search(r"status of 40[04]", entry["message"])
            and "ERR_CONN" not in entry["message"]
        ]
    assert not problems, "\n".join(problems)


def test_a_campaign_is_begun_paused_and_its_command_is_what_was_typed(
    address: str, browser: webdriver.Chrome
) -> None:
    look(browser)
    browser.get(f"{address}/campaign-preview?host=cmp1&keep_percent=80")
    tab_to(browser, "id").send_keys("fans")
    tab_to(browser, "reason").send_keys("fan isn't loud")
    command = browser.find_element(By.ID, "command-begin").text
    assert re.sub("--seen [0-9a-f]{32}", "--seen VERSION", command) == (
        "nvme-quarantine campaign begin --host cmp1 --keep 0.8 --seen VERSION --by noauth "
        "--reason 'fan isn'\\''t loud' 'fans'"
    )
    tab_to(browser, "confirm").send_keys("3", Keys.ENTER)
    until(lambda: "Campaign fans" in text(browser))
    assert "3 slots have their result" in text(browser)
    tab_to(browser, "Pause").send_keys(Keys.ENTER)
    tab_to(browser, "reason").send_keys("a rush")
    tab_to(browser, "Pause").send_keys(Keys.ENTER)
    until(lambda: "paused" in text(browser))


def test_a_maintenance_is_begun_for_a_time_that_is_chosen(
    address: str, browser: webdriver.Chrome
) -> None:
    look(browser)
    browser.get(f"{address}/slots/{NAMES[5]}/maintenance")
    tab_to(browser, "reason").send_keys("its cable")
    command = browser.find_element(By.ID, "command-begin").text
    ends = browser.find_element(By.ID, "until").get_attribute("value")
    assert command == (
        "nvme-quarantine maintenance set cmp2/0000:03:00.0 --by noauth "
        f"--reason 'its cable' --until '{ends}Z'"
    )
    browser.find_element(By.CSS_SELECTOR, "form button").click()
    until(lambda: "On record: in maintenance." in text(browser))
